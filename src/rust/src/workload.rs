//! The size of the work of each verb, from which the engine chooses a device.

use gmhclust_core::distances::Pairs;
use gmhclust_core::kmeans::Start;
use gmhclust_core::linkage::lance_williams::Linkage;
use gmhclust_core::linkage::points;
use gmhclust_core::mahalanobis::{Distance, ProblemSizes};
use gmhclust_core::metric::Metric;

use crate::engine::planner::Workload;

/// Mahalanobis-average clustering of `n` observations in this many columns, within and above
/// apriori clusters if given.
pub fn clustering(
    n: usize,
    columns: usize,
    apriori: Option<&[u32]>,
    distance: Distance,
) -> Workload {
    Workload::Agglomeration {
        sizes: ProblemSizes::new(n, apriori),
        columns,
        distance,
    }
}

/// Mahalanobis-average clustering above apriori clusters only.
pub fn clustering_above(apriori: &[u32], columns: usize, distance: Distance) -> Workload {
    Workload::Agglomeration {
        sizes: ProblemSizes::above(apriori),
        columns,
        distance,
    }
}

/// The distances of pairs of observations with this many columns.
pub fn distances(pairs: &Pairs, columns: usize) -> Workload {
    Workload::Pairs {
        count: pairs.count(),
        columns,
    }
}

/// The distances between `n` queries and `m` references.
pub fn pairs_of(n: usize, m: usize, columns: usize) -> Workload {
    Workload::Pairs {
        count: n * m,
        columns,
    }
}

/// Preparation of observations for a metric: one operation per value.
pub fn preparation(rows: usize, columns: usize) -> Workload {
    Workload::Pairs {
        count: rows,
        columns,
    }
}

/// Linkage of `n` observations with given dissimilarities.
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

/// k-means clustering with at most this many iterations.
pub fn kmeans(n: usize, start: &Start, iterations: usize, columns: usize) -> Workload {
    Workload::Pairs {
        count: (n * start.centers()).saturating_mul(iterations),
        columns,
    }
}
