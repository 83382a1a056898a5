//! The sizes at which the CPU takes over from a GPU.

#[cfg(doc)]
use crate::policy;

/// Sizes below which the CPU does a part of the work, or takes over in the middle of the work. They
/// are the figures of the [`policy`] with the same names, for some number of threads. If all are 0,
/// the GPUs do all work that they can.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Handover {
    pub tree_clusters: usize,
    pub full_tree_clusters: usize,
    /// As [`policy::FULL_TREE_MEMBERS`], for data with few columns.
    pub full_tree_members: usize,
    /// As [`policy::FULL_TREE_MEMBERS`], for data with more columns. See
    /// [`policy::FULL_TREE_MEMBERS_THREADS`].
    pub full_tree_members_of_many_columns: usize,
    /// Smallest number of problems that thread blocks merge. If fewer problems fit in a block, they
    /// are merged like large problems.
    pub block_problems: usize,
    pub block_chunk_observations: usize,
    pub request_coordinates: usize,
    pub sweeps_per_copy: usize,
    pub matrix_observations: usize,
    pub chain_clusters: usize,
    pub kmeans_coordinates: usize,
    pub kmeans_coordinates_per_device: usize,
    /// As [`policy::KMEANS_HALF_COORDINATES`].
    pub kmeans_half_coordinates: usize,
    /// As [`policy::KMEANS_GROUPED_CENTERS`].
    pub kmeans_grouped_centers: usize,
    /// As [`policy::KMEANS_CODED_OBSERVATIONS`].
    pub kmeans_coded_observations: usize,
    /// As [`policy::KMEANS_CODED_CENTERS`].
    pub kmeans_coded_centers: usize,
    /// As [`policy::KMEANS_NEAR_CENTERS`].
    pub kmeans_near_centers: usize,
    /// As [`policy::KMEANS_NEAR_SHARE`]. With 0, any number of near centers is compared.
    pub kmeans_near_share: usize,
}
