//! Compares observations with all centers in single precision, by lower bounds.
//!
//! For an observation x and a center c, both relative to an origin, ‖x − c‖² = ‖x‖² + 2t with
//! t = ‖c‖²/2 − x·c. The screen computes a lower bound on t for every center. Rounding changes t by
//! at most a share ([`Frame::share`]) of ‖c‖²/2 + ‖x‖‖c‖, which is subtracted: ‖c‖ is one more
//! coordinate of a center, and −share·‖x‖ one more coordinate of an observation.

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::frame::Frame;
use super::CLUSTERS;
use crate::error::Result;
use crate::memory;
use crate::next_float::NextFloat;
use crate::simd::{dispatch, singles, singles_mut};
use crate::single_precision::up;

/// Number of observations per tile. With [`REGISTERS`], it gives enough independent sums to hide
/// the latency of additions, and few enough to stay in registers. Only the time depends on it.
const ROWS: usize = 6;

/// Number of registers of centers per tile. Only the time depends on it.
const REGISTERS: usize = 2;

/// Number of centers per block: the lanes of two of the widest registers (AVX-512).
const LANES: usize = 32;

/// Bytes of the centers that all observations of a batch are compared with before the next centers,
/// so that they stay in the first-level cache. Only the time depends on it.
const BYTES_AT_A_TIME: usize = 1 << 15;

/// One value of each center of a block.
type SingleRow = [f32; LANES];

/// One value of each observation of a tile.
type TileRow = [f32; ROWS];

/// All centers, prepared for comparisons.
pub struct CenterScreen<'a> {
    frame: &'a Frame,
    /// By block: ‖c‖²/2 with its error subtracted, the coordinates, and ‖c‖.
    rows: Vec<SingleRow>,
}

/// The center with the least bound, and a lower bound on the distances to all others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Screened {
    pub center: u32,
    pub others: f64,
}

impl<'a> CenterScreen<'a> {
    /// A screen for centers, in rows.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn new(centers: &[f64], frame: &'a Frame) -> Result<Self> {
        let columns = frame.origin.len();
        let block_rows = columns + 2;
        let blocks = (centers.len() / columns).div_ceil(LANES);
        let mut rows: Vec<SingleRow> = memory::filled(CLUSTERS, blocks * block_rows, [0.0; LANES])?;
        rows.par_chunks_mut(block_rows)
            .zip(centers.par_chunks(LANES * columns))
            .for_each(|(rows, centers)| write_block(frame, rows, centers));
        Ok(Self { frame, rows })
    }

    /// Compares observations with all centers.
    pub fn compare(&self, observations: &[&[f64]]) -> Vec<Screened> {
        let (frame, tile_rows) = (self.frame, self.frame.origin.len() + 1);
        let mut tiles: Vec<TileRow> =
            vec![[0.0; ROWS]; observations.len().div_ceil(ROWS) * tile_rows];
        let mut squares = Vec::with_capacity(observations.len());
        for (tile, observations) in tiles.chunks_mut(tile_rows).zip(observations.chunks(ROWS)) {
            for (row, x) in observations.iter().enumerate() {
                let mut square = 0.0;
                for (k, (coordinates, &value)) in tile.iter_mut().zip(*x).enumerate() {
                    let coordinate = frame.coordinate(value, k);
                    square += coordinate * coordinate;
                    coordinates[row] = -coordinate as f32;
                }
                tile[tile_rows - 1][row] = -up(frame.share * square.sqrt());
                squares.push(square);
            }
        }
        let mut least = vec![TileLeast::new(); tiles.len() / tile_rows];
        dispatch(ScreenKernel {
            tile_rows,
            tiles: &tiles,
            rows: &self.rows,
            least: &mut least,
        });
        let rounding = frame.rounding();
        let screened = squares.iter().enumerate().map(|(i, square)| {
            let (center, next) = least[i / ROWS].of(i % ROWS);
            let others = square * rounding + 2.0 * f64::from(next);
            Screened {
                center,
                others: others.max(0.0).sqrt() / frame.scale,
            }
        });
        screened.collect()
    }
}

/// Writes a block for at most [`LANES`] centers. The bounds of unused lanes are infinite.
fn write_block(frame: &Frame, rows: &mut [SingleRow], centers: &[f64]) {
    let columns = frame.origin.len();
    rows[0] = [f32::INFINITY; LANES];
    for (lane, center) in centers.chunks_exact(columns).enumerate() {
        let mut square = 0.0;
        for (k, &value) in center.iter().enumerate() {
            let coordinate = frame.coordinate(value, k);
            square += coordinate * coordinate;
            rows[1 + k][lane] = coordinate as f32;
        }
        let half = square / 2.0 * (1.0 - frame.share) - frame.tiny();
        rows[0][lane] = (half as f32).next_below();
        rows[1 + columns][lane] = up(square.sqrt());
    }
}

/// The least two bounds of each observation of a tile, for each lane of a register.
#[derive(Clone)]
struct TileLeast {
    least: [[f32; LANES]; ROWS],
    next: [[f32; LANES]; ROWS],
    /// The number of the register with the least bound.
    register: [[u32; LANES]; ROWS],
    /// The lanes of a register.
    lanes: usize,
}

impl TileLeast {
    fn new() -> Self {
        Self {
            least: [[f32::INFINITY; LANES]; ROWS],
            next: [[f32::INFINITY; LANES]; ROWS],
            register: [[0; LANES]; ROWS],
            lanes: LANES,
        }
    }

