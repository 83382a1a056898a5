//! The tree of a sequence of merges.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::dendrogram::{Dendrogram, Height, TreeBuilder};
use crate::error::Result;
use crate::memory;
use crate::merge::Merge;

/// The start of memory errors: what needs the memory.
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
/// merged the nearest of all pairs. Takes O(n log n) time.
pub fn sorted_tree(n: usize, mut merges: Vec<Merge>) -> Result<Dendrogram> {
    // By slot: the last merge there. By merge: the merge of which it is a part, and the number of
    // its own parts that are not sorted yet.
    let mut last = memory::filled(MERGES, n, None)?;
    let mut whole = memory::filled(MERGES, merges.len(), None)?;
    let mut missing = memory::filled(MERGES, merges.len(), 0u8)?;
    for at in 0..merges.len() {
        let Merge { lower, higher, .. } = merges[at];
        for part in [lower, higher].into_iter().filter_map(|s| last[s as usize]) {
            // Rounding can put a union below one of its parts: raise it to the part's height.
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
