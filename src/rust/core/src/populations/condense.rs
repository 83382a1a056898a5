//! The clusters of a condensed tree: those that begin and end at splits of a tree.
//!
//! After Campello, Moulavi and Sander (2013), doi:10.1007/978-3-642-37456-2_14, section "Hierarchy
//! simplification", but for the rows of any tree. A split is a merge of two sides with enough
//! members each. At any other merge, a side without enough members falls off its cluster.

use crate::dendrogram::Nodes;
use crate::error::{Error, Result};
use crate::memory;

/// First words of a memory error, before the number of bytes.
const NEEDS: &str = "the condensed tree needs";

/// A cluster of a condensed tree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cluster {
    /// The node at which it begins.
    pub node: usize,
    /// The cluster that it is a side of; `None` for the root.
    pub parent: Option<usize>,
    /// The split that divides it, counted from the top, and the row of the tree that makes this
    /// split; `None` if nothing divides it. Split s makes clusters 2s + 1 and 2s + 2.
    pub split: Option<Split>,
    /// Number of members at its beginning.
    pub size: f64,
    /// The sum over its members of the logarithm of the ratio of two heights: where the cluster
    /// begins, and where the member leaves it.
    pub mass: f64,
}

/// A split of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    pub number: usize,
    pub row: usize,
}

/// The clusters of the condensed tree, parents first. `sizes` are the numbers of members of all
/// nodes, `heights` the heights of all rows, and `least` is the smallest number of members of a
/// cluster, but the root's may be smaller. A row that is lower than one below it counts as that
/// high, and heights of 0 or less count as the lowest positive height. O(n) time.
///
/// # Errors
/// `Error::Input` if `sizes` or `heights` do not fit the tree, or if it has a single leaf;
/// `Error::Memory`.
pub fn condense(
    nodes: Nodes<'_>,
    sizes: &[f64],
    heights: &[f64],
    least: f64,
) -> Result<Vec<Cluster>> {
    let n = nodes.leaves();
    if n < 2 || sizes.len() != nodes.count() || heights.len() != n - 1 {
        return Err(Error::Input("sizes and heights must fit the tree".into()));
    }
    let levels = Levels::new(nodes, heights)?;
    let is_large = |node: usize| sizes[node] >= least;
    let is_split = |joined: [usize; 2]| joined.into_iter().all(is_large);
    let splits = nodes.rows().filter(|&(_, joined)| is_split(joined)).count();
    let mut clusters = memory::room(NEEDS, 2 * splits + 1)?;
    // By cluster, the level at which it begins.
    let mut begins = memory::room(NEEDS, 2 * splits + 1)?;
    // By node, the cluster that it is the present end of.
    let mut cluster_of: Vec<u32> = memory::zeros(NEEDS, nodes.count())?;
    let begin = |node: usize, parent: Option<usize>| Cluster {
        node,
        parent,
        split: None,
        size: sizes[node],
        mass: 0.0,
    };
    clusters.push(begin(nodes.count() - 1, None));
    begins.push(levels.of_rows[n - 2]);
    let large_rows = nodes.rows().rev().filter(|&(node, _)| is_large(node));
    for (node, joined) in large_rows {
        let (number, row) = (cluster_of[node] as usize, node - n);
        let here = levels.of_rows[row];
        let left = begins[number] - here;
        if is_split(joined) {
            let split = clusters.len() / 2;
            clusters[number].mass += sizes[node] * left;
            clusters[number].split = Some(Split { number: split, row });
            for side in joined {
                cluster_of[side] = clusters.len() as u32;
                clusters.push(begin(side, Some(number)));
                begins.push(here);
            }
        } else {
            // At most one side is large, and the cluster goes on with it.
            let mut fallen = sizes[node];
            for side in joined.into_iter().filter(|&side| is_large(side)) {
                cluster_of[side] = number as u32;
                fallen -= sizes[side];
            }
            clusters[number].mass += fallen * left;
        }
    }
    // A leaf with enough members is never divided.
    for leaf in (0..n).filter(|&leaf| is_large(leaf)) {
        let number = cluster_of[leaf] as usize;
        clusters[number].mass += sizes[leaf] * (begins[number] - levels.of_leaves);
    }
    Ok(clusters)
}

/// Logarithms of heights.
struct Levels {
    of_rows: Vec<f64>,
    of_leaves: f64,
}

impl Levels {
    fn new(nodes: Nodes<'_>, heights: &[f64]) -> Result<Self> {
        let n = nodes.leaves();
        let mut of_rows = memory::copied(NEEDS, heights)?;
        for row in 0..n - 1 {
            let below = nodes
                .joined(row)
                .into_iter()
                .filter_map(|node| node.checked_sub(n));
            let below = below
                .map(|row| of_rows[row])
                .fold(f64::NEG_INFINITY, f64::max);
            of_rows[row] = of_rows[row].max(below);
        }
        let positive = of_rows.iter().copied().filter(|&height| height > 0.0);
        let lowest = positive.reduce(f64::min).unwrap_or(1.0);
        for level in &mut of_rows {
            *level = level.max(lowest).ln();
        }
        Ok(Self {
            of_rows,
            of_leaves: lowest.ln(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ((1, 2), 3) and (4, (5, 6)) are joined; leaf 7 falls off before, and row 3 is an inversion.
    const MERGE: [[i32; 2]; 6] = [[-1, -2], [-5, -6], [-3, 1], [-4, 2], [-7, 3], [4, 5]];
    const HEIGHTS: [f64; 6] = [1.0, 0.0, 0.5, 4.0, 4.0, 8.0];

    #[test]
    fn clusters_begin_and_end_at_splits() {
        let nodes = Nodes::of(&MERGE);
        let sizes = nodes.sizes(&[1.0; 7]).unwrap();
        let clusters = condense(nodes, &sizes, &HEIGHTS, 2.0).unwrap();
        let [root, first, second] = clusters[..] else {
            panic!("{clusters:?}")
        };
        assert_eq!(root.split, Some(Split { number: 0, row: 5 }));
        assert_eq!((root.node, root.parent, root.mass), (12, None, 0.0));
        assert_eq!((first.node, first.parent, first.size), (10, Some(0), 3.0));
        assert_eq!(
            (second.node, second.parent, second.size),
            (11, Some(0), 4.0)
        );
        assert_eq!((first.split, second.split), (None, None));
        // Leaf 4 leaves at height 4, leaves 5 and 6 at 0, which counts as 1.
        let [two, eight] = [2f64, 8.0].map(f64::ln);
        assert!((first.mass - (two + 2.0 * eight)).abs() < 1e-12);
        // Leaf 7 leaves at 4, leaf 3 at 0.5, which counts as 1, and leaves 1 and 2 at 1.
        assert!((second.mass - (two + 3.0 * eight)).abs() < 1e-12);
    }

    #[test]
    fn a_leaf_of_enough_members_is_a_cluster() {
        let nodes = Nodes::of(&[[-1, -2]]);
        let sizes = nodes.sizes(&[5.0, 3.0]).unwrap();
        let clusters = condense(nodes, &sizes, &[2.0], 3.0).unwrap();
        let found: Vec<_> = clusters.iter().map(|c| (c.node, c.size)).collect();
        assert_eq!(found, [(2, 8.0), (0, 5.0), (1, 3.0)]);
        let alone = condense(nodes, &sizes, &[2.0], 4.0).unwrap();
        assert_eq!(alone.len(), 1);
    }
}
