//! Apriori clusters: each is clustered alone, then all of them are leaves of the top level.
//!
//! [`Arranged::within`] is the first part. [`Arranged::above`] is the second, given the merges of
//! the first, which may come from another machine. Without apriori clusters, the leaves of the top
//! level are the observations.

use std::borrow::Cow;
use std::ops::Range;

use rayon::prelude::*;

use super::clustering::Clustering;
use super::device::AgglomerationDevice;
use super::options::{Distance, Options};
use super::problem::{Problem, UnionRule};
use crate::cpu::Cpu;
use crate::dendrogram::{Height, TreeBuilder};
use crate::error::{Error, Result};
use crate::memory;
use crate::merge::Merge;
use crate::monitor::Monitor;
use crate::observations::Observations;

/// The label of a cluster and its members, in increasing index.
pub type AprioriCluster = (u32, Vec<u32>);

/// The observations, divided into apriori clusters in increasing label, and loose observations.
#[derive(Debug, Clone, PartialEq)]
pub struct AprioriPartition {
    pub clusters: Vec<AprioriCluster>,
    /// The observations in no apriori cluster, in increasing index.
    pub loose: Vec<u32>,
}

impl AprioriPartition {
    /// The partition by one label per observation, 0 for none; `None` if no label has two members
    /// or one label has all.
    pub fn new(labels: &[u32]) -> Option<Self> {
        let partition = Self::by_label(labels);
        let clusters = &partition.clusters;
        let trivial =
            clusters.is_empty() || clusters.len() == 1 && clusters[0].1.len() == labels.len();
        (!trivial).then_some(partition)
    }

    /// The partition by one label per observation, 0 for none, also if it is trivial.
    pub fn by_label(labels: &[u32]) -> Self {
        let most = labels.iter().copied().max().unwrap_or(0) as usize;
        if most > labels.len() {
            // Replaces large labels by their ranks, to keep the table of sizes small.
            let mut distinct = labels.to_vec();
            distinct.push(0);
            distinct.sort_unstable();
            distinct.dedup();
            let rank = |label| distinct.partition_point(|&other| other < label) as u32;
            let ranks: Vec<u32> = labels.iter().map(|&label| rank(label)).collect();
            let mut partition = Self::by_label(&ranks);
            for (label, _) in &mut partition.clusters {
                *label = distinct[*label as usize];
            }
            return partition;
        }
        let mut sizes = vec![0; most + 1];
        for &label in labels {
            sizes[label as usize] += 1;
        }
        // By label, the index of its cluster; `None` where the members are loose.
        let mut places = vec![None; most + 1];
        let mut clusters = Vec::new();
        for (label, &size) in (0..).zip(&sizes) {
            if label > 0 && size > 1 {
                places[label as usize] = Some(clusters.len());
                clusters.push((label, Vec::with_capacity(size)));
            }
        }
        let mut loose = Vec::new();
        for (&label, i) in labels.iter().zip(0..) {
            match places[label as usize] {
                Some(place) => clusters[place].1.push(i),
                None => loose.push(i),
            }
        }
        Self { clusters, loose }
    }

    /// The number of observations in each cluster.
    pub fn sizes(&self) -> impl Iterator<Item = usize> + '_ {
        self.clusters.iter().map(|(_, members)| members.len())
    }
}

/// The observations sorted by apriori cluster, if there are any, since members in consecutive rows
/// are read much faster.
pub struct Arranged<'a> {
    x: Cow<'a, Observations>,
    /// The apriori clusters; empty if there are none.
    clusters: &'a [AprioriCluster],
    /// By row, the index of the observation in the data.
    order: Vec<u32>,
    /// The first row of each cluster, then of each loose observation, then the number of rows.
    starts: Vec<usize>,
}

