//! The clusters of a tree as ranges of places.

use std::ops::Range;

use crate::dendrogram::leaf_order;
use crate::error::Result;
use crate::memory;

/// First words of a memory error, before the number of bytes.
pub const NEEDS: &str = "ordering the leaves needs";

/// A cluster: the places of its leaves, and the first place of its second half; a single leaf has
/// no halves.
#[derive(Debug, Clone, Copy)]
pub struct ClusterRange {
    id: i32,
    start: usize,
    middle: usize,
    end: usize,
}

impl ClusterRange {
    /// Number of leaves.
    pub fn len(self) -> usize {
        self.end - self.start
    }

    pub fn places(self) -> Range<usize> {
        self.start..self.end
    }

    /// For each half of the cluster: the leaves that can be at one end of the cluster, and the
    /// leaves that can then be at the other end, which are the other half. A single leaf is at both
    /// ends.
    pub fn ends(self) -> Vec<(Range<usize>, Range<usize>)> {
        if self.len() == 1 {
            return vec![(self.places(), self.places())];
        }
        let (first, second) = (self.start..self.middle, self.middle..self.end);
        vec![(first.clone(), second.clone()), (second, first)]
    }

    /// The leaves that can be at the end opposite to `place`.
    pub fn opposite(self, place: usize) -> Range<usize> {
        match self.len() {
            1 => self.places(),
            _ if place < self.middle => self.middle..self.end,
            _ => self.start..self.middle,
        }
    }
}

/// All clusters of a tree.
pub struct ClusterRanges {
    /// By place, the leaf (from 1).
    order: Vec<i32>,
    merge: Vec<[i32; 2]>,
    /// By merge: its cluster.
    merged: Vec<ClusterRange>,
    /// By leaf, its place.
    places: Vec<u32>,
}

impl ClusterRanges {
    /// The clusters of a tree with the rows `merge` of R's `hclust`. Places are those of
    /// [`leaf_order`].
    ///
    /// # Errors
    /// `Error::Memory`.
    pub fn new(merge: &[[i32; 2]]) -> Result<Self> {
        let order = leaf_order(merge)?;
        let mut places = memory::zeros::<u32>(NEEDS, order.len())?;
        for (place, &leaf) in (0..).zip(&order) {
            places[leaf as usize - 1] = place;
        }
        let mut clusters = Self {
            order,
            merge: memory::copied(NEEDS, merge)?,
            merged: memory::room(NEEDS, merge.len())?,
            places,
        };
        for (&[first, second], id) in merge.iter().zip(1..) {
            let (first, second) = (clusters.of(first), clusters.of(second));
            clusters.merged.push(ClusterRange {
                id,
                start: first.start,
                middle: second.start,
                end: second.end,
            });
        }
        Ok(clusters)
    }

    /// The cluster with this number in R's `merge`.
    fn of(&self, id: i32) -> ClusterRange {
        if id > 0 {
            return self.merged[id as usize - 1];
        }
        let place = self.place(-id);
        ClusterRange {
            id,
            start: place,
            middle: place,
            end: place + 1,
        }
    }

    /// Number of leaves.
    pub fn leaves(&self) -> usize {
        self.order.len()
    }

    /// The leaf (from 1) at a place.
    pub fn leaf(&self, place: usize) -> i32 {
        self.order[place]
    }

    /// The place of a leaf (from 1).
    pub fn place(&self, leaf: i32) -> usize {
        self.places[leaf as usize - 1] as usize
    }

    /// The clusters of the merges, in their order.
    pub fn merged(&self) -> impl Iterator<Item = ClusterRange> + '_ {
        self.merged.iter().copied()
    }

    /// The cluster of all leaves.
    pub fn root(&self) -> ClusterRange {
        *self.merged.last().expect("a tree has a merge")
    }

    /// The two halves of the cluster of a merge.
    pub fn halves(&self, cluster: ClusterRange) -> (ClusterRange, ClusterRange) {
        let [first, second] = self.merge[cluster.id as usize - 1];
        (self.of(first), self.of(second))
    }

    /// The index of the distance between the leaves at two different places, in R's `dist`.
    pub fn pair(&self, i: usize, j: usize) -> usize {
        let n = self.leaves();
        let [a, b] = [i, j].map(|place| self.order[place] as usize - 1);
        let (low, high) = (a.min(b), a.max(b));
        low * (2 * n - 1 - low) / 2 + high - low - 1
    }
}
