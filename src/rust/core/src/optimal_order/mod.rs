//! Optimal leaf ordering (Bar-Joseph, Gifford and Jaakkola 2001,
//! doi:10.1093/bioinformatics/17.suppl_1.S22): flips the branches of a tree so that the sum of the
//! distances between neighbouring leaves is the least.
//!
//! A cluster is a range of places, the places of its leaves in the order at the start. M(i, j) is
//! the least sum for the cluster at which i and j come together, with i at its left end and j at
//! its right end, or the other way round. So i is in one half of the cluster, and j in the other. A
//! cluster of the halves A and B has, for i in A and j in B,
//!
//! * T(i, l) = min over k of M(i, k) + d(k, l), with k at the end of A opposite to i,
//! * M(i, j) = min over l of T(i, l) + M(l, j), with l at the end of B opposite to j.
//!
//! Two leaves come together at one cluster only, so that one matrix has all M(i, j). The distance
//! d(k, l) is needed only for the M of that cluster, so the matrix begins as the distances.

mod cluster_ranges;
mod min_plus;
#[cfg(test)]
mod tests;

use std::ops::Range;

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::memory;
use crate::monitor::Monitor;
use cluster_ranges::{ClusterRange, ClusterRanges, NEEDS};
use min_plus::{MinPlus, Submatrix};

/// Number of rows of M that a thread computes together; they share the loads of the other factor.
/// Only the time depends on it.
const ROWS: usize = 32;

/// Number of leaves whose distances are copied together: their distances to one leaf share a cache
/// line. Only the time depends on it.
const LEAVES: usize = 8;

/// Smallest number of additions for a cluster whose rows are divided among threads. Fewer additions
/// take less time than waking a thread. Only the time depends on it.
const MIN_PARALLEL_ADDITIONS: usize = 1 << 17;

/// Bytes that [`optimal_order`] takes for a tree of `n` leaves.
pub fn bytes(n: usize) -> f64 {
    10.0 * n as f64 * n as f64
}

/// The leaves (from 1) from left to right, in the order of the least sum of the distances between
/// neighbours, among all orders in which no branches cross.
///
/// `merge` has the rows of an R `hclust` of n leaves, and `distances` the distances of all pairs of
/// leaves as R's `dist`, all finite. The first side of the last merge is on the left. Ties are
/// broken by the order depth first, the first column of `merge` first: of the pairs of leaves with
/// the least sum at the ends of the tree, and then, from the last merge on, in the middle of each
/// cluster, the pair that comes first in that order is chosen.
///
/// Takes O(n³) time at most, on the threads of the calling pool, and [`bytes`] of memory.
///
/// # Errors
/// `Error::Input` if there is not one distance for each pair, `Error::Memory` if there is too
/// little memory, and `Error::Interrupt`.
pub fn optimal_order(merge: &[[i32; 2]], distances: &[f64], monitor: &Monitor) -> Result<Vec<i32>> {
    let clusters = ClusterRanges::new(merge)?;
    let n = clusters.leaves();
    if distances.len() != n * (n - 1) / 2 {
        let message = format!(
            "there are {} distances, {n} leaves need {}",
            distances.len(),
            n * (n - 1) / 2
        );
        return Err(Error::Input(message));
    }
    memory::check(NEEDS, bytes(n))?;
    let mut sums = Sums {
        clusters: &clusters,
        distances,
        values: full_matrix(&clusters, distances, monitor)?,
        room: Vec::new(),
    };
    clusters
        .merged()
        .for_each(|cluster| monitor.expect(additions(&clusters, cluster)));
    for cluster in clusters.merged() {
        sums.unite(cluster, monitor)?;
    }
    sums.best_order()
}

/// The number of additions for a cluster.
fn additions(clusters: &ClusterRanges, cluster: ClusterRange) -> u64 {
    let (left, right) = clusters.halves(cluster);
    let rows = left.ends().into_iter();
    rows.map(|(ends, others)| additions_of_rows(ends.len(), others.len(), right))
        .sum()
}

/// The number of additions for some rows of a cluster, with this number of leaves opposite to them.
fn additions_of_rows(rows: usize, others: usize, right: ClusterRange) -> u64 {
    let of_right = right.ends().into_iter();
    let pairs: usize = of_right
        .map(|(ends, others)| ends.len() * others.len())
        .sum();
    (rows * (others * right.len() + pairs)) as u64
}

/// The distances of all pairs of places, as a full matrix.
fn full_matrix(clusters: &ClusterRanges, distances: &[f64], monitor: &Monitor) -> Result<Vec<f64>> {
    let n = clusters.leaves();
    let mut values = memory::zeros(NEEDS, n * n)?;
    let mut rows: Vec<(usize, &mut [f64])> = values.chunks_exact_mut(n).enumerate().collect();
    rows.sort_unstable_by_key(|&(place, _)| clusters.leaf(place));
    rows.par_chunks_mut(LEAVES).try_for_each(|some| {
        monitor.check()?;
        for leaf in 1..=n as i32 {
            let other = clusters.place(leaf);
            for (place, row) in some.iter_mut().filter(|&&mut (place, _)| place != other) {
                row[other] = distances[clusters.pair(*place, other)];
            }
        }
        Ok(())
    })?;
    Ok(values)
}

/// The least sums of a tree.
struct Sums<'a> {
    clusters: &'a ClusterRanges,
    distances: &'a [f64],
    /// By two places: their distance, and from the merge on at which both come together, M.
    values: Vec<f64>,
    room: Vec<f64>,
}

