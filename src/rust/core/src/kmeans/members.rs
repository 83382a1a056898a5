//! The members of clusters.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use ndarray::Array2;
use rayon::prelude::*;

use super::CLUSTERS;
use crate::error::Result;
use crate::matrix::{self, RowSlices, STANDARD_LAYOUT};
use crate::memory;
use crate::observations::Observations;

/// Smallest number of observations that a thread groups: enough work for a task.
const FEWEST_OBSERVATIONS: usize = 1 << 14;

/// Number of observations, or members of clusters, per task: enough work for a thread. Only the
/// time depends on it.
pub const OBSERVATIONS_AT_A_TIME: usize = 1 << 11;

/// Smallest number of columns per task, if there are as many: half a cache line. Only the time
/// depends on it.
const FEWEST_COLUMNS: usize = 4;

/// Size, in bytes, of the observations that are grouped together: they stay in cache until all
/// their clusters have read them. Only the time depends on it.
const BLOCK: usize = 8 << 20;

/// Calls `visit` with the members of all clusters in one block of observations after the other,
/// from the first to the last observation. So observations are read about once, and in order, also
/// those in a file. Works on the threads of the calling pool.
///
/// # Errors
/// `Error::Memory` if there is not enough memory.
pub fn members_in_blocks(
    (rows, columns): (usize, usize),
    k: usize,
    cluster: impl Fn(usize) -> u32 + Sync,
    mut visit: impl FnMut(&KMeansMembers),
) -> Result<()> {
    // Each block costs some time for each cluster.
    let at_a_time = (BLOCK / (size_of::<f64>() * columns.max(1))).max(4 * k);
    for first in (0..rows).step_by(at_a_time) {
        let block = first..rows.min(first + at_a_time);
        visit(&KMeansMembers::new(block, k, &cluster)?);
    }
    Ok(())
}

/// The means of clusters, in rows, and their sizes; zeros for a cluster without members. Sums are
/// in the order of the observations. Works on the threads of the calling pool.
///
/// # Errors
/// `Error::Memory` if there is not enough memory.
pub fn means(
    x: &Observations,
    k: usize,
    cluster: impl Fn(usize) -> u32 + Sync,
) -> Result<(Array2<f64>, Vec<usize>)> {
    let p = x.ncols();
    let mut means = matrix::zeros(k, p)?;
    let sums = means.as_slice_mut().expect(STANDARD_LAYOUT);
    let mut pieces = pieces_of_rows(sums, p, rayon::current_num_threads())?;
    let count = pieces.len();
    members_in_blocks(x.dim(), k, cluster, |members| {
        pieces
            .par_iter_mut()
            .with_min_len(members.pieces_at_a_time(count))
            .for_each(|piece| {
                let members = members.of(piece.row);
                piece.members += members.len();
                add_members(piece.sums, x, members, piece.column);
            });
    })?;
    let mut sizes = memory::filled(CLUSTERS, k, 0)?;
    pieces
        .iter()
        .for_each(|piece| sizes[piece.row] = piece.members);
    for (sums, &size) in sums.chunks_mut(p).zip(&sizes) {
        if size > 0 {
            sums.iter_mut().for_each(|sum| *sum /= size as f64);
        }
    }
    Ok((means, sizes))
}

/// Adds the values of some observations, in the columns from `first` on, to `sums`.
fn add_members(sums: &mut [f64], x: &Observations, members: &[u32], first: usize) {
    for &i in members {
        let values = &x.row_slice(i as usize)[first..];
        sums.iter_mut().zip(values).for_each(|(sum, v)| *sum += v);
    }
}

/// Consecutive values of a row of sums.
struct Piece<'a> {
    row: usize,
    /// The column of the first value.
    column: usize,
    sums: &'a mut [f64],
    /// Number of members so far.
    members: usize,
}

/// Pieces of rows of `p` sums: the rows, or shorter pieces if there are fewer rows than threads.
fn pieces_of_rows(sums: &mut [f64], p: usize, threads: usize) -> Result<Vec<Piece<'_>>> {
    let columns = sums.len().div_ceil(threads).clamp(FEWEST_COLUMNS.min(p), p);
    let mut pieces = memory::room(CLUSTERS, sums.len() / p * p.div_ceil(columns))?;
    for (row, sums) in sums.chunks_mut(p).enumerate() {
        let starts = (0..p).step_by(columns);
        let of_row = sums.chunks_mut(columns).zip(starts);
        pieces.extend(of_row.map(|(sums, column)| Piece {
            row,
            column,
            sums,
            members: 0,
        }));
    }
    Ok(pieces)
}

