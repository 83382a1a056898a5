//! What the algorithms ask of a device, on one or more CUDA devices.

use std::cmp::Reverse;
use std::sync::Arc;

use gmhclust_core::distances::{DistanceDevice, Pairs};
use gmhclust_core::error::{Error, Result};
use gmhclust_core::kmeans::{lloyd, Assigned, KMeansDevice, Start};
use gmhclust_core::linkage::dissimilarities::Dissimilarities;
use gmhclust_core::linkage::{Linkage, LinkageDevice, Origin, Recurrence};
use gmhclust_core::mahalanobis::screen::cpu::CpuScreen;
use gmhclust_core::mahalanobis::screen::{ClusterFrame, Screen};
use gmhclust_core::mahalanobis::{AgglomerationDevice, Problem, WholeProblems};
use gmhclust_core::metric::Points;
use gmhclust_core::neighbours::cpu::CpuNeighbours;
use gmhclust_core::neighbours::{NeighbourDevice, Neighbours, Space};
use gmhclust_core::{Cpu, Matrix, Merge, Monitor};
use rayon::prelude::*;

use crate::budget::memory_from_environment;
use crate::device::{devices, Device};
use crate::join::join;
use crate::neighbours::CudaNeighbours;
use crate::screen::CudaScreen;
use crate::{blocks, dissimilarities, distances, kmeans, screen};

/// Sizes below which the CPU takes over from a device in the middle of the work. With 0 it never
/// does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Handover {
    /// Clusters that are left of a problem.
    pub clusters: usize,
    /// Pairs of coordinates in a request for neighbours.
    pub request: usize,
    /// Clusters that are left for a nearest-neighbour chain.
    pub chain: usize,
}

/// One or more CUDA devices, and the CPU's threads beside them.
pub struct Cuda {
    devices: Vec<Arc<Device>>,
    cpu: Cpu,
    handover: Handover,
    /// Bytes of a device's memory that a search for neighbours takes, at most.
    memory: Option<usize>,
    /// Whether problems that fit in a thread block are done there as a whole.
    in_blocks: bool,
}

impl Cuda {
    /// With these devices (all that can be used where `None`), and `threads` threads for what the
    /// CPU does.
    ///
    /// # Errors
    /// `Error::Device` where one cannot be used, or none is there; `Error::Input` where
    /// `GMHCLUST_DEVICE_MEMORY` is no number of bytes.
    pub fn new(chosen: Option<&[usize]>, threads: usize, handover: Handover) -> Result<Self> {
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
            handover,
            memory: memory_from_environment()?,
            in_blocks: true,
        })
    }

    /// Has no problem done as a whole in a thread block.
    pub fn without_blocks(mut self) -> Self {
        self.in_blocks = false;
        self
    }

    /// Has searches for neighbours take at most so many bytes of a device's memory.
    pub fn with_memory(mut self, bytes: usize) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Number of devices.
    pub fn devices(&self) -> usize {
        self.devices.len()
    }

    /// Has devices opened afresh at the next use where the result is that something failed on one.
    pub fn forget_on_failure<T>(&self, result: Result<T>) -> Result<T> {
        let devices = self.devices.iter();
        devices.fold(result, |result, device| device.forget_on_failure(result))
    }

    /// Whether a thread block can do each of these problems, and is not kept busy by ties.
    ///
    /// # Errors
    /// `Error::Interrupt` when the monitor says stop, `Error::Memory`.
    pub fn fit_in_blocks(&self, problems: &[Problem<'_>], monitor: &Monitor) -> Result<Vec<bool>> {
        let fits = |problem| Ok(blocks::fits(problem) && !blocks::is_tied(problem, monitor)?);
        self.cpu
            .install(|| problems.par_iter().map(fits).collect::<Result<_>>())
    }

    /// Whether a device can hold the dissimilarities for a linkage.
    pub fn can_link(&self, linkage: Linkage) -> bool {
        dissimilarities::fits(linkage)
    }
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

    fn whole_problems(&self) -> Option<&dyn WholeProblems> {
        if self.in_blocks {
            Some(self)
        } else {
            None
        }
    }
}

impl WholeProblems for Cuda {
    fn choose(&self, problems: &[Problem<'_>], monitor: &Monitor) -> Result<Vec<usize>> {
        let fit = self.fit_in_blocks(problems, monitor)?;
        Ok((0..problems.len()).filter(|&number| fit[number]).collect())
    }

    /// Deals the problems out to the devices, a thread block each.
    fn merge(&self, problems: &[&Problem<'_>], monitor: &Monitor) -> Result<Vec<Vec<Merge>>> {
        let mut order: Vec<usize> = (0..problems.len()).collect();
        order.sort_by_key(|&i| Reverse(problems[i].clusters()));
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
        let device = &self.devices[0];
        let chain = self.handover.chain;
        dissimilarities::dissimilarities(device, origin, n, recurrence, self, chain, monitor)
    }
}

impl KMeansDevice for Cuda {
    fn iterate(
        &self,
        x: &Matrix,
        start: Start,
        iterations: usize,
        monitor: &Monitor,
    ) -> Result<Assigned> {
        let device = &self.devices[0];
        if kmeans::fits(device, x, start.centers(x.columns()))? {
            return kmeans::kmeans(device, x, start, iterations, monitor);
        }
        self.cpu
            .install(|| lloyd::iterate(x, start, iterations, self, monitor))
    }
}
