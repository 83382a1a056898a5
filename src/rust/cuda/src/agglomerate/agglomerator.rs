//! Merges each problem where [`merge_sites`] says, on several GPUs and the CPU.

use std::sync::Arc;

use gmhclust_core::error::{Error, Result};
use gmhclust_core::mahalanobis::agglomerate::{
    merges_in_parallel, merges_on_cpu, with_cpu_screens, UnitedProblem,
};
use gmhclust_core::mahalanobis::{Distance, Problem};
use gmhclust_core::{Cpu, Merge, Monitor};
use rayon::prelude::*;

use super::in_blocks::InBlocks;
use super::in_trees::merges_in_trees;
use super::merge_site::{merge_sites, MergeSite};
use super::overlap::overlap;
use super::turns::Turns;
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
        // Blocks take memory of the devices, too.
        let is_free = in_blocks.is_empty();
        let merge_others = || {
            let is_tree: Vec<bool> = others
                .iter()
                .map(|&i| merge_sites[i] == MergeSite::Tree && self.has_tree(&problems[i]))
                .collect();
            self.merge_others(&of_numbers(&others), &is_tree, is_free, monitor)
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

    /// The merges of each problem. Devices make those of the problems that `is_tree` marks, as
    /// trees. Meanwhile the CPU makes the merges of the others. `is_free` says that nothing else
    /// uses the devices.
    fn merge_others(
        &self,
        problems: &[&Problem<'_>],
        is_tree: &[bool],
        is_free: bool,
        monitor: &Monitor,
    ) -> Result<Vec<Vec<Merge>>> {
        let (trees, on_cpu): (Vec<usize>, Vec<usize>) =
            (0..problems.len()).partition(|&number| is_tree[number]);
        let of_numbers = |numbers: &[usize]| -> Vec<&Problem> {
            numbers.iter().map(|&number| problems[number]).collect()
        };
        let is_alone = is_free && trees.len() == 1;
        let merge_trees = || {
            merges_in_trees(
                self.devices,
                &of_numbers(&trees),
                |device, problem, share, turns| {
                    self.merges_of_tree(device, problem, share, turns, is_alone, monitor)
                },
            )
        };
        let merge_on_cpu = || {
            merges_in_parallel(&of_numbers(&on_cpu), self.cpu, |problem| {
                merges_on_cpu(problem, monitor)
            })
        };
        if trees.is_empty() {
            return merge_on_cpu();
        }
        if on_cpu.is_empty() {
            return merge_trees();
        }
        merges_of_two_parts(
            Part {
                numbers: &trees,
                merges: merge_trees,
            },
            Part {
                numbers: &on_cpu,
                merges: merge_on_cpu,
            },
        )
    }

    /// Makes the merges of a problem as a tree on a device. If the device's memory is short, waits
    /// until another tree ends, see [`Turns`]. The CPU makes the merges if the problem has no tree
    /// once equal clusters are united, if [`tree::grow`] returns `None`, or if memory is short
    /// although no other tree is in progress. A problem that `is_alone` has that error instead.
    fn merges_of_tree(
        &self,
        device: &Arc<Device>,
        problem: &Problem,
        share: f64,
        turns: &Turns,
        is_alone: bool,
        monitor: &Monitor,
    ) -> Result<Vec<Merge>> {
        let united = self.cpu.install(|| UnitedProblem::new(problem, monitor))?;
        united.merges(monitor, |distinct| {
            let grow = || {
                tree::grow(
                    device,
                    distinct.problem,
                    distinct.bounding_box,
                    share,
                    self.cpu,
                    monitor,
                )
            };
            let grown = match self.has_tree(distinct.problem) {
                true => turns.take(grow),
                false => Ok(None),
            };
            let on_cpu = || with_cpu_screens(distinct, monitor);
            match grown {
                Err(Error::Memory(_)) if !is_alone => self.cpu.install(on_cpu),
                Ok(None) if is_alone => self.cpu.install_awake(on_cpu),
                Ok(None) => self.cpu.install(on_cpu),
                grown => grown,
            }
        })
    }

    /// Whether a device makes all merges of a problem, by many of its blocks together. A device
    /// does not make the merges of overlapping clusters with full distances: each search for
    /// nearest clusters would compare most clusters.
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
