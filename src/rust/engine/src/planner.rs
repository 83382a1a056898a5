//! The plan: which work a GPU does faster than the threads of the CPU.
//!
//! [`MEASURED`] is the one place of all crossover figures. They change nothing but the time.

use gmhclust_core::mahalanobis::Distance;
use gmhclust_cuda::{Handover, MOST_TREE_COLUMNS};

use crate::workload::Workload;

/// Sizes from which on a GPU is faster.
#[derive(Debug, Clone, Copy)]
pub struct Crossovers {
    /// Clusters of an agglomeration that a GPU screens for, and that many more for each thread of the
    /// CPU. The CPU also takes over when fewer than the first are left.
    pub screens: Sizes,
    /// Those of one that a GPU does by itself, with centroid distances and with full ones: beside 16
    /// threads, and once the GPU is open, from 4,500 and from 1,500 clusters in 14 dimensions on
    /// (gmhclust.R, row `crossover`), and from between 2,000 and 4,000 on in 32. To open it takes 0.2 s.
    pub trees: Sizes,
    pub full_trees: Sizes,
    /// Observations from which on a GPU does even few clusters of them by itself, with full distances
    /// (gmhclust.R, row `cells1m`).
    pub members: usize,
    /// Threads of the CPU that do such problems faster where there are more than 16 columns (gmhclust.R,
    /// row `apriori2k`).
    pub threads_of_many_columns: usize,
    /// Apriori clusters for each thread from which on thread blocks do them faster, and observations
    /// in all of them (gmhclust.R).
    pub blocks_per_thread: usize,
    pub in_blocks: Sizes,
    /// Coordinates of the pairs to compare, for each thread (distances.R, 2 and 16 threads).
    pub coordinates_per_thread: usize,
    /// Coordinates of the pairs in one request for neighbours (neighbours.R).
    pub request_coordinates: usize,
    /// Coordinates of the pairs in one iteration of k-means (kmeans.R).
    pub kmeans_coordinates: usize,
    /// The same for each of several devices: 2 ms of an iteration. An estimate that is still to be
    /// measured (kmeans.R, row `4m`): passing on assignments and centers takes about 1 ms for a
    /// million observations.
    pub kmeans_coordinates_per_device: usize,
    /// Observations of a linkage through a matrix. From fewer than 1,000 for points; from 1,000
    /// beside 2 threads to 3,000 beside 16 for given dissimilarities (linkage.R).
    pub linkage_observations: usize,
    /// Clusters of a nearest-neighbour chain (linkage.R).
    pub chain_clusters: usize,
}

/// The size from which on a GPU that is open is faster, and how much more for each thread of the CPU
/// pays for opening it.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    pub least: usize,
    pub per_thread: usize,
}

impl Sizes {
    /// The size from which on it pays to open a GPU beside so many threads.
    fn beside(&self, threads: usize) -> usize {
        self.least + self.per_thread * threads
    }
}

/// Measured on an H200 by the scripts in inst/benchmarks that the fields name.
pub const MEASURED: Crossovers = Crossovers {
    screens: Sizes {
        least: 8_192,
        per_thread: 1_000,
    },
    trees: Sizes {
        least: 4_096,
        per_thread: 500,
    },
    full_trees: Sizes {
        least: 2_048,
        per_thread: 250,
    },
    members: 1 << 15,
    threads_of_many_columns: 9,
    blocks_per_thread: 4,
    in_blocks: Sizes {
        least: 8_192,
        per_thread: 1_000,
    },
    coordinates_per_thread: 1 << 31,
    request_coordinates: 1 << 26,
    kmeans_coordinates: 1 << 26,
    kmeans_coordinates_per_device: 1 << 33,
    linkage_observations: 4_096,
    chain_clusters: 2_048,
};

/// The crossovers beside a number of threads.
#[derive(Debug, Clone, Copy)]
pub struct Planner {
    threads: usize,
}

impl Planner {
    /// With the measured crossovers.
    pub fn new(threads: usize) -> Self {
        Self { threads }
    }

    /// Whether a GPU does the job faster: one large problem, many small ones that together are as
    /// large, many pairs, or a large matrix.
    pub fn prefers_gpu(&self, work: &Workload) -> bool {
        let at = &MEASURED;
        match *work {
            Workload::Agglomeration {
                sizes,
                columns,
                distance,
            } => {
                let one = match distance {
                    _ if columns > MOST_TREE_COLUMNS => at.screens,
                    Distance::Centroid => at.trees,
                    Distance::FullMahalanobis => at.full_trees,
                };
                sizes.largest >= one.beside(self.threads)
                    || sizes.apriori_clusters >= at.blocks_per_thread * self.threads
                        && sizes.observations >= at.in_blocks.beside(self.threads)
            }
            Workload::Pairs { count, columns } => {
                count.saturating_mul(columns) >= at.coordinates_per_thread * self.threads
            }
            Workload::Linkage {
                linkage,
                observations,
                columns,
            } => match columns {
                _ if linkage.merges_reciprocal_pairs() => observations >= at.linkage_observations,
                // The GPU makes the distances only.
                Some(columns) => {
                    let count = observations.saturating_mul(observations);
                    self.prefers_gpu(&Workload::Pairs { count, columns })
                }
                None => false,
            },
        }
    }

    /// Below which sizes the CPU does a part of the work of a GPU.
    pub fn handover(&self) -> Handover {
        let at = &MEASURED;
        Handover {
            clusters: at.screens.least,
            tree: at.trees.least,
            full_tree: at.full_trees.least,
            members: at.members,
            members_of_many_columns: if self.threads < at.threads_of_many_columns {
                at.members
            } else {
                usize::MAX
            },
            blocks: at.blocks_per_thread * self.threads,
            request: at.request_coordinates,
            linkage: at.linkage_observations,
            chain: at.chain_clusters,
            kmeans: at.kmeans_coordinates,
            kmeans_device: at.kmeans_coordinates_per_device,
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
        assert!(prefers(&work(1_000, 16, 16_000), 4));
        assert!(!prefers(&work(1_000, 15, 16_000), 4));
        assert!(!prefers(&work(100, 100, 10_000), 4));
        let one = |columns, distance| sized(5_000, 0, 0, columns, distance);
        assert!(prefers(&one(40, Distance::FullMahalanobis), 4));
        assert!(!prefers(&one(41, Distance::FullMahalanobis), 4));
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
