//! Merges problems as trees on several GPUs.

use std::sync::Arc;

use gmhclust_core::error::Result;
use gmhclust_core::mahalanobis::agglomerate::check_memory;
use gmhclust_core::mahalanobis::Problem;
use gmhclust_core::Merge;

use super::share::{share_of_blocks, shares};
use crate::device::Device;
use crate::sharing::{from_queue, on_each};
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

/// The merges of each problem. `grow` makes the merges of a problem as a tree on a device, with a
/// share of its blocks, from 0 to 1. Each device makes several trees at the same time. For each of
/// them, a thread waits for the device.
///
/// # Errors
/// `Error::Memory` if there is too little memory for the trees at the same time, and the errors of
/// `grow`.
pub fn merges_in_trees(
    devices: &[Arc<Device>],
    problems: &[&Problem<'_>],
    grow: impl Fn(&Arc<Device>, &Problem<'_>, f64) -> Result<Vec<Merge>> + Sync,
) -> Result<Vec<Vec<Merge>>> {
    let devices = &devices[..devices.len().min(problems.len())];
    let of_devices = devices.iter().zip(shares(problems, devices.len()));
    let of_devices = of_devices.map(|(device, problems_of_device)| {
        let size = |&index: &usize| problems[index].clusters();
        let sizes: Vec<usize> = problems_of_device.iter().map(size).collect();
        Ok(TreesOfDevice {
            device,
            together: tree::trees_at_a_time(device, &sizes)?,
            problems: problems_of_device,
            sizes,
        })
    });
    let of_devices = of_devices.collect::<Result<Vec<TreesOfDevice>>>()?;
    let largest = of_devices.iter().flat_map(|trees| {
        let largest = trees.problems.iter().take(trees.together);
        largest.map(|&index| problems[index])
    });
    check_memory(largest)?;
    let found = on_each(of_devices.iter(), |trees| {
        let ranks: Vec<usize> = (0..trees.problems.len()).collect();
        from_queue(&ranks, trees.together, |&rank| {
            let share = share_of_blocks(&trees.sizes, rank, trees.together);
            grow(trees.device, problems[trees.problems[rank]], share)
        })
    })?;
    let indices = of_devices.iter().flat_map(|trees| &trees.problems);
    let mut merges = vec![Vec::new(); problems.len()];
    for (&index, found) in indices.zip(found.into_iter().flatten()) {
        merges[index] = found;
    }
    Ok(merges)
}
