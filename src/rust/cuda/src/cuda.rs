//! [`Cuda`]: every algorithm's device, on one or more CUDA devices.

use std::cmp::Reverse;
use std::sync::Arc;

use gmhclust_core::distances::{DistanceDevice, Pairs};
use gmhclust_core::error::{Error, Result};
use gmhclust_core::kmeans::{lloyd, Assigned, KMeansDevice, Start};
use gmhclust_core::linkage::dissimilarities::Dissimilarities;
use gmhclust_core::linkage::{LinkageDevice, Origin, Recurrence};
use gmhclust_core::mahalanobis::screen::cpu::CpuScreen;
use gmhclust_core::mahalanobis::screen::{ClusterFrame, Screen};
use gmhclust_core::mahalanobis::{
    AgglomerationDevice, BoundingBox, Distance, Division, MergesOfEach, Problem, WholeProblems,
};
use gmhclust_core::matrix::RowSlices;
use gmhclust_core::metric::Points;
use gmhclust_core::neighbours::cpu::CpuNeighbours;
use gmhclust_core::neighbours::{NeighbourDevice, Neighbours, Space};
use gmhclust_core::tasks::join;
use gmhclust_core::{Cpu, Merge, Monitor, Observations};
use rayon::prelude::*;

use crate::blocks::BlockProblems;
use crate::budget::memory_from_environment;
use crate::device::{self, Device};
use crate::neighbours::CudaNeighbours;
use crate::screen::CudaScreen;
use crate::{blocks, dissimilarities, distances, kmeans, policy, screen, tree};

/// Sizes below which the CPU does a part of the work, or takes over in the middle of it: figures of
/// the [`policy`] by their names there, for some number of threads. With 0 the GPUs do all that
/// they can.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Handover {
    pub screen_clusters: usize,
    pub tree_clusters: usize,
    pub full_tree_clusters: usize,
    /// In data of few columns and of more, see [`policy::FULL_TREE_MEMBERS_THREADS`].
    pub full_tree_members: usize,
    pub full_tree_members_of_many_columns: usize,
    /// Problems that fit in a thread block each: with fewer, they are merged like large ones.
    pub block_problems: usize,
    pub request_coordinates: usize,
    pub matrix_observations: usize,
    pub chain_clusters: usize,
    pub kmeans_coordinates: usize,
    pub kmeans_coordinates_per_device: usize,
}

/// One or more CUDA devices, and the CPU beside them.
pub struct Cuda {
    devices: Vec<Arc<Device>>,
    /// Does the host's part of the work, and all that the devices cannot do.
    cpu: Arc<Cpu>,
    handover: Handover,
    /// Most bytes of a device's memory that a search for neighbours may take; all where `None`.
    memory: Option<usize>,
}

impl Cuda {
    /// With the devices of these numbers, or all usable ones where `chosen` is `None`.
    ///
    /// # Errors
    /// `Error::Device` where one of the devices cannot be used, or there is none; `Error::Input`
    /// where `GMHCLUST_DEVICE_MEMORY` is no number of bytes.
    pub fn new(chosen: Option<&[usize]>, cpu: Arc<Cpu>, handover: Handover) -> Result<Self> {
        let devices = match chosen {
            Some(chosen) => Device::shared_each(chosen)
                .into_iter()
                .collect::<Result<_>>()?,
            None => usable(Device::shared_each(&numbers()?))?,
        };
        Self::on(devices, cpu, handover)
    }

    /// With the first usable device. The others are not opened, which takes time and memory of
    /// each.
    ///
    /// # Errors
    /// As [`Cuda::new`].
    pub fn on_first(cpu: Arc<Cpu>, handover: Handover) -> Result<Self> {
        let numbers = numbers()?;
        let devices = first_usable(numbers.iter().map(|&number| Device::shared(number)))?;
        Self::on(devices, cpu, handover)
    }

    fn on(devices: Vec<Arc<Device>>, cpu: Arc<Cpu>, handover: Handover) -> Result<Self> {
        if devices.is_empty() {
            return Err(Error::Device(
                "there is no CUDA device on this machine".into(),
            ));
        }
        Ok(Self {
            devices,
            cpu,
            handover,
            memory: memory_from_environment()?,
        })
    }

    /// The same, merging no problem as a whole in a thread block.
    pub fn without_blocks(mut self) -> Self {
        self.handover.block_problems = usize::MAX;
        self
    }

    /// The same, with searches for neighbours that take at most `bytes` of a device's memory.
    pub fn with_memory(mut self, bytes: usize) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Whether a device makes all merges of a problem, by all its blocks together.
    fn grows(&self, problem: &Problem) -> bool {
        let (at, clusters) = (&self.handover, problem.clusters());
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
        clusters > 1 && enough && tree::fits(problem)
    }

