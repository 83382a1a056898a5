//! The rows below each merge of a tree.

use crate::dendrogram::Dendrogram;
use crate::error::Result;
use crate::mahalanobis::arranged::Arranged;
use crate::memory;

/// The start of memory errors: what needs the memory.
pub const CHECK: &str = "the check of the covariances needs";

/// Branches have at most this share of the leaves, or a few: enough of them for many threads.
const SHARE_OF_BRANCH: usize = 512;
const FEW_LEAVES: usize = 16;

/// The leaves below each merge, as a range of the tree's leaf order, in which the leaves of the
/// first part of a merge come before those of the second.
pub struct Leaves<'a> {
    tree: &'a Dendrogram,
    /// The row of each leaf, in the leaf order.
    rows: Vec<u32>,
    /// By merge, the index in the leaf order of its first leaf.
    starts: Vec<u32>,
    pub sizes: Vec<u32>,
}

impl<'a> Leaves<'a> {
    pub fn new(arranged: &Arranged<'_>, tree: &'a Dendrogram) -> Result<Self> {
        let merges = tree.merge.len();
        let mut sizes: Vec<u32> = memory::room(CHECK, merges)?;
        let size = |sizes: &[u32], id: i32| if id < 0 { 1 } else { sizes[id as usize - 1] };
        for &[a, b] in &tree.merge {
            sizes.push(size(&sizes, a) + size(&sizes, b));
        }
        let mut starts = memory::filled(CHECK, merges, 0u32)?;
        for (merge, &[a, b]) in tree.merge.iter().enumerate().rev() {
            let start = starts[merge];
            for (id, start) in [(a, start), (b, start + size(&sizes, a))] {
                if id > 0 {
                    starts[id as usize - 1] = start;
                }
            }
        }
        Ok(Self {
            tree,
            rows: arranged.rows_of(&tree.order)?,
            starts,
            sizes,
        })
    }

    /// Most leaves of a branch.
    fn most_in_branch(&self) -> usize {
        (self.rows.len() / SHARE_OF_BRANCH).max(FEW_LEAVES)
    }

    /// The merges of each branch, in their order: a branch is a cluster of few leaves whose parent
    /// has more.
    pub fn branches(&self) -> Result<Vec<Vec<u32>>> {
        let most = self.most_in_branch();
        let is_small = |merge: usize| self.sizes[merge] as usize <= most;
        // By merge, its branch, once it is known.
        let mut of_merge = memory::filled(CHECK, self.sizes.len(), u32::MAX)?;
        let mut branches: Vec<Vec<u32>> = Vec::new();
        for merge in (0..self.sizes.len()).rev().filter(|&merge| is_small(merge)) {
            if of_merge[merge] == u32::MAX {
                of_merge[merge] = branches.len() as u32;
                branches.push(memory::room(CHECK, self.sizes[merge] as usize - 1)?);
            }
            for part in self.parts(merge) {
                of_merge[part] = of_merge[merge];
            }
        }
        for merge in (0..self.sizes.len()).filter(|&merge| is_small(merge)) {
            branches[of_merge[merge] as usize].push(merge as u32);
        }
        Ok(branches)
    }

    /// The merges that are in no branch, in their order.
    pub fn above_branches(&self) -> impl Iterator<Item = usize> + '_ {
        let most = self.most_in_branch();
        (0..self.sizes.len()).filter(move |&merge| self.sizes[merge] as usize > most)
    }

    /// The merges that made the two parts of a merge; a part that is a single observation has no
    /// merge.
    pub fn parts(&self, merge: usize) -> impl Iterator<Item = usize> + '_ {
        let row = self.tree.merge[merge].iter();
        row.filter(|&&id| id > 0).map(|&id| id as usize - 1)
    }

    /// The rows below a merge.
    pub fn of(&self, merge: usize) -> &[u32] {
        &self.rows[self.starts[merge] as usize..][..self.sizes[merge] as usize]
    }

    /// The rows below a merge that are not below the merge of its `part`.
    pub fn of_others(&self, merge: usize, part: usize) -> &[u32] {
        let all = self.of(merge);
        let of_part = self.sizes[part] as usize;
        if self.starts[part] == self.starts[merge] {
            &all[of_part..]
        } else {
            &all[..all.len() - of_part]
        }
    }
}
