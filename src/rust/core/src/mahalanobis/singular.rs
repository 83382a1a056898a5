//! The number of merges of a tree that make full-size clusters with a singular covariance.
//!
//! A full-size cluster with a singular covariance has the Euclidean metric. Agglomeration does not
//! count these clusters, neither on the CPU nor on a GPU; they are counted afterwards, from the
//! observations that each merge of the tree joins.

mod leaves;

use std::collections::HashMap;

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use self::leaves::{Leaves, CHECK};
use super::arranged::Arranged;
use super::cholesky::cholesky;
use super::packed::packed_len;
use super::shape;
use crate::dendrogram::Dendrogram;
use crate::error::Result;
use crate::matrix::RowSlices;
use crate::memory;
use crate::monitor::Monitor;
use crate::observations::Observations;
use crate::simd::dispatch;

/// Smallest number of rows that are worth a task. Only the time depends on it.
const ROWS_AT_A_TIME: usize = 1 << 12;

/// Numbers of merges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SingularMerges {
    /// Merges that make a cluster of at least the threshold's number of members.
    pub full_size: usize,
    /// Merges among these that make a cluster with a singular covariance.
    pub singular: usize,
}

/// A full-size cluster.
#[derive(Debug, Clone)]
struct FullSize {
    members: usize,
    mean: Vec<f64>,
    /// The diagonal of the scatter.
    diagonal: Vec<f64>,
    /// A lower bound on the pivots of the scatter; 0 if the scatter is singular. More members make
    /// no pivot smaller: d_k is the reciprocal of an element of the inverse of the first k rows and
    /// columns.
    least_pivot: f64,
    /// The scatter of a singular cluster with more members than dimensions; otherwise empty.
    scatter: Vec<f64>,
}

/// Counts the merges of a tree of `x` that make full-size clusters, and the merges among these that
/// make a cluster with a singular covariance, by the definition's test of pivots.
///
/// Runs in the thread pool of the caller.
///
/// # Errors
/// `Error::Memory` if there is too little memory, and `Error::Interrupt`.
pub fn count_singular(
    arranged: &Arranged<'_>,
    tree: &Dendrogram,
    threshold: f64,
    monitor: &Monitor,
) -> Result<SingularMerges> {
    let x: &Observations = &arranged.x;
    let leaves = Leaves::new(arranged, tree)?;
    let is_full_size = |merge: &usize| leaves.sizes[*merge] as f64 >= threshold;
    // Full-size clusters without a full-size part are independent of each other.
    let is_first = |merge: &usize| !leaves.parts(*merge).any(|part| is_full_size(&part));
    let all = (0..leaves.sizes.len()).into_par_iter();
    let first = all.filter(|merge| is_full_size(merge) && is_first(merge));
    let first: Vec<usize> = first.collect();
    if all_are_regular(x, &leaves, &first, monitor)? {
        let all = (0..leaves.sizes.len()).into_par_iter();
        return Ok(SingularMerges {
            full_size: all.filter(is_full_size).count(),
            singular: 0,
        });
    }
    let branches = leaves.branches()?;
    let in_branches = branches.par_iter().map(|branch| {
        let merges = branch.iter().map(|&merge| merge as usize);
        count(
            x,
            &leaves,
            merges.filter(is_full_size),
            HashMap::new(),
            monitor,
        )
    });
    let mut counts = Vec::new();
    let mut known = HashMap::new();
    for (in_branch, left) in in_branches.collect::<Result<Vec<_>>>()? {
        counts.push(in_branch);
        known.extend(left);
    }
    let above = || leaves.above_branches().filter(is_full_size);
    let first: Vec<usize> = above().filter(is_first).collect();
    let first = first.into_par_iter().map(|merge| {
        monitor.check()?;
        Ok((merge, FullSize::of(x, leaves.of(merge))?))
    });
    known.extend(first.collect::<Result<Vec<_>>>()?);
    counts.push(count(x, &leaves, above(), known, monitor)?.0);
    Ok(SingularMerges {
        full_size: counts.iter().map(|part| part.full_size).sum(),
        singular: counts.iter().map(|part| part.singular).sum(),
    })
}

/// Whether bounds prove that all clusters that contain one of these have regular covariances, as
/// they do in most data: with more members, no pivot is smaller, and no diagonal is greater than
/// that of all observations.
fn all_are_regular(
    x: &Observations,
    leaves: &Leaves,
    merges: &[usize],
    monitor: &Monitor,
) -> Result<bool> {
    // Squares of distances from any row are at least those from the mean.
    let center = x.row_slice(x.nrows() / 2);
    let add = |mut sums: Vec<f64>, row: usize| {
        let values = x.row_slice(row).iter().zip(center);
        let squares = values.map(|(value, center)| (value - center) * (value - center));
        sums.iter_mut()
            .zip(squares)
            .for_each(|(sum, square)| *sum += square);
        sums
    };
    let zeros = || vec![0.0; x.ncols()];
    let sums = (0..x.nrows())
        .into_par_iter()
        .with_min_len(ROWS_AT_A_TIME)
        .fold(zeros, add)
        .reduce(zeros, |a, b| a.iter().zip(b).map(|(a, b)| a + b).collect());
    let diagonal = sums.into_iter().fold(0.0, f64::max);
    let regular = merges
        .par_iter()
        .map(|&merge| {
            monitor.check()?;
            let cluster = FullSize::of(x, leaves.of(merge))?;
            Ok(is_surely_regular(
                cluster.least_pivot,
                2.0 * diagonal,
                x.ncols(),
            ))
        })
        .find_any(|regular| !matches!(regular, Ok(true)));
    regular.unwrap_or(Ok(true))
}

