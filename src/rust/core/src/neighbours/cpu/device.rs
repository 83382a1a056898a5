//! The CPU as a device that searches for neighbours.

use super::searcher::CpuNeighbours;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::monitor::Monitor;
use crate::neighbours::device::{NeighbourDevice, Neighbours};
use crate::neighbours::space::Space;

impl NeighbourDevice for Cpu {
    fn references<'a>(
        &'a self,
        space: Space<'a>,
        monitor: &'a Monitor,
    ) -> Result<Box<dyn Neighbours + 'a>> {
        let references = self.install(|| CpuNeighbours::new(space, monitor))?;
        Ok(Box::new(references))
    }
}
