//! What an algorithm asks of a device, and the choice of the device.

pub mod cpu;

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

/// The backend that the user asked for: `"auto"`, `"cpu"` or `"cuda"`; the CPU's works on
/// `threads` threads.
///
/// # Errors
/// `Error::Device` for `"cuda"` where no device can be used, `Error::Input` for another word.
pub fn select(choice: &str, threads: usize) -> Result<Box<dyn Backend>> {
    match choice {
        "auto" | "cpu" => Ok(Box::new(cpu::Cpu::new(threads)?)),
        "cuda" => Err(Error::Device(
            "`backend` is \"cuda\", but this machine has no CUDA device that can be used; \
             \"auto\" and \"cpu\" need none"
                .into(),
        )),
        other => Err(Error::Input(format!(
            "`backend` is \"{other}\", it needs to be \"auto\", \"cpu\" or \"cuda\""
        ))),
    }
}