    /// Number of devices.
    pub fn devices(&self) -> usize {
        self.devices.len()
    }
}

/// The numbers of all devices.
fn numbers() -> Result<Vec<usize>> {
    Ok((0..device::count()?).collect())
}

/// The devices that were opened. Where all failed, the error of the first; other errors than those
/// of a device always count.
fn usable<D>(opened: Vec<Result<D>>) -> Result<Vec<D>> {
    let mut usable = Vec::new();
    let mut first_error = None;
    for opened in opened {
        match opened {
            Ok(device) => usable.push(device),
            Err(error @ Error::Device(_)) => first_error = first_error.or(Some(error)),
            Err(other) => return Err(other),
        }
    }
    match first_error {
        Some(error) if usable.is_empty() => Err(error),
        _ => Ok(usable),
    }
}

/// As [`usable`], the first of them only; those after it are not opened.
fn first_usable<D>(opened: impl Iterator<Item = Result<D>>) -> Result<Vec<D>> {
    let mut tried = Vec::new();
    for opened in opened {
        let go_on = matches!(opened, Err(Error::Device(_)));
        tried.push(opened);
        if !go_on {
            break;
        }
    }
    usable(tried)
}

/// Which problems thread blocks merge, and which `threads` threads merge meanwhile: of those that
/// `fit` into a block, if they are at least `fewest`; with 0, blocks merge all of them.
fn division(
    problems: &[Problem<'_>],
    fit: &[bool],
    fewest: usize,
    threads: usize,
    grows: impl Fn(&Problem) -> bool,
) -> Division {
    let size = |number: usize| problems[number].clusters();
    let mut fitting: Vec<usize> = (0..problems.len()).filter(|&i| fit[i]).collect();
    fitting.sort_by_key(|&number| Reverse(size(number)));
    let largest = match fitting.first() {
        Some(&number) if fitting.len() >= fewest => &problems[number],
        _ => return Division::default(),
    };
    let block_per_core = match largest.options.distance {
        Distance::Centroid => policy::BLOCK_PER_CORE,
        Distance::FullMahalanobis => policy::FULL_BLOCK_PER_CORE,
    };
    let trees_grow = grows(largest);
    let has_tree = |size| trees_grow && size >= policy::TREE_BESIDE_BLOCKS_CLUSTERS;
    let sizes: Vec<usize> = fitting.iter().map(|&number| size(number)).collect();
    let front = match fewest {
        0 => 0,
        _ => front_to_leave(&sizes, has_tree, threads, block_per_core),
    };
    let whole = fitting.split_off(front);
    fitting.retain(|&number| !has_tree(size(number)));
    Division {
        whole,
        on_cpu: fitting,
    }
}

/// Divides problems of these sizes, in decreasing order, of which `has_tree` tells which ones all
/// blocks together make a tree of: returns the number of those at the front that thread blocks
/// should not merge. Beside the blocks, which make the largest of the others last as long as they
/// do, `threads` threads merge those at the front that have no tree. A problem takes time by the
/// square of its size, in a block `block_per_core` times as long.
fn front_to_leave(
    sizes: &[usize],
    has_tree: impl Fn(usize) -> bool,
    threads: usize,
    block_per_core: f64,
) -> usize {
    let (mut on_cpu, mut longest) = (0.0, 0.0f64);
    let times = sizes.iter().map(|&size| {
        let alone = (size * size) as f64;
        let time = (block_per_core * alone)
            .max(on_cpu / threads as f64)
            .max(longest);
        if !has_tree(size) {
            on_cpu += alone;
            longest = longest.max(alone);
        }
        time
    });
    let shortest = times.enumerate().min_by(|(_, a), (_, b)| a.total_cmp(b));
    shortest.map_or(0, |(front, _)| front)
}

impl gmhclust_core::Device for Cuda {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn cpu(&self) -> &Cpu {
        &self.cpu
    }

    /// After the failure of a device, has the devices opened afresh at their next use. Other errors
    /// change nothing.
    fn failed(&self, error: &Error) {
        for device in &self.devices {
            device.forget_on_failure(error);
        }
    }
}

impl AgglomerationDevice for Cuda {
    fn screen(
        &self,
        number: usize,
        problem: &Problem,
        live: usize,
        frame: ClusterFrame,
    ) -> Result<Box<dyn Screen>> {
        let least = self.handover.screen_clusters;
        if live < least || !screen::fits(&frame) {
            return Ok(Box::new(CpuScreen::new(problem.clusters(), frame)));
        }
        let device = &self.devices[number % self.devices.len()];
        let screen = CudaScreen::new(device, problem.clusters(), live, least, frame)?;
        Ok(Box::new(screen))
    }

    fn grow(
        &self,
        number: usize,
        problem: &Problem,
        bounding_box: &BoundingBox,
        monitor: &Monitor,
    ) -> Result<Option<Vec<Merge>>> {
        if !self.grows(problem) {
            return Ok(None);
        }
        let device = &self.devices[number % self.devices.len()];
        tree::grow(device, problem, bounding_box, monitor)
    }

    fn whole_problems(&self) -> Option<&dyn WholeProblems> {
        Some(self)
    }
}

impl WholeProblems for Cuda {
    fn divide(&self, problems: &[Problem<'_>], monitor: &Monitor) -> Result<Division> {
        let fewest = self.handover.block_problems;
        if problems.len() < fewest {
            return Ok(Division::default());
        }
        let fits = |problem| Ok(blocks::fits(problem) && !blocks::is_tied(problem, monitor)?);
        let (fit, threads) = self.cpu.install(|| {
            let fit = problems.par_iter().map(fits).collect::<Result<Vec<bool>>>();
            (fit, rayon::current_num_threads())
        });
        let grows = |problem: &Problem| self.grows(problem);
        Ok(division(problems, &fit?, fewest, threads, grows))
    }

    /// Merges each problem in a thread block, with the same number of problems on every device.
    fn prepare<'a>(
        &'a self,
        problems: Vec<&'a Problem<'a>>,
        monitor: &'a Monitor,
    ) -> Result<MergesOfEach<'a>> {
        let mut order: Vec<usize> = (0..problems.len()).collect();
        order.sort_by_key(|&i| Reverse(problems[i].clusters()));
        let devices = self.devices.len();
        // Sorted by size and taken in turns: every device gets about the same work.
        let shares: Vec<Vec<usize>> = (0..devices)
            .map(|d| order.iter().copied().skip(d).step_by(devices).collect())
            .collect();
        let prepared = self.devices.iter().zip(&shares).map(|(device, share)| {
            let mine = share.iter().map(|&i| problems[i]).collect();
            BlockProblems::new(device, mine, &self.cpu, monitor)
        });
        let prepared: Vec<BlockProblems> = prepared.collect::<Result<_>>()?;
        Ok(Box::new(move || {
            let found: Vec<Vec<Vec<Merge>>> = std::thread::scope(|scope| {
                let work = |mine: BlockProblems<'a>| scope.spawn(move || mine.merge(monitor));
                let workers: Vec<_> = prepared.into_iter().map(work).collect();
                workers.into_iter().map(join).collect::<Result<_>>()
            })?;
            let mut merges = vec![Vec::new(); problems.len()];
            for (&i, found) in shares.iter().flatten().zip(found.into_iter().flatten()) {
                merges[i] = found;
            }
            Ok(merges)
        }))
    }
}

