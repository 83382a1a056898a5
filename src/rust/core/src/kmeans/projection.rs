//! Lower bounds on distances from a few directions, for draws of centers.
//!
//! Distances between projections to orthonormal directions are not above the distances between the
//! points. The directions are about the first principal axes, so that few coordinates tell most of
//! a distance.

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::margin::Margin;
use super::{CHUNK, CLUSTERS};
use crate::error::Result;
use crate::matrix::RowSlices;
use crate::memory;
use crate::observations::Observations;
use crate::simd::dispatch;
use crate::single_precision::{up, without_tiny, TINY, UNIT};

/// Number of directions. More of them exclude more observations and take more memory and time.
const DIRECTIONS: usize = 12;

/// Number of observations from which the directions are computed, and number of iterations. Only
/// the time of the draws depends on them.
const SAMPLE: usize = 1024;
const ITERATIONS: usize = 6;

/// Draws for which projections pay have this many times the operations of the projections. If too
/// low, draws of few centers take longer; if too high, draws of many do.
const PAYS_FROM: usize = 4;

/// Share of a squared distance in single precision that covers its roundings, and that the
/// directions are orthonormal only up to rounding.
const SLACK: f32 = 64.0 * UNIT as f32;

/// A projection in single precision, and a bound on its error.
#[derive(Debug, Clone, Copy)]
struct Projected {
    coordinates: [f32; DIRECTIONS],
    error: f32,
}

/// The projections of [`CHUNK`] observations.
#[derive(Clone)]
pub struct ProjectedChunk {
    coordinates: [[f32; CHUNK]; DIRECTIONS],
    errors: [f32; CHUNK],
    /// By observation, the distance to the nearest center, with the error of its projection.
    reach: [f32; CHUNK],
}

/// Directions and the projections of all observations.
pub struct Projection<'a> {
    x: &'a Observations,
    directions: Directions,
    pub chunks: Vec<ProjectedChunk>,
}

impl<'a> Projection<'a> {
    /// Whether draws of `k` centers among `n` observations take longer than the directions and the
    /// projections.
    pub fn pays(n: usize, k: usize) -> bool {
        let of_directions = 2 * ITERATIONS * SAMPLE.min(n);
        PAYS_FROM * DIRECTIONS * (of_directions + n) <= n.saturating_mul(k)
    }

    /// Projects all observations, on the threads of the calling pool, in units of their
    /// [`super::frame::unit_of`].
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn new(x: &'a Observations, unit: f64) -> Result<Self> {
        let directions = Directions::new(x, unit);
        let empty = ProjectedChunk {
            coordinates: [[0.0; CHUNK]; DIRECTIONS],
            errors: [0.0; CHUNK],
            reach: [f32::INFINITY; CHUNK],
        };
        let n = x.nrows();
        let mut chunks = memory::filled(CLUSTERS, n.div_ceil(CHUNK), empty)?;
        let project = |(number, chunk): (usize, &mut ProjectedChunk)| {
            for i in 0..CHUNK.min(n - number * CHUNK) {
                let projected = directions.project(x.row_slice(number * CHUNK + i));
                for (row, value) in chunk.coordinates.iter_mut().zip(projected.coordinates) {
                    row[i] = value;
                }
                chunk.errors[i] = projected.error;
            }
        };
        chunks.par_iter_mut().enumerate().for_each(project);
        Ok(Self {
            x,
            directions,
            chunks,
        })
    }

    /// A comparison with a row of `x` as a center.
    pub fn to_row(&self, row: usize) -> ToCenter {
        ToCenter {
            center: self.directions.project(self.x.row_slice(row)),
            unit: self.directions.unit,
            margin: Margin::new(self.x.ncols()),
        }
    }
}

/// Compares projected observations with a center.
#[derive(Debug, Clone, Copy)]
pub struct ToCenter {
    center: Projected,
    unit: f64,
    margin: Margin,
}

impl ToCenter {
    /// Appends the observations of a chunk that may be nearer to this center than to all before.
    pub fn open(&self, chunk: &ProjectedChunk, open: &mut Vec<u32>) {
        dispatch(OpenKernel {
            center: &self.center,
            chunk,
            open,
        });
    }

    /// Records the squared distance of an observation of a chunk to its nearest center.
    pub fn reached(&self, chunk: &mut ProjectedChunk, i: usize, square: f64) {
        let distance = self.margin.above(square.sqrt()) * self.unit * (1.0 + 4.0 * UNIT);
        chunk.reach[i] = up(distance + f64::from(chunk.errors[i]));
    }
}

struct OpenKernel<'a> {
    center: &'a Projected,
    chunk: &'a ProjectedChunk,
    open: &'a mut Vec<u32>,
}

