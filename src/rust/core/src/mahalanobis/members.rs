//! The members of clusters, and the sums of their distances to other clusters.

use pulp::{as_arrays_mut, Simd, WithSimd};
use rayon::prelude::*;

use super::distance::{ExactSum, ExactSums, Quanta};
use super::lanes::{add_multiple, add_squares, groups, groups_mut, WIDEST};
use super::packed::packed_len;
use super::screen::Profile;
use crate::error::Result;
use crate::matrix::RowSlices;
use crate::memory;
use crate::monitor::Monitor;
use crate::observations::Observations;
use crate::simd::dispatch;

/// Number of members per block: the doubles of the widest register, so that all processors work on
/// whole blocks.
const BLOCK: usize = WIDEST;

/// Number of rows of a whitening factor that share the loads of a block's coordinates. Measured;
/// with more rows, registers run out. Only the time depends on it.
const ROWS: usize = 2;

/// Smallest number of multiplications of a sum that is divided among threads. Fewer multiplications
/// take less time than waking a thread. Only the time depends on it.
const MIN_PARALLEL_OPERATIONS: usize = 1 << 16;

/// The observations of a cluster.
#[derive(Debug, Default)]
pub struct ClusterMembers {
    rows: Vec<u32>,
    /// Copies of the first members in whole blocks. Each block holds its members coordinate by
    /// coordinate.
    blocks: Vec<f64>,
}

/// The sums of distances over the members in whole blocks, and over the others.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MemberSums {
    pub in_blocks: ExactSum,
    pub others: ExactSum,
}

impl ClusterMembers {
    /// A cluster of these rows of `x`.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory for the copies.
    pub fn new(x: &Observations, rows: Vec<u32>) -> Result<Self> {
        let mut members = Self {
            rows,
            blocks: Vec::new(),
        };
        let copies = members.in_blocks() * x.ncols();
        memory::reserve(&mut members.blocks, "the members of clusters need", copies)?;
        members.copy_blocks(x, 0);
        Ok(members)
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Number of members in whole blocks; these members are the first ones.
    pub fn in_blocks(&self) -> usize {
        self.rows.len() / BLOCK * BLOCK
    }

    /// Appends the members of another cluster.
    pub fn append(&mut self, x: &Observations, others: &ClusterMembers) {
        let copied = self.in_blocks();
        self.rows.extend_from_slice(&others.rows);
        self.copy_blocks(x, copied);
    }

    /// Copies the members in whole blocks, but the first `copied` ones, which are copied already.
    fn copy_blocks(&mut self, x: &Observations, copied: usize) {
        for rows in self.rows[copied..].chunks_exact(BLOCK) {
            let start = self.blocks.len();
            self.blocks.resize(start + BLOCK * x.ncols(), 0.0);
            copy(x, rows, &mut self.blocks[start..]);
        }
    }

    /// The sums of the distances from the members to a cluster, without the first `known` members,
    /// which are whole blocks. Once `monitor` says stop, the sums end early and are meaningless.
    pub fn sums(
        &self,
        x: &Observations,
        known: usize,
        target: &Profile,
        quanta: &Quanta,
        monitor: &Monitor,
    ) -> MemberSums {
        debug_assert!(known % BLOCK == 0 && known <= self.in_blocks());
        let p = x.ncols();
        let part = |blocks, others| {
            dispatch(SumTo {
                x,
                blocks,
                others,
                mean: target.mean,
                whitening: target.whitening,
                quanta,
                monitor,
            })
        };
        let blocks = &self.blocks[known * p..];
        let others = &self.rows[self.in_blocks()..];
        let threads = rayon::current_num_threads();
        let operations = blocks.len() / p * p.max(target.whitening.len());
        if threads == 1 || operations < MIN_PARALLEL_OPERATIONS {
            return part(blocks, others);
        }
        let share = (blocks.len() / (BLOCK * p)).div_ceil(threads) * BLOCK * p;
        let combine = |mut all: ExactSum, other: ExactSum| {
            all.combine(&other);
            all
        };
        MemberSums {
            in_blocks: blocks
                .par_chunks(share)
                .map(|blocks| part(blocks, &[]).in_blocks)
                .reduce(ExactSum::default, combine),
            others: part(&[], others).others,
        }
    }
}

/// Copies the coordinates of at most `BLOCK` rows of `x` to a block.
fn copy(x: &Observations, rows: &[u32], block: &mut [f64]) {
    let (coordinates, _) = as_arrays_mut::<BLOCK, _>(block);
    for (l, &row) in rows.iter().enumerate() {
        for (coordinate, value) in coordinates.iter_mut().zip(x.row_slice(row as usize)) {
            // The remainder equals `l`, and saves a bounds check.
            coordinate[l % BLOCK] = *value;
        }
    }
}

struct SumTo<'a> {
    x: &'a Observations,
    blocks: &'a [f64],
    /// The remaining members, fewer than a block.
    others: &'a [u32],
    mean: &'a [f64],
    whitening: &'a [f64],
    quanta: &'a Quanta,
    monitor: &'a Monitor,
}

