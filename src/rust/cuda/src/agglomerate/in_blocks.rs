//! Merges problems in the thread blocks of several GPUs.

use std::cmp::Reverse;
use std::sync::Arc;

use gmhclust_core::error::Result;
use gmhclust_core::mahalanobis::Problem;
use gmhclust_core::{Cpu, Merge, Monitor};

use crate::blocks::BlockProblems;
use crate::device::Device;
use crate::sharing::on_each;
use crate::thresholds::GpuThresholds;

/// Problems that each fit into a thread block, divided among the devices.
pub struct InBlocks<'a> {
    /// For each device, the indices of its problems and the problems.
    shares: Vec<(Vec<usize>, BlockProblems<'a>)>,
    /// Number of all problems.
    count: usize,
}

impl<'a> InBlocks<'a> {
    /// Divides the problems so that every device has about the same work, and begins the first
    /// launch of each device. The threads of `cpu` copy the observations.
    ///
    /// # Errors
    /// As [`BlockProblems::begin`].
    pub fn begin(
        devices: &[Arc<Device>],
        problems: &[&'a Problem<'a>],
        thresholds: &'a GpuThresholds,
        cpu: &'a Cpu,
        monitor: &Monitor,
    ) -> Result<Self> {
        let shares = shares(problems, devices.len());
        let begin = |(device, share): (_, &Vec<usize>)| {
            let mine = share.iter().map(|&index| problems[index]).collect();
            BlockProblems::begin(device, mine, thresholds, cpu, monitor)
        };
        let blocks = on_each(devices.iter().zip(&shares), begin)?;
        Ok(Self {
            shares: shares.into_iter().zip(blocks).collect(),
            count: problems.len(),
        })
    }

    /// The merges of each problem. All devices work at the same time.
    ///
    /// # Errors
    /// As [`BlockProblems::merges`].
    pub fn merges(self, monitor: &Monitor) -> Result<Vec<Vec<Merge>>> {
        let (shares, blocks): (Vec<_>, Vec<_>) = self.shares.into_iter().unzip();
        let found = on_each(blocks.into_iter(), |mine| mine.merges(monitor))?;
        let mut merges = vec![Vec::new(); self.count];
        for (&index, found) in shares.iter().flatten().zip(found.into_iter().flatten()) {
            merges[index] = found;
        }
        Ok(merges)
    }
}

/// The indices of the problems of each device. Problems are assigned round-robin, in decreasing
/// order of size.
fn shares(problems: &[&Problem<'_>], devices: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..problems.len()).collect();
    order.sort_by_key(|&index| Reverse(problems[index].clusters()));
    let share = |device| order.iter().copied().skip(device).step_by(devices);
    (0..devices).map(|device| share(device).collect()).collect()
}

#[cfg(test)]
mod tests {
    use gmhclust_core::testing::{observations, CENTROID_OPTIONS};

    use super::*;

    #[test]
    fn every_device_gets_problems_of_every_size() {
        let x = observations((0..9).map(f64::from).collect(), 9, 1);
        let problem = |n: u32| Problem::of_observations(&x, 0..n, CENTROID_OPTIONS);
        let problems = [3, 9, 5, 7, 2].map(problem);
        let problems: Vec<&Problem> = problems.iter().collect();
        assert_eq!(shares(&problems, 1), [vec![1, 3, 2, 0, 4]]);
        assert_eq!(shares(&problems, 2), [vec![1, 2, 4], vec![3, 0]]);
        assert_eq!(shares(&problems[..1], 2), [vec![0], vec![]]);
    }
}
