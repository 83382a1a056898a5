//! Initial centers by k-means++ (Arthur and Vassilvitskii, Symposium on Discrete Algorithms, 2007).
//!
//! Weights are summed in chunks; the chunks' sums are summed in chunks again; and these sums are
//! added one after the other. This order of summation, and so the draw, is the same on every
//! device.

use ndarray::Array2;
use rayon::prelude::*;

use super::leaves::{Leaves, Nearer};
use super::margin::{square, Margin};
use super::region::projections_tell_most;
use super::CHUNK;
use crate::error::{Error, Result};
use crate::matrix::{self, RowSlices};
use crate::memory;
use crate::monitor::Monitor;
use crate::observations::Observations;

/// Number of chunks per task: enough work for a thread, although most observations are skipped.
/// Only the time depends on it.
const CHUNKS_AT_A_TIME: usize = 1 << 6;

/// First words of a memory error, before the number of bytes.
const WEIGHTS: &str = "the weights of the observations need";

/// Smallest number of chunks that are added up on several threads. Only the time depends on it.
const MIN_PARALLEL_CHUNKS: usize = 1 << 10;

/// The weights of the observations: their squared distances from the nearest center.
struct SeedingWeights {
    squares: Vec<f64>,
    /// The sums of the chunks of squares.
    sums: Vec<f64>,
    /// The sums of the chunks of sums.
    parts: Vec<f64>,
}

/// Draws one row of `x` as a center for each of `uniforms`, numbers from 0 to 1. All rows have
/// equal probability for the first center; for each further center, a row's probability is
/// proportional to its squared distance from the nearest center so far. Returns the centers, in
/// rows.
///
/// Takes O(n·k·p) time, in practice much less: the leaves of a k-d tree exclude most observations,
/// and the triangle inequality more. Takes O(n + k) memory besides the k·p centers. Works on the
/// threads of the calling pool. `scale` is that of the frame of `x`
/// ([`super::frame::Frame::scale`]).
///
/// # Errors
/// `Error::Input` if `x` has fewer distinct rows than `uniforms`, `Error::Memory` if there is not
/// enough memory, `Error::Interrupt` when the monitor says stop.
pub fn seed(
    x: &Observations,
    scale: f64,
    uniforms: &[f64],
    monitor: &Monitor,
) -> Result<Array2<f64>> {
    let is_worthwhile = Leaves::is_worthwhile(x.nrows(), uniforms.len());
    draw_rows(x, is_worthwhile.then_some(scale), uniforms, monitor)
}

/// As [`seed`]; excludes observations by leaves if the scale is given.
fn draw_rows(
    x: &Observations,
    scale: Option<f64>,
    uniforms: &[f64],
    monitor: &Monitor,
) -> Result<Array2<f64>> {
    let mut leaves = scale
        .map(|scale| Leaves::new(x, scale, monitor))
        .transpose()?;
    let mut weights = SeedingWeights::new(x.nrows())?;
    let mut rows = Vec::with_capacity(uniforms.len());
    let mut centers = matrix::zeros(uniforms.len(), x.ncols())?;
    for (number, &uniform) in uniforms.iter().enumerate() {
        monitor.check()?;
        let row = match number {
            0 => first(x.nrows(), uniform),
            drawn => weights
                .draw(uniform)
                .ok_or_else(|| too_few(drawn, uniforms.len()))?,
        };
        match &mut leaves {
            Some(leaves) if number == 0 => {
                weights.add(x, row);
                leaves.add_first(&weights.squares);
            }
            Some(leaves) => weights.add_by_leaves(x, leaves, row, &rows),
            None => weights.add(x, row),
        }
        centers.row_mut(number).assign(&x.view().row(row));
        rows.push(row);
    }
    Ok(centers)
}

/// The row of the first center.
pub fn first(n: usize, uniform: f64) -> usize {
    ((uniform * n as f64) as usize).min(n - 1)
}

/// The error for `x` with fewer distinct rows than centers to draw.
pub fn too_few(distinct: usize, centers: usize) -> Error {
    Error::Input(format!(
        "`x` has {distinct} distinct rows; there are more cluster centers than distinct data \
         points, {centers}"
    ))
}

/// The factor f of a squared radius: an observation whose squared distance from one center is below
/// f times the squared distance of that center from another is not nearer to the other. 1/4 (half
/// the distance, by the triangle inequality), less a margin for rounding.
pub fn radius_factor(columns: usize) -> f64 {
    let Margin(margin) = Margin::new(columns);
    0.25 * (1.0 - 16.0 * margin)
}

impl SeedingWeights {
    fn new(n: usize) -> Result<Self> {
        let chunks = n.div_ceil(CHUNK);
        Ok(Self {
            squares: memory::filled(WEIGHTS, n, f64::INFINITY)?,
            sums: vec![0.0; chunks],
            parts: vec![0.0; chunks.div_ceil(CHUNK)],
        })
    }

    /// Adds `row` as a center. Compares all observations with it.
    fn add(&mut self, x: &Observations, row: usize) {
        let center = x.row_slice(row);
        self.squares
            .par_chunks_mut(CHUNK)
            .zip(&mut self.sums)
            .enumerate()
            .with_min_len(CHUNKS_AT_A_TIME)
            .for_each(|(chunk, (squares, sum))| {
                for (i, least) in squares.iter_mut().enumerate() {
                    *least = least.min(square(x.row_slice(chunk * CHUNK + i), center));
                }
                *sum = sum_in_lanes(squares);
            });
        let parts = self.sums.chunks(CHUNK).map(sum_in_lanes);
        self.parts
            .iter_mut()
            .zip(parts)
            .for_each(|(to, part)| *to = part);
    }

