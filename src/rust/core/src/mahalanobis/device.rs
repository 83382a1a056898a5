//! What agglomeration asks of a device.

use super::problem::Problem;
use super::screen::cpu::CpuScreen;
use super::screen::{Frame, Screen};
use crate::cpu::{Cpu, Device};
use crate::error::Result;
use crate::merge::Merge;
use crate::monitor::Monitor;

/// A device with screens for clusters, and perhaps one that merges small problems as a whole.
pub trait AgglomerationDevice: Device {
    /// An empty screen for the `number`-th problem, of which `live` clusters are left.
    ///
    /// # Errors
    /// `Error::Memory` and `Error::Device` as the device has it.
    fn screen(
        &self,
        number: usize,
        problem: &Problem,
        live: usize,
        frame: Frame,
    ) -> Result<Box<dyn Screen>>;

    /// What merges problems as a whole, where the device has it.
    fn whole_problems(&self) -> Option<&dyn WholeProblems> {
        None
    }
}

/// A device that merges problems from the first merge to the last by itself, many at a time, while
/// the CPU is at others.
pub trait WholeProblems: Sync {
    /// The numbers, in increasing order, of those problems that the device should merge.
    ///
    /// # Errors
    /// `Error::Interrupt` when the monitor says stop, `Error::Memory`.
    fn choose(&self, problems: &[Problem<'_>], monitor: &Monitor) -> Result<Vec<usize>>;

    /// The merges of each of these problems, in order.
    ///
    /// # Errors
    /// `Error::Interrupt` when the monitor says stop, `Error::Memory` and `Error::Device` as the
    /// device has it.
    fn merge(&self, problems: &[&Problem<'_>], monitor: &Monitor) -> Result<Vec<Vec<Merge>>>;
}

impl AgglomerationDevice for Cpu {
    fn screen(
        &self,
        _: usize,
        problem: &Problem,
        _: usize,
        frame: Frame,
    ) -> Result<Box<dyn Screen>> {
        Ok(Box::new(CpuScreen::new(problem.clusters(), frame)))
    }
}
