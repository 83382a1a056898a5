//! Distances on the CPU: tiles of rows and columns, one pair of points in each lane.

use std::ops::Range;

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::device::DistanceDevice;
use super::pairs::Pairs;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::memory;
use crate::metric::form::{Form, WithForm};
use crate::metric::Points;
use crate::monitor::Monitor;
use crate::simd::{dispatch, doubles, doubles_mut};

/// Number of rows per block: the lanes of [`REGISTERS`] of the widest registers (AVX-512).
pub const LANES: usize = 16;

/// Number of registers of rows per tile. Only the time depends on it.
pub const REGISTERS: usize = 2;

/// Number of columns per tile. With [`REGISTERS`], it gives enough independent sums to hide the
/// latency of additions, and few enough to stay in registers. Only the time depends on it.
pub const TILE_COLUMNS: usize = 4;

/// Number of coordinates of a tile between two checks of the monitor: a few hundredths of a second
/// with powers of differences, the slowest terms. If larger, an interrupt is answered late.
const COORDINATES: usize = 1 << 14;

/// Largest number of columns that share a pass over the blocks of rows. More columns mean fewer
/// reads of blocks from memory, but the columns should stay in a core's private cache. Only the
/// time depends on it.
const GROUP: usize = 64;

/// The points in blocks of [`LANES`] points: for each coordinate, one value per lane.
struct RowBlocks {
    values: Vec<f64>,
    columns: usize,
}

impl RowBlocks {
    /// The first `rows` points; the last block is padded with zeros.
    fn new(points: &Points, rows: usize) -> Result<Self> {
        let columns = points.columns();
        let len = rows.div_ceil(LANES) * LANES * columns;
        let mut values = memory::zeros(memory::COPY_OF_OBSERVATIONS, len)?;
        values
            .par_chunks_mut(LANES * columns.max(1))
            .enumerate()
            .for_each(|(block, values)| {
                for lane in 0..LANES.min(rows - block * LANES) {
                    let row = points.row(block * LANES + lane);
                    let to = values[lane..].iter_mut().step_by(LANES);
                    to.zip(row).for_each(|(to, &value)| *to = value);
                }
            });
        Ok(Self { values, columns })
    }

    /// The values of a block, coordinate by coordinate.
    fn block(&self, block: usize) -> &[f64] {
        &self.values[block * LANES * self.columns..][..LANES * self.columns]
    }
}

impl DistanceDevice for Cpu {
    fn distances(
        &self,
        points: &Points,
        pairs: &Pairs,
        out: &mut [f64],
        monitor: &Monitor,
    ) -> Result<()> {
        self.install(|| distances(points, pairs, out, monitor))
    }
}

/// Writes the distances of `pairs` to `out`, on the threads of the calling rayon pool.
///
/// # Errors
/// `Error::Interrupt` when the monitor says stop, `Error::Memory` if there is not enough memory.
fn distances(points: &Points, pairs: &Pairs, out: &mut [f64], monitor: &Monitor) -> Result<()> {
    monitor.expect(pairs.count() as u64);
    points.with_form(AllPairs {
        points,
        pairs,
        out,
        monitor,
    })
}

/// The arguments of [`distances`], for [`WithForm`].
struct AllPairs<'a> {
    points: &'a Points,
    pairs: &'a Pairs,
    out: &'a mut [f64],
    monitor: &'a Monitor,
}

impl<'a> AllPairs<'a> {
    /// The groups of columns, each with its part of the output.
    fn groups(&mut self) -> Vec<(Range<usize>, &mut [f64])> {
        let columns = self.pairs.columns();
        let size = (columns / (8 * rayon::current_num_threads())).clamp(TILE_COLUMNS, GROUP);
        let mut rest = &mut *self.out;
        (0..columns)
            .step_by(size)
            .map(|first| {
                let group = first..(first + size).min(columns);
                let count = group.clone().map(|j| self.pairs.column(j).rows.len()).sum();
                let (part, after) = std::mem::take(&mut rest).split_at_mut(count);
                rest = after;
                (group, part)
            })
            .collect()
    }
}