    /// The center with the least bound of an observation, and the next bound.
    fn of(&self, row: usize) -> (u32, f32) {
        let least = &self.least[row][..self.lanes];
        let lane = (0..self.lanes).fold(0, |best, lane| {
            if least[lane] < least[best] {
                lane
            } else {
                best
            }
        });
        let others = (0..self.lanes).filter(|&other| other != lane);
        let next = others.fold(self.next[row][lane], |next, other| next.min(least[other]));
        let center = self.register[row][lane] * self.lanes as u32 + lane as u32;
        (center, next)
    }
}

/// Compares tiles of observations with all blocks of centers.
struct ScreenKernel<'a> {
    /// Number of coordinates of an observation, including the coordinate for the error.
    tile_rows: usize,
    tiles: &'a [TileRow],
    rows: &'a [SingleRow],
    least: &'a mut [TileLeast],
}

impl WithSimd for ScreenKernel<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            tile_rows,
            tiles,
            rows,
            least,
        } = self;
        let block_rows = tile_rows + 1;
        let parts = LANES / (REGISTERS * S::F32_LANES);
        let blocks = (BYTES_AT_A_TIME / (block_rows * size_of::<SingleRow>())).max(1);
        for (some, rows) in rows.chunks(blocks * block_rows).enumerate() {
            for (tile, least) in tiles.chunks_exact(tile_rows).zip(&mut *least) {
                least.lanes = S::F32_LANES;
                for (block, rows) in rows.chunks_exact(block_rows).enumerate() {
                    for part in 0..parts {
                        let bounds = tile_of_bounds(simd, tile, rows, part);
                        let first = ((some * blocks + block) * parts + part) * REGISTERS;
                        keep_least(simd, least, &bounds, first as u32);
                    }
                }
            }
        }
    }
}

/// The bounds of a tile of observations for some registers of centers.
#[inline(always)]
fn tile_of_bounds<S: Simd>(
    simd: S,
    tile: &[TileRow],
    rows: &[SingleRow],
    part: usize,
) -> [[S::f32s; REGISTERS]; ROWS] {
    let registers = |row: usize| &singles::<S>(&rows[row])[part * REGISTERS..][..REGISTERS];
    let start = registers(0);
    let mut bounds = [[start[0], start[1]]; ROWS];
    for (row, observations) in tile.iter().enumerate() {
        let centers = registers(1 + row);
        for (bounds, &observation) in bounds.iter_mut().zip(observations) {
            let observation = simd.splat_f32s(observation);
            for (bound, &center) in bounds.iter_mut().zip(centers) {
                *bound = simd.mul_add_e_f32s(observation, center, *bound);
            }
        }
    }
    bounds
}

/// Keeps the least two bounds in each lane. `first` is the number of the first register.
#[inline(always)]
fn keep_least<S: Simd>(
    simd: S,
    kept: &mut TileLeast,
    bounds: &[[S::f32s; REGISTERS]; ROWS],
    first: u32,
) {
    for (row, bounds) in bounds.iter().enumerate() {
        let least = &mut singles_mut::<S>(&mut kept.least[row])[0];
        let next = &mut singles_mut::<S>(&mut kept.next[row])[0];
        let register = &mut S::as_mut_simd_u32s(&mut kept.register[row]).0[0];
        for (r, &bound) in bounds.iter().enumerate() {
            let is_less = simd.less_than_f32s(bound, *least);
            *next = simd.min_f32s(*next, simd.max_f32s(bound, *least));
            *least = simd.min_f32s(bound, *least);
            let number = simd.splat_u32s(first + r as u32);
            *register = simd.select_u32s(is_less, number, *register);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kmeans::margin::square;
    use crate::matrix::RowSlices;
    use crate::observations::Observations;
    use crate::testing::{draw, observations, Data, Random, DATA};

    /// Checks that bounds are below distances, whatever the instruction set.
    fn check(x: &Observations, k: usize) -> usize {
        let (n, p) = x.dim();
        let centers = &x.values()[..k * p];
        let frame = Frame::new(x.view(), x.largest());
        let screen = CenterScreen::new(centers, &frame).unwrap();
        let rows: Vec<&[f64]> = (0..n).map(|i| x.row_slice(i)).collect();
        let found = screen.compare(&rows);
        let mut decided = 0;
        for (row, found) in rows.iter().zip(found) {
            let distance = |c: usize| square(row, &centers[c * p..][..p]).sqrt();
            let own = distance(found.center as usize);
            let others = (0..k).filter(|&c| c as u32 != found.center).map(distance);
            let least = others.fold(f64::INFINITY, f64::min);
            assert!(found.others <= least, "{} > {least}", found.others);
            decided += usize::from(own < found.others);
        }
        decided
    }

    #[test]
    fn bounds_are_below_distances_and_decide_most_observations() {
        let mut random = Random::of(3);
        for data in DATA {
            for (n, p, k) in [(200, 1, 33), (300, 14, 100), (100, 70, 9), (50, 3, 1)] {
                let decided = check(&draw(&mut random, data, n, p), k);
                if matches!(data, Data::Plain | Data::Mixture) && p > 1 {
                    // The centers are observations, too. Bounds decide nothing at distance 0.
                    assert!(decided > n / 2, "{decided} of {n} x {p}, {data:?}");
                }
            }
        }
    }

    #[test]
    fn a_far_center_leaves_the_bounds_between_others_tight() {
        let (n, p, k) = (200, 5, 40);
        let mut values = draw(&mut Random::of(4), Data::Plain, n, p)
            .values()
            .to_vec();
        values[..p].fill(1e12);
        let decided = check(&observations(values, n, p), k);
        assert!(decided > n / 2, "{decided}");
    }
}
