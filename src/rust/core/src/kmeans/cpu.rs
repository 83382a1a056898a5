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
        monitor: &Monitor,
    ) -> Result<Assigned> {
        let rows = x.rows(self)?;
        let frame = Frame::of(x, &start, self)?;
        self.install(|| lloyd::iterate(rows, start, iterations, &frame, monitor))
    }
}
