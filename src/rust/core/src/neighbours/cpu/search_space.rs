//! The queries and references of a search, by index.

use crate::metric::{Points, DISTANCES_AT_ONCE};
use crate::neighbours::cluster_means::ClusterMeans;

/// A [`Space`](crate::neighbours::Space) as the CPU's search keeps it: clusters are a copy, since
/// merges change them.
pub enum SearchSpace<'a> {
    /// Points, and the number of references, which are the first points.
    Points(&'a Points, usize),
    Clusters(ClusterMeans),
}

impl SearchSpace<'_> {
    /// The exact distances of a query from at most [`DISTANCES_AT_ONCE`] references.
    pub fn distances(&self, query: usize, references: &[u32]) -> [f64; DISTANCES_AT_ONCE] {
        let Some(&last) = references.last() else {
            return [0.0; DISTANCES_AT_ONCE];
        };
        let mut others = [last as usize; DISTANCES_AT_ONCE];
        for (other, &reference) in others.iter_mut().zip(references) {
            *other = reference as usize;
        }
        match self {
            SearchSpace::Points(points, _) => points.distances(query, &others),
            SearchSpace::Clusters(clusters) => clusters.distances(query, &others),
        }
    }

    /// The row of a query or reference, and its size.
    pub fn row(&self, index: usize) -> (&[f64], f64) {
        match self {
            SearchSpace::Points(points, _) => (points.row(index), 1.0),
            SearchSpace::Clusters(clusters) => (clusters.row(index), clusters.size(index)),
        }
    }

    /// Number of references; for clusters, number of slots.
    pub fn references(&self) -> usize {
        match self {
            SearchSpace::Points(_, references) => *references,
            SearchSpace::Clusters(clusters) => clusters.slots(),
        }
    }

    /// Number of coordinates of a row.
    pub fn columns(&self) -> usize {
        match self {
            SearchSpace::Points(points, _) => points.columns(),
            SearchSpace::Clusters(clusters) => clusters.columns(),
        }
    }
}
