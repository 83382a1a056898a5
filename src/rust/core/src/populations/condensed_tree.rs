//! The observations of each cluster of a condensed tree, as ranges of one order. `condense.rs`
//! finds the clusters.

use std::cmp::Ordering;

use crate::dendrogram::Nodes;
use crate::error::{Error, Result};
use crate::memory;

/// First words of a memory error, before the number of bytes.
const NEEDS: &str = "finding populations needs";

/// Clusters of a condensed tree, parents before children; cluster 0 is the root.
#[derive(Debug, Clone)]
pub struct CondensedTree {
    /// The observations, ordered so that the observations of each cluster, with all that fall off
    /// it, are contiguous.
    pub order: Vec<u32>,
    /// By cluster: the first of its observations in `order`.
    pub start: Vec<usize>,
    /// By cluster: the number of its observations.
    pub size: Vec<usize>,
    /// By cluster: the number of its members. It exceeds the number of observations if a leaf of
    /// the tree stands for several members.
    pub members: Vec<f64>,
    /// By cluster: the first of the two clusters into which it is divided; the other one follows.
    pub children: Vec<Option<usize>>,
}

impl CondensedTree {
    /// The condensed tree that [`condense`](super::condense) has found in an R `hclust` of n
    /// leaves, with its rows `merge` and the `members` of its leaves. Orders the observations so
    /// that those of a cluster follow each other. `node` and `split` describe each cluster, as R
    /// counts. Its `node` is the node at its top: a leaf 1 … n, or n + j for merge j. Its `split`
    /// is the number s of the split that divides it into the clusters 2s and 2s + 1, all numbered
    /// from 1; 0 if no split divides it.
    ///
    /// `leaf` is the leaf, from 1, of each observation; `None` if the observations are the leaves.
    /// `compare` orders observations by their values, so that the result hardly depends on the
    /// order of the rows. Takes O(n) time.
    ///
    /// # Errors
    /// `Error::Input` if the arguments do not fit each other; `Error::Memory`.
    pub fn new(
        merge: &[[i32; 2]],
        members: &[f64],
        leaf: Option<&[i32]>,
        node: &[i32],
        split: &[i32],
        compare: impl Fn(u32, u32) -> Ordering,
    ) -> Result<Self> {
        let n = merge.len() + 1;
        let misfit = || Error::Input("the clusters do not fit the tree".into());
        let is_node = |&node: &i32| (1..=2 * n as i32 - 1).contains(&node);
        if members.len() != n || split.len() != node.len() || !node.iter().all(is_node) {
            return Err(misfit());
        }
        let of_leaf = OfLeaf::new(leaf, n)?;
        // By node: number of members.
        let mut all_members = memory::copied(NEEDS, members)?;
        // By node: number of observations.
        let mut count: Vec<u32> = memory::collected(NEEDS, (0..n).map(|i| of_leaf.count(i)))?;
        // By node: its first observation.
        let mut first = of_leaf.first()?;
        memory::reserve(&mut all_members, NEEDS, n)?;
        memory::reserve(&mut count, NEEDS, n)?;
        memory::reserve(&mut first, NEEDS, n)?;
        // By merge, its two sides, the larger one first.
        let sides = Nodes::of(merge).rows().map(|(_, sides)| sides);
        let mut sides: Vec<[usize; 2]> = memory::collected(NEEDS, sides)?;
        for [a, b] in &mut sides {
            let by_size = all_members[*b].total_cmp(&all_members[*a]);
            if by_size.then_with(|| compare(first[*a], first[*b])).is_gt() {
                std::mem::swap(a, b);
            }
            all_members.push(all_members[*a] + all_members[*b]);
            count.push(count[*a] + count[*b]);
            first.push(first[*a]);
        }
        // By node: the index of its first observation in the order.
        let mut place: Vec<u32> = memory::zeros(NEEDS, 2 * n - 1)?;
        for (j, &[a, b]) in sides.iter().enumerate().rev() {
            place[a] = place[n + j];
            place[b] = place[a] + count[a];
        }
        let clusters = node.iter().map(|&node| node as usize - 1);
        let children = split.iter().map(|&s| match usize::try_from(s) {
            Ok(0) => Ok(None),
            Ok(s) if 2 * s < node.len() => Ok(Some(2 * s - 1)),
            _ => Err(misfit()),
        });
        Ok(Self {
            start: clusters.clone().map(|node| place[node] as usize).collect(),
            size: clusters.clone().map(|node| count[node] as usize).collect(),
            members: clusters.map(|node| all_members[node]).collect(),
            children: children.collect::<Result<_>>()?,
            order: of_leaf.sorted(&place[..n])?,
        })
    }

    /// Number of clusters.
    pub fn len(&self) -> usize {
        self.start.len()
    }

    /// Number of splits.
    pub fn splits(&self) -> usize {
        self.len() / 2
    }

    /// The first of the two clusters that a split makes. Clusters and splits count from 0.
    pub fn first_of_split(split: usize) -> usize {
        2 * split + 1
    }

    /// The split that made this cluster and the next one.
    pub fn split_of(first: usize) -> usize {
        first / 2
    }

    /// Whether there are no clusters.
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }
}

/// The observations of the leaves of a tree.
struct OfLeaf<'a> {
    leaves: usize,
    leaf: Option<&'a [i32]>,
    /// By leaf, the number of observations; empty if the observations are the leaves.
    counts: Vec<u32>,
}

impl<'a> OfLeaf<'a> {
    fn new(leaf: Option<&'a [i32]>, n: usize) -> Result<Self> {
        let mut counts = Vec::new();
        if let Some(leaf) = leaf {
            counts = memory::zeros(NEEDS, n)?;
            for &leaf in leaf {
                match usize::try_from(leaf) {
                    Ok(leaf) if (1..=n).contains(&leaf) => counts[leaf - 1] += 1,
                    _ => return Err(Error::Input(format!("there is no leaf {leaf}"))),
                }
            }
        }
        Ok(Self {
            leaves: n,
            leaf,
            counts,
        })
    }

    fn count(&self, leaf: usize) -> u32 {
        self.counts.get(leaf).copied().unwrap_or(1)
    }

    /// By leaf, the first of its observations.
    fn first(&self) -> Result<Vec<u32>> {
        let Some(leaf) = self.leaf else {
            return memory::collected(NEEDS, 0..self.leaves as u32);
        };
        let mut first = memory::zeros(NEEDS, self.leaves)?;
        for (observation, &leaf) in leaf.iter().enumerate().rev() {
            first[leaf as usize - 1] = observation as u32;
        }
        Ok(first)
    }

    /// The observations, sorted by the places of their leaves.
    fn sorted(&self, place: &[u32]) -> Result<Vec<u32>> {
        let Some(leaf) = self.leaf else {
            let mut order = memory::zeros(NEEDS, place.len())?;
            for (observation, &place) in place.iter().enumerate() {
                order[place as usize] = observation as u32;
            }
            return Ok(order);
        };
        let mut next = memory::copied(NEEDS, place)?;
        let mut order = memory::zeros(NEEDS, leaf.len())?;
        for (observation, &leaf) in leaf.iter().enumerate() {
            let next = &mut next[leaf as usize - 1];
            order[*next as usize] = observation as u32;
            *next += 1;
        }
        Ok(order)
    }
}
