//! Projections to a few directions, for lower bounds on distances.
//!
//! Distances between projections to orthonormal directions are not above the distances between the
//! points. The directions are approximately the first principal axes, so that few coordinates
//! account for most of a distance.

use rayon::prelude::*;

use crate::matrix::RowSlices;
use crate::observations::Observations;
use crate::single_precision::{up, without_tiny, TINY, UNIT_ROUNDOFF};

/// Number of directions. More of them exclude more observations and take more memory and time.
pub const DIRECTIONS: usize = 12;

/// Number of observations from which the directions are computed. Only the time of the draws
/// depends on it.
pub const SAMPLE: usize = 1024;
/// Number of iterations that compute the directions. Only the time of the draws depends on it.
pub const ITERATIONS: usize = 6;

/// Bound on the relative error of a squared distance in single precision. It covers roundings, and
/// directions that are orthonormal only up to rounding.
pub const SLACK: f32 = 64.0 * UNIT_ROUNDOFF as f32;

/// A projection in single precision, and a bound on its error.
#[derive(Debug, Clone, Copy)]
pub struct Projected {
    pub coordinates: [f32; DIRECTIONS],
    pub error: f32,
}

/// Orthonormal directions, and the point that has the projection 0.
pub struct Directions {
    origin: Vec<f64>,
    /// Fewer than [`DIRECTIONS`] for data of fewer dimensions.
    rows: Vec<Vec<f64>>,
    /// See [`scale_of`](super::frame::scale_of).
    pub scale: f64,
}

impl Directions {
    /// Directions by subspace iteration with the covariance of a sample. `scale` is that of the
    /// frame.
    pub fn new(x: &Observations, scale: f64) -> Self {
        let (n, p) = x.dim();
        let step = n.div_ceil(SAMPLE);
        let sample: Vec<&[f64]> = (0..n).step_by(step).map(|i| x.row_slice(i)).collect();
        let origin: Vec<f64> = (0..p)
            .map(|k| sample.iter().map(|row| row[k]).sum::<f64>() / sample.len() as f64)
            .collect();
        let centered: Vec<Vec<f64>> = sample
            .iter()
            .map(|row| {
                row.iter()
                    .zip(&origin)
                    .map(|(v, o)| (v - o) * scale)
                    .collect()
            })
            .collect();
        // Any start works unless one of the wanted directions is orthogonal to all of its vectors.
        let start = |d: usize| (0..p).map(|k| (1.0 + (k * (d + 1)) as f64).sin()).collect();
        let mut rows = orthonormal((0..DIRECTIONS.min(p)).map(start).collect());
        for _ in 0..ITERATIONS {
            let turned = rows.par_iter().map(|row| {
                let mut sum = vec![0.0; p];
                for values in &centered {
                    add_multiple(&mut sum, dot(row, values), values);
                }
                sum
            });
            let turned = orthonormal(turned.collect());
            if turned.is_empty() {
                break;
            }
            rows = turned;
        }
        Self {
            origin,
            rows,
            scale,
        }
    }

    /// The projection of a row of as many values as the observations.
    pub fn project(&self, x: &[f64]) -> Projected {
        let mut coordinates = [0.0f32; DIRECTIONS];
        let mut length = 0.0;
        for (coordinate, row) in coordinates.iter_mut().zip(&self.rows) {
            let terms = row.iter().zip(x).zip(&self.origin);
            let value = self.scale * terms.map(|((r, x), o)| r * (x - o)).sum::<f64>();
            *coordinate = without_tiny(value) as f32;
            length += value * value;
        }
        let square: f64 = x
            .iter()
            .zip(&self.origin)
            .map(|(x, o)| (x - o) * (x - o))
            .sum();
        let rounding = (x.len() as f64 + 16.0) * f64::EPSILON * square.sqrt() * self.scale;
        let error = 2.0 * (UNIT_ROUNDOFF * length.sqrt() + rounding + DIRECTIONS as f64 * TINY);
        Projected {
            coordinates,
            error: up(error),
        }
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add_multiple(sum: &mut [f64], factor: f64, values: &[f64]) {
    let pairs = sum.iter_mut().zip(values);
    pairs.for_each(|(sum, value)| *sum += factor * value);
}

/// Gram–Schmidt orthonormalization, twice because of rounding. Leaves out vectors that depend on
/// vectors before them.
fn orthonormal(vectors: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let mut rows: Vec<Vec<f64>> = Vec::new();
    for mut vector in vectors {
        let before = dot(&vector, &vector);
        for row in rows.iter().chain(&rows) {
            let along = dot(row, &vector);
            add_multiple(&mut vector, -along, row);
        }
        let length = dot(&vector, &vector).sqrt();
        // Also false if the length is NaN.
        if length > 1e-6 * before.sqrt() && length.is_normal() {
            vector.iter_mut().for_each(|value| *value /= length);
            rows.push(vector);
        }
    }
    rows
}
