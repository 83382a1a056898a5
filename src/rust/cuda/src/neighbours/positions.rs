//! The order of the points on the devices.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
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
    /// Assigns positions: the references in a random order, then `others`. Also returns
    /// the rows of all points. Works on the threads of the calling pool.
    ///
    /// # Errors
    /// `Error::Memory` if the host has too little memory for the rows.
    pub fn new(
        frame: &RowFrame,
        host: &CpuNeighbours,
        others: Range<u32>,
    ) -> Result<(Self, Arc<Rows>)> {
        let mut indices = shuffled(&host.references());
        let references = indices.len();
        indices.extend(others);
        let positions = inverse(&indices);
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

/// These indices in a random order, always the same for a number of indices.
fn shuffled(indices: &[u32]) -> Vec<u32> {
    let places = (0..indices.len()).into_par_iter();
    let shuffle = Shuffle::new(indices.len());
    places.map(|place| indices[shuffle.of(place)]).collect()
}

/// A random permutation of the numbers below a limit, each of which is computed by itself: a
/// Feistel network on the two halves of a number's bits (Luby and Rackoff 1988). A result that is
/// not below the limit is permuted again (cycle walking, Black and Rogaway 2002).
struct Shuffle {
    limit: usize,
    /// Number of bits of a half.
    bits: u32,
}

impl Shuffle {
    fn new(limit: usize) -> Self {
        let bits = limit.next_power_of_two().trailing_zeros().div_ceil(2);
        Self { limit, bits }
    }

    /// The number that takes the place of a number below the limit.
    fn of(&self, mut number: usize) -> usize {
        /// 2⁶⁴ divided by the golden ratio, the multiplier of Fibonacci hashing.
        const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
        const ROUNDS: u64 = 4;

        let mask = (1 << self.bits) - 1;
        loop {
            let (mut left, mut right) = (number >> self.bits, number & mask);
            for round in 1..=ROUNDS {
                let mixed = (round << 32 | right as u64).wrapping_mul(FACTOR);
                let mixed = (mixed ^ mixed >> 32).wrapping_mul(FACTOR) >> 32;
                (left, right) = (right, left ^ mixed as usize & mask);
            }
            number = left << self.bits | right;
            if number < self.limit {
                return number;
            }
        }
    }
}

/// By index, its place in `indices`; 0 for an index that is not there.
fn inverse(indices: &[u32]) -> Vec<u32> {
    let most = indices
        .par_iter()
        .max()
        .map_or(0, |&most| most as usize + 1);
    let places: Vec<AtomicU32> = (0..most)
        .into_par_iter()
        .map(|_| AtomicU32::new(0))
        .collect();
    indices.par_iter().enumerate().for_each(|(place, &index)| {
        places[index as usize].store(place as u32, Ordering::Relaxed);
    });
    places.into_par_iter().map(AtomicU32::into_inner).collect()
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
    let mut rows = memory::zeros::<f32>(memory::COPY_OF_OBSERVATIONS, indices.len() * row_len)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_the_references_is_a_sample_of_all() {
        for n in [1, 2, 3, 10, 256, 997, 5000] {
            let indices: Vec<u32> = (0..n).map(|i| 3 * i + 1).collect();
            let shuffled = shuffled(&indices);
            let mut sorted = shuffled.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, indices);
            let places = inverse(&shuffled);
            for (place, &index) in shuffled.iter().enumerate() {
                assert_eq!(places[index as usize] as usize, place);
            }
            // Any 400 consecutive ones have about as many of each tenth of all, and of each period.
            for some in shuffled.windows(400).step_by(50) {
                let share = |is_in: &dyn Fn(u32) -> bool| {
                    let found = some.iter().filter(|&&index| is_in((index - 1) / 3));
                    found.count() as f64 / 400.0
                };
                for part in 0..10 {
                    let in_tenth = share(&|i| i * 10 / n == part);
                    assert!(
                        (0.04..=0.16).contains(&in_tenth),
                        "{n}: {in_tenth} of {part}"
                    );
                }
                for period in [2, 3, 8, 96] {
                    let in_period = share(&|i| i % period == 0) - 1.0 / f64::from(period);
                    assert!(in_period.abs() < 0.12, "{n}: {period}, {in_period}");
                }
            }
        }
    }
}
