//! Squared distances of a tile, a group of observations that are processed together.

use pulp::Simd;

use super::{Columns, Factors, Mixture, MIXTURE};
use crate::error::Result;
use crate::mahalanobis::lanes::{add_multiple, add_squares, groups, groups_mut};
use crate::mahalanobis::packed::packed_len;
use crate::memory;

/// Number of rows that are processed together: whole groups of [`REGISTERS`] registers on all
/// processors, and few enough for the L1 cache with up to 30 columns. Only the time depends on it.
pub const TILE: usize = 64;

/// Number of registers of rows per step of a product. With the sums for two rows of a factor, 12 of
/// the 16 registers of AVX2 are in use. Only the time depends on it.
const REGISTERS: usize = 4;

/// Working memory of a thread. All matrices have [`TILE`] values per row, one for each observation.
pub struct Tile {
    /// By column: the values.
    pub x: Vec<f64>,
    /// By column: differences from a mean, of a group of observations.
    pub delta: Vec<f64>,
    /// By component: squared distances.
    pub squared: Vec<f64>,
    /// By component: the logarithm of weight times density, up to a constant.
    pub density: Vec<f64>,
    /// By population: the least squared distance; after `measures()` by distance, its root.
    pub least: Vec<f64>,
    /// By population: the posterior probability, or its logarithm up to a constant.
    pub posterior: Vec<f64>,
    /// The best populations of an observation, and their measures.
    pub best: Vec<(f64, i32)>,
}

impl Tile {
    pub fn new(mixture: &Mixture) -> Result<Self> {
        let zeros = |rows: usize| memory::zeros(MIXTURE, rows * TILE);
        let (components, populations) = (mixture.components(), mixture.populations());
        Ok(Self {
            x: zeros(mixture.columns)?,
            delta: zeros(mixture.columns)?,
            squared: zeros(components)?,
            density: zeros(components)?,
            least: zeros(populations)?,
            posterior: zeros(populations)?,
            best: memory::room(MIXTURE, populations + 1)?,
        })
    }
}

/// Copies rows of `x`, and returns whether they are finite. Unused rows at the end of a tile keep
/// their earlier values.
#[inline(always)]
pub fn read(x: &Columns, first: usize, rows: usize, tile: &mut [f64]) -> bool {
    // The product of 0 with a value that is not finite is NaN.
    let mut zeros = [0.0; TILE];
    for (j, to) in tile.chunks_exact_mut(TILE).enumerate() {
        x.copy(j, first, &mut to[..rows]);
        for t in 0..TILE {
            zeros[t] += to[t] * 0.0;
        }
    }
    zeros.iter().all(|zero| *zero == 0.0)
}

/// The squared distances from all components.
#[inline(always)]
pub fn squared_distances<S: Simd>(simd: S, mixture: &Mixture, tile: &mut Tile) {
    let p = mixture.columns;
    let width = REGISTERS * S::F64_LANES;
    let delta = groups_mut::<S, REGISTERS>(&mut tile.delta[..p * width]);
    for group in 0..TILE / width {
        for c in 0..mixture.components() {
            let means = &mixture.means[c * p..][..p];
            for j in 0..p {
                let x = &groups::<S, REGISTERS>(&tile.x[j * TILE..][..TILE])[group];
                let mean = simd.splat_f64s(means[j]);
                for r in 0..REGISTERS {
                    delta[j][r] = simd.sub_f64s(x[r], mean);
                }
            }
            let squared = match &mixture.factors {
                Factors::Whitening(all) => {
                    let factor = &all[c * packed_len(p)..][..packed_len(p)];
                    norms::<S>(simd, factor, delta)
                }
                Factors::Precision(precision) => {
                    let mut total = [simd.splat_f64s(0.0); REGISTERS];
                    delta
                        .iter()
                        .for_each(|delta| add_squares(simd, &mut total, delta));
                    let precision = simd.splat_f64s(*precision);
                    total.map(|sum| simd.mul_f64s(sum, precision))
                }
            };
            groups_mut::<S, REGISTERS>(&mut tile.squared[c * TILE..][..TILE])[group] = squared;
        }
    }
}

/// ‖W·δ‖² of a group of observations, for a packed lower triangle W. Each element is summed in
/// order of columns, and the squares in order of elements.
///
/// Loops over indices, since the compiler may not inline iterators over several slices.
#[inline(always)]
#[allow(clippy::needless_range_loop)]
fn norms<S: Simd>(simd: S, factor: &[f64], delta: &[[S::f64s; REGISTERS]]) -> [S::f64s; REGISTERS] {
    let zeros = [simd.splat_f64s(0.0); REGISTERS];
    let mut total = zeros;
    let mut rest = factor;
    // Two elements at a time share the loads.
    for i in (1..delta.len()).step_by(2) {
        let (upper, lower) = (&rest[..i], &rest[i..2 * i + 1]);
        rest = &rest[2 * i + 1..];
        let delta = &delta[..=i];
        let (mut first, mut second) = (zeros, zeros);
        for j in 0..i {
            add_multiple(simd, &mut first, upper[j], &delta[j]);
            add_multiple(simd, &mut second, lower[j], &delta[j]);
        }
        add_multiple(simd, &mut second, lower[i], &delta[i]);
        add_squares(simd, &mut total, &first);
        add_squares(simd, &mut total, &second);
    }
    if delta.len() % 2 == 1 {
        let mut sum = zeros;
        let last = &rest[..delta.len()];
        for j in 0..delta.len() {
            add_multiple(simd, &mut sum, last[j], &delta[j]);
        }
        add_squares(simd, &mut total, &sum);
    }
    total
}

/// The least squared distance from a component of each population; ∞ if it is not finite.
#[inline(always)]
pub fn least(mixture: &Mixture, tile: &mut Tile) {
    for (range, least) in mixture.ranges().zip(tile.least.chunks_exact_mut(TILE)) {
        least.fill(f64::INFINITY);
        for c in range {
            let squared = &tile.squared[c * TILE..][..TILE];
            for t in 0..TILE {
                least[t] = if squared[t] < least[t] {
                    squared[t]
                } else {
                    least[t]
                };
            }
        }
    }
}
