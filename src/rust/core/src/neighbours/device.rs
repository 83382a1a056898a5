//! The traits of devices that search for neighbours.

use super::cluster_means::{ClusterMeans, RemainingClusters};
use super::lists::NeighbourLists;
use super::request::NeighbourRequest;
use super::space::Space;
use crate::cpu::Device;
use crate::error::Result;
use crate::merge::Merge;
use crate::monitor::Monitor;

/// A device that searches for nearest references.
pub trait NeighbourDevice: Device {
    /// Prepares the references of `space` for searches on the threads of [`Device::cpu`].
    ///
    /// # Errors
    /// `Error::Interrupt` when the monitor says stop, `Error::Memory` and `Error::Device` from the
    /// device.
    fn references<'a>(
        &'a self,
        space: Space<'a>,
        monitor: &'a Monitor,
    ) -> Result<Box<dyn Neighbours + 'a>>;

    /// Whether [`merges_of_means`](Self::merges_of_means), which merges all reciprocal nearest
    /// neighbours at a time on the device, probably takes less time than searches among
    /// [references](Self::references), for this number of clusters and of columns.
    fn prefers_merges_of_means(&self, _clusters: usize, _columns: usize) -> bool {
        false
    }

    /// The merges that join the remaining clusters of a linkage to one, in any order in which parts
    /// come before their unions; the other way to them are searches among
    /// [references](Self::references). A union has the lower number of its parts. The caller has
    /// told the monitor to expect a unit for each merge, and one for each cluster whose nearest
    /// cluster is not known.
    ///
    /// Returns `None` if the caller should find the merges by searches: if they take less time, if
    /// the device has too little memory, or if clusters tie.
    ///
    /// # Errors
    /// As [`NeighbourDevice::references`].
    fn merges_of_means(
        &self,
        _clusters: &RemainingClusters<'_>,
        _monitor: &Monitor,
    ) -> Result<Option<Vec<Merge>>> {
        Ok(None)
    }
}

/// A function that receives the answers block by block.
pub type BlockSink<'a> = dyn FnMut(&NeighbourLists) -> Result<()> + Send + 'a;

/// Largest number of neighbours in the lists of a block of several queries, 32 bytes each while the
/// lists are copied. A block of one query may have more. Only memory and speed depend on it.
pub const MOST_LISTED: usize = 1 << 21;

/// References on a device, ready for searches.
pub trait Neighbours: Send + Sync {
    /// Answers a request.
    ///
    /// # Errors
    /// `Error::Interrupt` when the monitor says stop, `Error::Memory` and `Error::Device` from the
    /// device.
    fn nearest(&mut self, request: &NeighbourRequest<'_>) -> Result<NeighbourLists>;

    /// Answers a request of any size block by block: `sink` receives the answers of the first block
    /// of queries, then of the next, and so on. A block has [`Neighbours::batch`] queries, or fewer
    /// if their lists would hold more than [`MOST_LISTED`] neighbours.
    ///
    /// # Errors
    /// As [`Neighbours::nearest`], and the errors of `sink`.
    fn nearest_in_blocks(
        &mut self,
        request: &NeighbourRequest<'_>,
        sink: &mut BlockSink<'_>,
    ) -> Result<()> {
        let count = request.queries.len();
        let most_lists = (MOST_LISTED / request.wanted.max(1)).max(1);
        let size = self.batch().min(most_lists);
        for start in (0..count).step_by(size) {
            sink(&self.nearest(&request.part(start..(start + size).min(count)))?)?;
        }
        Ok(())
    }

    /// Writes the exact distances of a query from these references to `distances`.
    fn distances(&self, query: u32, references: &[u32], distances: &mut [f64]);

    /// The clusters of [`Space::Clusters`].
    ///
    /// # Panics
    /// If these are points.
    fn clusters(&self) -> &ClusterMeans;

    /// Merges pairs of [`Space::Clusters`], which are sorted, each into the lower slot. The higher
    /// slot then is empty, and neither a query nor a reference. No slot may be in two pairs.
    ///
    /// # Errors
    /// As [`Neighbours::nearest`].
    fn merge(&mut self, pairs: &[(u32, u32)]) -> Result<()>;

    /// Number of queries that keep the device busy for a fraction of a second.
    fn batch(&self) -> usize;

    /// Smallest useful request: fewer queries take about as long. Only the time depends on it.
    fn least_batch(&self) -> usize {
        256
    }
}
