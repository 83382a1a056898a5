//! k-means on the CPU.

use super::device::{Assigned, KMeansDevice, Start};
use super::frame::Frame;
use super::lloyd;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::monitor::Monitor;
use crate::observations::Observations;

impl KMeansDevice for Cpu {
    fn iterate(
        &self,
        x: &Observations,
        start: Start,
        iterations: usize,
        frame: &Frame,
        monitor: &Monitor,
    ) -> Result<Assigned> {
        self.install(|| lloyd::iterate(x, start, iterations, frame, monitor))
    }
}
