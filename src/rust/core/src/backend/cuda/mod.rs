//! NVIDIA GPUs: the screens of large problems are there, everything that decides is on the CPU.

mod device;
mod screen;

use std::sync::Arc;

use device::Device;
pub use device::{devices, DeviceInfo};
use screen::CudaScreen;

use super::cpu::{Cpu, CpuScreen};
use super::neighbours::Space;
use super::screen::Screen;
use super::{Backend, Merge, Task};
use crate::distances::Pairs;
use crate::error::{Error, Result};
use crate::mahalanobis::{agglomerate, Problem};
use crate::metric::{Metric, Points};
use crate::monitor::Monitor;

/// With fewer clusters than this, a problem is done, or goes on, on the CPU.
const SMALLEST: usize = 8_192;

/// From this many clusters on, a GPU is faster than `threads` threads of a CPU: measured with an
/// H200, from about 9,000 clusters in 14 dimensions with 2 threads and 25,000 with 16
/// (inst/benchmarks/gmhclust.R, row `crossover`).
pub fn crossover(threads: usize) -> usize {
    SMALLEST + 1_000 * threads
}

/// One or more CUDA devices.
pub struct Cuda {
    devices: Vec<Arc<Device>>,
    cpu: Cpu,
    /// With fewer clusters than this, a problem is done, or goes on, on the CPU.
    smallest: usize,
}

impl Cuda {
    /// With these devices (all that can be used where `None`), and `threads` threads for what the
    /// CPU does.
    ///
    /// # Errors
    /// `Error::Device` where one cannot be used, or none is there.
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
        })
    }

    /// Has problems of any size on the device, for tests.
    pub fn without_crossover(mut self) -> Self {
        self.smallest = 0;
        self
    }

    fn screen(&self, which: usize, problem: &Problem, live: usize) -> Result<Box<dyn Screen>> {
        let frame = agglomerate::frame(problem);
        let dimensions = frame.dimensions();
        if live < self.smallest || dimensions > screen::MOST_DIMENSIONS {
            return Ok(Box::new(CpuScreen::new(problem.clusters(), frame)));
        }
        let device = &self.devices[which % self.devices.len()];
        let screen = CudaScreen::new(device, problem.clusters(), live, self.smallest, frame)?;
        Ok(Box::new(screen))
    }
}

impl Backend for Cuda {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn agglomerate(&self, problems: &[Problem<'_>], monitor: &Monitor) -> Result<Vec<Vec<Merge>>> {
        let merges = self
            .cpu
            .agglomerate_on(problems, monitor, |which, problem, live| {
                self.screen(which, problem, live)
            });
        if let Err(Error::Device(_)) = merges {
            self.devices.iter().for_each(|device| device.forget());
        }
        merges
    }

    fn prepare(
        &self,
        metric: Metric,
        values: &[f64],
        rows: usize,
        columns: usize,
    ) -> Result<Points> {
        self.cpu.prepare(metric, values, rows, columns)
    }

    fn search(&self, space: Space<'_>, monitor: &Monitor, task: &mut Task<'_>) -> Result<()> {
        self.cpu.search(space, monitor, task)
    }

    fn distances(
        &self,
        points: &Points,
        pairs: &Pairs,
        out: &mut [f64],
        monitor: &Monitor,
    ) -> Result<()> {
        self.cpu.distances(points, pairs, out, monitor)
    }
}