impl WithSimd for OpenKernel<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self {
            center,
            chunk,
            open,
        } = self;
        let mut squares = [0.0f32; CHUNK];
        for (row, &center) in chunk.coordinates.iter().zip(&center.coordinates) {
            for (square, &coordinate) in squares.iter_mut().zip(row) {
                let difference = coordinate - center;
                *square += difference * difference;
            }
        }
        let mut is_open = [0u8; CHUNK];
        for ((is_open, &square), &reach) in is_open.iter_mut().zip(&squares).zip(&chunk.reach) {
            let limit = reach + center.error;
            *is_open = u8::from(square * (1.0 - SLACK) <= limit * limit);
        }
        for (eight, flags) in is_open.chunks_exact(8).enumerate() {
            let mut flags = u64::from_le_bytes(flags.try_into().expect("eight of them"));
            while flags != 0 {
                open.push(8 * eight as u32 + flags.trailing_zeros() / 8);
                flags &= flags - 1;
            }
        }
    }
}

/// Orthonormal directions, and the point that has the projection 0.
struct Directions {
    origin: Vec<f64>,
    /// Fewer than [`DIRECTIONS`] for data of fewer dimensions.
    rows: Vec<Vec<f64>>,
    /// See [`unit_of`].
    unit: f64,
}

impl Directions {
    /// Subspace iteration with the covariance of a sample.
    fn new(x: &Observations, unit: f64) -> Self {
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
                    .map(|(v, o)| (v - o) * unit)
                    .collect()
            })
            .collect();
        // Any start will do that no direction is orthogonal to.
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
        Self { origin, rows, unit }
    }

    fn project(&self, x: &[f64]) -> Projected {
        let mut coordinates = [0.0f32; DIRECTIONS];
        let mut length = 0.0;
        for (coordinate, row) in coordinates.iter_mut().zip(&self.rows) {
            let terms = row.iter().zip(x).zip(&self.origin);
            let value = self.unit * terms.map(|((r, x), o)| r * (x - o)).sum::<f64>();
            *coordinate = without_tiny(value) as f32;
            length += value * value;
        }
        let square: f64 = x
            .iter()
            .zip(&self.origin)
            .map(|(x, o)| (x - o) * (x - o))
            .sum();
        let rounding = (x.len() as f64 + 16.0) * f64::EPSILON * square.sqrt() * self.unit;
        let error = 2.0 * (UNIT * length.sqrt() + rounding + DIRECTIONS as f64 * TINY);
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

/// Gram-Schmidt, twice for rounding; without vectors that depend on those before.
fn orthonormal(vectors: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let mut rows: Vec<Vec<f64>> = Vec::new();
    for mut vector in vectors {
        let before = dot(&vector, &vector);
        for row in rows.iter().chain(&rows) {
            let along = dot(row, &vector);
            add_multiple(&mut vector, -along, row);
        }
        let length = dot(&vector, &vector).sqrt();
        // Also false for what is not a number.
        if length > 1e-6 * before.sqrt() && length.is_normal() {
            vector.iter_mut().for_each(|value| *value /= length);
            rows.push(vector);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kmeans::frame::unit_of;
    use crate::kmeans::margin::square;
    use crate::testing::{draw, observations, Data, Random, DATA};

    /// The number of observations that bounds exclude from being nearer to a second center, as a
    /// share of those that are clearly farther. Checks that none of them is nearer.
    fn excluded(x: &Observations) -> f64 {
        let n = x.nrows();
        let to = |row: usize| move |i: usize| square(x.row_slice(i), x.row_slice(row));
        let (to_first, to_second) = (to(0), to(1));
        let mut projection = Projection::new(x, unit_of(x.largest())).unwrap();
        let first = projection.to_row(0);
        for i in 0..n {
            first.reached(&mut projection.chunks[i / CHUNK], i % CHUNK, to_first(i));
        }
        let second = projection.to_row(1);
        let mut is_open = vec![false; n];
        for (number, chunk) in projection.chunks.iter().enumerate() {
            let mut open = Vec::new();
            second.open(chunk, &mut open);
            for i in open.into_iter().map(|i| number * CHUNK + i as usize) {
                // Lanes after the last observation are open.
                if i < n {
                    is_open[i] = true;
                }
            }
        }
        for (i, &open) in is_open.iter().enumerate() {
            assert!(open || to_second(i) >= to_first(i), "{i}");
        }
        let farther = (0..n).filter(|&i| to_second(i) > 1.01 * to_first(i));
        is_open.iter().filter(|&&open| !open).count() as f64 / farther.count().max(1) as f64
    }

    #[test]
    fn no_nearer_observation_is_excluded() {
        let mut random = Random::of(6);
        for data in DATA {
            for p in [1, 2, 7, 30] {
                let share = excluded(&draw(&mut random, data, 700, p));
                if matches!(data, Data::Plain) && p < DIRECTIONS {
                    assert!(share > 0.99, "{share}");
                }
            }
        }
        let far = |value: f64| {
            let mut values = draw(&mut Random::of(7), Data::Plain, 300, 4)
                .values()
                .to_vec();
            values[17] = value;
            excluded(&observations(values, 300, 4))
        };
        for value in [1e9, -1e60, 1e-300] {
            far(value);
        }
        // Far observations beside the sample, one of them a center.
        let mut values = draw(&mut Random::of(8), Data::Plain, 5000, 3)
            .values()
            .to_vec();
        for (row, value) in [(1, 1e50), (2, 1.001e50), (4, -1e50)] {
            values[3 * row] = value;
        }
        excluded(&observations(values, 5000, 3));
    }
}
