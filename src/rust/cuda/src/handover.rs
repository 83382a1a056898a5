//! The sizes at which the CPU takes over from a GPU.

#[cfg(doc)]
use crate::policy;

/// Sizes below which the CPU does a part of the work, or takes over in the middle of it: figures of
/// the [`policy`] by their names there, for some number of threads. With 0 the GPUs do all that
/// they can.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Handover {
    pub screen_clusters: usize,
    pub tree_clusters: usize,
    pub full_tree_clusters: usize,
    /// In data of few columns and of more, see [`policy::FULL_TREE_MEMBERS_THREADS`].
    pub full_tree_members: usize,
    pub full_tree_members_of_many_columns: usize,
    /// Problems that fit in a thread block each: with fewer, they are merged like large ones.
    pub block_problems: usize,
    pub request_coordinates: usize,
    pub matrix_observations: usize,
    pub chain_clusters: usize,
    pub kmeans_coordinates: usize,
    pub kmeans_coordinates_per_device: usize,
}