/// Whether a covariance has an inverse, by a lower bound on its pivots and an upper bound on its
/// diagonal, with room for rounding.
fn is_surely_regular(least_pivot: f64, diagonal: f64, columns: usize) -> bool {
    least_pivot > 4.0 * f64::EPSILON * columns as f64 * diagonal
}

/// Counts among some merges, of full-size clusters, in their order. `known` has full-size clusters
/// that none of the merges counted before contains; it is returned with those that are left.
fn count(
    x: &Observations,
    leaves: &Leaves,
    merges: impl Iterator<Item = usize>,
    mut known: HashMap<usize, FullSize>,
    monitor: &Monitor,
) -> Result<(SingularMerges, HashMap<usize, FullSize>)> {
    let mut counts = SingularMerges::default();
    for merge in merges {
        let cluster = match known.remove(&merge) {
            Some(cluster) => cluster,
            None => {
                monitor.check()?;
                united(x, leaves, merge, &mut known)?
            }
        };
        counts.full_size += 1;
        counts.singular += usize::from(cluster.least_pivot == 0.0);
        known.insert(merge, cluster);
    }
    Ok((counts, known))
}

/// The cluster of a merge. Takes its full-size parts out of `known`.
fn united(
    x: &Observations,
    leaves: &Leaves,
    merge: usize,
    known: &mut HashMap<usize, FullSize>,
) -> Result<FullSize> {
    let mut parts = leaves
        .parts(merge)
        .filter_map(|part| Some((part, known.remove(&part)?)));
    let Some((part, mut cluster)) = parts.next() else {
        return FullSize::of(x, leaves.of(merge));
    };
    let others = leaves.of_others(merge, part);
    let scatter = std::mem::take(&mut cluster.scatter);
    let before = cluster.clone();
    match parts.next() {
        Some((_, other)) => cluster.add(
            other.members,
            &other.mean,
            &other.diagonal,
            other.least_pivot,
        ),
        None => {
            let rows = others.iter().map(|&row| x.row_slice(row as usize));
            rows.for_each(|row| cluster.add(1, row, &[], 0.0));
        }
    }
    if cluster.is_surely_regular() {
        return Ok(cluster);
    }
    if scatter.is_empty() {
        return FullSize::of(x, leaves.of(merge));
    }
    Ok(FullSize { scatter, ..before }.with(x, others))
}

impl FullSize {
    /// The cluster of some rows.
    fn of(x: &Observations, members: &[u32]) -> Result<Self> {
        let p = x.ncols();
        let mut cluster = Self {
            members: 1,
            mean: memory::copied(CHECK, x.row_slice(members[0] as usize))?,
            diagonal: memory::zeros(CHECK, p)?,
            least_pivot: 0.0,
            scatter: Vec::new(),
        };
        let others = &members[1..];
        if members.len() > p {
            cluster.scatter = memory::zeros(CHECK, packed_len(p))?;
            return Ok(cluster.with(x, others));
        }
        let rows = others.iter().map(|&row| x.row_slice(row as usize));
        rows.for_each(|row| cluster.add(1, row, &[], 0.0));
        Ok(cluster)
    }

    /// Adds a cluster to all fields except the scatter. An empty diagonal stands for zeros.
    fn add(&mut self, members: usize, mean: &[f64], diagonal: &[f64], least_pivot: f64) {
        let (a, b) = (self.members as f64, members as f64);
        let weight = a * b / (a + b);
        for (k, sum) in self.diagonal.iter_mut().enumerate() {
            let delta = mean[k] - self.mean[k];
            *sum += diagonal.get(k).unwrap_or(&0.0) + weight * delta * delta;
        }
        shape::move_towards(shape::share(self.members, members), &mut self.mean, mean);
        self.members += members;
        self.least_pivot = self.least_pivot.max(least_pivot);
    }

    fn is_surely_regular(&self) -> bool {
        let largest = self.diagonal.iter().copied().fold(0.0, f64::max);
        is_surely_regular(self.least_pivot, largest, self.mean.len())
    }

    /// Adds members to a cluster that has its scatter.
    fn with(self, x: &Observations, members: &[u32]) -> Self {
        dispatch(WithMembers {
            cluster: self,
            x,
            members,
        })
    }
}

struct WithMembers<'a> {
    cluster: FullSize,
    x: &'a Observations,
    members: &'a [u32],
}

