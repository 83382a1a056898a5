//! The device that a job runs on, and the CPU where that fails.
//!
//! [`Engine::new`] chooses the device, by the user's word and the [planner](Planner);
//! [`Engine::run`] hands it to the work, and the CPU after it where the user left the choice to the
//! package.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use gmhclust_core::distances::DistanceDevice;
use gmhclust_core::kmeans::KMeansDevice;
use gmhclust_core::linkage::LinkageDevice;
use gmhclust_core::mahalanobis::AgglomerationDevice;
use gmhclust_core::{Cpu, Error, Monitor, Result};
use gmhclust_cuda::Cuda;

use crate::planner::Planner;
use crate::workload::Workload;

/// A device for every algorithm.
pub trait AnyDevice: AgglomerationDevice + DistanceDevice + KMeansDevice + LinkageDevice {}

impl<D: AgglomerationDevice + DistanceDevice + KMeansDevice + LinkageDevice> AnyDevice for D {}

/// The user's choice.
#[derive(Debug, Clone)]
pub struct Choice {
    /// `"auto"`, `"cpu"` or `"cuda"`.
    pub backend: String,
    /// Number of threads of the CPU.
    pub threads: usize,
    /// The numbers of CUDA devices, from 0; all that can be used where `None`.
    pub devices: Option<Vec<usize>>,
}

/// A device, and perhaps another that stands in for it.
pub struct Engine {
    first: Arc<dyn AnyDevice>,
    second: Option<Arc<dyn AnyDevice>>,
    /// Whether the second had to stand in.
    first_failed: AtomicBool,
}

impl Engine {
    /// The device that the user asked for. `"auto"` takes a GPU where there is one and the work is
    /// large enough to profit, with the CPU behind it.
    ///
    /// # Errors
    /// `Error::Device` for `"cuda"` where no device can be used, `Error::Input` for another word
    /// and for what [`Cuda::new`] refuses.
    pub fn new(choice: &Choice, work: &Workload) -> Result<Self> {
        let planner = Planner::new(choice.threads);
        let cpu = || Cpu::new(choice.threads).map(Arc::new);
        // The GPU and the CPU that stands in for it share the threads.
        let gpu = |cpu: &Arc<Cpu>| match &choice.devices {
            None if !work.is_divisible() => Cuda::on_first(cpu.clone(), planner.handover()),
            chosen => Cuda::new(chosen.as_deref(), cpu.clone(), planner.handover()),
        };
        match choice.backend.as_str() {
            "cpu" => Ok(Self::on(cpu()?)),
            "cuda" => match gpu(&cpu()?) {
                Ok(gpu) => Ok(Self::on(Arc::new(gpu))),
                Err(Error::Device(reason)) => Err(Error::Device(format!(
                    "`backend` is \"cuda\", but {reason}; \"cpu\" needs no device, and \"auto\" \
                     does without one"
                ))),
                Err(other) => Err(other),
            },
            "auto" if !planner.prefers_gpu(work) => Ok(Self::on(cpu()?)),
            "auto" => {
                let cpu = cpu()?;
                match gpu(&cpu) {
                    Ok(gpu) => Ok(Self::on(Arc::new(gpu)).or(cpu)),
                    Err(error @ Error::Input(_)) => Err(error),
                    Err(_) => Ok(Self::on(cpu)),
                }
            }
            other => Err(Error::Input(format!(
                "`backend` is \"{other}\", it needs to be \"auto\", \"cpu\" or \"cuda\""
            ))),
        }
    }

    /// On a device alone.
    pub fn on(first: Arc<dyn AnyDevice>) -> Self {
        Self {
            first,
            second: None,
            first_failed: AtomicBool::new(false),
        }
    }

    /// The same with another device that stands in when the first fails or is too small.
    pub fn or(self, second: Arc<dyn AnyDevice>) -> Self {
        Self {
            second: Some(second),
            ..self
        }
    }

    /// The name of the device that did the work so far.
    pub fn name(&self) -> &'static str {
        self.present().name()
    }

    /// The threads of the CPU.
    pub fn cpu(&self) -> &Cpu {
        self.present().cpu()
    }

    fn present(&self) -> &dyn AnyDevice {
        match &self.second {
            Some(second) if self.first_failed.load(Ordering::Relaxed) => &**second,
            _ => &*self.first,
        }
    }

    /// Does some work on the device; where that has failed, or fails now, on the one that stands
    /// in. Work that may be done twice keeps what it has. The monitor learns of a device that
    /// fails, but not of one that is too small.
    ///
    /// # Errors
    /// What the work returns.
    pub fn run<T>(
        &self,
        monitor: &Monitor,
        mut work: impl FnMut(&dyn AnyDevice) -> Result<T>,
    ) -> Result<T> {
        let device = self.present();
        let done = work(device).inspect_err(|error| device.failed(error));
        let is_last = self.second.is_none() || self.first_failed.load(Ordering::Relaxed);
        match done {
            Err(error @ (Error::Device(_) | Error::Memory(_))) if !is_last => {
                self.first_failed.store(true, Ordering::Relaxed);
                if let Error::Device(reason) = error {
                    monitor.warn(format!("{reason}; the CPU did the rest of the work"));
                }
                work(self.present())
            }
            done => done,
        }
    }
}
