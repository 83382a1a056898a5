//! The planner: decides whether a GPU or the CPU does a job, by the figures of the [`policy`].

use gmhclust_core::mahalanobis::Distance;
use gmhclust_cuda::{policy, Handover, MOST_TREE_CLUSTERS, MOST_TREE_COLUMNS};

use crate::workload::Workload;

/// The policy for a number of CPU threads.
#[derive(Debug, Clone, Copy)]
pub struct Planner {
    threads: usize,
}

impl Planner {
    /// The policy for this number of CPU threads.
    pub fn new(threads: usize) -> Self {
        Self { threads }
    }

    /// Whether a GPU does the job faster: one large problem, many small ones that together are as
    /// large, many pairs, or a large matrix.
    pub fn prefers_gpu(&self, work: &Workload) -> bool {
        match *work {
            Workload::Agglomeration {
                sizes,
                columns,
                distance,
            } => {
                let one = match distance {
                    Distance::Centroid => policy::TREE_CLUSTERS,
                    Distance::FullMahalanobis => policy::FULL_TREE_CLUSTERS,
                };
                let has_tree = columns <= MOST_TREE_COLUMNS && sizes.largest <= MOST_TREE_CLUSTERS;
                has_tree && sizes.largest >= one.beside(self.threads)
                    || sizes.apriori_clusters >= policy::BLOCK_PROBLEMS_PER_THREAD * self.threads
                        && sizes.observations >= policy::BLOCK_OBSERVATIONS.beside(self.threads)
            }
            Workload::Pairs { count, columns } => {
                count.saturating_mul(columns) >= policy::PAIR_COORDINATES_PER_THREAD * self.threads
            }
            Workload::Linkage {
                linkage,
                observations,
                columns,
            } => match columns {
                _ if linkage.merges_reciprocal_pairs() => {
                    observations >= policy::MATRIX_OBSERVATIONS
                }
                // The GPU only computes the distances.
                Some(columns) => {
                    let count = observations.saturating_mul(observations);
                    self.prefers_gpu(&Workload::Pairs { count, columns })
                }
                None => false,
            },
        }
    }

    /// The sizes of work below which the CPU takes over from a GPU.
    pub fn handover(&self) -> Handover {
        let has_few_threads = self.threads < policy::FULL_TREE_MEMBERS_THREADS;
        Handover {
            tree_clusters: policy::TREE_CLUSTERS.least,
            full_tree_clusters: policy::FULL_TREE_CLUSTERS.least,
            full_tree_members: policy::FULL_TREE_MEMBERS,
            full_tree_members_of_many_columns: if has_few_threads {
                policy::FULL_TREE_MEMBERS
            } else {
                usize::MAX
            },
            block_problems: policy::BLOCK_PROBLEMS_PER_THREAD * self.threads,
            block_chunk_observations: policy::BLOCK_CHUNK_OBSERVATIONS,
            request_coordinates: policy::REQUEST_COORDINATES,
            sweeps_per_copy: policy::SWEEPS_PER_COPY,
            matrix_observations: policy::MATRIX_OBSERVATIONS,
            chain_clusters: policy::CHAIN_CLUSTERS,
            kmeans_coordinates: policy::KMEANS_COORDINATES,
            kmeans_coordinates_per_device: policy::KMEANS_COORDINATES_PER_DEVICE,
            kmeans_half_coordinates: policy::KMEANS_HALF_COORDINATES,
            kmeans_grouped_centers: policy::KMEANS_GROUPED_CENTERS,
            kmeans_coded_observations: policy::KMEANS_CODED_OBSERVATIONS,
            kmeans_coded_centers: policy::KMEANS_CODED_CENTERS,
            kmeans_near_centers: policy::KMEANS_NEAR_CENTERS,
            kmeans_near_share: policy::KMEANS_NEAR_SHARE,
        }
    }
}

#[cfg(test)]
mod tests {
    use gmhclust_core::linkage::Linkage;
    use gmhclust_core::mahalanobis::ProblemSizes;

    use super::*;

    #[test]
    fn a_gpu_is_preferred_for_large_problems_many_small_ones_many_pairs_and_large_matrices() {
        let prefers = |work: &Workload, threads| Planner::new(threads).prefers_gpu(work);
        let sized =
            |largest, apriori_clusters, observations, columns, distance| Workload::Agglomeration {
                sizes: ProblemSizes {
                    largest,
                    apriori_clusters,
                    observations,
                },
                columns,
                distance,
            };
        let work = |largest, apriori_clusters, observations| {
            sized(
                largest,
                apriori_clusters,
                observations,
                14,
                Distance::Centroid,
            )
        };
        assert!(prefers(&work(20_000, 0, 0), 4));
        assert!(prefers(&work(10_000, 0, 0), 4));
        assert!(!prefers(&work(5_000, 0, 0), 4));
        assert!(prefers(&work(MOST_TREE_CLUSTERS, 0, 0), 4));
        assert!(!prefers(&work(MOST_TREE_CLUSTERS + 1, 0, 0), 4));
        assert!(prefers(&work(1_000, 16, 16_000), 4));
        assert!(!prefers(&work(1_000, 15, 16_000), 4));
        assert!(!prefers(&work(100, 100, 10_000), 4));
        let one = |columns, distance| sized(5_000, 0, 0, columns, distance);
        assert!(prefers(
            &one(MOST_TREE_COLUMNS, Distance::FullMahalanobis),
            4
        ));
        assert!(!prefers(
            &one(MOST_TREE_COLUMNS + 1, Distance::FullMahalanobis),
            4
        ));
        let pairs = |count, columns| Workload::Pairs { count, columns };
        assert!(prefers(&pairs(1 << 27, 128), 2));
        assert!(!prefers(&pairs(1 << 27, 128), 16));
        let matrix = |linkage, observations, columns| Workload::Linkage {
            linkage,
            observations,
            columns,
        };
        assert!(prefers(&matrix(Linkage::Average, 5_000, None), 16));
        assert!(prefers(&matrix(Linkage::Average, 5_000, Some(2)), 16));
        assert!(!prefers(&matrix(Linkage::WardD, 4_000, Some(2)), 2));
        assert!(!prefers(&matrix(Linkage::Median, 60_000, None), 1));
        assert!(!prefers(&matrix(Linkage::Single, 60_000, None), 1));
        assert!(prefers(&matrix(Linkage::Median, 60_000, Some(10)), 2));
        assert!(!prefers(&matrix(Linkage::Median, 5_000, Some(10)), 2));
    }
}
