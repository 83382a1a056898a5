//! Chooses the device for some work, and falls back to the CPU if the device fails.
//!
//! [`Engine::new`] chooses the device by the user's `backend` and the [planner](Planner).
//! [`Engine::run`] runs the work on the device. If the device fails under `backend = "auto"`, it
//! runs the work on the CPU.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use gmhclust_core::distances::DistanceDevice;
use gmhclust_core::kmeans::KMeansDevice;
use gmhclust_core::linkage::LinkageDevice;
use gmhclust_core::mahalanobis::AgglomerationDevice;
use gmhclust_core::neighbours::NeighbourDevice;
use gmhclust_core::{Cpu, Error, Monitor, Result};
use gmhclust_cuda::{Cuda, GpuThresholds};

use crate::planner::Planner;
use crate::workload::Workload;

/// A device for every algorithm.
pub trait AnyDevice:
    AgglomerationDevice + DistanceDevice + KMeansDevice + LinkageDevice + NeighbourDevice
{
}

impl<D> AnyDevice for D where
    D: AgglomerationDevice + DistanceDevice + KMeansDevice + LinkageDevice + NeighbourDevice
{
}

/// The user's choice of a device.
#[derive(Debug, Clone)]
pub struct BackendChoice {
    /// `"auto"`, `"cpu"` or `"cuda"`.
    pub backend: String,
    /// Number of threads of the CPU.
    pub threads: usize,
    /// The numbers of CUDA devices, from 0; `None` for all usable devices.
    pub devices: Option<Vec<usize>>,
}

/// A preferred device, and possibly another one to fall back to.
pub struct Engine {
    preferred: Arc<dyn AnyDevice>,
    fallback: Option<Arc<dyn AnyDevice>>,
    /// Whether the preferred device has failed, so that the engine uses the other one.
    preferred_failed: AtomicBool,
}

impl Engine {
    /// Opens the device that the user asked for. `"auto"` chooses a GPU if there is a usable GPU
    /// and the work is large enough, with the CPU to fall back to. Otherwise it chooses the CPU.
    ///
    /// # Errors
    /// `Error::Device` for `"cuda"` if no device can be used. `Error::Input` for an unknown
    /// `backend`, and for the input errors of [`Cuda::new`].
    pub fn new(choice: &BackendChoice, work: &Workload) -> Result<Self> {
        Self::with_cpu(choice, Arc::new(Cpu::new(choice.threads)?), work)
    }

    /// As [`Engine::new`], given the threads of the CPU.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn with_cpu(choice: &BackendChoice, cpu: Arc<Cpu>, work: &Workload) -> Result<Self> {
        let planner = Planner::new(cpu.threads());
        let thresholds = GpuThresholds::by_policy(cpu.threads());
        // The GPU and the CPU to fall back to share the threads.
        let gpu = || match &choice.devices {
            None if !work.is_divisible() => Cuda::on_first(cpu.clone(), thresholds),
            chosen => Cuda::new(chosen.as_deref(), cpu.clone(), thresholds),
        };
        match choice.backend.as_str() {
            "cpu" => Ok(Self::on(cpu)),
            "cuda" => match gpu() {
                Ok(gpu) => Ok(Self::on(Arc::new(gpu))),
                Err(Error::Device(reason)) => Err(Error::Device(format!(
                    "`backend` is \"cuda\", but {reason}; \"cpu\" needs no device, and \"auto\" \
                     does without one"
                ))),
                Err(other) => Err(other),
            },
            "auto" if !planner.prefers_gpu(work) => Ok(Self::on(cpu)),
            "auto" => match gpu() {
                Ok(gpu) => Ok(Self::on(Arc::new(gpu)).with_fallback(cpu)),
                Err(error @ Error::Input(_)) => Err(error),
                Err(_) => Ok(Self::on(cpu)),
            },
            other => Err(Error::Input(format!(
                "`backend` is \"{other}\"; it must be \"auto\", \"cpu\" or \"cuda\""
            ))),
        }
    }

    /// An engine with one device, and no device to fall back to.
    pub fn on(preferred: Arc<dyn AnyDevice>) -> Self {
        Self {
            preferred,
            fallback: None,
            preferred_failed: AtomicBool::new(false),
        }
    }

    /// This engine with a device to fall back to if the preferred device fails or has too
    /// little memory.
    pub fn with_fallback(self, fallback: Arc<dyn AnyDevice>) -> Self {
        Self {
            fallback: Some(fallback),
            ..self
        }
    }

    /// The name of the device that did the work so far.
    pub fn name(&self) -> &'static str {
        self.current_device().name()
    }

    /// The threads of the CPU.
    pub fn cpu(&self) -> &Cpu {
        self.current_device().cpu()
    }

    fn current_device(&self) -> &dyn AnyDevice {
        match &self.fallback {
            Some(fallback) if self.preferred_failed.load(Ordering::Relaxed) => &**fallback,
            _ => &*self.preferred,
        }
    }

    /// Does some work on the preferred device, or on the fallback if that has failed before.
    /// If the preferred device fails now, calls `work` again with the fallback. `work` has to keep
    /// its finished parts itself. Warns through `monitor` if the device failed, but not if it had
    /// too little memory.
    ///
    /// # Errors
    /// The errors of `work`.
    pub fn run<T>(
        &self,
        monitor: &Monitor,
        mut work: impl FnMut(&dyn AnyDevice) -> Result<T>,
    ) -> Result<T> {
        let device = self.current_device();
        let done = work(device).inspect_err(|error| device.failed(error));
        let is_last = self.fallback.is_none() || self.preferred_failed.load(Ordering::Relaxed);
        match done {
            Err(error @ (Error::Device(_) | Error::Memory(_))) if !is_last => {
                self.preferred_failed.store(true, Ordering::Relaxed);
                if let Error::Device(reason) = error {
                    monitor.warn(format!("{reason}; the CPU did the rest of the work"));
                }
                work(self.current_device())
            }
            done => done,
        }
    }
}
