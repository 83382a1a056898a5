//! What an algorithm asks of a device, and the choice of the device.

pub mod cpu;
pub mod cuda;
pub mod screen;

use crate::error::{Error, Result};
use crate::mahalanobis::Problem;
use crate::monitor::Monitor;

/// Two clusters, named by their slots, becoming one in the lower slot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Merge {
    pub lower: u32,
    pub higher: u32,
    pub height: f64,
}

/// A device. Every backend gives the same answers, bit for bit.
pub trait Backend: Send + Sync {
    /// As the user names it: `"cpu"` or `"cuda"`.
    fn name(&self) -> &'static str;

    /// Merges each problem's clusters to one; for each problem its merges in order.
    ///
    /// # Errors
    /// `Error::Interrupt` when the monitor says stop, `Error::Memory` and `Error::Device` as the
    /// device has it.
    fn agglomerate(&self, problems: &[Problem<'_>], monitor: &Monitor) -> Result<Vec<Vec<Merge>>>;
}

/// What the user chooses.
#[derive(Debug, Clone, Copy)]
pub struct Choice<'a> {
    /// `"auto"`, `"cpu"` or `"cuda"`.
    pub backend: &'a str,
    /// How many threads the CPU works with.
    pub threads: usize,
    /// Which CUDA devices, from 0; all that can be used where `None`.
    pub devices: Option<&'a [usize]>,
}

/// The backend that the user asked for, for a clustering that starts with `clusters` clusters (or
/// has apriori clusters as large). `"auto"` takes a GPU where there is one and the job is large
/// enough to profit.
///
/// # Errors
/// `Error::Device` for `"cuda"` where no device can be used, `Error::Input` for another word.
pub fn select(choice: &Choice, clusters: usize) -> Result<Box<dyn Backend>> {
    let cpu = || cpu::Cpu::new(choice.threads);
    match choice.backend {
        "cpu" => Ok(Box::new(cpu()?)),
        "cuda" => match cuda::Cuda::new(choice.devices, choice.threads) {
            Ok(cuda) => Ok(Box::new(cuda)),
            Err(Error::Device(reason)) => Err(Error::Device(format!(
                "`backend` is \"cuda\", but {reason}; \"cpu\" needs no device, and \"auto\" does \
                 without one"
            ))),
            Err(other) => Err(other),
        },
        "auto" if clusters < cuda::CROSSOVER => Ok(Box::new(cpu()?)),
        "auto" => match cuda::Cuda::new(choice.devices, choice.threads) {
            Ok(cuda) => Ok(Box::new(Fallback {
                first: cuda,
                second: cpu()?,
            })),
            Err(_) => Ok(Box::new(cpu()?)),
        },
        other => Err(Error::Input(format!(
            "`backend` is \"{other}\", it needs to be \"auto\", \"cpu\" or \"cuda\""
        ))),
    }
}

/// A backend that another stands in for when its device fails or is too small.
struct Fallback<A, B> {
    first: A,
    second: B,
}

impl<A: Backend, B: Backend> Backend for Fallback<A, B> {
    fn name(&self) -> &'static str {
        self.first.name()
    }

    fn agglomerate(&self, problems: &[Problem<'_>], monitor: &Monitor) -> Result<Vec<Vec<Merge>>> {
        match self.first.agglomerate(problems, monitor) {
            Err(Error::Device(_) | Error::Memory(_)) => self.second.agglomerate(problems, monitor),
            result => result,
        }
    }
}
