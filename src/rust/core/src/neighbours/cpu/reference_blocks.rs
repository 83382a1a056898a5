//! References in single precision, in blocks whose lanes are different references (structure of
//! arrays), for sweeps with vectors.

use rayon::prelude::*;

use crate::error::Result;
use crate::memory;
use crate::neighbours::single::{RowFrame, Scalars};

/// Number of references per block: the lanes of two of the widest registers (AVX-512).
pub const LANES: usize = 32;

/// One value of each reference of a block: a coordinate or a scalar.
pub type LaneRow = [f32; LANES];

// Indices of the rows of a block after its coordinates, one for each field of `Scalars`, and the
// number of these rows.
pub const FACTOR: usize = 0;
pub const ALLOWANCE: usize = 1;
pub const ERROR: usize = 2;
pub const HALF: usize = 3;
const SCALARS: usize = 4;

/// References at positions 0, 1, …, [`LANES`] per block.
pub struct ReferenceBlocks {
    columns: usize,
    positions: usize,
    rows: Vec<LaneRow>,
}

impl ReferenceBlocks {
    /// The views of `count` positions in `frame`; `row` returns the reference at a position, if
    /// there is one, and its size.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn new<'a>(
        frame: &RowFrame,
        count: usize,
        row: impl Fn(usize) -> Option<(&'a [f64], f64)> + Sync,
    ) -> Result<Self> {
        let columns = frame.columns();
        let height = columns + SCALARS;
        let len = count.div_ceil(LANES) * height;
        let mut rows: Vec<LaneRow> = memory::zeros(memory::COPY_OF_OBSERVATIONS, len)?;
        rows.par_chunks_mut(height)
            .enumerate()
            .for_each(|(block, rows)| {
                for lane in 0..LANES {
                    let position = block * LANES + lane;
                    match (position < count).then(|| row(position)).flatten() {
                        Some((values, size)) => write(frame, rows, lane, values, size),
                        None => clear(rows, lane),
                    }
                }
            });
        Ok(Self {
            columns,
            positions: count,
            rows,
        })
    }

    /// Number of positions.
    pub fn positions(&self) -> usize {
        self.positions
    }

    /// The rows of each block: one for each coordinate, then the scalars.
    pub fn iter(&self) -> impl Iterator<Item = &[LaneRow]> {
        self.rows.chunks_exact(self.height())
    }

    /// Replaces the reference at a position.
    pub fn replace(&mut self, frame: &RowFrame, position: usize, values: &[f64], size: f64) {
        let height = self.height();
        let rows = &mut self.rows[position / LANES * height..][..height];
        write(frame, rows, position % LANES, values, size);
    }

    /// Empties a position: no sweep finds a reference there.
    pub fn remove(&mut self, position: usize) {
        let height = self.height();
        clear(
            &mut self.rows[position / LANES * height..][..height],
            position % LANES,
        );
    }

    /// Closes the gaps between the positions `kept`, which are in increasing order.
    pub fn compact(&mut self, kept: &[u32]) {
        let height = self.height();
        for (to, from) in kept.iter().map(|&from| from as usize).enumerate() {
            for k in 0..height {
                self.rows[to / LANES * height + k][to % LANES] =
                    self.rows[from / LANES * height + k][from % LANES];
            }
        }
        self.positions = kept.len();
        self.rows.truncate(kept.len().div_ceil(LANES) * height);
        for position in kept.len()..kept.len().next_multiple_of(LANES) {
            self.remove(position);
        }
    }

    /// Number of rows of a block.
    fn height(&self) -> usize {
        self.columns + SCALARS
    }
}

/// Writes a reference into a lane.
fn write(frame: &RowFrame, rows: &mut [LaneRow], lane: usize, values: &[f64], size: f64) {
    let (coordinates, scalars) = rows.split_at_mut(values.len());
    let view: Scalars = frame.write(values, size, |k, value| coordinates[k][lane] = value);
    scalars[FACTOR][lane] = view.factor;
    scalars[ALLOWANCE][lane] = view.allowance;
    scalars[ERROR][lane] = view.error;
    scalars[HALF][lane] = view.half;
}

/// Empties a lane. Comparisons with NaN are false, so no sum is below a threshold with this
/// allowance.
fn clear(rows: &mut [LaneRow], lane: usize) {
    let scalars = rows.len() - SCALARS;
    rows[scalars + ALLOWANCE][lane] = f32::NAN;
}