impl WithSimd for WithMembers<'_> {
    type Output = FullSize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> FullSize {
        let FullSize {
            mut members,
            mut mean,
            mut scatter,
            ..
        } = self.cluster;
        let p = mean.len();
        for &member in self.members {
            let row = self.x.row_slice(member as usize);
            shape::merge(members, &mut mean, &mut scatter, 1, row, &[]);
            members += 1;
        }
        let diagonal = (0..p).map(|i| scatter[packed_len(i) + i]).collect();
        // The test of pivots does not depend on the scale, so the scatter can stand in for the
        // covariance.
        let (mut factor, mut pivots) = (vec![0.0; packed_len(p)], vec![0.0; p]);
        let mut rows = Vec::new();
        let mut least_pivot = 0.0;
        if cholesky(simd, &scatter, p, &mut factor, &mut pivots, &mut rows, None) {
            least_pivot = pivots.into_iter().fold(f64::INFINITY, f64::min);
            scatter = Vec::new();
        }
        FullSize {
            members,
            mean,
            diagonal,
            least_pivot,
            scatter,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Cpu;
    use crate::mahalanobis::{AprioriPartition, Clusterer, Distance, Options, Subthreshold};
    use crate::testing::{draw, observations, Data, Random, DATA};

    /// The counts by the definition, from the members of each merge.
    fn obvious(x: &Observations, tree: &Dendrogram, threshold: f64) -> SingularMerges {
        let mut counts = SingularMerges::default();
        let mut members: Vec<Vec<u32>> = Vec::new();
        for row in &tree.merge {
            let of = |id: i32| match id {
                id if id < 0 => vec![id.unsigned_abs() - 1],
                id => members[id as usize - 1].clone(),
            };
            let all = row.map(of).concat();
            if all.len() as f64 >= threshold {
                counts.full_size += 1;
                let cluster = FullSize::of(x, &all).unwrap();
                counts.singular += usize::from(cluster.least_pivot == 0.0);
            }
            members.push(all);
        }
        counts
    }

    const OPTIONS: Options = Options {
        threshold: 10.0,
        subthreshold: Subthreshold::Mahal,
        distance: Distance::Centroid,
        normalize: false,
        apriori_intra: true,
    };

    /// The counts, and the counts by the definition.
    fn counted(x: &Observations, threshold: f64) -> (SingularMerges, SingularMerges) {
        let (cpu, monitor) = (Cpu::new(2).unwrap(), Monitor::default());
        let options = Options {
            threshold,
            ..OPTIONS
        };
        let mut clusterer = Clusterer::new(x, None, &options, &cpu).unwrap();
        let tree = clusterer.run(&cpu, &monitor).unwrap().dendrogram;
        let found = clusterer.count_singular(&tree, &cpu, &monitor);
        (found.unwrap(), obvious(x, &tree, threshold))
    }

    #[test]
    fn counts_are_those_of_the_definition() {
        let mut singular = 0;
        for (seed, data) in (1..).zip(DATA) {
            for threshold in [1.0, 3.0, 5.0, 12.0, 100.0] {
                let x = draw(&mut Random(seed), data, 60, 3);
                let (found, expected) = counted(&x, threshold);
                assert_eq!(found, expected, "{data:?}, {threshold}");
                singular += found.singular;
            }
        }
        assert!(singular > 0);
    }

    #[test]
    fn the_order_of_rows_changes_no_count() {
        let (cpu, monitor) = (Cpu::new(2).unwrap(), Monitor::default());
        let labels: Vec<u32> = (0..90).map(|i| i * 7 % 5).collect();
        for (seed, data) in (1..).zip(DATA) {
            let x = draw(&mut Random(seed), data, 90, 3);
            let partition = AprioriPartition::new(&labels).unwrap();
            let mut sorted = Clusterer::new(&x, partition, &OPTIONS, &cpu).unwrap();
            let plain = Clusterer::new(&x, None, &OPTIONS, &cpu).unwrap();
            let tree = sorted.run(&cpu, &monitor).unwrap().dendrogram;
            let counts = [&sorted, &plain].map(|of| of.count_singular(&tree, &cpu, &monitor));
            assert_eq!(counts[0], counts[1], "{data:?}");
        }
    }

    #[test]
    fn a_far_value_makes_the_covariances_of_its_clusters_singular() {
        let mut values = draw(&mut Random::of(2), Data::Plain, 80, 2)
            .values()
            .to_vec();
        values[31] = 1e12;
        let (found, expected) = counted(&observations(values, 80, 2), 10.0);
        assert_eq!(found, expected);
        assert!(found.singular > 0 && found.singular < found.full_size);
    }

    #[test]
    fn a_constant_column_makes_all_covariances_singular() {
        let x = draw(&mut Random::of(1), Data::Plain, 50, 2);
        let regular = counted(&x, 10.0).0;
        assert!(regular.full_size > 0 && regular.singular == 0);
        let rows = (0..50).map(|i| [x.row_slice(i), &[7.0]].concat());
        let with_constant = observations(rows.flatten().collect(), 50, 3);
        let found = counted(&with_constant, 10.0).0;
        assert!(found.full_size > 0 && found.singular == found.full_size);
    }
}
