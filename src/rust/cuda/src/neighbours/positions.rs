//! The order of the points on the devices.

use std::ops::Range;
use std::sync::Arc;

use gmhclust_core::error::Result;
use gmhclust_core::memory;
use gmhclust_core::neighbours::cpu::CpuNeighbours;
use gmhclust_core::neighbours::single::{RowFrame, Scalars, ViewPrecision};
use rayon::prelude::*;

use super::halves;
use super::layout::{coordinate_values, row_len};
use super::rows::Rows;

/// The position of each point on the devices. References come first, in a random order, so that
/// each part of the references is a sample of all.
#[derive(Default)]
pub struct Positions {
    /// The index of the point at each position.
    pub indices: Vec<u32>,
    /// The position of each point, by index.
    pub positions: Vec<u32>,
    /// Number of positions of references.
    pub references: usize,
    /// Number of references that were merged away.
    pub gone: usize,
    /// The scalars of the row at each position.
    pub scalars: Vec<Scalars>,
}

impl Positions {
    /// Assigns positions: the references in a random order, then `others`. Also returns the rows of
    /// all points.
    ///
    /// # Errors
    /// `Error::Memory` if the host has too little memory for the rows.
    pub fn new(
        frame: &RowFrame,
        host: &CpuNeighbours,
        others: Range<u32>,
    ) -> Result<(Self, Arc<Rows>)> {
        let mut indices = host.references();
        shuffle(&mut indices);
        let references = indices.len();
        indices.extend(others);
        let most = indices.iter().max().map_or(0, |&most| most as usize + 1);
        let mut positions = vec![0; most];
        for (position, &index) in indices.iter().enumerate() {
            positions[index as usize] = position as u32;
        }
        let (rows, scalars) = rows(frame, host, &indices)?;
        let row_major = frame.precision() == ViewPrecision::Half;
        let rows = Rows::new(rows, row_len(frame), row_major);
        let positions = Self {
            indices,
            positions,
            references,
            gone: 0,
            scalars,
        };
        Ok((positions, Arc::new(rows)))
    }

    /// Reads the rows of changed clusters from the host. Returns the rows and their positions.
    ///
    /// # Errors
    /// As [`Positions::new`].
    pub fn update(
        &mut self,
        frame: &RowFrame,
        host: &CpuNeighbours,
        changed: &[u32],
    ) -> Result<(Vec<f32>, Vec<u32>)> {
        let position = |&index: &u32| self.positions[index as usize];
        let positions: Vec<u32> = changed.iter().map(position).collect();
        let (rows, scalars) = rows(frame, host, changed)?;
        for (&position, &scalars) in positions.iter().zip(&scalars) {
            self.scalars[position as usize] = scalars;
        }
        Ok((rows, positions))
    }

    /// Number of references that were not merged away.
    pub fn live(&self) -> usize {
        self.references - self.gone
    }
}

/// Shuffles with a fixed sequence of random numbers (Marsaglia's xorshift64).
fn shuffle(indices: &mut [u32]) {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    for i in (1..indices.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        indices.swap(i, (state % (i as u64 + 1)) as usize);
    }
}

/// The rows of some points, row by row, and a separate copy of their scalars. The scalars of a
/// cluster that was merged away are NaN on the devices, so that no query finds it.
fn rows(
    frame: &RowFrame,
    host: &CpuNeighbours,
    indices: &[u32],
) -> Result<(Vec<f32>, Vec<Scalars>)> {
    let columns = coordinate_values(frame);
    let row_len = row_len(frame);
    let mut rows = memory::zeros::<f32>(memory::OBSERVATIONS, indices.len() * row_len)?;
    let scalars = rows
        .par_chunks_mut(row_len)
        .zip(indices)
        .map(|(view, &index)| {
            let (row, size) = host.row(index);
            if size == 0.0 {
                view[columns..].fill(f32::NAN);
                return Scalars::default();
            }
            let scalars = match frame.precision() {
                ViewPrecision::Single => frame.write(row, size, |k, value| view[k] = value),
                ViewPrecision::Half => halves::write(frame, row, size, view),
            };
            let numbers = [
                scalars.error,
                scalars.factor,
                scalars.half,
                scalars.allowance,
            ];
            view[columns..].copy_from_slice(&numbers);
            scalars
        })
        .collect();
    Ok((rows, scalars))
}
