//! Apriori clusters: each is clustered alone, then they are the leaves of the top level.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::BinaryHeap;

use super::{Clustering, Options, Problem, Union};
use crate::backend::{Backend, Merge};
use crate::dendrogram::{Height, TreeBuilder};
use crate::error::Result;
use crate::matrix::Matrix;
use crate::monitor::Monitor;

/// The observations divided into apriori clusters, in increasing label, and loose ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Partition {
    /// Label and members (in increasing index) of each cluster.
    pub clusters: Vec<(u32, Vec<u32>)>,
    /// The observations in none, in increasing index.
    pub loose: Vec<u32>,
}

impl Partition {
    /// From one label per observation, 0 for none; `None` when no label has two members or one
    /// label holds everything.
    pub fn new(labels: &[u32]) -> Option<Self> {
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
        let trivial =
            clusters.is_empty() || clusters.len() == 1 && clusters[0].1.len() == labels.len();
        (!trivial).then_some(Self { clusters, loose })
    }
}

/// Clusters every apriori cluster alone, then the apriori clusters and the loose observations.
pub fn cluster(
    x: &Matrix,
    partition: &Partition,
    options: &Options,
    backend: &dyn Backend,
    monitor: &Monitor,
) -> Result<Clustering> {
    // Clusters with their members side by side are read much faster.
    let mut order = Vec::with_capacity(x.rows());
    let mut starts = vec![0];
    for (_, cluster) in &partition.clusters {
        order.extend_from_slice(cluster);
        starts.push(order.len());
    }
    order.extend_from_slice(&partition.loose);
    let x = &x.select(&order);
    let inner = inner_merges(x, &starts, options, backend, monitor)?;
    let mut tree = TreeBuilder::new(x.rows());
    let apriori_labels = interleave(partition, &inner, &mut tree);

    starts.extend(starts[starts.len() - 1] + 1..=x.rows());
    let slots: Vec<u32> = starts[..starts.len() - 1]
        .iter()
        .map(|&start| order[start])
        .collect();
    let top = Problem {
        x,
        starts,
        members: (0..x.rows() as u32).collect(),
        options: *options,
        union: Union::Shape,
    };
    let merges = backend.agglomerate(&[top], monitor)?;
    tree.append(&slots, &merges[0]);
    Ok(Clustering {
        dendrogram: tree.finish(),
        apriori_merges: apriori_labels.len(),
        apriori_labels,
    })
}

/// The merges within each apriori cluster, of which cluster c has the observations
/// `starts[c]..starts[c + 1]` of `x`; slots count its members.
fn inner_merges(
    x: &Matrix,
    starts: &[usize],
    options: &Options,
    backend: &dyn Backend,
    monitor: &Monitor,
) -> Result<Vec<Vec<Merge>>> {
    let clusters = starts.windows(2).map(|pair| pair[0] as u32..pair[1] as u32);
    if options.apriori_intra {
        let problems: Vec<Problem> = clusters
            .map(|members| Problem::of_observations(x, members.collect(), *options))
            .collect();
        return backend.agglomerate(&problems, monitor);
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

/// Repeatedly takes the lowest next merge of all apriori clusters (ties: the smaller label);
/// returns the label of each merge.
fn interleave(partition: &Partition, inner: &[Vec<Merge>], tree: &mut TreeBuilder) -> Vec<u32> {
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
        // Replaced in place: that is less work than to remove one and add another.
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
        let partition = Partition::new(&[7, 0, 3, 7, 5, 3, 0]).unwrap();
        assert_eq!(partition.clusters, [(3, vec![2, 5]), (7, vec![0, 3])]);
        assert_eq!(partition.loose, [1, 4, 6]);
        assert_eq!(Partition::new(&[1, 2, 3, 0]), None);
        assert_eq!(Partition::new(&[4, 4, 4]), None);
        assert!(Partition::new(&[4, 4, 0]).is_some());
    }
}
