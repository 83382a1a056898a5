//! Single linkage: the edges of a minimum spanning tree, shortest first, are its merges (Gower and
//! Ross 1969, doi:10.2307/2346439).

use rayon::prelude::*;

use super::active_slots::ActiveSlots;
use super::condensed::{check, position, row_start};
use super::dissimilarities::Neighbour;
use super::edge::Edge;
use super::lance_williams::StoredPrecision;
use crate::error::Result;
use crate::merge::Merge;
use crate::monitor::Monitor;

/// A minimum spanning tree of `n` observations with these dissimilarities, rounded to `precision`,
/// by Prim's algorithm (1957, doi:10.1002/j.1538-7305.1957.tb01515.x): O(n²) time.
///
/// # Errors
/// `Error::Interrupt` when the monitor says stop, and as [`check`].
pub fn spanning_tree(
    dissimilarities: &[f64],
    n: usize,
    precision: StoredPrecision,
    monitor: &Monitor,
) -> Result<Vec<Edge>> {
    let check = match precision {
        StoredPrecision::Double => check::<f64>,
        StoredPrecision::Single => check::<f32>,
    };
    (0..n).into_par_iter().with_min_len(64).try_for_each(|i| {
        monitor.check()?;
        check(&dissimilarities[row_start(n, i)..][..n - 1 - i], i)
    })?;
    let mut outside = ActiveSlots::new(n);
    outside.remove(0);
    let farthest = Neighbour {
        dissimilarity: f64::INFINITY,
        slot: u32::MAX,
    };
    // By observation outside the tree: the nearest observation inside.
    let mut nearest = vec![farthest; n];
    let mut edges = Vec::with_capacity(n - 1);
    let mut last = 0;
    while !outside.is_empty() {
        monitor.check()?;
        let mut least = (farthest, 0);
        for slot in outside.iter() {
            let to_last = Neighbour {
                dissimilarity: precision.round(dissimilarities[position(n, last, slot)]),
                slot: last as u32,
            };
            nearest[slot] = nearest[slot].min(to_last);
            least = least.min((nearest[slot], slot));
        }
        let (inside, new) = least;
        edges.push(Edge::new(inside.dissimilarity, inside.slot, new as u32));
        outside.remove(new);
        monitor.advance(2 * outside.len() as u64);
        last = new;
    }
    Ok(edges)
}

/// The merges of single linkage, in order, given the edges of a minimum spanning tree of `n`
/// observations. Merges name a cluster by its lowest observation.
pub fn merges(n: usize, mut edges: Vec<Edge>) -> Vec<Merge> {
    edges.sort_unstable_by(Edge::order);
    let mut parent: Vec<u32> = (0..n as u32).collect();
    let merge = |edge: Edge| {
        let [a, b] = [edge.lower, edge.higher].map(|end| lowest(&mut parent, end));
        let (lower, higher) = (a.min(b), a.max(b));
        parent[higher as usize] = lower;
        Merge {
            lower,
            higher,
            height: edge.weight,
        }
    };
    edges.into_iter().map(merge).collect()
}

/// The lowest observation of the cluster of `observation`; shortens the path to it.
fn lowest(parent: &mut [u32], mut observation: u32) -> u32 {
    while parent[observation as usize] != observation {
        let above = parent[observation as usize];
        parent[observation as usize] = parent[above as usize];
        observation = parent[observation as usize];
    }
    observation
}
