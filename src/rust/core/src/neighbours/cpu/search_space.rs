//! The queries and references of a search, by index.

use crate::metric::{Points, DISTANCES_AT_ONCE};
use crate::neighbours::centroids::Centroids;

/// The queries and references of a search. Clusters are a copy, since merges change them.
pub enum SearchSpace<'a> {
    /// Points, and the number of references, which are the first points.
    Points(&'a Points, usize),
    Clusters(Centroids),
}

impl SearchSpace<'_> {
    /// The exact distance.
    pub fn distance(&self, query: usize, reference: usize) -> f64 {
        match self {
            SearchSpace::Points(points, _) => points.distance(query, reference),
            SearchSpace::Clusters(centroids) => centroids.distance(query, reference),
        }
    }

    /// The exact distances of a query from at most [`DISTANCES_AT_ONCE`] references.
    pub fn distances(&self, query: usize, references: &[u32]) -> [f64; DISTANCES_AT_ONCE] {
        let mut distances = [0.0; DISTANCES_AT_ONCE];
        match (self, references) {
            (_, []) => {}
            (SearchSpace::Points(points, _), [_, .., last]) => {
                let mut others = [*last as usize; DISTANCES_AT_ONCE];
                for (other, &reference) in others.iter_mut().zip(references) {
                    *other = reference as usize;
                }
                distances = points.distances(query, &others);
            }
            _ => {
                for (distance, &reference) in distances.iter_mut().zip(references) {
                    *distance = self.distance(query, reference as usize);
                }
            }
        }
        distances
    }

    /// The row of a query or reference, and its size.
    pub fn row(&self, index: usize) -> (&[f64], f64) {
        match self {
            SearchSpace::Points(points, _) => (points.row(index), 1.0),
            SearchSpace::Clusters(centroids) => (centroids.row(index), centroids.size(index)),
        }
    }

    /// Number of references; for clusters, number of slots.
    pub fn references(&self) -> usize {
        match self {
            SearchSpace::Points(_, references) => *references,
            SearchSpace::Clusters(centroids) => centroids.slots(),
        }
    }

    pub fn columns(&self) -> usize {
        match self {
            SearchSpace::Points(points, _) => points.columns(),
            SearchSpace::Clusters(centroids) => centroids.columns(),
        }
    }
}
