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
pub mod points;
pub mod rounds;
pub mod single;
pub mod spanning;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::backend::Merge;
use crate::dendrogram::{Dendrogram, Height, TreeBuilder};
use crate::error::Result;
use crate::memory;

/// What needs memory here.
const MERGES: &str = "the merges need";

/// The tree of merges of `n` observations' slots, in the order of the merges.
fn tree(n: usize, merges: &[Merge]) -> Result<Dendrogram> {
    let mut tree = TreeBuilder::new(n)?;
    let slots = memory::collected(MERGES, 0..n as u32)?;
    tree.append(&slots, merges);
    tree.finish()
}

/// As [`tree`], in the order of the heights, of merges that are in any order in which parts come
/// before their unions. Of equal heights the merge of the lowest slots comes first, as if the
/// nearest pair of all had been sought each time.
fn sorted_tree(n: usize, mut merges: Vec<Merge>) -> Result<Dendrogram> {
    // By slot: the last merge there. By merge: the one that it is a part of, and its own parts.
    let mut last = memory::filled(MERGES, n, None)?;
    let mut whole = memory::filled(MERGES, merges.len(), None)?;
    let mut missing = memory::filled(MERGES, merges.len(), 0u8)?;
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
    let mut keys = memory::room(MERGES, merges.len())?;
    keys.extend(complete.map(key));
    let mut queue = BinaryHeap::from(keys);
    let mut sorted = memory::room(MERGES, merges.len())?;
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
