//! Merges each problem where [`merge_sites`] says, on several GPUs and the CPU.

use std::cmp::Reverse;
use std::sync::Arc;

use gmhclust_core::error::{Error, Result};
use gmhclust_core::mahalanobis::agglomerate::{
    merges_in_parallel, merges_of, merges_on_cpu, with_cpu_screens, ScheduledProblem,
};
use gmhclust_core::mahalanobis::{Distance, Problem};
use gmhclust_core::{Cpu, Merge, Monitor};
use rayon::prelude::*;

use super::in_blocks::InBlocks;
use super::merge_site::{merge_sites, MergeSite};
use super::overlap::overlap;
use super::share::share_of_blocks;
use super::two_parts::{merges_of_two_parts, Part};
use crate::device::Device;
use crate::thresholds::GpuThresholds;
use crate::{blocks, policy, tree};

/// The devices that make merges, and the sizes below which the CPU takes over.
pub struct Agglomerator<'a> {
    pub devices: &'a [Arc<Device>],
    pub cpu: &'a Cpu,
    pub thresholds: &'a GpuThresholds,
}

impl Agglomerator<'_> {
    /// The merges of each problem, in their order, until the problem is one cluster.
    ///
    /// # Errors
    /// `Error::Interrupt` when the monitor says stop, `Error::Memory` if there is not enough
    /// memory, `Error::Device` if a device fails.
    pub fn agglomerate(
        &self,
        problems: &[Problem<'_>],
        monitor: &Monitor,
    ) -> Result<Vec<Vec<Merge>>> {
        let merge_sites = self.merge_sites(problems, monitor)?;
        let (in_blocks, others): (Vec<usize>, Vec<usize>) =
            (0..problems.len()).partition(|&number| merge_sites[number] == MergeSite::Block);
        let of_numbers = |numbers: &[usize]| -> Vec<&Problem> {
            numbers.iter().map(|&number| &problems[number]).collect()
        };
        let sizes = self.tree_sizes(problems, &others, &merge_sites);
        // Blocks or other trees take memory of the devices, too.
        let trees = sizes.iter().filter(|&&size| size > 0).count();
        let is_alone = in_blocks.is_empty() && trees == 1;
        let merge_others = || {
            merges_in_parallel(
                &of_numbers(&others),
                self.cpu,
                |scheduled| match merge_sites[others[scheduled.index]] {
                    MergeSite::Cpu => merges_on_cpu(scheduled.problem, monitor),
                    MergeSite::Tree | MergeSite::Block => {
                        self.merges_of_tree(scheduled, &sizes, is_alone, monitor)
                    }
                },
            )
        };
        if in_blocks.is_empty() {
            return merge_others();
        }
        // The CPU's threads copy the observations first, before they merge other problems.
        let begun = of_numbers(&in_blocks);
        let begun = InBlocks::begin(self.devices, &begun, self.thresholds, self.cpu, monitor)?;
        merges_of_two_parts(
            Part {
                numbers: &in_blocks,
                merges: || begun.merges(monitor),
            },
            Part {
                numbers: &others,
                merges: merge_others,
            },
        )
    }

    /// Chooses where each problem is merged.
    ///
    /// # Errors
    /// `Error::Interrupt` when the monitor says stop, `Error::Memory` if there is not enough
    /// memory.
    fn merge_sites(&self, problems: &[Problem<'_>], monitor: &Monitor) -> Result<Vec<MergeSite>> {
        let fewest = self.thresholds.block_problems;
        if problems.len() < fewest {
            return Ok(vec![MergeSite::Tree; problems.len()]);
        }
        let fits = |problem| Ok(blocks::fits(problem) && !blocks::is_tied(problem, monitor)?);
        let (fit, threads) = self.cpu.install(|| {
            let fit = problems.par_iter().map(fits).collect::<Result<Vec<bool>>>();
            (fit, rayon::current_num_threads())
        });
        let has_tree = |problem: &Problem| self.has_tree(problem);
        Ok(merge_sites(problems, &fit?, fewest, threads, has_tree))
    }

    /// The number of clusters of each problem in `numbers`, in decreasing order of size, which is
    /// the order of their ranks. The entry is 0 for a problem that no GPU merges as a tree.
    fn tree_sizes(
        &self,
        problems: &[Problem<'_>],
        numbers: &[usize],
        merge_sites: &[MergeSite],
    ) -> Vec<usize> {
        let size = |&number: &usize| {
            let problem = &problems[number];
            let tree = merge_sites[number] == MergeSite::Tree && self.has_tree(problem);
            (
                problem.clusters(),
                if tree { problem.clusters() } else { 0 },
            )
        };
        let mut sizes: Vec<(usize, usize)> = numbers.iter().map(size).collect();
        sizes.sort_by_key(|&(clusters, _)| Reverse(clusters));
        sizes.into_iter().map(|(_, tree)| tree).collect()
    }

    /// Makes the merges of a problem as a tree on one of the devices. Makes them on the CPU if no
    /// device can make a tree of the problem, or if other problems use the device's memory, which
    /// is possible unless the problem `is_alone`. `sizes` is the result of [`Self::tree_sizes`].
    fn merges_of_tree(
        &self,
        scheduled: ScheduledProblem<'_, '_>,
        sizes: &[usize],
        is_alone: bool,
        monitor: &Monitor,
    ) -> Result<Vec<Merge>> {
        if sizes[scheduled.rank] == 0 {
            return merges_on_cpu(scheduled.problem, monitor);
        }
        let devices = self.devices.len();
        let device = &self.devices[scheduled.rank % devices];
        let share = share_of_blocks(sizes, scheduled.rank, devices, self.cpu.threads());
        merges_of(scheduled.problem, monitor, |distinct| {
            let grown = if self.has_tree(distinct.problem) {
                tree::grow(
                    device,
                    distinct.problem,
                    distinct.bounding_box,
                    share,
                    monitor,
                )
            } else {
                Ok(None)
            };
            match grown {
                Err(Error::Memory(_)) if !is_alone => with_cpu_screens(distinct, monitor),
                Ok(None) => with_cpu_screens(distinct, monitor),
                grown => grown,
            }
        })
    }

    /// Whether a device makes all merges of a problem, by all its blocks together. A device does
    /// not make the merges of overlapping clusters with full distances: each search for nearest
    /// clusters would compare most clusters.
    fn has_tree(&self, problem: &Problem) -> bool {
        let (at, clusters) = (self.thresholds, problem.clusters());
        let enough = match problem.options.distance {
            Distance::Centroid => clusters >= at.tree_clusters,
            Distance::FullMahalanobis => {
                let members = if problem.x.ncols() <= tree::FEW_COLUMNS {
                    at.full_tree_members
                } else {
                    at.full_tree_members_of_many_columns
                };
                let has_many = problem.members.len() >= members
                    && clusters >= policy::FULL_TREE_MEMBERS_CLUSTERS;
                clusters >= at.full_tree_clusters || has_many
            }
        };
        let are_separate = || problem.options.distance == Distance::Centroid || !overlap(problem);
        clusters > 1 && enough && tree::fits(problem) && are_separate()
    }
}
