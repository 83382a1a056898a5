//! The plan: which work a GPU does faster than the threads of the CPU.
//!
//! [`MEASURED`] is the one place of all crossover figures. They change nothing but the time.

use gmhclust_core::linkage::Linkage;
use gmhclust_core::mahalanobis::{Problem, ProblemSizes};
use gmhclust_cuda::Handover;

/// Sizes from which on a GPU is faster.
#[derive(Debug, Clone, Copy)]
pub struct Crossovers {
    /// Clusters of an agglomeration, and that many more for each thread of the CPU. The CPU also
    /// takes over when fewer than the first are left. From 9,000 clusters in 14 dimensions beside 2
    /// threads, and from 25,000 beside 16 (gmhclust.R, row `crossover`).
    pub clusters: usize,
    pub clusters_per_thread: usize,
    /// Apriori clusters for each thread from which on thread blocks do them faster (gmhclust.R).
    pub blocks_per_thread: usize,
    /// Times the average size that an apriori cluster in a thread block may have: a larger one
    /// would keep its block long after the others are done (gmhclust.R).
    pub largest_in_block: usize,
    /// Coordinates of the pairs to compare, for each thread (distances.R, 2 and 16 threads).
    pub coordinates_per_thread: usize,
    /// Coordinates of the pairs in one request for neighbours (neighbours.R).
    pub request_coordinates: usize,
    /// Coordinates of the pairs in one iteration of k-means (kmeans.R).
    pub kmeans_coordinates: usize,
    /// Observations of a linkage through a matrix. From fewer than 1,000 for points; from 1,000
    /// beside 2 threads to 3,000 beside 16 for given dissimilarities (linkage.R).
    pub linkage_observations: usize,
    /// Clusters of a nearest-neighbour chain (linkage.R).
    pub chain_clusters: usize,
}

/// Measured on an H200 by the scripts in inst/benchmarks that the fields name.
pub const MEASURED: Crossovers = Crossovers {
    clusters: 8_192,
    clusters_per_thread: 1_000,
    blocks_per_thread: 4,
    largest_in_block: 4,
    coordinates_per_thread: 1 << 31,
    request_coordinates: 1 << 26,
    kmeans_coordinates: 1 << 26,
    linkage_observations: 4_096,
    chain_clusters: 2_048,
};

/// The size of a job, for the choice of a device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Workload {
    Agglomeration(ProblemSizes),
    /// Pairs of observations to compare, each in that many columns.
    Pairs {
        count: usize,
        columns: usize,
    },
    /// Linkage of observations through a matrix: of their distances in that many columns, or of
    /// given dissimilarities.
    Linkage {
        linkage: Linkage,
        observations: usize,
        columns: Option<usize>,
    },
}

/// The crossovers beside a number of threads.
#[derive(Debug, Clone, Copy)]
pub struct Planner {
    crossovers: Crossovers,
    threads: usize,
}

impl Planner {
    /// With the measured crossovers.
    pub fn new(threads: usize) -> Self {
        Self {
            crossovers: MEASURED,
            threads,
        }
    }

    /// Whether a GPU does the job faster: one large problem, many small ones that together are as
    /// large, many pairs, or a large matrix.
    pub fn prefers_gpu(&self, work: &Workload) -> bool {
        let at = &self.crossovers;
        match *work {
            Workload::Agglomeration(sizes) => {
                let clusters = at.clusters + at.clusters_per_thread * self.threads;
                sizes.largest >= clusters
                    || sizes.apriori_clusters >= at.blocks_per_thread * self.threads
                        && sizes.observations >= clusters
            }
            Workload::Pairs { count, columns } => {
                count.saturating_mul(columns) >= at.coordinates_per_thread * self.threads
            }
            Workload::Linkage {
                linkage,
                observations,
                columns,
            } => match columns {
                _ if linkage.merges_in_rounds() => self.links_on_gpu(observations),
                // The GPU makes the distances only.
                Some(columns) => {
                    let count = observations.saturating_mul(observations);
                    self.prefers_gpu(&Workload::Pairs { count, columns })
                }
                None => false,
            },
        }
    }

    /// The problems that thread blocks should merge, of those that fit in one.
    pub fn in_blocks(&self, problems: &[Problem<'_>], fit: &[bool]) -> Vec<usize> {
        let at = &self.crossovers;
        let fitting = (0..problems.len()).filter(|&number| fit[number]);
        let fitting: Vec<usize> = fitting.collect();
        let count = fitting.len();
        if count < at.blocks_per_thread * self.threads {
            return Vec::new();
        }
        let clusters = |number: usize| problems[number].clusters();
        let total: usize = fitting.iter().map(|&number| clusters(number)).sum();
        let is_small = |&number: &usize| clusters(number) * count <= at.largest_in_block * total;
        fitting.into_iter().filter(is_small).collect()
    }

    /// Whether the GPU holds the matrix of a linkage.
    pub fn links_on_gpu(&self, observations: usize) -> bool {
        observations >= self.crossovers.linkage_observations
    }

    /// Whether the GPU iterates k-means.
    pub fn iterates_on_gpu(&self, values: usize, centers: usize) -> bool {
        values.saturating_mul(centers) >= self.crossovers.kmeans_coordinates
    }

    /// Where the CPU takes over in the middle of the work.
    pub fn handover(&self) -> Handover {
        Handover {
            clusters: self.crossovers.clusters,
            request: self.crossovers.request_coordinates,
            chain: self.crossovers.chain_clusters,
        }
    }
}

#[cfg(test)]
mod tests {
    use gmhclust_core::mahalanobis::{Distance, Options, Subthreshold};
    use gmhclust_core::Matrix;

    use super::*;

    #[test]
    fn a_gpu_is_preferred_for_large_problems_many_small_ones_many_pairs_and_large_matrices() {
        let prefers = |work: &Workload, threads| Planner::new(threads).prefers_gpu(work);
        let work = |largest, apriori_clusters, observations| {
            Workload::Agglomeration(ProblemSizes {
                largest,
                apriori_clusters,
                observations,
            })
        };
        assert!(prefers(&work(20_000, 0, 0), 4));
        assert!(!prefers(&work(5_000, 0, 0), 4));
        assert!(prefers(&work(1_000, 16, 16_000), 4));
        assert!(!prefers(&work(1_000, 15, 16_000), 4));
        assert!(!prefers(&work(100, 100, 10_000), 4));
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

    #[test]
    fn blocks_merge_many_small_problems_but_none_that_is_much_larger() {
        let x = Matrix::from_row_major((0..600).map(f64::from).collect(), 600, 1).unwrap();
        let options = Options {
            threshold: 5.0,
            subthreshold: Subthreshold::Mahal,
            distance: Distance::Centroid,
            normalize: false,
            apriori_intra: true,
        };
        let problem = |n: u32| Problem::of_observations(&x, (0..n).collect(), options);
        let sizes = [10, 10, 600, 10, 10, 10, 10, 10, 10];
        let problems: Vec<Problem> = sizes.into_iter().map(problem).collect();
        let mut fit = [true; 9];
        fit[1] = false;
        let planner = Planner::new(2);
        assert_eq!(planner.in_blocks(&problems, &fit), [0, 3, 4, 5, 6, 7, 8]);
        fit[0] = false;
        assert!(planner.in_blocks(&problems, &fit).is_empty());
    }
}
