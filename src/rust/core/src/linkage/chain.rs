//! The nearest-neighbour chain (Murtagh 1983, doi:10.1093/comjnl/26.4.354): makes the tree of a
//! reducible linkage in O(n²) time, whatever the data, one merge after the other.

use super::active_slots::ActiveSlots;
use super::condensed::{CondensedMatrix, Stored};
use super::dissimilarities::Neighbour;
use super::lance_williams::{MergedPair, Recurrence};
use crate::error::Result;
use crate::merge::Merge;
use crate::monitor::Monitor;

/// The merges that join all clusters of `matrix`, whose sizes are `sizes`, each merge after those
/// of its parts. Overwrites `matrix`.
///
/// The chain goes from a cluster to its nearest neighbour, from there to the next nearest
/// neighbour, and so on, until two clusters are each other's nearest neighbours; these merge. The
/// algorithm continues with the rest of the chain, so there are at most 3n searches of O(n) time
/// each.
///
/// # Errors
/// `Error::Interrupt` when the monitor says stop.
pub fn merges<T: Stored>(
    recurrence: Recurrence,
    mut sizes: Vec<f64>,
    matrix: &mut CondensedMatrix<T>,
    monitor: &Monitor,
) -> Result<Vec<Merge>> {
    let mut active = ActiveSlots::new(sizes.len());
    let mut chain: Vec<usize> = Vec::new();
    let mut merges = Vec::with_capacity(sizes.len() - 1);
    while active.len() > 1 {
        monitor.check()?;
        let last = *chain.last().unwrap_or(&active.first());
        if chain.is_empty() {
            chain.push(last);
        }
        let nearest = nearest(matrix, &active, last);
        let other = nearest.slot as usize;
        if chain.len() < 2 || chain[chain.len() - 2] != other {
            chain.push(other);
            continue;
        }
        chain.truncate(chain.len() - 2);
        let (lower, higher) = (last.min(other), last.max(other));
        let pair = MergedPair {
            height: nearest.dissimilarity,
            sizes: [sizes[lower], sizes[higher]],
        };
        active.remove(higher);
        for slot in active.iter().filter(|&slot| slot != lower) {
            let (first, second) = (matrix.get(lower, slot), matrix.get(higher, slot));
            let updated = recurrence.update(&pair, first, second, sizes[slot]);
            matrix.set(lower, slot, updated);
        }
        sizes[lower] = pair.size();
        monitor.advance(active.len() as u64);
        merges.push(Merge {
            lower: lower as u32,
            higher: higher as u32,
            height: pair.height,
        });
    }
    Ok(merges)
}

/// The nearest cluster of a slot's cluster.
fn nearest<T: Stored>(matrix: &CondensedMatrix<T>, active: &ActiveSlots, slot: usize) -> Neighbour {
    let others = active.iter().filter(|&other| other != slot);
    let neighbours = others.map(|other| Neighbour {
        dissimilarity: matrix.get(slot, other),
        slot: other as u32,
    });
    neighbours.min().expect("there are others")
}
