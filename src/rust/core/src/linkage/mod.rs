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

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::backend::Merge;
use crate::dendrogram::{Dendrogram, Height, TreeBuilder};

/// The tree of merges of `n` observations' slots, in the order of the merges.
fn tree(n: usize, merges: &[Merge]) -> Dendrogram {
    let mut tree = TreeBuilder::new(n);
    let slots: Vec<u32> = (0..n as u32).collect();
    tree.append(&slots, merges);
    tree.finish()
}

/// As [`tree`], in the order of the heights, of merges that are in any order in which parts come
/// before their unions. Of equal heights the merge of the lowest slots comes first, as if the
/// nearest pair of all had been sought each time.
fn sorted_tree(n: usize, mut merges: Vec<Merge>) -> Dendrogram {
    // By slot: the last merge there. By merge: the one that it is a part of, and its own parts.
    let mut last = vec![None; n];
    let mut whole = vec![None; merges.len()];
    let mut missing = vec![0u8; merges.len()];
    for at in 0..merges.len() {
        let Merge { lower, higher, .. } = merges[at];
        for part in [lower, higher].into_iter().filter_map(|s| last[s as usize]) {
            // Where rounding has put a union below one of its parts, it is at their height.
            merges[at].height = merges[at].height.max(merges[part as usize].height);
            whole[part as usize] = Some(at);
            missing[at] += 1;
        }
        last[lower as usize] = Some(at as u32);
    }
    let key = |at: usize| {
        let Merge {
            lower,
            higher,
            height,
        } = merges[at];
        Reverse((Height(height), lower, higher, at))
    };
    let complete = (0..merges.len()).filter(|&at| missing[at] == 0);
    let mut queue: BinaryHeap<_> = complete.map(key).collect();
    let mut sorted = Vec::with_capacity(merges.len());
    while let Some(Reverse((.., at))) = queue.pop() {
        sorted.push(merges[at]);
        if let Some(whole) = whole[at] {
            missing[whole] -= 1;
            if missing[whole] == 0 {
                queue.push(key(whole));
            }
        }
    }
    tree(n, &sorted)
}