impl NeighbourDevice for Cuda {
    fn references<'a>(
        &'a self,
        space: Space<'a>,
        monitor: &'a Monitor,
    ) -> Result<Box<dyn Neighbours + 'a>> {
        let (devices, least, memory) = (
            &self.devices,
            self.handover.request_coordinates,
            self.memory,
        );
        self.cpu.install(|| {
            let neighbours = CudaNeighbours::new(devices, space, least, memory, monitor)?;
            Ok::<Box<dyn Neighbours>, _>(match neighbours {
                Some(neighbours) => Box::new(neighbours),
                None => Box::new(CpuNeighbours::new(space, monitor)?),
            })
        })
    }
}

impl DistanceDevice for Cuda {
    fn distances(
        &self,
        points: &Points,
        pairs: &Pairs,
        out: &mut [f64],
        monitor: &Monitor,
    ) -> Result<()> {
        if !distances::fits(points) {
            return self.cpu.distances(points, pairs, out, monitor);
        }
        let device = &self.devices[0];
        distances::distances(device, points, pairs, out, &self.cpu, monitor)
    }
}

impl LinkageDevice for Cuda {
    fn dissimilarities<'a>(
        &'a self,
        origin: Origin<'a>,
        n: usize,
        recurrence: Recurrence,
        monitor: &Monitor,
    ) -> Result<Box<dyn Dissimilarities + 'a>> {
        if n < self.handover.matrix_observations || !dissimilarities::fits(recurrence.linkage) {
            return self.cpu.dissimilarities(origin, n, recurrence, monitor);
        }
        let device = &self.devices[0];
        let chain_clusters = self.handover.chain_clusters;
        dissimilarities::dissimilarities(
            device,
            origin,
            n,
            recurrence,
            self,
            chain_clusters,
            monitor,
        )
    }
}

