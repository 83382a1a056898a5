//! Initial centers by k-means++ (Arthur and Vassilvitskii, Symposium on Discrete Algorithms, 2007).
//!
//! Weights are summed in chunks; the chunks' sums are summed in chunks again; and these sums are
//! added one after the other. This order of summation, and so the draw, is the same on every
//! device.

use ndarray::Array2;
use rayon::prelude::*;

use super::margin::{square, Margin};
use super::projection::{ProjectedChunk, Projection};
use super::CHUNK;
use crate::error::{Error, Result};
use crate::matrix::{self, RowSlices};
use crate::memory;
use crate::monitor::Monitor;
use crate::observations::Observations;

/// Number of chunks per task: enough work for a thread, although most observations are skipped.
/// Only the time depends on it.
const CHUNKS_AT_A_TIME: usize = 1 << 6;

/// The start of memory errors: what needs the memory.
const WEIGHTS: &str = "the weights of the observations need";

/// Number of observations that are compared with a center at a time: sums that do not wait for each
/// other.
const ROWS: usize = 4;

/// The weights of the observations.
struct Weights<'a> {
    /// By observation: the squared distance from the nearest center.
    squares: Vec<f64>,
    /// By observation: the number of that center.
    nearest: Vec<u32>,
    /// The sums of the chunks of squares.
    sums: Vec<f64>,
    /// `None` if projections do not pay.
    projection: Option<Projection<'a>>,
}

/// Draws one row of `x` as a center for each of `uniforms`, numbers from 0 to 1. All rows have
/// equal probability for the first center; for each further center, a row's probability is
/// proportional to its squared distance from the nearest center so far. Returns the centers, in
/// rows.
///
/// Takes O(n·k·p) time, in practice less by bounds in a few directions and by the triangle
/// inequality, and O(n + k) memory. Works on the threads of the calling pool. `unit` is that of the
/// frame of `x` ([`super::frame::Frame::unit`]).
///
/// # Errors
/// `Error::Input` if `x` has fewer distinct rows than `uniforms`, `Error::Interrupt` when the
/// monitor says stop.
pub fn seed(
    x: &Observations,
    unit: f64,
    uniforms: &[f64],
    monitor: &Monitor,
) -> Result<Array2<f64>> {
    let projects = Projection::pays(x.nrows(), uniforms.len());
    draw_rows(x, projects.then_some(unit), uniforms, monitor)
}

/// As [`seed`]; excludes observations by projections if the unit is given.
fn draw_rows(
    x: &Observations,
    unit: Option<f64>,
    uniforms: &[f64],
    monitor: &Monitor,
) -> Result<Array2<f64>> {
    let n = x.nrows();
    let mut weights = Weights {
        squares: memory::filled(WEIGHTS, n, f64::INFINITY)?,
        nearest: memory::filled(WEIGHTS, n, 0)?,
        sums: vec![0.0; n.div_ceil(CHUNK)],
        projection: unit.map(|unit| Projection::new(x, unit)).transpose()?,
    };
    let mut rows = Vec::with_capacity(uniforms.len());
    for &uniform in uniforms {
        monitor.check()?;
        let row = match rows.len() {
            0 => first(x, uniform),
            drawn => weights
                .draw(uniform)
                .ok_or_else(|| too_few(drawn, uniforms.len()))?,
        };
        weights.add(x, row, &rows);
        rows.push(row);
    }
    let mut centers = matrix::zeros(rows.len(), x.ncols())?;
    for (mut center, &row) in centers.rows_mut().into_iter().zip(&rows) {
        center.assign(&x.view().row(row));
    }
    Ok(centers)
}

/// The row of the first center.
pub fn first(x: &Observations, uniform: f64) -> usize {
    ((uniform * x.nrows() as f64) as usize).min(x.nrows() - 1)
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

/// The [`square`] of each row.
fn squares_of(rows: [&[f64]; ROWS], center: &[f64]) -> [f64; ROWS] {
    let mut sums = [0.0; ROWS];
    let rows = rows.map(|row| &row[..center.len()]);
    for (k, &value) in center.iter().enumerate() {
        for (sum, row) in sums.iter_mut().zip(rows) {
            let difference = row[k] - value;
            *sum += difference * difference;
        }
    }
    sums
}

impl Weights<'_> {
    /// Adds `row` as a center to the centers `rows`.
    fn add(&mut self, x: &Observations, row: usize, rows: &[usize]) {
        let center = x.row_slice(row);
        let number = rows.len() as u32;
        let factor = radius_factor(x.ncols());
        let squared_radius = |&other: &usize| factor * square(center, x.row_slice(other));
        let squared_radii: Vec<f64> = rows.iter().map(squared_radius).collect();
        let to_center = self.projection.as_ref().map(|known| known.to_row(row));
        let projected: Vec<Option<&mut ProjectedChunk>> = match &mut self.projection {
            Some(projection) => projection.chunks.iter_mut().map(Some).collect(),
            None => self.sums.iter().map(|_| None).collect(),
        };
        self.squares
            .par_chunks_mut(CHUNK)
            .zip(self.nearest.par_chunks_mut(CHUNK))
            .zip(&mut self.sums)
            .zip(projected)
            .enumerate()
            .with_min_len(CHUNKS_AT_A_TIME)
            .for_each_init(Vec::new, |open, (chunk, arrays)| {
                let (((squares, nearest), sum), mut projected) = arrays;
                open.clear();
                match (&to_center, &projected) {
                    (Some(to_center), Some(projected)) => to_center.open(projected, open),
                    _ => open.extend(0..squares.len() as u32),
                }
                open.retain(|&i| {
                    // Lanes after the last observation are open, too.
                    let Some(least) = squares.get(i as usize) else {
                        return false;
                    };
                    let radius = squared_radii.get(nearest[i as usize] as usize);
                    !radius.is_some_and(|radius| least < radius)
                });
                let row = |i: u32| x.row_slice(chunk * CHUNK + i as usize);
                let found = open.chunks(ROWS).flat_map(|open| {
                    let rows = std::array::from_fn(|at| row(open[at.min(open.len() - 1)]));
                    open.iter().zip(squares_of(rows, center))
                });
                let mut changed = false;
                for (&i, square) in found {
                    let i = i as usize;
                    if square < squares[i] {
                        (squares[i], nearest[i]) = (square, number);
                        changed = true;
                        if let (Some(to_center), Some(projected)) = (&to_center, &mut projected) {
                            to_center.reached(projected, i, square);
                        }
                    }
                }
                if changed {
                    *sum = sum_in_lanes(squares);
                }
            });
    }

    /// Draws an observation with probabilities proportional to the squares; `None` if all squares
    /// are zero.
    fn draw(&self, uniform: f64) -> Option<usize> {
        let parts: Vec<f64> = self.sums.chunks(CHUNK).map(sum_in_lanes).collect();
        let target = uniform * parts.iter().sum::<f64>();
        let (part, rest) = draw(&parts, target)?;
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
    use crate::kmeans::frame::unit_of;
    use crate::testing::{draw, Random, DATA};

    #[test]
    fn projections_change_no_draw() {
        let mut random = Random::of(21);
        for data in DATA {
            for (n, p, k) in [(300, 1, 40), (700, 5, 60), (500, 30, 40)] {
                let x = draw(&mut random, data, n, p);
                let uniforms: Vec<f64> = (0..k).map(|_| random.uniform()).collect();
                let draws = |unit| draw_rows(&x, unit, &uniforms, &Monitor::default());
                let unit = unit_of(x.largest());
                assert_eq!(draws(Some(unit)), draws(None), "{n} x {p}, {data:?}");
            }
        }
    }
}
