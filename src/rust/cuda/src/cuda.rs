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
    AgglomerationDevice, BoundingBox, Distance, Problem, WholeProblems,
};
use gmhclust_core::matrix::RowSlices;
use gmhclust_core::metric::Points;
use gmhclust_core::neighbours::cpu::CpuNeighbours;
use gmhclust_core::neighbours::{NeighbourDevice, Neighbours, Space};
use gmhclust_core::tasks::join;
use gmhclust_core::{Cpu, Merge, Monitor, Observations};
use rayon::prelude::*;

use crate::budget::memory_from_environment;
use crate::device::{self, Device};
use crate::neighbours::CudaNeighbours;
use crate::screen::CudaScreen;
use crate::{blocks, dissimilarities, distances, kmeans, screen, tree};

/// Sizes below which the CPU does a part of the work, or takes over in the middle of it. With 0 the
/// GPUs do all that they can.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Handover {
    /// Live clusters of a problem: with fewer, the CPU takes over.
    pub clusters: usize,
    /// Clusters of a problem that a device can merge entirely, with centroid distances and with full
    /// ones: with fewer, the CPU does.
    pub tree: usize,
    pub full_tree: usize,
    /// Observations of a problem with full distances from which on a device merges fewer clusters,
    /// too.
    pub members: usize,
    /// Problems that fit in a thread block each: with fewer, they are merged like large ones.
    pub blocks: usize,
    /// Coordinates of the pairs in a request for neighbours.
    pub request: usize,
    /// Observations of a linkage through a matrix.
    pub linkage: usize,
    /// Clusters that are left for a nearest-neighbour chain.
    pub chain: usize,
    /// Coordinates of the pairs in an iteration of k-means.
    pub kmeans: usize,
    /// The same, of each device of several.
    pub kmeans_device: usize,
}

/// Largest size of a problem in a thread block, as a multiple of the average: a larger one would
/// keep its block busy long after the others are done.
const LARGEST_IN_BLOCK: usize = 4;

/// Clusters of a problem above which all blocks together grow its tree faster than it is merged in a
/// block (measured, gmhclust.R, row `cells1m`).
const MOST_BESIDE_TREES: usize = 2_500;

