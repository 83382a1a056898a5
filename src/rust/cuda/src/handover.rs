//! The sizes at which the CPU takes over from a GPU.

#[cfg(doc)]
use crate::policy;

/// Sizes below which the CPU does a part of the work, or takes over in the middle of it: the
/// figures of the [`policy`] of the same names, for some number of threads. With 0, the GPUs do all
/// work that they can.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Handover {
    pub tree_clusters: usize,
    pub full_tree_clusters: usize,
    /// For data of few columns; the next field is for data of more columns. See
    /// [`policy::FULL_TREE_MEMBERS_THREADS`].
    pub full_tree_members: usize,
    pub full_tree_members_of_many_columns: usize,
    /// Number of problems that fit in a thread block each. If there are fewer, they are merged like
    /// large problems.
    pub block_problems: usize,
    pub request_coordinates: usize,
    pub matrix_observations: usize,
    pub chain_clusters: usize,
    pub kmeans_coordinates: usize,
    pub kmeans_coordinates_per_device: usize,
    /// Where half precision takes over from single precision.
    pub kmeans_half_coordinates: usize,
    /// As [`policy::KMEANS_GROUPED_CENTERS`].
    pub kmeans_grouped_centers: usize,
    /// As [`policy::KMEANS_CODED_OBSERVATIONS`].
    pub kmeans_coded_observations: usize,
    /// As [`policy::KMEANS_CODED_CENTERS`].
    pub kmeans_coded_centers: usize,
    /// As [`policy::KMEANS_NEAR_CENTERS`].
    pub kmeans_near_centers: usize,
    /// As [`policy::KMEANS_NEAR_SHARE`]; with 0, near centers are compared however many they are.
    pub kmeans_near_share: usize,
}
