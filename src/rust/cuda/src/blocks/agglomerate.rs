//! Agglomeration of small problems, a thread block each.

use std::cmp::Reverse;
use std::sync::Arc;

use gmhclust_core::distinct::Distinct;
use gmhclust_core::error::{Error, Result};
use gmhclust_core::mahalanobis::{agglomerate, Problem, UnionRule};
use gmhclust_core::matrix::RowSlices;
use gmhclust_core::monitor::Monitor;
use gmhclust_core::{Cpu, Merge};

use super::arrays::{bytes_per_observation, MOST_DIMENSIONS};
use super::launch::Launch;
use super::tasks::gather;
use crate::device::Device;

/// Most observations of a problem. With more, its block takes longer than the rest of the device
/// may wait for it.
const MOST_OBSERVATIONS: usize = 8_192;

/// The share of the free memory to use.
const MEMORY_SHARE: f64 = 0.9;

/// Whether a block can merge this problem.
pub fn fits(problem: &Problem) -> bool {
    problem.union == UnionRule::Shape
        && problem.clusters() == problem.members.len()
        && problem.clusters() <= MOST_OBSERVATIONS
        && problem.x.ncols() <= MOST_DIMENSIONS
}

/// Whether equal observations would keep a block busy with little else: whenever one of a set of
/// them is merged, all others of the set look for another partner. The CPU merges them without a
/// search.
///
/// # Errors
/// As [`Distinct::new`].
pub fn is_tied(problem: &Problem, monitor: &Monitor) -> Result<bool> {
    let row = |member: u32| {
        problem
            .x
            .row_slice(problem.members[member as usize] as usize)
    };
    let distinct = Distinct::of_rows(problem.members.len(), row, monitor)?;
    let searches: usize = distinct.sets().map(|set| set.len() * set.len() / 2).sum();
    Ok(searches > problem.clusters())
}

/// The merges of each of these problems, all of which fit ([`fits`]) and have the same options;
/// `cpu` gathers their observations.
///
/// # Errors
/// `Error::Interrupt` when `monitor` says stop, `Error::Memory` when the device has too little for
/// even one of them, `Error::Device` when it fails.
pub fn agglomerate(
    device: &Arc<Device>,
    problems: &[&Problem<'_>],
    cpu: &Cpu,
    monitor: &Monitor,
) -> Result<Vec<Vec<Merge>>> {
    for problem in problems {
        monitor.expect(agglomerate::work(problem));
    }
    let mut merges = vec![Vec::new(); problems.len()];
    // The largest first, so that none of them is last.
    let mut order: Vec<usize> = (0..problems.len()).collect();
    order.sort_by_key(|&i| Reverse(problems[i].clusters()));
    let mut rest = &order[..];
    while !rest.is_empty() {
        let count = as_many_as_fit(device, problems, rest)?;
        let (now, later) = rest.split_at(count);
        let batch: Vec<&Problem> = now.iter().map(|&i| problems[i]).collect();
        let (tasks, x) = cpu.install(|| gather(&batch));
        let found = Launch::new(device, &batch)?.run(&batch, &tasks, &x, monitor)?;
        for (&i, found) in now.iter().zip(found) {
            merges[i] = found;
        }
        rest = later;
    }
    Ok(merges)
}

/// Number of problems, in this order, that fit in the device's memory at a time.
fn as_many_as_fit(device: &Device, problems: &[&Problem<'_>], order: &[usize]) -> Result<usize> {
    let free = device.free_memory()?;
    let bytes = bytes_per_observation(problems[order[0]].x.ncols());
    let capacity = (free as f64 * MEMORY_SHARE) as usize / bytes;
    let mut observations = 0;
    let fitting = order.iter().take_while(|&&i| {
        observations += problems[i].clusters();
        observations <= capacity
    });
    match fitting.count() {
        0 => Err(Error::Memory(format!(
            "an apriori cluster of {} observations needs {} bytes on the device, which has {free} \
             free",
            problems[order[0]].clusters(),
            bytes * problems[order[0]].clusters(),
        ))),
        count => Ok(count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gmhclust_core::mahalanobis::{Distance, Options, Subthreshold};
    use gmhclust_core::testing::observations;

    #[test]
    fn pairs_of_equal_observations_suit_a_block_and_large_sets_do_not() {
        let options = Options {
            threshold: 5.0,
            subthreshold: Subthreshold::Mahal,
            distance: Distance::Centroid,
            normalize: false,
            apriori_intra: true,
        };
        let is_tied_with_sets_of = |size: usize| {
            let values = (0..60).map(|i| (i / size) as f64).collect();
            let x = observations(values, 60, 1);
            let problem = Problem::of_observations(&x, (0..60).collect(), options);
            is_tied(&problem, &Monitor::default()).unwrap()
        };
        assert!(!is_tied_with_sets_of(1));
        assert!(!is_tied_with_sets_of(2));
        assert!(is_tied_with_sets_of(6));
    }
}
