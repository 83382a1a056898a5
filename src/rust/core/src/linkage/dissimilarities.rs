//! What linkage by rounds asks of a device that holds the dissimilarities of all clusters.
//!
//! Clusters are named by slots 0, 1, …. The rounds look at few pairs only: the nearest clusters of
//! each, which the device finds while all dissimilarities go by, and single entries. From time to
//! time the device replaces the clusters that have merged by what they became, which makes new
//! slots, in the order of the lowest old slot in each.

use std::cmp::Ordering;

use super::lance_williams::{Recurrence, Union};
use crate::error::Result;
use crate::merge::Merge;
use crate::monitor::Monitor;

/// How many of the nearest clusters of each a device finds.
pub const NEAREST: usize = 24;

/// One cluster as seen from another one. The order: the nearer first, then the lower slot.
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

/// The [`NEAREST`] nearest clusters of some, or all others where these are fewer; nearest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Nearest {
    neighbours: Vec<Neighbour>,
    each: usize,
}

impl Nearest {
    /// How many there are of each, of `clusters` clusters.
    pub fn of_each(clusters: usize) -> usize {
        NEAREST.min(clusters.saturating_sub(1))
    }

    /// From `each` of the first cluster, then as many of the next, ….
    pub fn new(neighbours: Vec<Neighbour>, each: usize) -> Self {
        Self { neighbours, each }
    }

    /// Those of the clusters, one after the other.
    pub fn iter(&self) -> impl Iterator<Item = &[Neighbour]> {
        self.neighbours.chunks_exact(self.each)
    }
}

/// Two clusters becoming one, which goes by the lower of their slots.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fusion {
    pub lower: u32,
    pub higher: u32,
    pub union: Union,
}

/// Fusions, in the order in which they came to be.
///
/// The dissimilarity of two new clusters is defined step by step: of the two, the one that came to
/// be later was made of clusters whose dissimilarities to the other one are taken first.
#[derive(Debug, Clone, Copy)]
pub struct Contraction<'a> {
    pub recurrence: Recurrence,
    /// The sizes of the clusters before, by slot.
    pub sizes: &'a [f64],
    pub fusions: &'a [Fusion],
}

/// The dissimilarities of all clusters, in some device's memory.
pub trait Dissimilarities: Send {
    /// The nearest clusters of each.
    ///
    /// # Errors
    /// `Error::Input` where a dissimilarity cannot be used; `Error::Interrupt` when the monitor
    /// says stop, `Error::Memory` and `Error::Device` as the device has it.
    fn nearest(&mut self, monitor: &Monitor) -> Result<Nearest>;

    /// Single dissimilarities, of a lower and a higher slot each.
    ///
    /// # Errors
    /// As [`Dissimilarities::nearest`].
    fn entries(&self, pairs: &[(u32, u32)]) -> Result<Vec<f64>>;

    /// Replaces what has merged by what it became; the nearest clusters of the `wanted` new slots,
    /// which are in increasing order.
    ///
    /// # Errors
    /// As [`Dissimilarities::nearest`].
    fn contract(
        &mut self,
        contraction: &Contraction,
        wanted: &[u32],
        monitor: &Monitor,
    ) -> Result<Nearest>;

    /// Merges all of the clusters to one, one pair after the other
    /// ([`crate::linkage::chain`]), for clusters that rounds make no good progress with. Only after
    /// a contraction, and the last that is asked for.
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