impl KMeansDevice for Cuda {
    fn iterate(
        &self,
        x: &Observations,
        start: Start,
        iterations: usize,
        monitor: &Monitor,
    ) -> Result<Assigned> {
        let centers = start.centers();
        let coordinates = x.values().len().saturating_mul(centers);
        if coordinates < self.handover.kmeans_coordinates {
            return self.cpu.iterate(x, start, iterations, monitor);
        }
        let of_one = self.handover.kmeans_coordinates_per_device.max(1);
        let paying = (coordinates / of_one).max(1);
        let devices = kmeans::fitting(&self.devices, x, centers, paying)?;
        if !devices.is_empty() {
            return kmeans::kmeans(&devices, x, start, iterations, monitor);
        }
        self.cpu
            .install(|| lloyd::iterate(x, start, iterations, self, monitor))
    }
}

#[cfg(test)]
mod tests {
    use gmhclust_core::mahalanobis::{Options, Subthreshold};
    use gmhclust_core::testing::observations;

    use super::*;

    #[test]
    fn devices_that_cannot_be_opened_are_left_out_unless_none_can() {
        let failed = |name: &str| Error::Device(name.into());
        assert_eq!(usable::<u8>(vec![]), Ok(vec![]));
        assert_eq!(usable(vec![Err(failed("a")), Ok(1), Ok(2)]), Ok(vec![1, 2]));
        let none = vec![Err(failed("a")), Err(failed("b"))];
        assert_eq!(usable::<u8>(none), Err(failed("a")));
        let full = Error::Memory("full".into());
        assert_eq!(usable(vec![Ok(1), Err(full.clone())]), Err(full));
    }

    #[test]
    fn devices_after_the_first_usable_one_are_not_opened() {
        let failed = || Error::Device("gone".into());
        for (opened, expected) in [
            (vec![], Ok(vec![])),
            (vec![Err(failed()), Err(failed())], Err(failed())),
            (vec![Err(failed()), Ok(1), Ok(2), Ok(3)], Ok(vec![1])),
        ] {
            let mut tried = 0;
            let opened = opened.into_iter().inspect(|_| tried += 1);
            assert_eq!(first_usable(opened), expected);
            assert!(tried <= 2, "{tried} were opened");
        }
    }

    #[test]
    fn problems_that_would_keep_a_block_too_long_are_left_to_others() {
        let no_tree = |_| false;
        // A block takes as long for 100 as for any number of them.
        assert_eq!(front_to_leave(&[100; 50], no_tree, 8, 2.0), 0);
        // One that is much larger takes less time on a core.
        let mut sizes = [10; 50];
        sizes[0] = 600;
        assert_eq!(front_to_leave(&sizes, no_tree, 8, 2.0), 1);
        assert_eq!(front_to_leave(&sizes, |size| size > 500, 8, 2.0), 1);
        // More threads take more.
        let sizes: Vec<usize> = (1..=100).rev().map(|size| 10 * size).collect();
        let [two, sixteen] = [2, 16].map(|threads| front_to_leave(&sizes, no_tree, threads, 2.0));
        assert!(0 < two && two < sixteen && sixteen < 50, "{two}, {sixteen}");
        assert_eq!(front_to_leave(&[], no_tree, 2, 2.0), 0);
    }

    #[test]
    fn blocks_merge_many_small_problems_and_threads_those_that_are_much_larger() {
        let x = observations((0..6000).map(f64::from).collect(), 6000, 1);
        let options = Options {
            threshold: 5.0,
            subthreshold: Subthreshold::Mahal,
            distance: Distance::Centroid,
            normalize: false,
            apriori_intra: true,
        };
        let problem = |n: u32| Problem::of_observations(&x, (0..n).collect(), options);
        let sizes = [10, 12, 600, 11, 10, 10, 5000, 10, 10];
        let problems: Vec<Problem> = sizes.into_iter().map(problem).collect();
        let mut fit = [true; 9];
        fit[1] = false;
        let divided = |fit: &[bool], fewest, grows| {
            let Division { mut whole, on_cpu } = division(&problems, fit, fewest, 4, |_| grows);
            whole.sort_unstable();
            (whole, on_cpu)
        };
        let but_one = vec![0, 2, 3, 4, 5, 7, 8];
        assert_eq!(divided(&fit, 8, false), (but_one, vec![6]));
        // Where all blocks together make a tree of that, the next one decides.
        assert_eq!(divided(&fit, 8, true), (vec![0, 3, 4, 5, 7, 8], vec![2]));
        assert_eq!(divided(&fit, 9, true), (vec![], vec![]));
        assert_eq!(
            divided(&fit, 0, true),
            (vec![0, 2, 3, 4, 5, 6, 7, 8], vec![])
        );
        assert_eq!(divided(&[false; 9], 0, true), (vec![], vec![]));
    }
}