impl WithSimd for SumTo<'_> {
    type Output = MemberSums;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> MemberSums {
        match S::F64_LANES {
            8 => self.sums::<S, 1, 4>(simd),
            4 => self.sums::<S, 2, 4>(simd),
            2 => self.sums::<S, 4, 4>(simd),
            _ => self.sums::<S, 8, 8>(simd),
        }
    }
}

impl SumTo<'_> {
    /// A coordinate of one block takes `ONE` registers. While enough blocks are left, `R` registers
    /// of a coordinate are processed together.
    #[inline(always)]
    fn sums<S: Simd, const ONE: usize, const R: usize>(&self, simd: S) -> MemberSums {
        let block_len = BLOCK * self.mean.len();
        let group_len = R / ONE * block_len;
        let group = group_len.min(self.blocks.len()).max(block_len);
        let mut scratch = vec![0.0; block_len + group];
        let (last, scratch) = scratch.split_at_mut(block_len);
        let mut in_blocks = ExactSums::new(simd);
        let groups = self.blocks.chunks_exact(group_len);
        let rest = groups.remainder();
        for blocks in groups {
            if self.monitor.stopped() {
                break;
            }
            self.add::<S, ONE, R>(simd, blocks, scratch, &mut in_blocks);
        }
        for block in rest.chunks_exact(block_len) {
            self.add::<S, ONE, ONE>(simd, block, scratch, &mut in_blocks);
        }
        let mut others = ExactSums::new(simd);
        if !self.others.is_empty() {
            // The unused lanes hold the mean, so that they add 0.
            for (coordinates, mean) in last.chunks_exact_mut(BLOCK).zip(self.mean) {
                coordinates.fill(*mean);
            }
            copy(self.x, self.others, last);
            self.add::<S, ONE, ONE>(simd, last, scratch, &mut others);
        }
        MemberSums {
            in_blocks: in_blocks.total(simd),
            others: others.total(simd),
        }
    }

    /// Adds the distances of the members in some blocks, with `R` registers for each coordinate.
    /// Each lane performs the operations of `distance::to_cluster`.
    #[inline(always)]
    fn add<S: Simd, const ONE: usize, const R: usize>(
        &self,
        simd: S,
        blocks: &[f64],
        scratch: &mut [f64],
        sums: &mut ExactSums<S>,
    ) {
        let p = self.mean.len();
        let differences = groups_mut::<S, R>(&mut scratch[..blocks.len()]);
        for (n, block) in blocks.chunks_exact(BLOCK * p).enumerate() {
            let coordinates = groups::<S, ONE>(block).iter().zip(self.mean);
            for (difference, (coordinates, mean)) in differences.iter_mut().zip(coordinates) {
                for (r, coordinate) in coordinates.iter().enumerate() {
                    // The remainder saves a bounds check here, too.
                    difference[(n * ONE + r) % R] =
                        simd.sub_f64s(*coordinate, simd.splat_f64s(*mean));
                }
            }
        }
        let mut squares = [simd.splat_f64s(0.0); R];
        if self.whitening.is_empty() {
            for difference in differences.iter() {
                add_squares(simd, &mut squares, difference);
            }
        } else {
            let even = p - p % ROWS;
            for first in (0..even).step_by(ROWS) {
                self.add_rows::<S, R, ROWS>(simd, first, differences, &mut squares);
            }
            for first in even..p {
                self.add_rows::<S, R, 1>(simd, first, differences, &mut squares);
            }
        }
        let quanta = self.quanta.splat(simd);
        for square in squares {
            sums.add(simd, simd.sqrt_f64s(square), &quanta);
        }
    }

    /// Adds the squares of `N` coordinates of the whitened differences, beginning with coordinate
    /// `first`.
    #[inline(always)]
    fn add_rows<S: Simd, const R: usize, const N: usize>(
        &self,
        simd: S,
        first: usize,
        differences: &[[S::f64s; R]],
        squares: &mut [S::f64s; R],
    ) {
        let factors: [&[f64]; N] =
            std::array::from_fn(|n| &self.whitening[packed_len(first + n)..][..=first + n]);
        let mut whitened = [[simd.splat_f64s(0.0); R]; N];
        // The columns that all `N` rows of the triangle share.
        for (j, difference) in differences[..=first].iter().enumerate() {
            for n in 0..N {
                add_multiple(simd, &mut whitened[n], factors[n][j], difference);
            }
        }
        for n in 0..N {
            for j in first + 1..=first + n {
                add_multiple(simd, &mut whitened[n], factors[n][j], &differences[j]);
            }
            add_squares(simd, squares, &whitened[n]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::distance;
    use super::*;
    use crate::mahalanobis::screen::Spread;
    use crate::testing::{draw, Data, Random};

    #[test]
    fn sums_are_those_of_the_distances_one_after_another() {
        let mut random = Random::of(8);
        for round in 0..300 {
            let p = 1 + random.below(24);
            let x = draw(&mut random, Data::Mixture, 1_000, p);
            let mut some = |most: usize| -> Vec<u32> {
                let count = 1 + random.below(most);
                (0..count).map(|_| random.below(1_000) as u32).collect()
            };
            let (first, second) = (some(100), some(if round % 20 == 0 { 5_000 } else { 100 }));
            let whitening: Vec<f64> = (0..packed_len(p)).map(|_| random.normal()).collect();
            let target = Profile {
                mean: x.row_slice(0),
                whitening: if round % 3 == 0 { &[] } else { &whitening },
                least_stretch: 0.0,
                stretch: distance::stretch(&whitening),
                spread: Spread::default(),
                mean_error: 0.0,
            };
            let quanta = Quanta::new(1e6, distance::log2_ceil(8_000));
            let mut expected = ExactSum::default();
            for &row in first.iter().chain(&second) {
                let row = x.row_slice(row as usize);
                let term = distance::to_cluster(row, target.mean, target.whitening);
                expected.add(term, &quanta);
            }
            let mut members = ClusterMembers::new(&x, first.clone()).unwrap();
            let (known, kept) = (
                members.in_blocks(),
                members.sums(&x, 0, &target, &quanta, &Monitor::default()),
            );
            members.append(&x, &ClusterMembers::new(&x, second.clone()).unwrap());
            assert_eq!(members.len(), first.len() + second.len());
            for (known, kept) in [(0, ExactSum::default()), (known, kept.in_blocks)] {
                let sums = members.sums(&x, known, &target, &quanta, &Monitor::default());
                let mut sum = kept;
                sum.combine(&sums.in_blocks);
                sum.combine(&sums.others);
                assert_eq!(sum, expected, "{p}, {} + {}", first.len(), second.len());
            }
        }
    }
}
