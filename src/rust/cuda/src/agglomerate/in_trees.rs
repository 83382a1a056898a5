//! Merges problems as trees on several GPUs.

use std::sync::Arc;

use gmhclust_core::error::Result;
use gmhclust_core::mahalanobis::agglomerate::check_memory;
use gmhclust_core::mahalanobis::Problem;
use gmhclust_core::tasks::on_threads;
use gmhclust_core::Merge;

use super::share::{round_robin_by_size, share_of_blocks};
use super::turns::Turns;
use crate::device::Device;
use crate::sharing::on_each;
use crate::tree;

/// The trees of a device.
struct TreesOfDevice<'a> {
    device: &'a Arc<Device>,
    /// The indices of its problems, the largest problem first.
    problems: Vec<usize>,
    /// The number of clusters of each of these problems.
    sizes: Vec<usize>,
    /// Number of trees to make at the same time.
    together: usize,
}

impl<'a> TreesOfDevice<'a> {
    /// The trees of `problems` that `device` makes, which are those with the indices `of_device`.
    fn new(
        device: &'a Arc<Device>,
        of_device: Vec<usize>,
        problems: &[&Problem<'_>],
    ) -> Result<Self> {
        let size = |&index: &usize| problems[index].clusters();
        let sizes: Vec<usize> = of_device.iter().map(size).collect();
        let wanted = tree::trees_at_a_time(device, &sizes)?;
        Ok(Self {
            device,
            together: wanted.min(sizes.len()),
            problems: of_device,
            sizes,
        })
    }
}

/// The merges of each problem. `grow` makes the merges of a problem as a tree on a device, with a
/// share of its blocks, from 0 to 1, in one of the turns. Each device makes several trees at the
/// same time, as far as the host's memory suffices. For each of them, a thread waits for the
/// device.
///
/// # Errors
/// `Error::Memory` if there is too little memory for a tree, and the errors of `grow`.
pub fn merges_in_trees(
    devices: &[Arc<Device>],
    problems: &[&Problem<'_>],
    grow: impl Fn(&Arc<Device>, &Problem<'_>, f64, &Turns) -> Result<Vec<Merge>> + Sync,
) -> Result<Vec<Vec<Merge>>> {
    let devices = &devices[..devices.len().min(problems.len())];
    let of_devices = devices
        .iter()
        .zip(round_robin_by_size(problems, devices.len()));
    let of_devices =
        of_devices.map(|(device, of_device)| TreesOfDevice::new(device, of_device, problems));
    let mut of_devices = of_devices.collect::<Result<Vec<TreesOfDevice>>>()?;
    loop {
        let largest = of_devices.iter().flat_map(|trees| {
            let largest = trees.problems.iter().take(trees.together);
            largest.map(|&index| problems[index])
        });
        match check_memory(largest) {
            Ok(()) => break,
            Err(error) if of_devices.iter().all(|trees| trees.together == 1) => return Err(error),
            Err(_) => of_devices.iter_mut().for_each(|trees| {
                trees.together = trees.together.div_ceil(2);
            }),
        }
    }
    let found = on_each(of_devices.iter(), |trees| {
        let turns = Turns::default();
        on_threads(trees.problems.len(), trees.together, |rank| {
            let share = share_of_blocks(&trees.sizes, rank, trees.together);
            grow(trees.device, problems[trees.problems[rank]], share, &turns)
        })
    })?;
    let indices = of_devices.iter().flat_map(|trees| &trees.problems);
    let mut merges = vec![Vec::new(); problems.len()];
    for (&index, found) in indices.zip(found.into_iter().flatten()) {
        merges[index] = found;
    }
    Ok(merges)
}
