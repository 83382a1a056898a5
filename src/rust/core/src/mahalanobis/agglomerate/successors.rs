//! Successors: tentative merges of unions that are tentative themselves, prepared with their candidates
//! on threads that would otherwise wait.

use super::active::{ActiveClusters, NEVER};
use super::agglomeration::PreparedMerge;
use super::lookahead::nearest_neighbour;
use super::tentative::TentativeMerge;

/// A prepared merge of the union of a pair.
#[derive(Debug)]
pub struct Successor {
    after: Parents,
    /// One of its births is [`NEVER`] until the pair is merged.
    pub prepared: PreparedMerge,
}

/// The clusters of a tentative merge: slots and births.
#[derive(Debug, Clone, Copy)]
struct Parents {
    pair: (u32, u32),
    births: (u32, u32),
}

/// A tentative merge of the union of a pair.
#[derive(Debug)]
pub struct TentativeSuccessor {
    after: Parents,
    pub tentative: TentativeMerge,
}

impl TentativeSuccessor {
    /// The slots of all three clusters, in increasing order.
    pub fn slots(&self) -> [u32; 3] {
        let (pair, next) = (self.after.pair, self.tentative.pair);
        let third = if next.0 == pair.0 { next.1 } else { next.0 };
        let mut slots = [pair.0, pair.1, third];
        slots.sort_unstable();
        slots
    }

    /// With the preparation of its tentative merge.
    pub fn prepared(self, prepare: impl FnOnce(TentativeMerge) -> PreparedMerge) -> Successor {
        Successor {
            after: self.after,
            prepared: prepare(self.tentative),
        }
    }
}

/// The probable successors of tentative merges in the order of their `heights`: those below the last
/// height, with a neighbour that is not merged before.
pub fn tentative_successors(
    active: &ActiveClusters,
    merges: &[TentativeMerge],
    heights: &[f64],
) -> Vec<TentativeSuccessor> {
    let last = heights[heights.len() - 1];
    let is_merged_before = |slot: u32, distance: f64| {
        let mut earlier = merges.iter().zip(heights);
        earlier.any(|(other, &height)| {
            height <= distance && (other.pair.0 == slot || other.pair.1 == slot)
        })
    };
    let successor = |merge: &TentativeMerge| {
        let (distance, partner) = nearest_neighbour(active, merge)?;
        if distance > last || is_merged_before(partner, distance) {
            return None;
        }
        Some(TentativeSuccessor {
            after: Parents {
                pair: merge.pair,
                births: merge.births,
            },
            tentative: merge.with_next(active, partner)?,
        })
    };
    merges.iter().filter_map(successor).collect()
}

impl Successor {
    /// Whether its clusters are still those that it was made of.
    pub fn is_valid(&self, active: &ActiveClusters) -> bool {
        let Parents { pair, births } = self.after;
        let tentative = &self.prepared.tentative;
        let is_active = |slot: u32, birth: u32| birth == NEVER || active.is_active(slot, birth);
        active.births_of(pair) == births
            && is_active(tentative.pair.0, tentative.births.0)
            && is_active(tentative.pair.1, tentative.births.1)
    }

    /// Whether it is the successor of a merge of clusters of these births.
    pub fn is_after(&self, parents: (u32, u32)) -> bool {
        self.after.births == parents
    }

    /// The preparation, now that the pair was merged to a cluster of this `birth`.
    pub fn after_merge(self, birth: u32) -> PreparedMerge {
        let mut prepared = self.prepared;
        prepared.tentative.learn_of_birth(birth);
        prepared
    }
}
