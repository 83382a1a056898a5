//! Linkages of agglomerative clustering.
//!
//! [`matrix`] makes the tree of any linkage from the dissimilarities of all pairs: by rounds of
//! mutual nearest neighbours where the linkage is reducible ([`rounds`], [`chain`]), by a minimum
//! spanning tree for single linkage ([`single`]), and by the generic algorithm else ([`generic`]).
//! Without a matrix, from points, [`spanning`] is single linkage and [`geometric`] those that
//! centroids define.

pub mod chain;
pub mod condensed;
pub mod generic;
pub mod geometric;
pub mod lance_williams;
pub mod live;
pub mod matrix;
pub mod rounds;
pub mod single;
pub mod spanning;
#[cfg(test)]
mod tests;

use crate::backend::Merge;
use crate::dendrogram::{Dendrogram, TreeBuilder};

/// The tree of merges of `n` observations' slots, in the order of the merges.
fn tree(n: usize, merges: &[Merge]) -> Dendrogram {
    let mut tree = TreeBuilder::new(n);
    let slots: Vec<u32> = (0..n as u32).collect();
    tree.append(&slots, merges);
    tree.finish()
}

/// As [`tree`], in the order of the heights, of merges that are in any order in which parts come
/// before their unions.
fn sorted_tree(n: usize, mut merges: Vec<Merge>) -> Dendrogram {
    // Where rounding has put a union below one of its parts, it is at the height of the part.
    let mut heights = vec![f64::NEG_INFINITY; n];
    for merge in &mut merges {
        let parts = [merge.lower, merge.higher].map(|slot| heights[slot as usize]);
        merge.height = merge.height.max(parts[0]).max(parts[1]);
        heights[merge.lower as usize] = merge.height;
    }
    // A stable sort: unions stay behind their parts.
    merges.sort_by(|a, b| a.height.total_cmp(&b.height));
    tree(n, &merges)
}
