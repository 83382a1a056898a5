//! The nearest-neighbour chain (Murtagh 1983, doi:10.1093/comjnl/26.4.354): reducible linkages in
//! O(n²) time whatever the data, one merge after the other.

use super::condensed::{Condensed, Stored};
use super::dissimilarities::Neighbour;
use super::lance_williams::{Recurrence, Union};
use super::live::Live;
use crate::error::Result;
use crate::merge::Merge;
use crate::monitor::Monitor;

/// The merges of all clusters of `matrix` to one, whose sizes are `sizes`, each merge after those
/// that made its parts. `matrix` is of no use afterwards.
///
/// The chain goes from a cluster to its nearest one, from there to that one's nearest and so on,
/// until two are each other's nearest, which merge. It goes on from where it came from, so at most
/// 3n times a nearest neighbour is sought.
///
/// # Errors
/// `Error::Interrupt` when the monitor says stop.
pub fn merges<T: Stored>(
    recurrence: Recurrence,
    mut sizes: Vec<f64>,
    matrix: &mut Condensed<T>,
    monitor: &Monitor,
) -> Result<Vec<Merge>> {
    let mut live = Live::new(sizes.len());
    let mut chain: Vec<usize> = Vec::new();
    let mut merges = Vec::with_capacity(sizes.len() - 1);
    while live.len() > 1 {
        monitor.check()?;
        let last = *chain.last().unwrap_or(&live.first());
        if chain.is_empty() {
            chain.push(last);
        }
        let nearest = nearest(matrix, &live, last);
        let other = nearest.slot as usize;
        if chain.len() < 2 || chain[chain.len() - 2] != other {
            chain.push(other);
            continue;
        }
        chain.truncate(chain.len() - 2);
        let (lower, higher) = (last.min(other), last.max(other));
        let union = Union {
            height: nearest.dissimilarity,
            sizes: [sizes[lower], sizes[higher]],
        };
        live.remove(higher);
        for slot in live.iter().filter(|&slot| slot != lower) {
            let (first, second) = (matrix.get(lower, slot), matrix.get(higher, slot));
            let updated = recurrence.update(&union, first, second, sizes[slot]);
            matrix.set(lower, slot, updated);
        }
        sizes[lower] = union.size();
        monitor.advance(live.len() as u64);
        merges.push(Merge {
            lower: lower as u32,
            higher: higher as u32,
            height: union.height,
        });
    }
    Ok(merges)
}

/// The nearest of the others.
fn nearest<T: Stored>(matrix: &Condensed<T>, live: &Live, slot: usize) -> Neighbour {
    let others = live.iter().filter(|&other| other != slot);
    let neighbours = others.map(|other| Neighbour {
        dissimilarity: matrix.get(slot, other),
        slot: other as u32,
    });
    neighbours.min().expect("there are others")
}
