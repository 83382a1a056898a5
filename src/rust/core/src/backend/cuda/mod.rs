//! NVIDIA GPUs: large problems have their screens there while the CPU decides; many small ones are
//! there as a whole.

mod arguments;
mod blocks;
mod chain;
mod device;
mod dissimilarities;
mod distances;
#[cfg(test)]
mod host;
mod kernels;
mod kmeans;
#[cfg(test)]
mod loss;
mod neighbours;
mod screen;
mod sender;

use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::ScopedJoinHandle;

use rayon::prelude::*;

use device::Device;
pub use device::{devices, DeviceInfo};
use neighbours::CudaNeighbours;
use screen::CudaScreen;

use super::cpu::{Cpu, CpuNeighbours, CpuScreen};
use super::neighbours::Space;
use super::screen::{Frame, Screen};
use super::{Backend, Merge, Task, Workload};
use crate::distances::Pairs;
use crate::error::{Error, Result};
use crate::kmeans::{iterate, Assigned, Start};
use crate::linkage::lance_williams::Recurrence;
use crate::linkage::matrix::Origin;
use crate::mahalanobis::Problem;
use crate::matrix::Matrix;
use crate::metric::{Metric, Points};
use crate::monitor::Monitor;

/// With fewer clusters than this, a problem is done, or goes on, on the CPU.
const SMALLEST: usize = 8_192;

/// Small problems for each of the CPU's threads from which on a GPU does them faster, a block each.
const FEWEST_FOR_EACH_THREAD: usize = 4;

/// A small problem has at most so many times the observations of the average one.
const LARGEST_SHARE: usize = 4;

/// From this many clusters on, a GPU is faster than `threads` threads of a CPU: measured with an
/// H200, from about 9,000 clusters in 14 dimensions with 2 threads and 25,000 with 16
/// (inst/benchmarks/gmhclust.R, row `crossover`).
fn crossover(threads: usize) -> usize {
    SMALLEST + 1_000 * threads
}

/// Coordinates of pairs to compare, for each of the CPU's threads, from which on a GPU is faster:
/// measured with an H200 and 2 and 16 threads (inst/benchmarks/distances.R).
const COORDINATES_FOR_EACH_THREAD: usize = 1 << 31;

/// Whether a GPU is faster than `threads` threads of a CPU: for one large problem, for many small
/// ones that together are as large, for many pairs, or for a large matrix.
pub fn profits(work: &Workload, threads: usize) -> bool {
    match *work {
        Workload::Agglomeration {
            largest,
            small,
            observations,
        } => {
            let crossover = crossover(threads);
            largest >= crossover
                || small >= FEWEST_FOR_EACH_THREAD * threads && observations >= crossover
        }
        Workload::Pairs { count, columns } => {
            count.saturating_mul(columns) >= COORDINATES_FOR_EACH_THREAD * threads
        }
        Workload::Linkage {
            linkage,
            observations,
            columns,
        } => match columns {
            _ if dissimilarities::fits(linkage) => observations >= dissimilarities::SMALLEST,
            // Distances are all that the device makes then.
            Some(columns) => {
                let count = observations.saturating_mul(observations);
                profits(&Workload::Pairs { count, columns }, threads)
            }
            None => false,
        },
    }
}

/// One or more CUDA devices.
pub struct Cuda {
    devices: Vec<Arc<Device>>,
    cpu: Cpu,
    /// With fewer clusters than this, a problem is done, or goes on, on the CPU.
    smallest: usize,
    /// With fewer small problems than this, they are done on the CPU.
    fewest: usize,
    /// With fewer pairs of coordinates than this, a search for neighbours is done on the CPU.
    smallest_search: usize,
    /// With fewer pairs of coordinates than this, k-means is done on the CPU.
    smallest_kmeans: usize,
    /// Bytes of a device's memory that a search for neighbours takes, at most.
    memory: Option<usize>,
    /// Of fewer observations than this, linkage through a matrix is done on the CPU.
    smallest_linkage: usize,
}

