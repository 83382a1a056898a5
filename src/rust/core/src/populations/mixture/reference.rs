//! The plain definitions, for tests.

use super::{Components, Shape};
use crate::mahalanobis::packed::packed_len;

/// The mean of some rows, and their covariance as rows, with divisor m − 1 (or 1).
pub fn mean_and_covariance(rows: &[&[f64]]) -> (Vec<f64>, Vec<Vec<f64>>) {
    let (m, p) = (rows.len() as f64, rows[0].len());
    let about = rows[0];
    let shift = |j: usize| rows.iter().map(|row| row[j] - about[j]).sum::<f64>() / m;
    let mean: Vec<f64> = (0..p).map(|j| about[j] + shift(j)).collect();
    let product = |i: usize, j: usize| {
        let products = rows
            .iter()
            .map(|row| (row[i] - mean[i]) * (row[j] - mean[j]));
        products.sum::<f64>() / (m - 1.0).max(1.0)
    };
    let covariance = (0..p)
        .map(|i| (0..p).map(|j| product(i, j)).collect())
        .collect();
    (mean, covariance)
}

/// The squared distance from a component, by Gaussian elimination, and the
/// logarithm of the determinant of its covariance.
pub fn distance_and_log_determinant(components: &Components, c: usize, x: &[f64]) -> (f64, f64) {
    let p = components.columns;
    let mean = &components.means[c * p..][..p];
    let delta: Vec<f64> = x.iter().zip(mean).map(|(x, mean)| x - mean).collect();
    let element = |i: usize, j: usize| match &components.shape {
        Shape::Variance(variance) => {
            if i == j {
                *variance
            } else {
                0.0
            }
        }
        Shape::Covariances(all) => all[c * packed_len(p) + packed_len(i.max(j)) + i.min(j)],
    };
    let mut rows: Vec<Vec<f64>> = (0..p)
        .map(|i| (0..p).map(|j| element(i, j)).chain([delta[i]]).collect())
        .collect();
    let mut log_determinant = 0.0;
    for k in 0..p {
        log_determinant += rows[k][k].ln();
        let (above, below) = rows.split_at_mut(k + 1);
        for row in below {
            let factor = row[k] / above[k][k];
            let values = row.iter_mut().zip(&above[k]);
            values.for_each(|(value, pivot)| *value -= factor * pivot);
        }
    }
    let mut solution = vec![0.0; p];
    for i in (0..p).rev() {
        let known: f64 = (i + 1..p).map(|j| rows[i][j] * solution[j]).sum();
        solution[i] = (rows[i][p] - known) / rows[i][i];
    }
    let squared = solution.iter().zip(&delta).map(|(a, b)| a * b).sum();
    (squared, log_determinant)
}
