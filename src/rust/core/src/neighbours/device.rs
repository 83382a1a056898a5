//! What searches ask of a device.

use super::request::{Nearest, Request};
use super::space::Space;
use crate::cpu::Device;
use crate::error::Result;
use crate::monitor::Monitor;

/// A device that searches for nearest references.
pub trait NeighbourDevice: Device {
    /// The references of `space`, to be searched on the threads of [`Device::cpu`].
    ///
    /// # Errors
    /// `Error::Interrupt` when the monitor says stop, `Error::Memory` and `Error::Device` as the
    /// device has it.
    fn references<'a>(
        &'a self,
        space: Space<'a>,
        monitor: &'a Monitor,
    ) -> Result<Box<dyn Neighbours + 'a>>;
}

/// What is done with the answers for one block of queries after the other.
pub type Take<'a> = dyn FnMut(&Nearest) -> Result<()> + Send + 'a;

/// References on a device, and queries to them.
pub trait Neighbours: Send {
    /// Answers a request.
    ///
    /// # Errors
    /// `Error::Interrupt` when the monitor says stop, `Error::Memory` and `Error::Device` as the
    /// device has it.
    fn nearest(&mut self, request: &Request<'_>) -> Result<Nearest>;

    /// Answers a request block by block: `take` gets the answers for the first so many queries, then
    /// those for the next, and so on. For requests of any size.
    ///
    /// # Errors
    /// As [`Neighbours::nearest`], and what `take` returns.
    fn nearest_in_blocks(&mut self, request: &Request<'_>, take: &mut Take<'_>) -> Result<()> {
        let count = request.queries.len();
        let size = self.batch();
        for start in (0..count).step_by(size) {
            take(&self.nearest(&request.part(start..(start + size).min(count)))?)?;
        }
        Ok(())
    }

    /// The distances that decide, of queries and references.
    fn distances(&mut self, pairs: &[(u32, u32)]) -> Result<Vec<f64>>;

    /// Merges two of [`Space::Clusters`] to one in the lower slot; the higher slot is empty from
    /// then on, and neither a query nor a reference.
    fn merge(&mut self, lower: u32, higher: u32) -> Result<()>;

    /// How many queries at a time keep the devices busy for a fraction of a second.
    fn batch(&self) -> usize;
}
