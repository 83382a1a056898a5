//! The size of some work, by which the engine chooses a device.

use gmhclust_core::distances::Pairs;
use gmhclust_core::kmeans::Start;
use gmhclust_core::linkage::lance_williams::Linkage;
use gmhclust_core::linkage::points;
use gmhclust_core::mahalanobis::{AprioriPartition, Distance, ProblemSizes};
use gmhclust_core::metric::Metric;
use gmhclust_cuda::policy;

/// The size of some work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Workload {
    Agglomeration {
        sizes: ProblemSizes,
        columns: usize,
        distance: Distance,
    },
    /// Comparisons of pairs of observations with this number of columns.
    Pairs { count: usize, columns: usize },
    /// Linkage with a matrix of dissimilarities. They are distances of observations with this
    /// number of columns, or given dissimilarities (`None`).
    Linkage {
        linkage: Linkage,
        observations: usize,
        columns: Option<usize>,
    },
}

impl Workload {
    /// Mahalanobis-average clustering of `n` observations with this number of columns, within and
    /// above apriori clusters if given.
    pub fn clustering(
        n: usize,
        columns: usize,
        apriori: Option<&AprioriPartition>,
        distance: Distance,
    ) -> Self {
        Self::Agglomeration {
            sizes: ProblemSizes::new(n, apriori),
            columns,
            distance,
        }
    }

    /// Mahalanobis-average clustering above apriori clusters only.
    pub fn clustering_above(
        apriori: &AprioriPartition,
        columns: usize,
        distance: Distance,
    ) -> Self {
        Self::Agglomeration {
            sizes: ProblemSizes::above(apriori),
            columns,
            distance,
        }
    }

    /// Several Mahalanobis-average clusterings, one for each draw. `leaves` has the number of
    /// leaves of each draw. `are_single` says whether each leaf is one observation.
    pub fn draws(
        leaves: impl Iterator<Item = usize> + Clone,
        columns: usize,
        are_single: bool,
        distance: Distance,
    ) -> Self {
        Self::Agglomeration {
            sizes: ProblemSizes {
                largest: leaves.clone().max().unwrap_or(0),
                apriori_clusters: leaves.clone().count(),
                // A thread block of a GPU merges single observations only.
                observations: if are_single { leaves.sum() } else { 0 },
            },
            columns,
            distance,
        }
    }

    /// The distances of pairs of observations with this number of columns.
    pub fn distances(pairs: &Pairs, columns: usize) -> Self {
        Self::Pairs {
            count: pairs.count(),
            columns,
        }
    }

    /// The distances between `n` queries and `m` references.
    pub fn pairs_of(n: usize, m: usize, columns: usize) -> Self {
        Self::Pairs {
            count: n * m,
            columns,
        }
    }

    /// Preparation of observations for a metric: one operation per value.
    pub fn preparation(rows: usize, columns: usize) -> Self {
        Self::Pairs {
            count: rows,
            columns,
        }
    }

    /// Linkage of `n` observations with given dissimilarities.
    pub fn linkage(linkage: Linkage, n: usize) -> Self {
        Self::Linkage {
            linkage,
            observations: n,
            columns: None,
        }
    }

    /// Linkage of `n` observations by their distances.
    pub fn linkage_of_points(
        linkage: Linkage,
        metric: &Metric,
        with_members: bool,
        n: usize,
        columns: usize,
    ) -> Self {
        if points::needs_matrix(linkage, metric, with_members) {
            Self::Linkage {
                linkage,
                observations: n,
                columns: Some(columns),
            }
        } else {
            Self::pairs_of(n, n, columns)
        }
    }

    /// k-means clustering of `n` observations with at most this number of iterations.
    pub fn kmeans(n: usize, start: &Start, iterations: usize, columns: usize) -> Self {
        // With one center, and to find the nearest centers only, there is one iteration.
        let (centers, iterations) = match start.centers() {
            1 => (1, 1),
            centers if iterations == 1 => (centers, 1),
            centers => (centers + policy::KMEANS_REST_CENTERS, iterations),
        };
        Self::Pairs {
            count: (n * centers).saturating_mul(iterations),
            columns,
        }
    }

    /// Whether several GPUs can share the work. If not, the engine opens only one GPU.
    pub fn is_divisible(&self) -> bool {
        match self {
            Self::Agglomeration { sizes, .. } => sizes.apriori_clusters > 0,
            Self::Pairs { .. } | Self::Linkage { .. } => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_share_apriori_clusters_but_not_one_problem() {
        let work = |apriori_clusters| Workload::Agglomeration {
            sizes: ProblemSizes {
                largest: 10_000,
                apriori_clusters,
                observations: 20_000,
            },
            columns: 14,
            distance: Distance::Centroid,
        };
        assert!(!work(0).is_divisible());
        assert!(work(2).is_divisible());
    }

    #[test]
    fn gpus_share_draws_and_blocks_merge_single_observations_only() {
        let sizes = |are_single| {
            let work = Workload::draws([70, 60].into_iter(), 14, are_single, Distance::Centroid);
            assert!(work.is_divisible());
            match work {
                Workload::Agglomeration { sizes, .. } => sizes,
                other => panic!("{other:?}"),
            }
        };
        let expected = ProblemSizes {
            largest: 70,
            apriori_clusters: 2,
            observations: 130,
        };
        assert_eq!(sizes(true), expected);
        let above = ProblemSizes {
            observations: 0,
            ..expected
        };
        assert_eq!(sizes(false), above);
    }
}
