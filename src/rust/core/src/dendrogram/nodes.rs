//! The nodes of a tree, and what one pass over its rows finds about them.

use crate::error::{Error, Result};
use crate::memory;

/// First words of a memory error, before the number of bytes.
const NODES: &str = "the nodes of the tree need";

/// The nodes of a tree of `n` leaves, given its rows in the conventions of R's `hclust`. Nodes
/// `0..n` are the leaves, node `n + k` is the union of row k. Each row comes after the rows that it
/// refers to.
#[derive(Debug, Clone, Copy)]
pub struct Nodes<'a> {
    merge: &'a [[i32; 2]],
}

impl<'a> Nodes<'a> {
    pub fn of(merge: &'a [[i32; 2]]) -> Self {
        Self { merge }
    }

    /// Number of leaves.
    pub fn leaves(&self) -> usize {
        self.merge.len() + 1
    }

    /// Number of nodes.
    pub fn count(&self) -> usize {
        2 * self.merge.len() + 1
    }

    /// The two nodes that a row joins.
    pub fn joined(&self, row: usize) -> [usize; 2] {
        self.merge[row].map(|id| match id {
            ..0 => id.unsigned_abs() as usize - 1,
            _ => self.merge.len() + id as usize,
        })
    }

    /// The rows from the first to the last: the node of each, and the two nodes that it joins.
    pub fn rows(
        self,
    ) -> impl DoubleEndedIterator<Item = (usize, [usize; 2])> + ExactSizeIterator + 'a {
        (0..self.merge.len()).map(move |row| (self.leaves() + row, self.joined(row)))
    }

    /// The number of members of each node, given those of each leaf. O(n) time.
    ///
    /// # Errors
    /// `Error::Input` if `members` are not one number for each leaf; `Error::Memory`.
    pub fn sizes(&self, members: &[f64]) -> Result<Vec<f64>> {
        self.check("members", members.len())?;
        let mut sizes = memory::room(NODES, self.count())?;
        sizes.extend_from_slice(members);
        for (_, [a, b]) in self.rows() {
            sizes.push(sizes[a] + sizes[b]);
        }
        Ok(sizes)
    }

    /// For each node, the places of its first and its last leaf in `order`, an order of the leaves
    /// (both from 1). O(n) time.
    ///
    /// # Errors
    /// `Error::Input` if `order` is no order of the leaves; `Error::Memory`.
    pub fn places(&self, order: &[i32]) -> Result<(Vec<i32>, Vec<i32>)> {
        let no_order = || Error::Input("`order` is no order of the leaves".into());
        self.check("order", order.len())?;
        let mut first: Vec<i32> = memory::room(NODES, self.count())?;
        first.resize(self.leaves(), 0);
        for (&leaf, place) in order.iter().zip(1..) {
            let leaf = usize::try_from(leaf)
                .ok()
                .and_then(|leaf| leaf.checked_sub(1));
            match leaf.and_then(|leaf| first.get_mut(leaf)) {
                Some(of_leaf) => *of_leaf = place,
                None => return Err(no_order()),
            }
        }
        if first.contains(&0) {
            return Err(no_order());
        }
        let mut last = memory::room(NODES, self.count())?;
        last.extend_from_slice(&first);
        for (_, [a, b]) in self.rows() {
            first.push(first[a].min(first[b]));
            last.push(last[a].max(last[b]));
        }
        Ok((first, last))
    }

    /// For each leaf, the number (from 1) of the last of these nodes that contains it; 0 if none
    /// does. A node comes after all nodes that contain it. O(n) time.
    ///
    /// # Errors
    /// `Error::Input` if the tree does not have all of these nodes; `Error::Memory`.
    pub fn around_leaves(&self, nodes: impl Iterator<Item = usize>) -> Result<Vec<i32>> {
        let mut inside = memory::zeros(NODES, self.count())?;
        for (node, number) in nodes.zip(1..) {
            match inside.get_mut(node) {
                Some(inside) => *inside = number,
                None => return Err(Error::Input("the tree does not have all nodes".into())),
            }
        }
        for (node, joined) in self.rows().rev() {
            for part in joined {
                if inside[part] == 0 {
                    inside[part] = inside[node];
                }
            }
        }
        inside.truncate(self.leaves());
        Ok(inside)
    }

    fn check(&self, name: &str, length: usize) -> Result<()> {
        if length == self.leaves() {
            return Ok(());
        }
        let message = format!("`{name}` has length {length}, not {}", self.leaves());
        Err(Error::Input(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ((1, 3), 2), (4, 5).
    const MERGE: [[i32; 2]; 4] = [[-1, -3], [-4, -5], [-2, 1], [2, 3]];

    #[test]
    fn nodes_have_the_members_and_places_of_their_leaves() {
        let nodes = Nodes::of(&MERGE);
        let sizes = nodes.sizes(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!(sizes, [1.0, 2.0, 3.0, 4.0, 5.0, 4.0, 9.0, 6.0, 15.0]);
        let (first, last) = nodes.places(&[4, 5, 2, 1, 3]).unwrap();
        assert_eq!(first, [4, 3, 5, 1, 2, 4, 1, 3, 1]);
        assert_eq!(last, [4, 3, 5, 1, 2, 5, 2, 5, 5]);
    }

    #[test]
    fn a_leaf_is_in_the_innermost_of_some_nodes() {
        let nodes = Nodes::of(&MERGE);
        let around = |of: &[usize]| nodes.around_leaves(of.iter().copied()).unwrap();
        assert_eq!(around(&[8, 7, 0]), [3, 2, 2, 1, 1]);
        assert_eq!(around(&[6]), [0, 0, 0, 1, 1]);
        assert_eq!(around(&[]), [0; 5]);
    }

    #[test]
    fn what_does_not_fit_the_tree_is_refused() {
        let nodes = Nodes::of(&MERGE);
        assert!(nodes.sizes(&[1.0; 4]).is_err());
        assert!(nodes.places(&[1, 2, 3, 4]).is_err());
        assert!(nodes.places(&[1, 2, 3, 4, 6]).is_err());
        assert!(nodes.places(&[1, 2, 3, 4, 0]).is_err());
        assert!(nodes.places(&[1, 2, 3, 4, 4]).is_err());
        assert!(nodes.around_leaves([9].into_iter()).is_err());
    }
}
