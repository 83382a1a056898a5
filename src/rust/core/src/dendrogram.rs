//! The dendrogram: merges, heights and leaf order, in the conventions of R's `hclust`.

mod faults;

pub use faults::{crossings, Faults};

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::memory;
use crate::merge::Merge;

/// The start of memory errors: what needs the memory.
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
    /// The tree of steps that each join two nodes at a height. Nodes `0..n` are the observations,
    /// node `n + k` is the union of step `k`.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn from_steps(n: usize, steps: &[(u32, u32, f64)]) -> Result<Self> {
        let id = |node: u32| {
            if (node as usize) < n {
                -(node as i32) - 1
            } else {
                node as i32 - n as i32 + 1
            }
        };
        let rows = steps.iter().map(|&(a, b, _)| [id(a.min(b)), id(a.max(b))]);
        let merge = memory::collected(TREE, rows)?;
        Ok(Self {
            order: leaf_order(&merge)?,
            height: memory::collected(TREE, steps.iter().map(|step| step.2))?,
            merge,
        })
    }

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

/// Builds one tree from several sequences of merges, each with its own slots.
pub struct TreeBuilder {
    n: usize,
    /// By observation: the current node of its slot.
    node: Vec<u32>,
    steps: Vec<(u32, u32, f64)>,
}

impl TreeBuilder {
    /// A builder for `n` observations, each a node.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn new(n: usize) -> Result<Self> {
        Ok(Self {
            n,
            node: memory::collected(TREE, 0..n as u32)?,
            steps: memory::room(TREE, n - 1)?,
        })
    }

    /// Joins the clusters that the observations `lower` and `higher` represent; `lower` represents
    /// their union.
    pub fn join(&mut self, lower: u32, higher: u32, height: f64) {
        let made = (self.n + self.steps.len()) as u32;
        self.steps.push((
            self.node[lower as usize],
            self.node[higher as usize],
            height,
        ));
        self.node[lower as usize] = made;
    }

    /// Joins a sequence of merges; observation `slots[s]` represents slot s.
    pub fn append(&mut self, slots: &[u32], merges: &[Merge]) {
        for merge in merges {
            self.join(
                slots[merge.lower as usize],
                slots[merge.higher as usize],
                merge.height,
            );
        }
    }

    /// Joins several sequences of merges in the order of `turns`, on the threads of the calling
    /// pool. Each part is one sequence: the observation that represents each slot, and the merges,
    /// which make one cluster of these observations. A turn is the number of a part and the number
    /// of one of its merges. Within each part, merges come in order.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn append_in_turns(
        &mut self,
        mut parts: Vec<(&[u32], Vec<Merge>)>,
        turns: &[(u32, u32)],
    ) -> Result<()> {
        // By part, the nodes that its merges make.
        let first = self.n as u32 + self.steps.len() as u32;
        let mut made: Vec<Vec<u32>> = vec![Vec::new(); parts.len()];
        for (made, (_, merges)) in made.iter_mut().zip(&parts) {
            memory::reserve(made, TREE, merges.len())?;
        }
        for (&(part, _), node) in turns.iter().zip(first..) {
            made[part as usize].push(node);
        }
        // From here on, merges name nodes in place of slots.
        let node = &self.node;
        let name_nodes = |((slots, merges), made): (&mut (&[u32], Vec<Merge>), &Vec<u32>)| {
            let nodes = slots.iter().map(|&observation| node[observation as usize]);
            let mut nodes = memory::collected(TREE, nodes)?;
            let last = merges.last().map(|merge| slots[merge.lower as usize]);
            for (merge, &made) in merges.iter_mut().zip(made) {
                let lower = merge.lower as usize;
                merge.lower = nodes[lower];
                merge.higher = nodes[merge.higher as usize];
                nodes[lower] = made;
            }
            Ok(last)
        };
        let last: Vec<Option<u32>> = parts
            .par_iter_mut()
            .zip(&made)
            .map(name_nodes)
            .collect::<Result<_>>()?;
        memory::reserve(&mut self.steps, TREE, turns.len())?;
        let step = |&(part, at): &(u32, u32)| {
            let merge = parts[part as usize].1[at as usize];
            (merge.lower, merge.higher, merge.height)
        };
        self.steps.par_extend(turns.par_iter().map(step));
        for (last, made) in last.into_iter().zip(&made) {
            if let (Some(last), Some(&root)) = (last, made.last()) {
                self.node[last as usize] = root;
            }
        }
        Ok(())
    }

    /// The tree, after all observations are joined.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn finish(self) -> Result<Dendrogram> {
        Dendrogram::from_steps(self.n, &self.steps)
    }
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
    // By cluster, the number of its leaves; after its parent was processed, the place of its first
    // leaf. A walk down the tree would be slower, since each step waits for the one before.
    let mut leaves: Vec<u32> = memory::room(TREE, merge.len())?;
    for pair in merge {
        let [a, b] = pair.map(|id| if id < 0 { 1 } else { leaves[id as usize - 1] });
        leaves.push(a + b);
    }
    let mut order = memory::zeros(TREE, merge.len() + 1)?;
    if let Some(root) = leaves.last_mut() {
        *root = 0;
    }
    for (row, &[first, second]) in merge.iter().enumerate().rev() {
        let place = leaves[row];
        let mut put = |id: i32, place: u32| {
            if id < 0 {
                order[place as usize] = -id;
                1
            } else {
                std::mem::replace(&mut leaves[id as usize - 1], place)
            }
        };
        let of_first = put(first, place);
        put(second, place + of_first);
    }
    Ok(order)
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
    fn observations_come_before_clusters_and_smaller_ids_first() {
        let tree = Dendrogram::from_steps(4, &[(3, 1, 1.0), (4, 0, 2.0), (2, 5, 3.0)]).unwrap();
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
