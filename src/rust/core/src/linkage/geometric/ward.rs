//! Ward's linkage of points.

use super::centred::centred;
use super::ward_merges::WardMerges;
use crate::dendrogram::Dendrogram;
use crate::error::Result;
use crate::linkage::tree::sorted_tree;
use crate::memory;
use crate::monitor::Monitor;
use crate::neighbours::{NeighbourDevice, Space};
use crate::observations::Observations;

/// Ward's linkage of the rows of `x`: the tree and the heights of R's `hclust(dist(x), "ward.D2")`,
/// √(2ab/(a+b)) times the distance of the centroids of two clusters with a and b members (Ward
/// 1963, doi:10.1080/01621459.1963.10500845). If pairs tie, the tree is one of several valid ones.
///
/// Takes O(n²p) time, mostly in the first search, and O(np) memory.
///
/// # Errors
/// `Error::Input` for values so large that powers of their distances overflow; otherwise the errors
/// of the device.
pub fn ward(
    x: &Observations,
    device: &(impl NeighbourDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Dendrogram> {
    let n = x.nrows();
    memory::check_working("Ward's linkage", n, 450 + 16 * x.ncols())?;
    let x = &centred(x)?;
    // The progress units are the queries of the first search, and the merges.
    monitor.expect(2 * n as u64 - 1);
    let merges = device.cpu().install(|| {
        let mut neighbours = device.references(Space::Clusters(x), monitor)?;
        let mut merges = WardMerges::new(x, &mut *neighbours, monitor)?;
        merges.merge_duplicates(x)?;
        merges.merge_all()?;
        Ok(merges.into_merges())
    })?;
    sorted_tree(n, merges)
}
