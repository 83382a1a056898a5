//! The planner: decides whether a GPU or the CPU does a job, by the figures of the [`policy`].

use gmhclust_core::mahalanobis::Distance;
use gmhclust_cuda::{policy, MOST_TREE_CLUSTERS, MOST_TREE_COLUMNS};

use crate::workload::Workload;

/// Chooses between a GPU and the CPU, given the number of CPU threads.
#[derive(Debug, Clone, Copy)]
pub struct Planner {
    threads: usize,
}

impl Planner {
    /// A planner for this number of CPU threads.
    pub fn new(threads: usize) -> Self {
        Self { threads }
    }

    /// Whether a GPU does the job faster: one large problem; many apriori clusters with enough
    /// observations together; many pairs; or a large matrix. [`policy`] has the thresholds.
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
                has_tree && sizes.largest >= one.for_threads(self.threads)
                    || sizes.apriori_clusters >= policy::BLOCK_PROBLEMS_PER_THREAD * self.threads
                        && sizes.observations
                            >= policy::BLOCK_OBSERVATIONS.for_threads(self.threads)
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