impl Cuda {
    /// With these devices (all that can be used where `None`), and `threads` threads for what the
    /// CPU does.
    ///
    /// # Errors
    /// `Error::Device` where one cannot be used, or none is there; `Error::Input` where
    /// `GMHCLUST_DEVICE_MEMORY` is no number of bytes.
    pub fn new(chosen: Option<&[usize]>, threads: usize) -> Result<Self> {
        let usable = match chosen {
            Some(chosen) => chosen.to_vec(),
            None => {
                let all = devices()?;
                let usable: Vec<usize> = all
                    .iter()
                    .filter(|device| device.problem.is_none())
                    .map(|device| device.index)
                    .collect();
                if let (true, Some(first)) = (usable.is_empty(), all.first()) {
                    vec![first.index]
                } else {
                    usable
                }
            }
        };
        if usable.is_empty() {
            return Err(Error::Device(
                "there is no CUDA device on this machine".into(),
            ));
        }
        Ok(Self {
            devices: usable
                .into_iter()
                .map(Device::shared)
                .collect::<Result<_>>()?,
            cpu: Cpu::new(threads)?,
            smallest: SMALLEST,
            fewest: FEWEST_FOR_EACH_THREAD * threads,
            smallest_search: neighbours::SMALLEST,
            smallest_kmeans: kmeans::SMALLEST,
            memory: memory_from_environment()?,
            smallest_linkage: dissimilarities::SMALLEST,
        })
    }

    /// Has work of any size on the device, for tests: problems that fit in a block there as a whole
    /// if `blocks`.
    pub fn without_crossover(mut self, blocks: bool) -> Self {
        self.smallest = 0;
        self.smallest_search = 0;
        self.smallest_kmeans = 0;
        self.smallest_linkage = 0;
        self.fewest = if blocks { 0 } else { usize::MAX };
        self
    }

    /// Has searches for neighbours take at most so many bytes of a device's memory, for tests.
    pub fn with_memory(mut self, bytes: usize) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// How many devices there are.
    pub fn devices(&self) -> usize {
        self.devices.len()
    }

    /// Has devices opened afresh at the next use where something failed on one.
    fn forget_on_failure<T>(&self, result: Result<T>) -> Result<T> {
        let devices = self.devices.iter();
        devices.fold(result, |result, device| device.forget_on_failure(result))
    }

