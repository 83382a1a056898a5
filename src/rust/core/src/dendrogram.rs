//! The dendrogram: merges, heights and leaf order, in the conventions of R's `hclust`.

mod builder;
mod faults;
mod nodes;

pub use builder::TreeBuilder;
pub use faults::{crossings, Faults};
pub use nodes::Nodes;

use crate::error::{Error, Result};
use crate::memory;

/// First words of a memory error, before the number of bytes.
const TREE: &str = "the tree needs";

/// A binary tree over `n` observations as R's `hclust` stores it.
#[derive(Debug, Clone, PartialEq)]
pub struct Dendrogram {
    /// `n - 1` rows; `-i` is observation `i`, `k` the union of row `k`, both from 1. In each row
    /// observations come before clusters, and smaller numbers before larger ones.
    pub merge: Vec<[i32; 2]>,
    /// The height of each merge, in the order of the merges. Heights need not increase.
    pub height: Vec<f64>,
    /// The observations (from 1) in an order in which no branches cross.
    pub order: Vec<i32>,
}

impl Dendrogram {
    /// This tree, if no height has overflowed. `arg` is the caller's name of the data.
    ///
    /// # Errors
    /// `Error::Input` if a height has overflowed.
    pub fn finite(self, arg: &str) -> Result<Self> {
        if self.height.iter().all(|height| height.is_finite()) {
            return Ok(self);
        }
        Err(overflow(arg))
    }
}

/// The error that distances of the argument `arg` overflow.
pub fn overflow(arg: &str) -> Error {
    Error::Input(format!(
        "`{arg}` has values so far apart, or so close together, that distances overflow; rescale \
         or round them"
    ))
}

/// The row of the union of two different nodes of a tree of `n` observations. Nodes `0..n` are the
/// observations, node `n + k` is the union of row k.
fn row_of(n: usize, nodes: [u32; 2]) -> [i32; 2] {
    let [a, b] = nodes;
    [a.min(b), a.max(b)].map(|node| {
        if (node as usize) < n {
            -(node as i32) - 1
        } else {
            node as i32 - n as i32 + 1
        }
    })
}

/// The rows of an R merge matrix, given its column-major values.
///
/// # Errors
/// `Error::Memory`.
pub fn merge_rows(columns: &[i32]) -> Result<Vec<[i32; 2]>> {
    let (first, second) = columns.split_at(columns.len() / 2);
    let mut rows = memory::room("a copy of the tree needs", first.len())?;
    rows.extend(first.iter().zip(second).map(|(&a, &b)| [a, b]));
    Ok(rows)
}

/// The observations (from 1) from left to right: depth first, the first column first. O(n) time.
///
/// # Errors
/// `Error::Memory`.
pub fn leaf_order(merge: &[[i32; 2]]) -> Result<Vec<i32>> {
    let mut order = memory::zeros(TREE, merge.len() + 1)?;
    place_leaves(merge, 0, |_| 1, |id, place| order[place as usize] = -id)?;
    Ok(order)
}

/// Calls `put` with each leaf of a tree, and with the number of observations to the left of it:
/// depth first, the first column first. The first `in_subtrees` rows make subtrees, whose roots are
/// leaves here, too. `size` is the number of observations of a leaf. O(n) time.
///
/// # Errors
/// `Error::Memory`.
fn place_leaves(
    merge: &[[i32; 2]],
    in_subtrees: usize,
    size: impl Fn(i32) -> u32,
    mut put: impl FnMut(i32, u32),
) -> Result<()> {
    let above = &merge[in_subtrees..];
    let row = |id: i32| usize::try_from(id).ok()?.checked_sub(in_subtrees + 1);
    // By row, the number of its observations; after its parent was processed, the place of its
    // first one. A walk down the tree would be slower, since each step waits for the one before.
    let mut counts: Vec<u32> = memory::room(TREE, above.len())?;
    for pair in above {
        let [a, b] = pair.map(|id| row(id).map_or_else(|| size(id), |row| counts[row]));
        counts.push(a + b);
    }
    match counts.last_mut() {
        Some(root) => *root = 0,
        None => put(
            if in_subtrees == 0 {
                -1
            } else {
                in_subtrees as i32
            },
            0,
        ),
    }
    for (number, &[first, second]) in above.iter().enumerate().rev() {
        let place = counts[number];
        let mut put = |id: i32, place: u32| match row(id) {
            Some(row) => std::mem::replace(&mut counts[row], place),
            None => {
                put(id, place);
                size(id)
            }
        };
        let of_first = put(first, place);
        put(second, place + of_first);
    }
    Ok(())
}

/// Whether each of the first merges joins two nodes of its own cluster. `merge` has the rows of a
/// tree, `of_leaves` the cluster of each observation, and `of_merges` the cluster of each of the
/// first merges.
pub fn joins_own(merge: &[[i32; 2]], of_leaves: &[i32], of_merges: &[i32]) -> bool {
    let cluster = |id: i32| match id {
        ..0 => of_leaves.get(id.unsigned_abs() as usize - 1),
        _ => of_merges.get((id as usize).wrapping_sub(1)),
    };
    let mut rows = merge.iter().zip(of_merges);
    rows.all(|(pair, own)| pair.iter().all(|&id| cluster(id) == Some(own)))
}

/// Number of heights that are below an earlier one. O(n) time.
pub fn inversions(height: &[f64]) -> usize {
    let mut greatest = f64::NEG_INFINITY;
    let is_below = |&&height: &&f64| {
        greatest = greatest.max(height);
        height < greatest
    };
    height.iter().filter(is_below).count()
}

/// A merge height as the key of a priority queue; never NaN.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Height(pub f64);

impl Eq for Height {}

#[allow(clippy::derive_ord_xor_partial_ord)]
impl Ord for Height {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_join_parts_of_their_own_cluster() {
        let tree = [[-1, -3], [-2, -4], [-5, 1], [2, 3]];
        assert!(joins_own(&tree, &[7, 8, 7, 8, 7], &[7, 8, 7]));
        assert!(!joins_own(&tree, &[7, 8, 7, 8, 8], &[7, 8, 7]));
        assert!(!joins_own(&tree, &[7, 8, 7, 8, 7], &[7, 8, 8]));
    }

    #[test]
    fn heights_below_any_earlier_one_are_inversions() {
        assert_eq!(inversions(&[]), 0);
        assert_eq!(inversions(&[1.0, 3.0, 2.0, 3.0, -1.0, 2.5, 4.0]), 3);
        assert_eq!(inversions(&[f64::NEG_INFINITY, 0.0, -0.0]), 0);
    }

    #[test]
    fn observations_come_before_clusters_and_smaller_ids_first() {
        let mut tree = TreeBuilder::new(4).unwrap();
        for (lower, higher, height) in [(3, 1, 1.0), (3, 0, 2.0), (2, 3, 3.0)] {
            tree.join(lower, higher, height);
        }
        let tree = tree.finish().unwrap();
        assert_eq!(leaf_order(&[]), Ok(vec![1]));
        assert_eq!(tree.merge, [[-2, -4], [-1, 1], [-3, 2]]);
        assert_eq!(tree.order, [3, 1, 2, 4]);
        assert_eq!(tree.height, [1.0, 2.0, 3.0]);
    }

    #[test]
    fn rows_of_a_merge_matrix_pair_its_columns() {
        let rows = merge_rows(&[-1, -2, -3, 1]).unwrap();
        assert_eq!(rows, [[-1, -3], [-2, 1]]);
    }
}
