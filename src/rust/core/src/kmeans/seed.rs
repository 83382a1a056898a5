//! Where to start: k-means++ (Arthur and Vassilvitskii, Symposium on Discrete Algorithms, 2007).

use rayon::prelude::*;

use super::{square, Margin, OBSERVATIONS_AT_A_TIME};
use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::mahalanobis::check_magnitude;
use crate::matrix::Matrix;
use crate::monitor::Monitor;

/// Observations whose weights are summed up together.
const CHUNK: usize = 256;

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

/// An observation's squared distance from its nearest center, and that center's number.
#[derive(Debug, Clone, Copy)]
struct Near {
    square: f64,
    center: u32,
}

/// The rows drawn.
fn plus_plus(x: &Matrix, uniforms: &[f64], monitor: &Monitor) -> Result<Vec<usize>> {
    let n = x.rows();
    let mut near = vec![
        Near {
            square: f64::INFINITY,
            center: 0
        };
        n
    ];
    let mut sums = vec![0.0; n.div_ceil(CHUNK)];
    let mut rows: Vec<usize> = Vec::with_capacity(uniforms.len());
    for &uniform in uniforms {
        monitor.check()?;
        let row = match rows.len() {
            0 => ((uniform * n as f64) as usize).min(n - 1),
            _ => draw_row(&near, &sums, uniform).ok_or_else(|| {
                Error::Input(format!(
                    "`centers` is {}; more cluster centers than distinct data points.",
                    uniforms.len()
                ))
            })?,
        };
        add(x, row, &rows, &mut near, &mut sums);
        rows.push(row);
    }
    Ok(rows)
}

/// Makes `row` a center beside those of `rows`. `sums` are those of chunks of the squares.
fn add(x: &Matrix, row: usize, rows: &[usize], near: &mut [Near], sums: &mut [f64]) {
    let center = x.row(row);
    let number = rows.len() as u32;
    // No observation that is nearer to its center than to half of this is nearer to the new one.
    let Margin(margin) = Margin::new(x.columns());
    let reach = |&other: &usize| 0.25 * (1.0 - 16.0 * margin) * square(center, x.row(other));
    let reaches: Vec<f64> = rows.iter().map(reach).collect();
    let chunks = near.par_chunks_mut(CHUNK).zip(sums).enumerate();
    chunks
        .with_min_len(OBSERVATIONS_AT_A_TIME / CHUNK)
        .for_each(|(chunk, (near, sum))| {
            let mut changed = false;
            for (i, near) in near.iter_mut().enumerate() {
                let reach = reaches.get(near.center as usize);
                if reach.is_some_and(|&reach| near.square < reach) {
                    continue;
                }
                let square = square(x.row(chunk * CHUNK + i), center);
                if square < near.square {
                    *near = Near {
                        square,
                        center: number,
                    };
                    changed = true;
                }
            }
            if changed {
                *sum = near.iter().map(|near| near.square).sum();
            }
        });
}

/// Draws an observation with chances proportional to the squares; `None` where all are zero.
fn draw_row(near: &[Near], sums: &[f64], uniform: f64) -> Option<usize> {
    let total: f64 = sums.iter().sum();
    let (chunk, rest) = draw(sums.iter().copied(), uniform * total)?;
    let squares = near[chunk * CHUNK..].iter().take(CHUNK);
    let (i, _) = draw(squares.map(|near| near.square), rest)?;
    Some(chunk * CHUNK + i)
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