    /// Adds `row` as a center to the centers `rows`, all of which were added to `leaves`.
    fn add_by_leaves(&mut self, x: &Observations, leaves: &mut Leaves, row: usize, rows: &[usize]) {
        // If projections account for most of the distances, the triangle inequality excludes little
        // more.
        let squared_radii: Vec<f64> = if projections_tell_most(x.ncols()) {
            Vec::new()
        } else {
            let (center, factor) = (x.row_slice(row), radius_factor(x.ncols()));
            let squared_radius = |&other: &usize| factor * square(center, x.row_slice(other));
            rows.par_iter()
                .with_min_len(CHUNK)
                .map(squared_radius)
                .collect()
        };
        let squares = &self.squares;
        let found = leaves.add(row, rows.len() as u32, squares, |row, nearest| {
            let radius = squared_radii.get(nearest as usize);
            radius.is_some_and(|&radius| squares[row] < radius)
        });
        let mut chunks = Vec::new();
        for Nearer { row, square } in found.into_iter().flatten() {
            self.squares[row] = square;
            // A sum of squares is never NaN, which marks the chunks whose sum is to be computed.
            let sum = &mut self.sums[row / CHUNK];
            if !sum.is_nan() {
                *sum = f64::NAN;
                chunks.push(row / CHUNK);
            }
        }
        self.add_up(&chunks);
    }

    /// Computes the sums of these chunks, and of the chunks of sums that they are in.
    fn add_up(&mut self, chunks: &[usize]) {
        let sum_of = |values: &[f64], chunk: usize| {
            let start = chunk * CHUNK;
            sum_in_lanes(&values[start..values.len().min(start + CHUNK)])
        };
        if chunks.len() < MIN_PARALLEL_CHUNKS {
            for &chunk in chunks {
                self.sums[chunk] = sum_of(&self.squares, chunk);
            }
        } else {
            let sum = |&chunk: &usize| sum_of(&self.squares, chunk);
            let sums: Vec<f64> = chunks
                .par_iter()
                .with_min_len(CHUNKS_AT_A_TIME)
                .map(sum)
                .collect();
            for (&chunk, sum) in chunks.iter().zip(sums) {
                self.sums[chunk] = sum;
            }
        }
        let mut parts: Vec<usize> = chunks.iter().map(|chunk| chunk / CHUNK).collect();
        parts.sort_unstable();
        parts.dedup();
        for part in parts {
            self.parts[part] = sum_of(&self.sums, part);
        }
    }

    /// Draws an observation with probabilities proportional to the squares; `None` if all squares
    /// are zero.
    fn draw(&self, uniform: f64) -> Option<usize> {
        let target = uniform * self.parts.iter().sum::<f64>();
        let (part, rest) = draw(&self.parts, target)?;
        let (chunk, rest) = draw_in_chunk(&self.sums, part, rest)?;
        let (row, _) = draw_in_chunk(&self.squares, chunk, rest)?;
        Some(row)
    }
}

/// The sum of a chunk, as 32 independent sums of every 32nd value, which are added pairwise at the
/// end.
fn sum_in_lanes(values: &[f64]) -> f64 {
    const LANES: usize = 32;

    let mut lanes = [0.0; LANES];
    for values in values.chunks(LANES) {
        let pairs = lanes.iter_mut().zip(values);
        pairs.for_each(|(sum, value)| *sum += value);
    }
    let mut width = LANES / 2;
    while width > 0 {
        let (sums, others) = lanes.split_at_mut(width);
        sums.iter_mut()
            .zip(others)
            .for_each(|(sum, other)| *sum += *other);
        width /= 2;
    }
    lanes[0]
}

/// As [`draw`], from one of the chunks of the weights.
fn draw_in_chunk(weights: &[f64], chunk: usize, target: f64) -> Option<(usize, f64)> {
    let start = chunk * CHUNK;
    let end = weights.len().min(start + CHUNK);
    let (drawn, rest) = draw(&weights[start..end], target)?;
    Some((start + drawn, rest))
}

/// The first weight at which the running sum exceeds `target`, and the rest of `target` for it; the
/// last positive weight if rounding leaves the sum below `target`.
fn draw(weights: &[f64], target: f64) -> Option<(usize, f64)> {
    let mut before = 0.0;
    let mut drawn = None;
    for (i, &weight) in weights.iter().enumerate() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kmeans::frame::scale_of;
    use crate::testing::{draw, observations, Data, Random, DATA};

    #[test]
    fn leaves_change_no_draw() {
        let mut random = Random::of(21);
        for exponent in 66..75 {
            let (n, p) = (5000, 2);
            let mut values = draw(&mut random, Data::Plain, n, p).values().to_vec();
            values[2 * p] = 2f64.powi(exponent);
            let x = observations(values, n, p);
            let uniforms: Vec<f64> = (0..150).map(|_| random.uniform()).collect();
            let draws = |scale| draw_rows(&x, scale, &uniforms, &Monitor::default());
            let scale = scale_of(x.largest());
            assert_eq!(draws(Some(scale)), draws(None), "2^{exponent}");
        }
        for data in DATA {
            for (n, p, k) in [(300, 1, 40), (700, 5, 60), (500, 30, 40)] {
                let x = draw(&mut random, data, n, p);
                let uniforms: Vec<f64> = (0..k).map(|_| random.uniform()).collect();
                let draws = |scale| draw_rows(&x, scale, &uniforms, &Monitor::default());
                let scale = scale_of(x.largest());
                assert_eq!(draws(Some(scale)), draws(None), "{n} x {p}, {data:?}");
            }
        }
    }
}
