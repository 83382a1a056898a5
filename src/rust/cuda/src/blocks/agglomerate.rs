//! Agglomerates small problems on one device, each problem in one thread block.

use std::sync::Arc;

use gmhclust_core::digest::digest;
use gmhclust_core::error::{Error, Result};
use gmhclust_core::mahalanobis::{Problem, UnionRule};
use gmhclust_core::monitor::Monitor;
use gmhclust_core::{memory, Cpu, Merge};

use super::arrays::{bytes_per_observation, MOST_DIMENSIONS};
use super::launch::Launch;
use crate::device::Device;
use crate::policy;
use crate::thresholds::GpuThresholds;

/// Share of the free device memory that a launch may use. If it is too high, allocations fail. If
/// it is too low, there are more launches.
const MEMORY_SHARE: f64 = 0.9;

/// Whether a block can merge this problem.
pub fn fits(problem: &Problem) -> bool {
    problem.union == UnionRule::Shape
        && problem.clusters() == problem.members.len()
        && problem.clusters() <= policy::BLOCK_MOST_OBSERVATIONS
        && problem.x.ncols() <= MOST_DIMENSIONS
}

/// Whether a block would spend most of its time on equal observations. When a block merges one
/// observation of a set of equal observations, all others of the set search for another partner.
/// The CPU merges equal observations without a search.
///
/// Observations with the same digest count as equal.
///
/// # Errors
/// `Error::Interrupt` when `monitor` says stop, `Error::Memory` if there is not enough memory.
pub fn is_tied(problem: &Problem, monitor: &Monitor) -> Result<bool> {
    monitor.check()?;
    let digests = problem.rows().map(|row| digest(row, 0));
    let mut digests = memory::collected("finding equal rows needs", digests)?;
    digests.sort_unstable();
    let sets = digests.chunk_by(|a, b| a == b).filter(|set| set.len() > 1);
    let searches: usize = sets.map(|set| set.len() * set.len() / 2).sum();
    Ok(searches > problem.clusters())
}

/// Problems with the same options that a device merges. Each problem [`fits`] into a block.
pub struct BlockProblems<'a> {
    device: Arc<Device>,
    /// The problems in decreasing order of size, so that no large problem is left for the end.
    problems: Vec<&'a Problem<'a>>,
    thresholds: &'a GpuThresholds,
    cpu: &'a Cpu,
    /// The launch for the first problems. It has begun.
    first: Option<Launch<'a>>,
}

impl<'a> BlockProblems<'a> {
    /// Begins the first launch, for as many of the first problems as fit in the device's memory.
    /// The largest problems must come first. The threads of `cpu` copy the observations.
    ///
    /// # Errors
    /// `Error::Interrupt` when `monitor` says stop, `Error::Memory` if the device has too little
    /// memory for even one problem, `Error::Device` if the device fails.
    pub fn begin(
        device: &Arc<Device>,
        problems: Vec<&'a Problem<'a>>,
        thresholds: &'a GpuThresholds,
        cpu: &'a Cpu,
        monitor: &Monitor,
    ) -> Result<Self> {
        let mut new = Self {
            device: device.clone(),
            problems,
            thresholds,
            cpu,
            first: None,
        };
        new.first = new.launch(0, monitor)?;
        Ok(new)
    }

    /// Begins a launch for the problems from index `first` on. Returns `None` if no problems are
    /// left.
    fn launch(&self, first: usize, monitor: &Monitor) -> Result<Option<Launch<'a>>> {
        let rest = &self.problems[first..];
        if rest.is_empty() {
            return Ok(None);
        }
        let count = as_many_as_fit(&self.device, rest)?;
        let problems = rest[..count].to_vec();
        Launch::begin(&self.device, problems, self.thresholds, self.cpu, monitor).map(Some)
    }

    /// Makes all further launches. Returns the merges of each problem.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn merges(mut self, monitor: &Monitor) -> Result<Vec<Vec<Merge>>> {
        let mut merges = Vec::with_capacity(self.problems.len());
        let mut next = self.first.take();
        while let Some(launch) = next {
            merges.extend(launch.merges(self.cpu, monitor)?);
            next = self.launch(merges.len(), monitor)?;
        }
        Ok(merges)
    }
}

/// Number of problems from the first one on that fit in the device's memory at the same time.
fn as_many_as_fit(device: &Device, problems: &[&Problem<'_>]) -> Result<usize> {
    let free = device.free_memory()?;
    let bytes = bytes_per_observation(problems[0].x.ncols(), problems[0].options.distance);
    let capacity = (free as f64 * MEMORY_SHARE) as usize / bytes;
    let mut observations = 0;
    let fitting = problems.iter().take_while(|problem| {
        observations += problem.clusters();
        observations <= capacity
    });
    match fitting.count() {
        0 => Err(Error::Memory(format!(
            "an apriori cluster of {} observations needs {} bytes on the device, which has {free} \
             free",
            problems[0].clusters(),
            bytes * problems[0].clusters(),
        ))),
        count => Ok(count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gmhclust_core::testing::{observations, CENTROID_OPTIONS};

    #[test]
    fn pairs_of_equal_observations_suit_a_block_and_large_sets_do_not() {
        let is_tied_with_sets_of = |size: usize| {
            let values = (0..60).map(|i| (i / size) as f64).collect();
            let x = observations(values, 60, 1);
            let problem = Problem::of_observations(&x, 0..60, CENTROID_OPTIONS);
            is_tied(&problem, &Monitor::default()).unwrap()
        };
        assert!(!is_tied_with_sets_of(1));
        assert!(!is_tied_with_sets_of(2));
        assert!(is_tied_with_sets_of(6));
    }
}
