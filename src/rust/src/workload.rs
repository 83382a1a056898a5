//! What a verb asks of a device, for the choice of one.

use gmhclust_core::distances::Pairs;
use gmhclust_core::kmeans::Start;
use gmhclust_core::linkage::lance_williams::Linkage;
use gmhclust_core::linkage::points;
use gmhclust_core::mahalanobis::ProblemSizes;
use gmhclust_core::metric::Metric;

use crate::engine::planner::Workload;

/// A Mahalanobis-average clustering of `n` observations, or those within its apriori clusters.
pub fn clustering(n: usize, apriori: Option<&[u32]>) -> Workload {
    Workload::Agglomeration(ProblemSizes::new(n, apriori))
}

/// The part above apriori clusters of a Mahalanobis-average clustering.
pub fn clustering_above(apriori: &[u32]) -> Workload {
    Workload::Agglomeration(ProblemSizes::above(apriori))
}

/// The distances of these pairs in so many columns.
pub fn distances(pairs: &Pairs, columns: usize) -> Workload {
    Workload::Pairs {
        count: pairs.count(),
        columns,
    }
}

/// The distances of `n` observations from `m` others, or from each other.
pub fn pairs_of(n: usize, m: usize, columns: usize) -> Workload {
    Workload::Pairs {
        count: n * m,
        columns,
    }
}

/// The preparation of observations for a metric, an operation for each value.
pub fn preparation(rows: usize, columns: usize) -> Workload {
    Workload::Pairs {
        count: rows,
        columns,
    }
}

/// Linkage of `n` observations whose dissimilarities are given.
pub fn linkage(linkage: Linkage, n: usize) -> Workload {
    Workload::Linkage {
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
) -> Workload {
    if points::needs_matrix(linkage, metric, with_members) {
        Workload::Linkage {
            linkage,
            observations: n,
            columns: Some(columns),
        }
    } else {
        pairs_of(n, n, columns)
    }
}

/// At most so many iterations of k-means.
pub fn kmeans(n: usize, start: &Start, iterations: usize, columns: usize) -> Workload {
    Workload::Pairs {
        count: (n * start.centers(columns)).saturating_mul(iterations),
        columns,
    }
}