impl WithForm for AllPairs<'_> {
    type Output = Result<()>;

    fn with_form<F: Form>(mut self, form: F) -> Result<()> {
        let (points, pairs, monitor) = (self.points, self.pairs, self.monitor);
        let blocks = &RowBlocks::new(points, pairs.rows())?;
        self.groups()
            .into_par_iter()
            .try_for_each(|(columns, out)| {
                dispatch(ColumnGroup {
                    form,
                    points,
                    blocks,
                    pairs,
                    columns,
                    out,
                    monitor,
                })
            })
    }

    fn pairwise(mut self) -> Result<()> {
        let (points, pairs, monitor) = (self.points, self.pairs, self.monitor);
        self.groups()
            .into_par_iter()
            .try_for_each(|(columns, mut out)| {
                for column in columns.map(|j| pairs.column(j)) {
                    let (these, after) = out.split_at_mut(column.rows.len());
                    for (chunk, some) in these.chunks_mut(LANES).enumerate() {
                        let first = column.rows.start + chunk * LANES;
                        for (row, distance) in (first..).zip(some.iter_mut()) {
                            monitor.check()?;
                            *distance = points.distance(row, column.point);
                        }
                        monitor.advance(some.len() as u64);
                    }
                    out = after;
                }
                Ok(())
            })
    }
}

/// A kernel that computes a group of columns.
struct ColumnGroup<'a, F> {
    form: F,
    points: &'a Points,
    blocks: &'a RowBlocks,
    pairs: &'a Pairs,
    columns: Range<usize>,
    /// Room for the distances of these columns.
    out: &'a mut [f64],
    monitor: &'a Monitor,
}

impl<F: Form> WithSimd for ColumnGroup<'_, F> {
    type Output = Result<()>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Result<()> {
        let first = self.pairs.column(self.columns.start);
        let last_block = self.pairs.rows().div_ceil(LANES);
        for block in first.rows.start / LANES..last_block {
            let values = doubles::<S>(self.blocks.block(block));
            let mut written = 0;
            for start in self.columns.clone().step_by(TILE_COLUMNS) {
                let mut tile = [[0.0; LANES]; TILE_COLUMNS];
                let columns: [_; TILE_COLUMNS] = std::array::from_fn(|c| {
                    // Repeats the last column to fill the tile.
                    let column = (start + c).min(self.columns.end - 1);
                    self.pairs.column(column)
                });
                let rows = columns.each_ref().map(|c| self.points.row(c.point));
                for part in 0..LANES / (S::F64_LANES * REGISTERS) {
                    let monitor = self.monitor;
                    distances_of_tile(simd, self.form, values, part, rows, &mut tile, monitor)?;
                }
                for (column, distances) in columns.iter().zip(&tile).take(self.columns.end - start)
                {
                    let from = column.rows.start.max(block * LANES);
                    let to = column.rows.end.min((block + 1) * LANES);
                    if from < to {
                        let at = column.start - first.start + from - column.rows.start;
                        self.out[at..][..to - from]
                            .copy_from_slice(&distances[from - block * LANES..][..to - from]);
                        written += to - from;
                    }
                }
            }
            self.monitor.advance(written as u64);
        }
        Ok(())
    }
}

/// The distances between a part of a block, [`REGISTERS`] registers wide, and some points.
///
/// # Errors
/// `Error::Interrupt` when the monitor says stop.
#[inline(always)]
pub fn distances_of_tile<S: Simd, F: Form>(
    simd: S,
    form: F,
    block: &[S::f64s],
    part: usize,
    points: [&[f64]; TILE_COLUMNS],
    tile: &mut [[f64; LANES]; TILE_COLUMNS],
    monitor: &Monitor,
) -> Result<()> {
    let mut states = [[form.start(simd); REGISTERS]; TILE_COLUMNS];
    let registers = LANES / S::F64_LANES;
    for (k, coordinates) in block.chunks_exact(registers).enumerate() {
        if k % COORDINATES == 0 {
            monitor.check()?;
        }
        let rows = &coordinates[part * REGISTERS..][..REGISTERS];
        for (states, point) in states.iter_mut().zip(&points) {
            let coordinate = simd.splat_f64s(point[k]);
            for (state, &row) in states.iter_mut().zip(rows) {
                *state = form.add(simd, *state, row, coordinate);
            }
        }
    }
    for (states, distances) in states.iter().zip(tile) {
        let distances = doubles_mut::<S>(distances);
        for (state, distance) in states.iter().zip(&mut distances[part * REGISTERS..]) {
            *distance = form.finish(simd, *state);
        }
    }
    Ok(())
}
