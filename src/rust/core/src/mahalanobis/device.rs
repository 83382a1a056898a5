//! The needs of agglomeration, for a device to meet.

use super::problem::{BoundingBox, Problem};
use super::screen::cpu::CpuScreen;
use super::screen::{ClusterFrame, Screen};
use crate::cpu::{Cpu, Device};
use crate::error::Result;
use crate::merge::Merge;
use crate::monitor::Monitor;

/// A device that has screens, and may merge small problems as a whole.
pub trait AgglomerationDevice: Device {
    /// An empty screen for the `number`-th problem, of which `active` clusters are left; that of
    /// the CPU by default.
    ///
    /// # Errors
    /// `Error::Memory` where the device has too little, `Error::Device` where it fails.
    fn screen(
        &self,
        _number: usize,
        problem: &Problem,
        _active: usize,
        frame: ClusterFrame,
    ) -> Result<Box<dyn Screen>> {
        Ok(Box::new(CpuScreen::new(problem.clusters(), frame)))
    }

    /// The merges of the `number`-th problem, all made on the device; `None` where it is better
    /// done with a screen.
    ///
    /// # Errors
    /// `Error::Interrupt` when the monitor says stop, `Error::Memory` where the device has too
    /// little, `Error::Device` where it fails.
    fn grow(
        &self,
        _number: usize,
        _problem: &Problem,
        _bounding_box: &BoundingBox,
        _monitor: &Monitor,
    ) -> Result<Option<Vec<Merge>>> {
        Ok(None)
    }

    /// The part of the device that merges whole problems, if it has one.
    fn whole_problems(&self) -> Option<&dyn WholeProblems> {
        None
    }
}

/// A device that makes all merges of a problem by itself, of many problems at a time, while the CPU
/// works on others.
pub trait WholeProblems: Sync {
    /// Which problems the device should merge as a whole, and which the CPU should.
    ///
    /// # Errors
    /// `Error::Interrupt` when the monitor says stop, `Error::Memory`.
    fn divide(&self, problems: &[Problem<'_>], monitor: &Monitor) -> Result<Division>;

    /// Prepares these problems on the CPU's threads, before they work on others. The value makes
    /// the merges of each, in order.
    ///
    /// # Errors
    /// `Error::Interrupt` when the monitor says stop, `Error::Memory` where the device has too
    /// little, `Error::Device` where it fails: these of the value, too.
    fn prepare<'a>(
        &'a self,
        problems: Vec<&'a Problem<'a>>,
        monitor: &'a Monitor,
    ) -> Result<MergesOfEach<'a>>;
}

/// The numbers of problems that are merged in different ways.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Division {
    /// Those that a device merges as a whole.
    pub whole: Vec<usize>,
    /// Those that the CPU merges alone meanwhile.
    pub on_cpu: Vec<usize>,
}

/// Makes the merges of each of several problems.
pub type MergesOfEach<'a> = Box<dyn FnOnce() -> Result<Vec<Vec<Merge>>> + Send + 'a>;

impl AgglomerationDevice for Cpu {}
