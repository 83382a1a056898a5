//! k-means on the CPU.

use super::device::{Assigned, KMeansDevice, Start};
use super::frame::Frame;
use super::lloyd;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::lazy_rows::LazyRows;
use crate::monitor::Monitor;

impl KMeansDevice for Cpu {
    fn iterate(
        &self,
        x: &LazyRows,
        start: Start,
        iterations: usize,
        frame: &Frame,
        monitor: &Monitor,
    ) -> Result<Assigned> {
        let x = x.rows(self)?;
        self.install(|| lloyd::iterate(x, start, iterations, frame, monitor))
    }
}