/// The members of clusters among a range of observations, in compressed sparse row layout.
pub struct KMeansMembers {
    /// The observations, cluster by cluster, each cluster's in increasing order.
    observations: Vec<u32>,
    /// By cluster: the start of its observations, and the end of all.
    starts: Vec<usize>,
}

impl KMeansMembers {
    /// Groups `rows` by the number of their cluster, below `k`, on the threads of the calling pool.
    /// O(n + k) time for n rows.
    fn new(rows: Range<usize>, k: usize, cluster: impl Fn(usize) -> u32 + Sync) -> Result<Self> {
        let n = rows.len();
        // Each thread counts the members in a part of the observations; with more clusters than
        // observations in a part, that would cost more than it saves.
        let at_a_time = n
            .div_ceil(rayon::current_num_threads())
            .max(FEWEST_OBSERVATIONS)
            .max(k);
        let part = |number: usize| {
            let first = rows.start + number * at_a_time;
            first..rows.end.min(first + at_a_time)
        };
        let mut places = memory::filled(CLUSTERS, n.div_ceil(at_a_time) * k, 0usize)?;
        places
            .par_chunks_mut(k)
            .enumerate()
            .for_each(|(number, counts)| {
                for i in part(number) {
                    counts[cluster(i) as usize] += 1;
                }
            });
        // The counts become the places of each part's next members.
        let mut starts = memory::filled(CLUSTERS, k + 1, 0)?;
        let mut end = 0;
        for c in 0..k {
            starts[c] = end;
            for place in places[c..].iter_mut().step_by(k) {
                end += std::mem::replace(place, end);
            }
        }
        starts[k] = end;
        let zeros = (0..n).into_par_iter().map(|_| AtomicU32::new(0));
        let observations = memory::collected_on_threads(CLUSTERS, zeros)?;
        places
            .par_chunks_mut(k)
            .enumerate()
            .for_each(|(number, places)| {
                for i in part(number) {
                    let place = &mut places[cluster(i) as usize];
                    observations[*place].store(i as u32, Ordering::Relaxed);
                    *place += 1;
                }
            });
        Ok(Self {
            // In place.
            observations: observations
                .into_iter()
                .map(AtomicU32::into_inner)
                .collect(),
            starts,
        })
    }

    /// Number of clusters with enough members for a task.
    pub fn clusters_at_a_time(&self) -> usize {
        self.pieces_at_a_time(self.starts.len() - 1)
    }

    /// Number of pieces with enough work for a task, if all work is in this number of pieces.
    fn pieces_at_a_time(&self, pieces: usize) -> usize {
        (OBSERVATIONS_AT_A_TIME * pieces).div_ceil(self.observations.len().max(1))
    }

    /// The members of a cluster, in increasing order.
    pub fn of(&self, cluster: usize) -> &[u32] {
        &self.observations[self.starts[cluster]..self.starts[cluster + 1]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Cpu;
    use crate::testing::Random;

    #[test]
    fn members_are_in_increasing_order_on_any_number_of_threads() {
        let mut random = Random::of(7);
        for (n, k) in [(1, 1), (100, 7), (70_000, 5), (70_000, 30_000)] {
            let cluster: Vec<u32> = (0..n).map(|_| random.below(k) as u32).collect();
            let mut expected = vec![Vec::new(); k];
            for (i, &c) in cluster.iter().enumerate() {
                expected[c as usize].push(i as u32);
            }
            for threads in [1, 3, 8] {
                let cpu = Cpu::new(threads).unwrap();
                let members = cpu
                    .install(|| KMeansMembers::new(0..n, k, |i| cluster[i]))
                    .unwrap();
                for (c, expected) in expected.iter().enumerate() {
                    assert_eq!(members.of(c), expected, "{c} of {k}, {threads} threads");
                }
            }
        }
    }
}
