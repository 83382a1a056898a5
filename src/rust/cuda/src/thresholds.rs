//! The sizes at which another device or another algorithm does the work.

use crate::policy;

/// The thresholds of the [`policy`] with the same names, for some number of CPU threads: below or
/// above them the CPU does a part of the work, takes over in the middle of it, or another of
/// several algorithms of a GPU runs. If all are 0, the GPUs do all work that they can, by their
/// first algorithm, except for linkages by means.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GpuThresholds {
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
    pub large_block_problems: usize,
    pub request_coordinates: usize,
    pub sweeps_per_copy: usize,
    pub matrix_observations: usize,
    pub chain_clusters: usize,
    /// As [`policy::MEAN_LINKAGE_COORDINATES`]. With 0, linkages by means are made by searches.
    pub mean_linkage_coordinates: usize,
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
    /// As [`policy::KMEANS_NEAR_RATIO`]. With 0, any number of near centers is compared.
    pub kmeans_near_ratio: usize,
}

impl GpuThresholds {
    /// The figures of the [`policy`] for this number of CPU threads.
    pub fn by_policy(threads: usize) -> Self {
        let has_few_threads = threads < policy::FULL_TREE_MEMBERS_THREADS;
        Self {
            tree_clusters: policy::TREE_CLUSTERS.least,
            full_tree_clusters: policy::FULL_TREE_CLUSTERS.least,
            full_tree_members: policy::FULL_TREE_MEMBERS,
            full_tree_members_of_many_columns: if has_few_threads {
                policy::FULL_TREE_MEMBERS
            } else {
                usize::MAX
            },
            block_problems: policy::BLOCK_PROBLEMS_PER_THREAD * threads,
            block_chunk_observations: policy::BLOCK_CHUNK_OBSERVATIONS,
            large_block_problems: policy::LARGE_BLOCK_PROBLEMS,
            request_coordinates: policy::REQUEST_COORDINATES,
            sweeps_per_copy: policy::SWEEPS_PER_COPY,
            matrix_observations: policy::MATRIX_OBSERVATIONS,
            chain_clusters: policy::CHAIN_CLUSTERS,
            mean_linkage_coordinates: policy::MEAN_LINKAGE_COORDINATES,
            kmeans_coordinates: policy::KMEANS_COORDINATES,
            kmeans_coordinates_per_device: policy::KMEANS_COORDINATES_PER_DEVICE,
            kmeans_half_coordinates: policy::KMEANS_HALF_COORDINATES,
            kmeans_grouped_centers: policy::KMEANS_GROUPED_CENTERS,
            kmeans_coded_observations: policy::KMEANS_CODED_OBSERVATIONS,
            kmeans_coded_centers: policy::KMEANS_CODED_CENTERS,
            kmeans_near_centers: policy::KMEANS_NEAR_CENTERS,
            kmeans_near_ratio: policy::KMEANS_NEAR_RATIO,
        }
    }
}
