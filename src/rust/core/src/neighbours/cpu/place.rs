//! Queries and references of either kind, and how they are screened.

use rayon::prelude::*;

use crate::matrix::middle;
use crate::metric::{Metric, Points, TOGETHER};
use crate::neighbours::centroids::Centroids;
use crate::neighbours::single::Frame;

/// From so many columns on, Euclidean distances are screened by products first.
const BY_PRODUCTS_FROM: usize = 24;

/// What is near what, with a copy of what changes.
pub enum Place<'a> {
    Points(&'a Points, usize),
    Clusters(Centroids),
}

impl Place<'_> {
    pub fn distance(&self, query: usize, reference: usize) -> f64 {
        match self {
            Place::Points(points, _) => points.distance(query, reference),
            Place::Clusters(centroids) => centroids.distance(query, reference),
        }
    }

    /// Distances of a query from some references, at most [`TOGETHER`].
    pub fn distances(&self, query: usize, references: &[u32]) -> [f64; TOGETHER] {
        let mut distances = [0.0; TOGETHER];
        match (self, references) {
            (_, []) => {}
            (Place::Points(points, _), [_, .., last]) => {
                let mut others = [*last as usize; TOGETHER];
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

    /// A query or reference, and its size.
    pub fn row(&self, index: usize) -> (&[f64], f64) {
        match self {
            Place::Points(points, _) => (points.row(index), 1.0),
            Place::Clusters(centroids) => (centroids.row(index), centroids.size(index)),
        }
    }

    pub fn references(&self) -> usize {
        match self {
            Place::Points(_, references) => *references,
            Place::Clusters(centroids) => centroids.slots(),
        }
    }

    pub fn columns(&self) -> usize {
        match self {
            Place::Points(points, _) => points.columns(),
            Place::Clusters(centroids) => centroids.columns(),
        }
    }

    /// The frames for sweeps, the fastest one first and the sharpest last; none for a metric that
    /// is not screened.
    pub fn frames(&self) -> Vec<Frame> {
        let columns = self.columns();
        let (metric, values) = match self {
            Place::Points(points, _) => (*points.metric(), points.values()),
            Place::Clusters(centroids) => (Metric::Euclidean, centroids.values()),
        };
        let around = |new: fn(Vec<f64>, f64) -> Frame| {
            let center = middle(values, columns);
            let reach = reach(values, &center);
            new(center, reach)
        };
        match metric {
            Metric::Euclidean => {
                let sharp = around(Frame::squares);
                if columns < BY_PRODUCTS_FROM || matches!(self, Place::Clusters(_)) {
                    vec![sharp]
                } else {
                    vec![sharp.by_products(), sharp]
                }
            }
            Metric::Manhattan => vec![around(Frame::magnitudes)],
            Metric::Maximum => vec![around(Frame::greatest)],
            Metric::Canberra(_) => {
                vec![Frame::quotients(
                    columns,
                    reach(values, &vec![0.0; columns]),
                )]
            }
            Metric::Pearson { absolute }
            | Metric::Spearman { absolute }
            | Metric::Cosine { absolute } => vec![Frame::products(columns, absolute)],
            Metric::Binary | Metric::Minkowski(_) => Vec::new(),
        }
    }
}

/// Half the greatest distance of row-major values from their column's center; the distance itself
/// can overflow.
fn reach(values: &[f64], center: &[f64]) -> f64 {
    let of_row = |row: &[f64]| {
        let distances = row
            .iter()
            .zip(center)
            .map(|(v, c)| (0.5 * v - 0.5 * c).abs());
        distances.fold(0.0, f64::max)
    };
    let rows = values.par_chunks_exact(center.len());
    rows.map(of_row).reduce(|| 0.0, f64::max)
}
