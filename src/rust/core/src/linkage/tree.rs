//! The tree of a sequence of merges.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rayon::prelude::*;

use crate::dendrogram::{Dendrogram, Height, TreeBuilder};
use crate::error::Result;
use crate::memory;
use crate::merge::Merge;

/// First words of a memory error, before the number of bytes.
const MERGES: &str = "the merges need";

/// The tree of the merges of `n` observations, in the order of the merges.
pub fn tree(n: usize, merges: &[Merge]) -> Result<Dendrogram> {
    let mut tree = TreeBuilder::new(n)?;
    let slots = memory::collected(MERGES, 0..n as u32)?;
    tree.append(&slots, merges);
    tree.finish()
}

/// As [`tree`], but sorts the merges by height; they may be in any order in which parts come before
/// their unions. Of equal heights, the merge of the lowest slots comes first, as if each step had
/// merged the nearest of all pairs. Takes O(n log n) time on the threads of the calling rayon pool.
pub fn sorted_tree(n: usize, mut merges: Vec<Merge>) -> Result<Dendrogram> {
    // By slot: the last merge there.
    let mut last = memory::filled(MERGES, n, None)?;
    // By merge: the merge that it is a part of.
    let mut whole = memory::filled(MERGES, merges.len(), None)?;
    // By merge: number of its parts that are not sorted yet.
    let mut missing = memory::filled(MERGES, merges.len(), 0u8)?;
    for at in 0..merges.len() {
        let Merge { lower, higher, .. } = merges[at];
        for part in [lower, higher].into_iter().filter_map(|s| last[s as usize]) {
            // Rounding can put a union below one of its parts: raise it to the part's height.
            merges[at].height = merges[at].height.max(merges[part as usize].height);
            whole[part as usize] = Some(at as u32);
            missing[at] += 1;
        }
        last[lower as usize] = Some(at as u32);
    }
    let key = |at: u32| {
        let merge = &merges[at as usize];
        (Height(merge.height), merge.lower, merge.higher, at)
    };
    let mut order = memory::collected(MERGES, 0..merges.len() as u32)?;
    order.par_sort_unstable_by_key(|&at| key(at));
    let mut sorted = memory::room(MERGES, merges.len())?;
    let mut queue = BinaryHeap::new();
    // Parts are not above their unions, so only among merges of one height a union may come first.
    for level in order.chunk_by(|&a, &b| key(a).0 == key(b).0) {
        let complete = level.iter().filter(|&&at| missing[at as usize] == 0);
        queue.extend(complete.map(|&at| Reverse(key(at))));
        while let Some(Reverse((height, .., at))) = queue.pop() {
            sorted.push(merges[at as usize]);
            let Some(whole) = whole[at as usize] else {
                continue;
            };
            missing[whole as usize] -= 1;
            if missing[whole as usize] == 0 && key(whole).0 == height {
                queue.push(Reverse(key(whole)));
            }
        }
    }
    tree(n, &sorted)
}
