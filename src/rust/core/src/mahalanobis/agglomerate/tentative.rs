//! Tentative merges: unions of two clusters that are made before their turn comes.

use super::active::{ActiveClusters, NO_BIRTH};
use super::candidates::Candidates;
use crate::mahalanobis::clusters::{MergedCluster, Part};
use crate::mahalanobis::screen::ClusterView;

/// The union of two clusters, made before its turn comes. It stays valid while the slots of both
/// clusters have these births.
#[derive(Debug)]
pub struct TentativeMerge {
    pub pair: (u32, u32),
    pub births: (u32, u32),
    pub merged: MergedCluster,
    pub view: ClusterView,
}

/// A tentative merge and the candidates of its union.
#[derive(Debug)]
pub struct PreparedMerge {
    pub tentative: TentativeMerge,
    pub candidates: Candidates,
    /// All candidates have births below this one.
    pub as_of: u32,
    /// The probable next merge of the union.
    pub successor: Option<Box<PreparedMerge>>,
}

impl TentativeMerge {
    /// The tentative merge of two active clusters.
    pub fn new(active: &ActiveClusters, pair: (u32, u32)) -> Self {
        let parts = (active.clusters.part(pair.0), active.clusters.part(pair.1));
        Self::of_parts(active, pair, active.births_of(pair), parts)
    }

    /// The tentative merge of this union with another slot's cluster. The union's birth is
    /// [`NO_BIRTH`]. Returns `None` if the union lacks the moments that the merge needs.
    pub fn with_next(&self, active: &ActiveClusters, partner: u32) -> Option<Self> {
        let (part, other) = (self.merged.part(), active.clusters.part(partner));
        if active.clusters.lacks_moments(part, other, &active.rule) {
            return None;
        }
        let slot = self.pair.0;
        let birth = active.births[partner as usize];
        Some(if slot < partner {
            Self::of_parts(active, (slot, partner), (NO_BIRTH, birth), (part, other))
        } else {
            Self::of_parts(active, (partner, slot), (birth, NO_BIRTH), (other, part))
        })
    }

    /// Sets the birth of the union from which [`with_next`](Self::with_next) made this merge.
    pub fn set_union_birth(&mut self, birth: u32) {
        if self.births.0 == NO_BIRTH {
            self.births.0 = birth;
        } else {
            self.births.1 = birth;
        }
    }

    /// The tentative merge of two clusters in the lower and the higher slot. They may not be active
    /// yet.
    fn of_parts(
        active: &ActiveClusters,
        pair: (u32, u32),
        births: (u32, u32),
        (lower, higher): (Part, Part),
    ) -> Self {
        let merged = active.clusters.merged(lower, higher, &active.rule);
        let view = active.frame.view(&merged.profile());
        Self {
            pair,
            births,
            merged,
            view,
        }
    }
}
