//! The rows below each merge of a sequence of merges.

use std::ops::Range;

use crate::error::Result;
use crate::memory;
use crate::merge::Merge;

/// First words of a memory error, before the number of bytes.
pub const CHECK: &str = "the check of the covariances needs";

/// A branch has at most 1 in this number of the rows, so that many threads have work.
const ROWS_PER_BRANCH_ROW: usize = 512;
/// Number of rows that a branch may have in any case. Only the time depends on it.
const FEW_ROWS: usize = 16;

/// A merge, from 1, or a leaf: -1 for that of slot 0, -2 for that of slot 1, and so on.
pub type Node = i32;

/// The tree of a sequence of merges, and the rows below each merge as a range of `rows`, in which
/// the rows of the first part of a merge come before those of the second.
pub struct MergeTree {
    /// By merge, its two parts.
    parts: Vec<[Node; 2]>,
    rows: Vec<u32>,
    /// By merge and by leaf, the index in `rows` of the first of its rows, and their number.
    merges: Vec<(u32, u32)>,
    leaves: Vec<(u32, u32)>,
}

impl MergeTree {
    /// The tree of merges that make one cluster of all slots. `rows_of` are the rows of each slot.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn new(merges: &[Merge], rows_of: impl Fn(usize) -> Range<u32>) -> Result<Self> {
        let slots = 0..merges.len() + 1;
        let leaves = slots.clone().map(|slot| (0, rows_of(slot).len() as u32));
        let mut found = Self {
            parts: memory::room(CHECK, merges.len())?,
            rows: Vec::new(),
            merges: memory::room(CHECK, merges.len())?,
            leaves: memory::collected(CHECK, leaves)?,
        };
        let mut nodes = memory::collected(CHECK, slots.clone().map(|slot| -(slot as i32) - 1))?;
        for (merge, number) in merges.iter().zip(1..) {
            let parts = [merge.lower, merge.higher].map(|slot| nodes[slot as usize]);
            nodes[merge.lower as usize] = number;
            let size = parts.iter().map(|&part| found.size(part)).sum();
            found.parts.push(parts);
            found.merges.push((0, size));
        }
        for merge in (0..merges.len()).rev() {
            let mut start = found.merges[merge].0;
            for part in found.parts[merge] {
                let (start_of_part, size) = found.place_mut(part);
                *start_of_part = start;
                start += *size;
            }
        }
        let count: usize = found.leaves.iter().map(|&(_, size)| size as usize).sum();
        let mut rows = memory::zeros(CHECK, count)?;
        for (slot, &(start, size)) in found.leaves.iter().enumerate() {
            let places = &mut rows[start as usize..][..size as usize];
            places
                .iter_mut()
                .zip(rows_of(slot))
                .for_each(|(place, row)| *place = row);
        }
        found.rows = rows;
        Ok(found)
    }

    fn place_mut(&mut self, node: Node) -> &mut (u32, u32) {
        match usize::try_from(node) {
            Ok(merge) => &mut self.merges[merge - 1],
            Err(_) => &mut self.leaves[node.unsigned_abs() as usize - 1],
        }
    }

    fn place(&self, node: Node) -> (u32, u32) {
        match usize::try_from(node) {
            Ok(merge) => self.merges[merge - 1],
            Err(_) => self.leaves[node.unsigned_abs() as usize - 1],
        }
    }

    /// Number of rows below a node.
    pub fn size(&self, node: Node) -> u32 {
        self.place(node).1
    }

    /// All merges, in their order.
    pub fn all(&self) -> Range<Node> {
        1..self.parts.len() as Node + 1
    }

    /// The merge of all rows; the only leaf if there are no merges.
    pub fn root(&self) -> Node {
        match self.parts.len() {
            0 => -1,
            merges => merges as Node,
        }
    }

    /// The two parts of a merge.
    pub fn parts(&self, merge: Node) -> [Node; 2] {
        self.parts[merge as usize - 1]
    }

    /// The rows below a node.
    pub fn of(&self, node: Node) -> &[u32] {
        let (start, size) = self.place(node);
        &self.rows[start as usize..][..size as usize]
    }

    /// Most rows of a branch.
    fn most_in_branch(&self) -> usize {
        (self.rows.len() / ROWS_PER_BRANCH_ROW).max(FEW_ROWS)
    }

    fn is_in_branch(&self, merge: Node) -> bool {
        self.size(merge) as usize <= self.most_in_branch()
    }

    /// The merges of each branch, in their order: a branch is a cluster of few rows whose parent
    /// has more.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn branches(&self) -> Result<Vec<Vec<Node>>> {
        // By merge, its branch, once it is known.
        let mut of_merge = memory::filled(CHECK, self.parts.len(), u32::MAX)?;
        let mut branches: Vec<Vec<Node>> = Vec::new();
        for merge in self.all().rev().filter(|&merge| self.is_in_branch(merge)) {
            let branch = &mut of_merge[merge as usize - 1];
            if *branch == u32::MAX {
                *branch = branches.len() as u32;
                branches.push(memory::room(CHECK, self.size(merge) as usize - 1)?);
            }
            let branch = *branch;
            for part in self.parts(merge).into_iter().filter(|&part| part > 0) {
                of_merge[part as usize - 1] = branch;
            }
        }
        for merge in self.all().filter(|&merge| self.is_in_branch(merge)) {
            branches[of_merge[merge as usize - 1] as usize].push(merge);
        }
        Ok(branches)
    }

    /// The merges that are in no branch, in their order.
    pub fn above_branches(&self) -> impl Iterator<Item = Node> + '_ {
        self.all().filter(|&merge| !self.is_in_branch(merge))
    }
}
