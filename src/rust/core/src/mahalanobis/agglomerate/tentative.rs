//! Tentative merges: the union of two clusters, made before its turn comes.

use super::active::ActiveClusters;
use crate::mahalanobis::clusters::{MergedCluster, Part};
use crate::mahalanobis::screen::ClusterView;

/// The union of two clusters, made before its turn comes. It stays valid while both have the same
/// births.
#[derive(Debug)]
pub struct TentativeMerge {
    pub pair: (u32, u32),
    pub births: (u32, u32),
    pub merged: MergedCluster,
    pub view: ClusterView,
}

impl TentativeMerge {
    /// Of two active clusters.
    pub fn new(active: &ActiveClusters, pair: (u32, u32)) -> Self {
        let parts = (active.clusters.part(pair.0), active.clusters.part(pair.1));
        Self::of_parts(active, pair, active.births_of(pair), parts)
    }

    /// Of two clusters that may not be active yet, in the lower and the higher slot.
    pub fn of_parts(
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