impl<'a> Arranged<'a> {
    /// Copies the observations: the apriori clusters one after another, then the loose
    /// observations. Without apriori clusters, borrows the observations in their order.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn new(
        x: &'a Observations,
        partition: Option<&'a AprioriPartition>,
        cpu: &Cpu,
    ) -> Result<Self> {
        let n = x.nrows();
        let Some(partition) = partition else {
            return Ok(Self {
                x: Cow::Borrowed(x),
                clusters: &[],
                order: memory::collected(memory::OBSERVATIONS, 0..n as u32)?,
                starts: memory::collected(memory::OBSERVATIONS, 0..n + 1)?,
            });
        };
        let AprioriPartition { clusters, loose } = partition;
        let mut order = memory::room(memory::OBSERVATIONS, n)?;
        let leaves = clusters.len() + loose.len();
        let mut starts = memory::room(memory::OBSERVATIONS, leaves + 1)?;
        for (_, members) in clusters {
            starts.push(order.len());
            order.extend_from_slice(members);
        }
        starts.extend(order.len()..=n);
        order.extend_from_slice(loose);
        Ok(Self {
            x: Cow::Owned(cpu.install(|| x.take_rows(&order))?),
            clusters,
            order,
            starts,
        })
    }

    /// The merges within each apriori cluster. Slots are indices among its members.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn within(
        &self,
        options: &Options,
        device: &(impl AgglomerationDevice + ?Sized),
        monitor: &Monitor,
    ) -> Result<Vec<Vec<Merge>>> {
        let bounds = self.starts.windows(2).take(self.clusters.len());
        let clusters = bounds.map(|pair| pair[0] as u32..pair[1] as u32);
        if !options.apriori_intra {
            return Ok(clusters.map(|members| joined(members.len())).collect());
        }
        let problem =
            |members: Range<u32>| Problem::of_observations(&self.x, members.collect(), *options);
        let problems: Vec<Problem> = clusters.map(problem).collect();
        if problems.is_empty() {
            return Ok(Vec::new());
        }
        device.agglomerate(&problems, monitor)
    }

    /// Clusters the apriori clusters and the loose observations; `inner` has the merges within each
    /// apriori cluster, as [`within`](Self::within) returns them.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory, `Error::Input` if distances overflow, and the
    /// errors of the device.
    pub fn above(
        self,
        inner: &[Vec<Merge>],
        options: &Options,
        device: &(impl AgglomerationDevice + ?Sized),
        monitor: &Monitor,
    ) -> Result<Clustering> {
        let Self {
            x,
            clusters,
            order,
            starts,
        } = self;
        let n = x.nrows();
        // By slot, the observation that represents it in the tree.
        let slots = if clusters.is_empty() {
            order
        } else {
            let first = starts[..starts.len() - 1].iter().map(|&start| order[start]);
            memory::collected(memory::OBSERVATIONS, first)?
        };
        let top = Problem {
            x: &x,
            starts,
            members: memory::collected(memory::OBSERVATIONS, 0..n as u32)?,
            options: *options,
            union: UnionRule::Shape,
        };
        let merges = device.agglomerate(&[top], monitor)?;
        let mut tree = TreeBuilder::new(n)?;
        let append = || interleave(clusters, inner, &mut tree);
        let apriori_labels = device.cpu().install(append)?;
        tree.append(&slots, &merges[0]);
        Ok(Clustering {
            dendrogram: tree.finish()?.finite("x")?,
            apriori_merges: apriori_labels.len(),
            apriori_labels,
        })
    }
}

/// The merges that join a cluster of this size without clustering its members: all at height 0.
fn joined(size: usize) -> Vec<Merge> {
    let merge = |higher| Merge {
        lower: 0,
        higher,
        height: 0.0,
    };
    (1..size as u32).map(merge).collect()
}

/// Checks that there is memory for the observations of all apriori clusters: a sorted copy, merges,
/// the tree and, for full Mahalanobis distances, members. The figures are measured. The clustering
/// of each problem checks its own memory.
///
/// # Errors
/// `Error::Memory`, which says how much memory is needed.
pub fn check_memory(x: &Observations, options: &Options) -> Result<()> {
    let p = x.ncols();
    let copy = if x.are_stored() { 0 } else { 8 * p };
    let each = match options.distance {
        Distance::Centroid => copy + 4 * p + 220,
        Distance::FullMahalanobis => copy + 26 * p + 540,
    };
    memory::check_working("clustering in apriori clusters", x.nrows(), each)
}

