//! Apriori clusters: each is clustered alone, then they are the leaves of the top level.
//!
//! [`within`] is the first part. [`above`] is the second, given the merges of the first, which may come
//! from another machine.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::BinaryHeap;

use super::agglomerate::agglomerate_all;
use super::clustering::Clustering;
use super::device::AgglomerationDevice;
use super::options::Options;
use super::problem::{Problem, UnionRule};
use crate::cpu::Cpu;
use crate::dendrogram::{Height, TreeBuilder};
use crate::error::{Error, Result};
use crate::memory;
use crate::merge::Merge;
use crate::monitor::Monitor;
use crate::observations::Observations;

/// The observations divided into apriori clusters, in increasing label, and loose ones.
#[derive(Debug, Clone, PartialEq)]
pub struct AprioriPartition {
    /// Label and members (in increasing index) of each cluster.
    pub clusters: Vec<(u32, Vec<u32>)>,
    /// The observations in none, in increasing index.
    pub loose: Vec<u32>,
}

impl AprioriPartition {
    /// From one label per observation, 0 for none; `None` when no label has two members or one
    /// label holds everything.
    pub fn new(labels: &[u32]) -> Option<Self> {
        let partition = Self::by_label(labels);
        let clusters = &partition.clusters;
        let trivial =
            clusters.is_empty() || clusters.len() == 1 && clusters[0].1.len() == labels.len();
        (!trivial).then_some(partition)
    }

    /// The same, also where it is trivial.
    pub fn by_label(labels: &[u32]) -> Self {
        // Labels and indices in one number each sort several times faster.
        let labelled = labels.iter().zip(0u32..);
        let mut keys: Vec<u64> = labelled
            .map(|(&label, i)| u64::from(label) << 32 | u64::from(i))
            .collect();
        keys.sort_unstable();
        let mut clusters = Vec::new();
        let mut loose = Vec::new();
        for group in keys.chunk_by(|a, b| a >> 32 == b >> 32) {
            let label = (group[0] >> 32) as u32;
            let members = group.iter().map(|&key| key as u32);
            if label == 0 || group.len() == 1 {
                loose.extend(members);
            } else {
                clusters.push((label, members.collect::<Vec<u32>>()));
            }
        }
        loose.sort_unstable();
        Self { clusters, loose }
    }

    /// The number of observations in each cluster.
    pub fn sizes(&self) -> impl Iterator<Item = usize> + '_ {
        self.clusters.iter().map(|(_, members)| members.len())
    }
}

/// Observations sorted by apriori cluster. Members in consecutive rows are read much faster.
pub struct Arranged {
    x: Observations,
    /// By row, the index of the observation in the data.
    order: Vec<u32>,
    /// The first row of each cluster, then of the loose observations.
    starts: Vec<usize>,
}

impl Arranged {
    /// The clusters one after another, then the loose observations.
    ///
    /// # Errors
    /// `Error::Memory` where there is not enough.
    pub fn new(x: &Observations, partition: &AprioriPartition, cpu: &Cpu) -> Result<Self> {
        let mut order = memory::room(memory::OBSERVATIONS, x.nrows())?;
        let mut starts = vec![0];
        for (_, cluster) in &partition.clusters {
            order.extend_from_slice(cluster);
            starts.push(order.len());
        }
        order.extend_from_slice(&partition.loose);
        Ok(Self {
            x: cpu.install(|| x.take_rows(&order))?,
            order,
            starts,
        })
    }
}

/// Clusters the apriori clusters and the loose observations; `inner` has the merges within each
/// apriori cluster, as [`within`] returns them.
pub fn above(
    arranged: &Arranged,
    partition: &AprioriPartition,
    inner: &[Vec<Merge>],
    options: &Options,
    device: &(impl AgglomerationDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Clustering> {
    let Arranged { x, order, starts } = arranged;
    let mut tree = TreeBuilder::new(x.nrows())?;
    let apriori_labels = interleave(partition, inner, &mut tree);

    let mut starts = starts.clone();
    let loose = starts[starts.len() - 1] + 1..=x.nrows();
    memory::reserve(&mut starts, memory::OBSERVATIONS, partition.loose.len())?;
    starts.extend(loose);
    let first = starts[..starts.len() - 1].iter().map(|&start| order[start]);
    let slots = memory::collected(memory::OBSERVATIONS, first)?;
    let top = Problem {
        x,
        starts,
        members: memory::collected(memory::OBSERVATIONS, 0..x.nrows() as u32)?,
        options: *options,
        union: UnionRule::Shape,
    };
    let merges = agglomerate_all(&[top], device, monitor)?;
    tree.append(&slots, &merges[0]);
    Ok(Clustering {
        dendrogram: tree.finish()?.finite("X")?,
        apriori_merges: apriori_labels.len(),
        apriori_labels,
    })
}

/// Checks that the merges of each cluster join all its members.
///
/// # Errors
/// `Error::Input` where they do not.
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

/// The merges within each apriori cluster. Slots are indices of its members.
pub fn within(
    arranged: &Arranged,
    options: &Options,
    device: &(impl AgglomerationDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Vec<Vec<Merge>>> {
    let Arranged { x, starts, .. } = arranged;
    let clusters = starts.windows(2).map(|pair| pair[0] as u32..pair[1] as u32);
    if options.apriori_intra {
        let problems: Vec<Problem> = clusters
            .map(|members| Problem::of_observations(x, members.collect(), *options))
            .collect();
        return agglomerate_all(&problems, device, monitor);
    }
    let joined = |members: std::ops::Range<u32>| {
        (1..members.len() as u32)
            .map(|higher| Merge {
                lower: 0,
                higher,
                height: 0.0,
            })
            .collect()
    };
    Ok(clusters.map(joined).collect())
}

/// Appends the merges of all apriori clusters to the tree, by height, each cluster's in order (ties: the
/// smaller label first). Returns the label of each merge.
fn interleave(
    partition: &AprioriPartition,
    inner: &[Vec<Merge>],
    tree: &mut TreeBuilder,
) -> Vec<u32> {
    let next = |cluster: usize, at: usize| {
        inner[cluster]
            .get(at)
            .map(|merge| Reverse((Height(merge.height), cluster, at)))
    };
    let mut queue: BinaryHeap<_> = (0..inner.len()).filter_map(|c| next(c, 0)).collect();
    let mut labels = Vec::with_capacity(inner.iter().map(Vec::len).sum());
    while let Some(mut top) = queue.peek_mut() {
        let Reverse((_, cluster, at)) = *top;
        let (label, members) = &partition.clusters[cluster];
        tree.append(members, &inner[cluster][at..=at]);
        labels.push(*label);
        // To replace it in place is less work than to remove one and add another.
        match next(cluster, at + 1) {
            Some(later) => *top = later,
            None => drop(PeekMut::pop(top)),
        }
    }
    labels
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
}
