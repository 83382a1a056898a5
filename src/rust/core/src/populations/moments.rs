//! Means, scatters and Cholesky factors of a few thousand points.
//!
//! Points are stored column by column: column j of m points is at j·m .. (j+1)·m. Sums have a fixed
//! order, so all processors give the same bits.

use pulp::{Simd, WithSimd};

use crate::mahalanobis::cholesky::cholesky;
use crate::mahalanobis::lanes::WIDEST;
use crate::mahalanobis::packed::packed_len;
use crate::simd::dispatch;

/// Σ aᵢ·bᵢ, in one partial sum for each lane of the widest registers.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; WIDEST];
    let (chunks_a, chunks_b) = (a.chunks_exact(WIDEST), b.chunks_exact(WIDEST));
    let rest = chunks_a.remainder().iter().zip(chunks_b.remainder());
    for (a, b) in chunks_a.zip(chunks_b) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    rest.fold(sums.iter().sum(), |sum, (a, b)| sum + a * b)
}

/// The mean of some numbers.
pub fn mean(values: &[f64]) -> f64 {
    let mut sums = [0.0; WIDEST];
    let chunks = values.chunks_exact(WIDEST);
    let rest = chunks.remainder().iter();
    for chunk in chunks {
        sums.iter_mut().zip(chunk).for_each(|(sum, v)| *sum += v);
    }
    rest.fold(sums.iter().sum::<f64>(), |sum, v| sum + v) / values.len() as f64
}

/// Centred points, with their mean and scatter.
#[derive(Debug, Clone)]
pub struct Centred {
    pub count: usize,
    pub mean: Vec<f64>,
    /// The points minus their mean, column by column.
    pub points: Vec<f64>,
    /// Sums of products of the columns, a packed triangle.
    pub scatter: Vec<f64>,
}

impl Centred {
    /// Centres `count` points.
    pub fn new(mut points: Vec<f64>, count: usize) -> Self {
        let columns = || (0..points.len() / count).map(|j| j * count..(j + 1) * count);
        let mean: Vec<f64> = columns().map(|column| mean(&points[column])).collect();
        for (column, mean) in points.chunks_exact_mut(count).zip(&mean) {
            column.iter_mut().for_each(|value| *value -= mean);
        }
        let mut scatter = Vec::with_capacity(packed_len(mean.len()));
        let column = |j: usize| &points[j * count..(j + 1) * count];
        for i in 0..mean.len() {
            scatter.extend((0..=i).map(|j| dot(column(i), column(j))));
        }
        Self {
            count,
            mean,
            points,
            scatter,
        }
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.mean.len()
    }

    /// Column `j`, minus its mean.
    pub fn column(&self, j: usize) -> &[f64] {
        &self.points[j * self.count..(j + 1) * self.count]
    }
}

/// The Cholesky factor of a covariance: L·D·Lᵀ.
pub struct Factor {
    /// L, a packed lower triangle with ones on its diagonal.
    lower: Vec<f64>,
    /// The diagonal of D.
    pub pivots: Vec<f64>,
}

impl Factor {
    /// The factor of a packed matrix; `None` if the matrix is singular.
    pub fn of(matrix: &[f64], p: usize) -> Option<Self> {
        struct Run<'a>(&'a [f64], usize);
        impl WithSimd for Run<'_> {
            type Output = Option<Factor>;

            #[inline(always)]
            fn with_simd<S: Simd>(self, simd: S) -> Option<Factor> {
                let Self(matrix, p) = self;
                let (mut lower, mut pivots) = (vec![0.0; packed_len(p)], vec![0.0; p]);
                let rows = &mut Vec::new();
                cholesky(simd, matrix, p, &mut lower, &mut pivots, rows, None)
                    .then_some(Factor { lower, pivots })
            }
        }
        dispatch(Run(matrix, p))
    }

    /// The factor of the diagonal of a packed matrix.
    pub fn of_diagonal(matrix: &[f64], p: usize) -> Self {
        let mut lower = vec![0.0; packed_len(p)];
        (0..p).for_each(|i| lower[packed_len(i) + i] = 1.0);
        let pivots = (0..p).map(|i| matrix[packed_len(i) + i]).collect();
        Self { lower, pivots }
    }

    /// z = L⁻¹·x for `count` points x, in place.
    pub fn solve(&self, points: &mut [f64], count: usize) {
        for i in 1..self.pivots.len() {
            let (before, rest) = points.split_at_mut(i * count);
            let weights = &self.lower[packed_len(i)..][..i];
            for (column, &weight) in before.chunks_exact(count).zip(weights) {
                for (z, x) in rest[..count].iter_mut().zip(column) {
                    *z -= weight * x;
                }
            }
        }
    }

    /// Σ zᵢ·yᵢ / Dᵢ for each of `count` points z and the point y = `by`; for `None`, Σ zᵢ² / Dᵢ.
    pub fn products(&self, z: &[f64], count: usize, by: Option<&[f64]>) -> Vec<f64> {
        let mut sums = vec![0.0; count];
        for (i, column) in z.chunks_exact(count).enumerate() {
            let scale = 1.0 / self.pivots[i];
            match by {
                Some(y) => {
                    let scale = y[i] * scale;
                    sums.iter_mut()
                        .zip(column)
                        .for_each(|(s, z)| *s += z * scale);
                }
                None => {
                    let squares = sums.iter_mut().zip(column);
                    squares.for_each(|(s, z)| *s += z * z * scale);
                }
            }
        }
        sums
    }
}
