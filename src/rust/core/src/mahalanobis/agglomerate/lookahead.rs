//! Lookahead: work on probable merges, done while a device is busy.

use super::active::ActiveClusters;
use super::successors::ExpectedMerge;
use super::tentative::TentativeMerge;
use crate::mahalanobis::options::Distance;

/// Number of nearest neighbours of two clusters among which the nearest neighbour of their union is
/// sought. If the union's nearest neighbour is another cluster, the lookahead is wasted.
const LIKELY_NEIGHBOURS: usize = 6;

/// The result of a lookahead from some tentative merges.
#[derive(Debug, Default)]
pub struct Lookahead {
    /// For each tentative merge that was examined, exact distances from the union to other
    /// clusters, with their slots.
    pub decided: Vec<Vec<(f64, u32)>>,
    pub follow_up: Option<FollowUp>,
}

/// A tentative merge of the union of another tentative merge with a third cluster.
#[derive(Debug)]
pub struct FollowUp {
    /// The births of the clusters of the other tentative merge.
    after: (u32, u32),
    /// One of its births is [`NEVER`](super::active::NEVER) until they are merged.
    tentative: TentativeMerge,
}

impl FollowUp {
    /// Records that two clusters of these births were merged to a cluster of this `birth`.
    pub fn learn_of_merge(&mut self, parents: (u32, u32), birth: u32) {
        if self.after == parents {
            self.tentative.learn_of_birth(birth);
        }
    }

    /// The tentative merge, if it merges the clusters of these slots and births.
    pub fn of(self, pair: (u32, u32), births: (u32, u32)) -> Option<TentativeMerge> {
        let tentative = self.tentative;
        (tentative.pair == pair && tentative.births == births).then_some(tentative)
    }
}

impl Lookahead {
    /// Looks ahead from tentative merges in the order of their heights. Assumes that the union of
    /// one of these merges is merged next, with a cluster near to it.
    pub fn new(
        active: &ActiveClusters,
        merges: &[TentativeMerge],
        expected: &[ExpectedMerge],
    ) -> Self {
        let mut lookahead = Self::default();
        let mut nearest: Option<(f64, &TentativeMerge, u32)> = None;
        for (merge, next) in merges.iter().zip(expected) {
            if nearest.is_some_and(|(distance, ..)| distance <= next.height) {
                break;
            }
            let near = likely_neighbours(active, merge);
            for &(distance, slot) in &near {
                if nearest.is_none_or(|(least, ..)| distance < least) {
                    nearest = Some((distance, merge, slot));
                }
            }
            if active.problem.options.distance == Distance::Centroid {
                lookahead.decided.push(near);
            }
        }
        lookahead.follow_up = nearest.and_then(|(_, merge, partner)| {
            Some(FollowUp {
                after: merge.births,
                tentative: merge.with_next(active, partner)?,
            })
        });
        lookahead
    }
}

/// The nearest neighbours of the two clusters of a tentative merge: their centroid distances from
/// the union, and their slots, in increasing order of slots.
fn likely_neighbours(active: &ActiveClusters, merge: &TentativeMerge) -> Vec<(f64, u32)> {
    let pair = merge.pair;
    let mut near: Vec<(u64, u32)> = Vec::new();
    for owner in [pair.0, pair.1] {
        let others = active.neighbours(owner, pair);
        near.extend(others.map(|c| (c.value, c.partner)));
    }
    if near.len() > LIKELY_NEIGHBOURS {
        near.select_nth_unstable(LIKELY_NEIGHBOURS);
        near.truncate(LIKELY_NEIGHBOURS);
    }
    // A neighbour of both clusters is listed twice.
    near.sort_unstable_by_key(|(_, slot)| *slot);
    near.dedup_by_key(|(_, slot)| *slot);
    let part = merge.merged.part();
    let distance = |(_, slot)| (active.clusters.centroid_distance(part, slot), slot);
    near.into_iter().map(distance).collect()
}
