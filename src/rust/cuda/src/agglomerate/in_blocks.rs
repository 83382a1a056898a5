//! Merges problems in the thread blocks of several GPUs.

use std::sync::Arc;

use gmhclust_core::error::Result;
use gmhclust_core::mahalanobis::Problem;
use gmhclust_core::{Cpu, Merge, Monitor};

use super::share::round_robin_by_size;
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
        let shares = round_robin_by_size(problems, devices.len());
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