impl Sums<'_> {
    fn get(&self, i: usize, j: usize) -> f64 {
        self.values[i * self.clusters.leaves() + j]
    }

    /// Computes M for a cluster, given M for both of its halves.
    fn unite(&mut self, cluster: ClusterRange, monitor: &Monitor) -> Result<()> {
        let n = self.clusters.leaves();
        let (left, right) = self.clusters.halves(cluster);
        let (a, b) = (left.len(), right.len());
        if self.room.len() < a * b {
            let more = a * b - self.room.len();
            memory::reserve(&mut self.room, NEEDS, more)?;
            self.room.resize(a * b, 0.0);
        }
        let values = &self.values;
        let row_of = |(ends, others, out): (Range<usize>, Range<usize>, &mut [f64])| {
            monitor.check()?;
            let additions = additions_of_rows(ends.len(), others.len(), right);
            rows_of_sums(values, n, ends, others, right, out);
            monitor.advance(additions);
            Ok(())
        };
        let mut tasks = Vec::new();
        let mut rest = &mut self.room[..a * b];
        for (ends, others) in left.ends() {
            for first in ends.clone().step_by(ROWS) {
                let some = first..ends.end.min(first + ROWS);
                let (out, after) = std::mem::take(&mut rest).split_at_mut(some.len() * b);
                tasks.push((some, others.clone(), out));
                rest = after;
            }
        }
        if additions(self.clusters, cluster) < MIN_PARALLEL_ADDITIONS as u64 {
            tasks.into_iter().try_for_each(row_of)?;
        } else {
            let tasks = tasks.into_par_iter().with_max_len(1);
            tasks.try_for_each(row_of)?;
        }
        // The matrix is symmetric.
        let united = &self.room[..a * b];
        for (row, i) in united.chunks_exact(b).zip(left.places()) {
            self.values[i * n..][right.places()].copy_from_slice(row);
        }
        for (at, j) in right.places().enumerate() {
            let row = &mut self.values[j * n..][left.places()];
            let column = united[at..].iter().step_by(b);
            row.iter_mut().zip(column).for_each(|(to, &sum)| *to = sum);
        }
        Ok(())
    }

    /// The leaves in the best order.
    fn best_order(&self) -> Result<Vec<i32>> {
        let root = self.clusters.root();
        let mut order = memory::room(NEEDS, self.clusters.leaves())?;
        let (left, right) = self.clusters.halves(root);
        let pairs = left
            .places()
            .flat_map(|i| right.places().map(move |j| (i, j)));
        let (first, last) = least(pairs, |&(i, j)| self.get(i, j));
        // Clusters from right to left, each with the places of the leaves at its ends.
        let mut open = vec![(root, first, last)];
        while let Some((cluster, first, last)) = open.pop() {
            if cluster.len() == 1 {
                order.push(self.clusters.leaf(first));
                continue;
            }
            let (left, right) = self.clusters.halves(cluster);
            if left.places().contains(&first) {
                let (k, l) = self.middle(left, right, first, last);
                open.extend([(right, l, last), (left, first, k)]);
            } else {
                let (k, l) = self.middle(left, right, last, first);
                open.extend([(left, k, last), (right, first, l)]);
            }
        }
        Ok(order)
    }

    /// The leaves in the middle of the best order of a cluster, one of each half, given the leaf at
    /// the outer end of each half. Adds as [`Self::unite`] does.
    fn middle(
        &self,
        left: ClusterRange,
        right: ClusterRange,
        i: usize,
        j: usize,
    ) -> (usize, usize) {
        let (of_left, of_right) = (left.opposite(i), right.opposite(j));
        let pairs = of_left.flat_map(|k| of_right.clone().map(move |l| (k, l)));
        least(pairs, |&(k, l)| {
            let distance = self.distances[self.clusters.pair(k, l)];
            (self.get(i, k) + distance) + self.get(l, j)
        })
    }
}

/// The rows of M for the leaves `ends` of the left half, each with `others` opposite to it.
fn rows_of_sums(
    values: &[f64],
    n: usize,
    ends: Range<usize>,
    others: Range<usize>,
    right: ClusterRange,
    out: &mut [f64],
) {
    let (count, b) = (ends.len(), right.len());
    let mut to_right = vec![f64::INFINITY; count * b];
    min_plus::run(MinPlus {
        left: Submatrix::of(values, n, ends.start, others.start),
        inner: others.len(),
        right: Submatrix::of(values, n, others.start, right.places().start),
        out: &mut to_right,
        out_width: b,
        rows: count,
        columns: b,
    });
    out.fill(f64::INFINITY);
    let start = right.places().start;
    for (of_right, opposite) in right.ends() {
        min_plus::run(MinPlus {
            left: Submatrix::of(&to_right, b, 0, opposite.start - start),
            inner: opposite.len(),
            right: Submatrix::of(values, n, opposite.start, of_right.start),
            out: &mut out[of_right.start - start..],
            out_width: b,
            rows: count,
            columns: of_right.len(),
        });
    }
}

/// The first item with the least value.
fn least<T>(items: impl Iterator<Item = T>, value: impl Fn(&T) -> f64) -> T {
    let mut best: Option<(f64, T)> = None;
    for item in items {
        let found = value(&item);
        if best.as_ref().is_none_or(|(least, _)| found < *least) {
            best = Some((found, item));
        }
    }
    best.expect("there is an item").1
}
