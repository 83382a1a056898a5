//! Compares observations with all centers in double precision, with the bits of
//! [`square`](super::margin::square).

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::CLUSTERS;
use crate::error::Result;
use crate::memory;
use crate::simd::{dispatch, doubles, doubles_mut};

/// Number of observations per tile, for enough independent sums to hide the latency of additions.
/// Only the time depends on it.
const ROWS: usize = 4;

/// Number of centers per block: the lanes of the widest register (AVX-512).
const LANES: usize = 8;

/// One value of each center of a block.
type DoubleRow = [f64; LANES];

/// All centers, with the coordinates of [`LANES`] centers side by side.
pub struct ExactCenters {
    columns: usize,
    rows: Vec<DoubleRow>,
}

/// The nearest center of an observation with its sum of squares, and the least other sum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TwoLeast {
    pub center: u32,
    pub square: f64,
    pub next: f64,
}

impl ExactCenters {
    /// The centers in rows of `columns` values.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn new(centers: &[f64], columns: usize) -> Result<Self> {
        let blocks = (centers.len() / columns).div_ceil(LANES);
        // Unused lanes have infinite sums.
        let none = [f64::INFINITY; LANES];
        let mut rows: Vec<DoubleRow> = memory::filled(CLUSTERS, blocks * columns, none)?;
        rows.par_chunks_mut(columns)
            .zip(centers.par_chunks(LANES * columns))
            .for_each(|(rows, centers)| {
                for (lane, center) in centers.chunks_exact(columns).enumerate() {
                    for (row, &value) in rows.iter_mut().zip(center) {
                        row[lane] = value;
                    }
                }
            });
        Ok(Self { columns, rows })
    }

    /// Compares observations with all centers. Equal sums go to the smallest number.
    pub fn compare(&self, observations: &[&[f64]]) -> Vec<TwoLeast> {
        let tiles = observations.chunks(ROWS).map(|tile| {
            let found = dispatch(ExactKernel {
                centers: self,
                tile: std::array::from_fn(|row| tile[row.min(tile.len() - 1)]),
            });
            found.into_iter().take(tile.len())
        });
        tiles.flatten().collect()
    }
}

/// Compares a tile of observations with all centers.
struct ExactKernel<'a> {
    centers: &'a ExactCenters,
    tile: [&'a [f64]; ROWS],
}

impl WithSimd for ExactKernel<'_> {
    type Output = [TwoLeast; ROWS];

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let Self { centers, tile } = self;
        let mut found = [TwoLeast {
            center: 0,
            square: f64::INFINITY,
            next: f64::INFINITY,
        }; ROWS];
        for (block, rows) in centers.rows.chunks_exact(centers.columns).enumerate() {
            let mut sums = [[0.0; LANES]; ROWS];
            for part in 0..LANES / S::F64_LANES {
                let mut squares = [simd.splat_f64s(0.0); ROWS];
                for (k, row) in rows.iter().enumerate() {
                    let center = doubles::<S>(row)[part];
                    for (square, observation) in squares.iter_mut().zip(tile) {
                        let difference = simd.sub_f64s(simd.splat_f64s(observation[k]), center);
                        // Not fused: the bits are those of the definition.
                        let term = simd.mul_f64s(difference, difference);
                        *square = simd.add_f64s(*square, term);
                    }
                }
                for (sums, square) in sums.iter_mut().zip(squares) {
                    doubles_mut::<S>(sums)[part] = square;
                }
            }
            for (found, sums) in found.iter_mut().zip(sums) {
                for (lane, square) in sums.into_iter().enumerate() {
                    if square < found.square {
                        found.next = found.square;
                        found.square = square;
                        found.center = (block * LANES + lane) as u32;
                    } else if square < found.next {
                        found.next = square;
                    }
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kmeans::margin::square;
    use crate::matrix::RowSlices;
    use crate::testing::{draw, Random, DATA};

    #[test]
    fn sums_have_the_bits_of_the_definition() {
        let mut random = Random::of(5);
        for data in DATA {
            for (n, p, k) in [(9, 1, 9), (30, 13, 17), (20, 40, 1)] {
                let x = draw(&mut random, data, n, p);
                let centers = &x.values()[..k * p];
                let rows: Vec<&[f64]> = (0..n).map(|i| x.row_slice(i)).collect();
                let found = ExactCenters::new(centers, p).unwrap().compare(&rows);
                for (row, found) in rows.iter().zip(found) {
                    let mut squares: Vec<(f64, u32)> = (0..k as u32)
                        .map(|c| (square(row, &centers[c as usize * p..][..p]), c))
                        .collect();
                    squares.sort_by(|a, b| a.0.total_cmp(&b.0));
                    assert_eq!((found.square, found.center), squares[0]);
                    let next = squares.get(1).map_or(f64::INFINITY, |next| next.0);
                    assert_eq!(found.next, next);
                }
            }
        }
    }
}
