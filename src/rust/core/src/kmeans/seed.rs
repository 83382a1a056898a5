//! Where to start: k-means++ (Arthur and Vassilvitskii, Symposium on Discrete Algorithms, 2007).

use rayon::prelude::*;

use super::{square, Margin};
use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::mahalanobis::check_magnitude;
use crate::matrix::Matrix;
use crate::monitor::Monitor;

/// Observations whose weights are summed up together.
const CHUNK: usize = 256;

/// So many chunks are worth a thread, most observations being passed over.
const CHUNKS_AT_A_TIME: usize = 1 << 6;

/// Draws one row of `x` as a center for each of `uniforms`, numbers from 0 to 1: the first with
/// equal chances, each other with chances proportional to its squared distance from the nearest
/// center so far. Returns the rows, one after the other.
///
/// Takes O(n·k·p) time, in practice less by the triangle inequality, and O(n + k) memory.
///
/// # Errors
/// `Error::Input` where `x` has fewer distinct rows and where squares overflow, `Error::Interrupt`
/// when the monitor says stop.
pub fn seed(
    x: &Matrix,
    uniforms: &[f64],
    backend: &dyn Backend,
    monitor: &Monitor,
) -> Result<Vec<f64>> {
    check_magnitude(x)?;
    let mut result = Ok(Vec::new());
    backend.on_threads(&mut || result = plus_plus(x, uniforms, monitor));
    let rows = result?.into_iter().flat_map(|i| x.row(i));
    Ok(rows.copied().collect())
}

/// What the observations are weighed by.
struct Weights {
    /// Squared distances from the nearest centers.
    squares: Vec<f64>,
    /// The numbers of these centers.
    nearest: Vec<u32>,
    /// Sums of chunks of the squares.
    sums: Vec<f64>,
}

/// The rows drawn.
fn plus_plus(x: &Matrix, uniforms: &[f64], monitor: &Monitor) -> Result<Vec<usize>> {
    let n = x.rows();
    let mut weights = Weights {
        squares: vec![f64::INFINITY; n],
        nearest: vec![0; n],
        sums: vec![0.0; n.div_ceil(CHUNK)],
    };
    let mut rows: Vec<usize> = Vec::with_capacity(uniforms.len());
    for &uniform in uniforms {
        monitor.check()?;
        let row = match rows.len() {
            0 => ((uniform * n as f64) as usize).min(n - 1),
            _ => weights.draw(uniform).ok_or_else(|| {
                Error::Input(format!(
                    "`X` has {} distinct rows; there are more cluster centers than distinct data \
                     points, {}",
                    rows.len(),
                    uniforms.len()
                ))
            })?,
        };
        weights.add(x, row, &rows);
        rows.push(row);
    }
    Ok(rows)
}

impl Weights {
    /// Makes `row` a center beside those of `rows`.
    fn add(&mut self, x: &Matrix, row: usize, rows: &[usize]) {
        let center = x.row(row);
        let number = rows.len() as u32;
        // No observation that is nearer to its center than to half of this is nearer to the new one.
        let Margin(margin) = Margin::new(x.columns());
        let reach = |&other: &usize| 0.25 * (1.0 - 16.0 * margin) * square(center, x.row(other));
        let reaches: Vec<f64> = rows.iter().map(reach).collect();
        self.squares
            .par_chunks_mut(CHUNK)
            .zip(self.nearest.par_chunks_mut(CHUNK))
            .zip(&mut self.sums)
            .enumerate()
            .with_min_len(CHUNKS_AT_A_TIME)
            .for_each(|(chunk, ((squares, nearest), sum))| {
                let mut changed = false;
                for (i, (least, nearest)) in squares.iter_mut().zip(nearest).enumerate() {
                    let reach = reaches.get(*nearest as usize);
                    if reach.is_some_and(|reach| *least < *reach) {
                        continue;
                    }
                    let square = square(x.row(chunk * CHUNK + i), center);
                    if square < *least {
                        (*least, *nearest) = (square, number);
                        changed = true;
                    }
                }
                if changed {
                    *sum = sum_in_lanes(squares);
                }
            });
    }

    /// Draws an observation with chances proportional to the squares; `None` where all are zero.
    fn draw(&self, uniform: f64) -> Option<usize> {
        let total: f64 = self.sums.iter().sum();
        let (chunk, rest) = draw(self.sums.iter().copied(), uniform * total)?;
        let squares = self.squares[chunk * CHUNK..].iter().take(CHUNK);
        let (i, _) = draw(squares.copied(), rest)?;
        Some(chunk * CHUNK + i)
    }
}

/// A sum that does not wait for itself: as several sums of every so many values, which are added
/// up in the end.
fn sum_in_lanes(values: &[f64]) -> f64 {
    let mut lanes = [0.0; 8];
    for values in values.chunks(lanes.len()) {
        let pairs = lanes.iter_mut().zip(values);
        pairs.for_each(|(sum, value)| *sum += value);
    }
    lanes.iter().sum()
}

/// The first of the weights with which their sum exceeds `target`, and what is left of it for that
/// one; the last positive weight where rounding leaves the sum below.
fn draw(weights: impl Iterator<Item = f64>, target: f64) -> Option<(usize, f64)> {
    let mut before = 0.0;
    let mut drawn = None;
    for (i, weight) in weights.enumerate() {
        if weight > 0.0 {
            drawn = Some((i, target - before));
        }
        before += weight;
        if before > target {
            break;
        }
    }
    drawn
}
