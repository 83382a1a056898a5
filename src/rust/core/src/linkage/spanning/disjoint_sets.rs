//! Sets of points that can be united (union–find).

use crate::error::Result;
use crate::memory;

/// First words of a memory error, before the number of bytes.
const COMPONENTS: &str = "the components of a spanning tree need";

/// Disjoint sets of points, united by size, with path halving.
pub struct DisjointSets {
    /// By point: its parent in the tree of its set; a root is its own parent.
    parents: Vec<u32>,
    /// By root: number of points.
    sizes: Vec<u32>,
}

impl DisjointSets {
    /// One set for each of `n` points.
    pub fn new(n: usize) -> Result<Self> {
        Ok(Self {
            parents: memory::collected(COMPONENTS, 0..n as u32)?,
            sizes: memory::filled(COMPONENTS, n, 1)?,
        })
    }

    /// The root of a point's set.
    pub fn root(&mut self, mut point: u32) -> u32 {
        while self.parents[point as usize] != point {
            let parent = self.parents[point as usize];
            self.parents[point as usize] = self.parents[parent as usize];
            point = parent;
        }
        point
    }

    /// Unites the sets of two different roots; returns the root of the result.
    pub fn unite(&mut self, a: u32, b: u32) -> u32 {
        let (small, large) = if self.sizes[a as usize] < self.sizes[b as usize] {
            (a, b)
        } else {
            (b, a)
        };
        self.parents[small as usize] = large;
        self.sizes[large as usize] += self.sizes[small as usize];
        large
    }
}
