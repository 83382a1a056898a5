//! The trait of a device that holds the dissimilarities of all clusters, for
//! [`reciprocal`](super::reciprocal).
//!
//! Clusters are named by slots 0, 1, …. Merging uses few pairs only: the nearest clusters of each
//! cluster, which the device finds in a pass over all dissimilarities, and single entries. From
//! time to time, the device contracts the matrix: it replaces merged clusters by their unions.
//! Clusters then get new slots, in the order of their lowest old slots.

use std::cmp::Ordering;

use super::lance_williams::{MergedPair, Recurrence};
use crate::error::Result;
use crate::merge::Merge;
use crate::monitor::Monitor;

/// Number of nearest clusters that a device finds for each cluster. A larger number makes passes
/// rarer and slower. Only the time depends on it.
pub const NEAREST: usize = 24;

/// A cluster and its dissimilarity to another cluster. Ordered by dissimilarity, then by slot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Neighbour {
    pub dissimilarity: f64,
    pub slot: u32,
}

impl Eq for Neighbour {}

impl PartialOrd for Neighbour {
    #[inline(always)]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Neighbour {
    /// Dissimilarities are never NaN, and 0 equals −0.
    #[inline(always)]
    fn cmp(&self, other: &Self) -> Ordering {
        let nearer = self.dissimilarity.partial_cmp(&other.dissimilarity);
        nearer
            .unwrap_or(Ordering::Equal)
            .then(self.slot.cmp(&other.slot))
    }
}

/// For each of some clusters, its [`NEAREST`] nearest clusters, or all others if there are fewer;
/// nearest first.
#[derive(Debug, Clone, PartialEq)]
pub struct NearestClusters {
    neighbours: Vec<Neighbour>,
    each: usize,
}

impl NearestClusters {
    /// Number of neighbours of each of `clusters` clusters.
    pub fn of_each(clusters: usize) -> usize {
        NEAREST.min(clusters.saturating_sub(1))
    }

    /// The lists of `each` neighbours of the first cluster, then of the next, ….
    pub fn new(neighbours: Vec<Neighbour>, each: usize) -> Self {
        Self { neighbours, each }
    }

    /// The neighbours of each cluster.
    pub fn iter(&self) -> impl Iterator<Item = &[Neighbour]> {
        self.neighbours.chunks_exact(self.each)
    }
}

/// A merge between two passes. The slots are those after the last pass; the union takes the lower.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ContractedMerge {
    pub lower: u32,
    pub higher: u32,
    pub pair: MergedPair,
}

/// The merges since the last pass, in order.
///
/// The dissimilarity of two unions is defined recursively: the later union is split into its parts,
/// and its dissimilarity is updated from the parts' dissimilarities to the other union.
#[derive(Debug, Clone, Copy)]
pub struct Contraction<'a> {
    pub recurrence: Recurrence,
    /// By slot: the sizes of the clusters after the last pass.
    pub sizes: &'a [f64],
    pub merges: &'a [ContractedMerge],
}

/// The dissimilarities of all clusters, in some device's memory.
pub trait Dissimilarities: Send {
    /// The nearest clusters of each cluster.
    ///
    /// # Errors
    /// `Error::Input` if a dissimilarity cannot be used; `Error::Interrupt` when the monitor says
    /// stop, `Error::Memory` and `Error::Device` from the device.
    fn nearest(&mut self, monitor: &Monitor) -> Result<NearestClusters>;

    /// The dissimilarities of some pairs of a lower and a higher slot.
    ///
    /// # Errors
    /// As [`Dissimilarities::nearest`].
    fn entries(&self, pairs: &[(u32, u32)]) -> Result<Vec<f64>>;

    /// Replaces merged clusters by their unions. Returns the nearest clusters of the `wanted` new
    /// slots, which are in increasing order.
    ///
    /// # Errors
    /// As [`Dissimilarities::nearest`].
    fn contract(
        &mut self,
        contraction: &Contraction,
        wanted: &[u32],
        monitor: &Monitor,
    ) -> Result<NearestClusters>;

    /// Merges all clusters to one, one pair after the other ([`crate::linkage::chain`]), for the
    /// case that few reciprocal pairs are known. Called after a contraction, as the last operation.
    ///
    /// # Errors
    /// As [`Dissimilarities::nearest`].
    fn chain(
        &mut self,
        recurrence: Recurrence,
        sizes: &[f64],
        monitor: &Monitor,
    ) -> Result<Vec<Merge>>;
}