/// Fewest clusters of a tree that is grown for its members' sake.
const FEWEST_WITH_MANY_MEMBERS: usize = 64;

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

    /// With the first usable device. The others are not opened, which takes time and memory of each.
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
        self.handover.blocks = usize::MAX;
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
            Distance::Centroid => clusters >= at.tree,
            Distance::FullMahalanobis => {
                let has_many = problem.members.len() >= at.members;
                clusters >= at.full_tree || (has_many && clusters >= FEWEST_WITH_MANY_MEMBERS)
            }
        };
        clusters > 1 && enough && tree::fits(problem)
    }

    /// Number of devices.
    pub fn devices(&self) -> usize {
        self.devices.len()
    }

    /// After the failure of a device, has the devices opened afresh at their next use. Other errors
    /// change nothing.
    pub fn forget_on_failure(&self, error: &Error) {
        for device in &self.devices {
            device.forget_on_failure(error);
        }
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

/// The numbers of the problems that thread blocks merge: those that `fit` and are of about one
/// size, if at least `fewest` fit; otherwise none.
fn in_blocks(
    problems: &[Problem<'_>],
    fit: &[bool],
    fewest: usize,
    grows: impl Fn(&Problem) -> bool,
) -> Vec<usize> {
    let fitting = (0..problems.len()).filter(|&number| fit[number]);
    let fitting: Vec<usize> = fitting.collect();
    let count = fitting.len();
    if count < fewest {
        return Vec::new();
    }
    let clusters = |number: usize| problems[number].clusters();
    let total: usize = fitting.iter().map(|&number| clusters(number)).sum();
    let is_small = |&number: &usize| {
        let clusters = clusters(number);
        let has_tree = clusters > MOST_BESIDE_TREES && grows(&problems[number]);
        clusters * count <= LARGEST_IN_BLOCK * total && !has_tree
    };
    fitting.into_iter().filter(is_small).collect()
}

impl gmhclust_core::Device for Cuda {
    fn cpu(&self) -> &Cpu {
        &self.cpu
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
        let least = self.handover.clusters;
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
    fn choose(&self, problems: &[Problem<'_>], monitor: &Monitor) -> Result<Vec<usize>> {
        if problems.len() < self.handover.blocks {
            return Ok(Vec::new());
        }
        let fits = |problem| Ok(blocks::fits(problem) && !blocks::is_tied(problem, monitor)?);
        let fit: Vec<bool> = self
            .cpu
            .install(|| problems.par_iter().map(fits).collect::<Result<_>>())?;
        let grows = |problem: &Problem| self.grows(problem);
        Ok(in_blocks(problems, &fit, self.handover.blocks, grows))
    }

    /// Merges each problem in a thread block, with the same number of problems on every device.
    fn merge(&self, problems: &[&Problem<'_>], monitor: &Monitor) -> Result<Vec<Vec<Merge>>> {
        let mut order: Vec<usize> = (0..problems.len()).collect();
        order.sort_by_key(|&i| Reverse(problems[i].clusters()));
        let devices = self.devices.len();
        // Sorted by size and taken in turns: every device gets about the same work.
        let shares: Vec<Vec<usize>> = (0..devices)
            .map(|d| order.iter().copied().skip(d).step_by(devices).collect())
            .collect();
        let found: Vec<Vec<Vec<Merge>>> = std::thread::scope(|scope| {
            let work = |(device, share): (&'_ Arc<Device>, &Vec<usize>)| {
                let mine: Vec<&Problem> = share.iter().map(|&i| problems[i]).collect();
                let device = device.clone();
                scope.spawn(move || blocks::agglomerate(&device, &mine, &self.cpu, monitor))
            };
            let workers: Vec<_> = self.devices.iter().zip(&shares).map(work).collect();
            workers.into_iter().map(join).collect::<Result<_>>()
        })?;
        let mut merges = vec![Vec::new(); problems.len()];
        for (&i, found) in shares.iter().flatten().zip(found.into_iter().flatten()) {
            merges[i] = found;
        }
        Ok(merges)
    }
}

impl NeighbourDevice for Cuda {
    fn references<'a>(
        &'a self,
        space: Space<'a>,
        monitor: &'a Monitor,
    ) -> Result<Box<dyn Neighbours + 'a>> {
        let (devices, least, memory) = (&self.devices, self.handover.request, self.memory);
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
        if n < self.handover.linkage || !dissimilarities::fits(recurrence.linkage) {
            return self.cpu.dissimilarities(origin, n, recurrence, monitor);
        }
        let device = &self.devices[0];
        let chain = self.handover.chain;
        dissimilarities::dissimilarities(device, origin, n, recurrence, self, chain, monitor)
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
        if coordinates < self.handover.kmeans {
            return self.cpu.iterate(x, start, iterations, monitor);
        }
        let paying = (coordinates / self.handover.kmeans_device.max(1)).max(1);
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
    fn blocks_merge_many_small_problems_but_none_that_is_much_larger() {
        let x = observations((0..600).map(f64::from).collect(), 600, 1);
        let options = Options {
            threshold: 5.0,
            subthreshold: Subthreshold::Mahal,
            distance: Distance::Centroid,
            normalize: false,
            apriori_intra: true,
        };
        let problem = |n: u32| Problem::of_observations(&x, (0..n).collect(), options);
        let sizes = [10, 10, 600, 10, 10, 10, 10, 10, 10];
        let problems: Vec<Problem> = sizes.into_iter().map(problem).collect();
        let mut fit = [true; 9];
        fit[1] = false;
        assert_eq!(
            in_blocks(&problems, &fit, 8, |_| false),
            [0, 3, 4, 5, 6, 7, 8]
        );
        fit[0] = false;
        assert!(in_blocks(&problems, &fit, 8, |_| false).is_empty());
    }
}