/// Checks that the merges of each cluster join all its members.
///
/// # Errors
/// `Error::Input` if they do not.
pub fn check_merges(partition: &AprioriPartition, inner: &[Vec<Merge>]) -> Result<()> {
    let joins_all = |(size, merges): (usize, &Vec<Merge>)| {
        let mut is_active = vec![true; size];
        let joins_two = |merge: &Merge| {
            let (lower, higher) = (merge.lower as usize, merge.higher as usize);
            let two = lower < higher && higher < size && is_active[lower] && is_active[higher];
            if two {
                is_active[higher] = false;
            }
            two && !merge.height.is_nan()
        };
        merges.len() + 1 == size && merges.iter().all(joins_two)
    };
    let fit = inner.len() == partition.clusters.len();
    if fit && partition.sizes().zip(inner).all(joins_all) {
        return Ok(());
    }
    Err(Error::Input(
        "`apriori` does not fit the merges that were found within its clusters".into(),
    ))
}

/// Appends the merges of all apriori clusters to the tree by height (ties: the smaller label
/// first); the merges of one cluster stay in order. Returns the label of each merge. Call it in a
/// thread pool.
fn interleave(
    clusters: &[AprioriCluster],
    inner: &[Vec<Merge>],
    tree: &mut TreeBuilder,
) -> Result<Vec<u32>> {
    // A merge below an earlier merge of its cluster directly follows that merge.
    let mut turns: Vec<(Height, u32, u32)> =
        memory::room(memory::OBSERVATIONS, inner.iter().map(Vec::len).sum())?;
    for (merges, cluster) in inner.iter().zip(0..) {
        let mut greatest = f64::NEG_INFINITY;
        turns.extend(merges.iter().zip(0..).map(|(merge, at)| {
            greatest = greatest.max(merge.height);
            (Height(greatest), cluster, at)
        }));
    }
    turns.par_sort_unstable();
    let parts: Vec<(&[u32], &[Merge])> = clusters
        .iter()
        .zip(inner)
        .map(|((_, members), merges)| (&members[..], &merges[..]))
        .collect();
    let turns = turns.iter().map(|&(_, cluster, at)| (cluster, at));
    let turns = memory::collected(memory::OBSERVATIONS, turns)?;
    tree.append_in_turns(&parts, &turns)?;
    let labels = turns
        .iter()
        .map(|&(cluster, _)| clusters[cluster as usize].0);
    memory::collected(memory::OBSERVATIONS, labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lonely_labels_and_zero_mean_none() {
        let partition = AprioriPartition::new(&[7, 0, 3, 7, 5, 3, 0]).unwrap();
        assert_eq!(partition.clusters, [(3, vec![2, 5]), (7, vec![0, 3])]);
        assert_eq!(partition.loose, [1, 4, 6]);
        assert_eq!(AprioriPartition::new(&[1, 2, 3, 0]), None);
        assert_eq!(AprioriPartition::new(&[4, 4, 4]), None);
        assert!(AprioriPartition::new(&[4, 4, 0]).is_some());
    }

    #[test]
    fn labels_may_be_any_numbers() {
        let most = u32::MAX;
        let partition = AprioriPartition::new(&[most, 9, 0, most, 70, 9, 8]).unwrap();
        assert_eq!(partition.clusters, [(9, vec![1, 5]), (most, vec![0, 3])]);
        assert_eq!(partition.loose, [2, 4, 6]);
    }

    #[test]
    fn merges_of_apriori_clusters_follow_one_another_by_height() {
        let partition = AprioriPartition::new(&[5, 2, 5, 2, 5, 2, 5]).unwrap();
        let merge = |lower, higher, height| Merge {
            lower,
            higher,
            height,
        };
        let inner = [
            vec![merge(0, 1, 2.0), merge(0, 2, 4.0)],
            vec![merge(1, 2, 1.0), merge(1, 3, 4.0), merge(0, 1, 3.0)],
        ];
        let mut tree = TreeBuilder::new(7).unwrap();
        let labels = interleave(&partition.clusters, &inner, &mut tree).unwrap();
        assert_eq!(labels, [5, 2, 2, 5, 5]);
        tree.join(0, 1, 5.0);
        let tree = tree.finish().unwrap();
        assert_eq!(tree.height, [1.0, 2.0, 4.0, 4.0, 3.0, 5.0]);
        assert_eq!(tree.merge[..3], [[-3, -5], [-2, -4], [-6, 2]]);
    }
}