    /// Which problems are done in blocks, and which are not.
    fn divide(
        &self,
        problems: &[Problem<'_>],
        monitor: &Monitor,
    ) -> Result<(Vec<usize>, Vec<usize>)> {
        let all = 0..problems.len();
        let fits = |problem| Ok(blocks::fits(problem) && !blocks::is_tied(problem, monitor)?);
        let fitting: Vec<bool> = self
            .cpu
            .install(|| problems.par_iter().map(fits).collect::<Result<_>>())?;
        let fits = |i: &usize| fitting[*i];
        let sizes = all.clone().filter(fits).map(|i| problems[i].clusters());
        let (count, total) = sizes.fold((0, 0), |(count, total), n| (count + 1, total + n));
        if count < self.fewest {
            return Ok((Vec::new(), all.collect()));
        }
        // One that is much larger than the others would keep its block long after they are done.
        let is_small = |i: &usize| problems[*i].clusters() * count <= LARGEST_SHARE * total;
        Ok(all.partition(|i| fits(i) && is_small(i)))
    }

    /// Deals the problems out to the devices, a block each.
    fn agglomerate_in_blocks(
        &self,
        problems: &[&Problem<'_>],
        monitor: &Monitor,
    ) -> Result<Vec<Vec<Merge>>> {
        let mut order: Vec<usize> = (0..problems.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(problems[i].clusters()));
        let devices = self.devices.len();
        let hands: Vec<Vec<usize>> = (0..devices)
            .map(|d| order.iter().copied().skip(d).step_by(devices).collect())
            .collect();
        let dealt: Vec<Vec<Vec<Merge>>> = std::thread::scope(|scope| {
            let work = |(device, hand): (&'_ Arc<Device>, &Vec<usize>)| {
                let mine: Vec<&Problem> = hand.iter().map(|&i| problems[i]).collect();
                let device = device.clone();
                scope.spawn(move || blocks::agglomerate(&device, &mine, &self.cpu, monitor))
            };
            let workers: Vec<_> = self.devices.iter().zip(&hands).map(work).collect();
            workers.into_iter().map(join).collect::<Result<_>>()
        })?;
        let mut merges = vec![Vec::new(); problems.len()];
        for (&i, found) in hands.iter().flatten().zip(dealt.into_iter().flatten()) {
            merges[i] = found;
        }
        Ok(merges)
    }

    /// The problems one by one, their screens on the devices.
    fn agglomerate_on_screens(
        &self,
        problems: &[&Problem<'_>],
        monitor: &Monitor,
    ) -> Result<Vec<Vec<Merge>>> {
        self.cpu
            .agglomerate_on(problems, monitor, |which, problem, live, frame| {
                self.screen(which, problem, live, frame)
            })
    }

    fn screen(
        &self,
        which: usize,
        problem: &Problem,
        live: usize,
        frame: Frame,
    ) -> Result<Box<dyn Screen>> {
        if live < self.smallest || !screen::fits(&frame) {
            return Ok(Box::new(CpuScreen::new(problem.clusters(), frame)));
        }
        let device = &self.devices[which % self.devices.len()];
        let screen = CudaScreen::new(device, problem.clusters(), live, self.smallest, frame)?;
        Ok(Box::new(screen))
    }
}

/// What searches for neighbours may take of a device's memory, in bytes, where the user has set it.
const MEMORY: &str = "GMHCLUST_DEVICE_MEMORY";

fn memory_from_environment() -> Result<Option<usize>> {
    match std::env::var(MEMORY) {
        Ok(value) => parse_memory(&value),
        Err(_) => Ok(None),
    }
}

/// Bytes, as a number in R's notation; `None` for an empty string.
fn parse_memory(value: &str) -> Result<Option<usize>> {
    if value.is_empty() {
        return Ok(None);
    }
    match value.parse::<f64>() {
        Ok(bytes) if bytes >= 1.0 && bytes.is_finite() => Ok(Some(bytes as usize)),
        _ => Err(Error::Input(format!(
            "the environment variable `{MEMORY}` is \"{value}\", it needs to be a number of bytes"
        ))),
    }
}

/// What a thread returns; its panic is this thread's.
fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

impl Backend for Cuda {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn on_threads(&self, work: &mut (dyn FnMut() + Send)) {
        self.cpu.install(work);
    }

    fn agglomerate(&self, problems: &[Problem<'_>], monitor: &Monitor) -> Result<Vec<Vec<Merge>>> {
        let (small, rest) = self.divide(problems, monitor)?;
        let choose =
            |which: &[usize]| -> Vec<&Problem> { which.iter().map(|&i| &problems[i]).collect() };
        let (in_blocks, on_screens) = (choose(&small), choose(&rest));
        let merges = std::thread::scope(|scope| {
            let blocks = scope.spawn(|| self.agglomerate_in_blocks(&in_blocks, monitor));
            let on_screens = self.agglomerate_on_screens(&on_screens, monitor);
            Ok((join(blocks)?, on_screens?))
        });
        let merges = merges.map(|(in_blocks, on_screens)| {
            let mut merges = vec![Vec::new(); problems.len()];
            let which = small.iter().chain(&rest);
            for (&i, found) in which.zip(in_blocks.into_iter().chain(on_screens)) {
                merges[i] = found;
            }
            merges
        });
        self.forget_on_failure(merges)
    }

    fn prepare(
        &self,
        metric: Metric,
        values: &[f64],
        rows: usize,
        columns: usize,
        monitor: &Monitor,
    ) -> Result<Points> {
        self.cpu.prepare(metric, values, rows, columns, monitor)
    }

    fn search(&self, space: Space<'_>, monitor: &Monitor, task: &mut Task<'_>) -> Result<()> {
        let (smallest, memory) = (self.smallest_search, self.memory);
        let searched = self.cpu.install(|| {
            match CudaNeighbours::new(&self.devices, space, smallest, memory, monitor)? {
                Some(mut neighbours) => task(&mut neighbours),
                None => task(&mut CpuNeighbours::new(space, monitor)?),
            }
        });
        self.forget_on_failure(searched)
    }

    fn link(
        &self,
        origin: Origin,
        recurrence: Recurrence,
        sizes: Vec<f64>,
        monitor: &Monitor,
    ) -> Result<Vec<Merge>> {
        if !dissimilarities::fits(recurrence.linkage) || sizes.len() < self.smallest_linkage {
            return self.cpu.link_with(self, origin, recurrence, sizes, monitor);
        }
        let device = &self.devices[0];
        self.forget_on_failure(dissimilarities::merges(
            device, origin, recurrence, sizes, self, &self.cpu, monitor,
        ))
    }

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
        self.forget_on_failure(distances::distances(
            device, points, pairs, out, &self.cpu, monitor,
        ))
    }

    fn kmeans(
        &self,
        x: &Matrix,
        start: Start,
        iterations: usize,
        monitor: &Monitor,
    ) -> Result<Assigned> {
        let device = &self.devices[0];
        let centers = start.centers(x.columns());
        let cluster = || {
            if x.values().len().saturating_mul(centers) < self.smallest_kmeans {
                self.cpu.kmeans(x, start, iterations, monitor)
            } else if kmeans::fits(device, x, centers)? {
                kmeans::kmeans(device, x, start, iterations, monitor)
            } else {
                let iterate = || iterate(x, start, iterations, self, monitor);
                self.cpu.install(iterate)
            }
        };
        self.forget_on_failure(cluster())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linkage::lance_williams::Linkage;

    #[test]
    fn memory_is_a_number_of_bytes() {
        assert_eq!(parse_memory(""), Ok(None));
        assert_eq!(parse_memory("2e9"), Ok(Some(2_000_000_000)));
        assert_eq!(parse_memory("1048576"), Ok(Some(1 << 20)));
        for wrong in ["2 GB", "0", "-1", "NaN", "inf"] {
            let error = parse_memory(wrong).unwrap_err().to_string();
            assert!(error.contains(wrong), "{error}");
        }
    }

    #[test]
    fn a_gpu_profits_from_large_problems_many_small_ones_many_pairs_and_large_matrices() {
        let work = |largest, small, observations| Workload::Agglomeration {
            largest,
            small,
            observations,
        };
        assert!(profits(&work(20_000, 0, 0), 4));
        assert!(!profits(&work(5_000, 0, 0), 4));
        assert!(profits(&work(1_000, 16, 16_000), 4));
        assert!(!profits(&work(1_000, 15, 16_000), 4));
        assert!(!profits(&work(100, 100, 10_000), 4));
        let pairs = |count, columns| Workload::Pairs { count, columns };
        assert!(profits(&pairs(1 << 27, 128), 2));
        assert!(!profits(&pairs(1 << 27, 128), 16));
        let matrix = |linkage, observations, columns| Workload::Linkage {
            linkage,
            observations,
            columns,
        };
        assert!(profits(&matrix(Linkage::Average, 5_000, None), 16));
        assert!(profits(&matrix(Linkage::Average, 5_000, Some(2)), 16));
        assert!(!profits(&matrix(Linkage::WardD, 4_000, Some(2)), 2));
        assert!(!profits(&matrix(Linkage::Median, 60_000, None), 1));
        assert!(!profits(&matrix(Linkage::Single, 60_000, None), 1));
        assert!(profits(&matrix(Linkage::Median, 60_000, Some(10)), 2));
        assert!(!profits(&matrix(Linkage::Median, 5_000, Some(10)), 2));
    }
}
