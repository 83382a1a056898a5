//! Successors: tentative merges of unions that are tentative themselves, prepared with their candidates
//! on threads that would otherwise wait.

use rayon::prelude::*;

use super::active::{ActiveClusters, MIN_PARALLEL_OPERATIONS, NEVER};
use super::lookahead::nearest_neighbour;
use super::tentative::{PreparedMerge, TentativeMerge};

/// A prepared merge of the union of a pair.
#[derive(Debug)]
pub struct Successor {
    after: Parents,
    /// One of its births is [`NEVER`] until the pair is merged.
    pub prepared: PreparedMerge,
}

/// The clusters of a tentative merge: slots and births.
#[derive(Debug, Clone, Copy)]
struct Parents {
    pair: (u32, u32),
    births: (u32, u32),
}

/// A tentative merge of the union of a pair.
#[derive(Debug)]
pub struct TentativeSuccessor {
    after: Parents,
    pub tentative: TentativeMerge,
}

impl TentativeSuccessor {
    /// The slots of all three clusters, in increasing order.
    pub fn slots(&self) -> Vec<u32> {
        let (pair, next) = (self.after.pair, self.tentative.pair);
        let third = if next.0 == pair.0 { next.1 } else { next.0 };
        let mut slots = vec![pair.0, pair.1, third];
        slots.sort_unstable();
        slots
    }

    /// With the preparation of its tentative merge.
    pub fn prepared(self, prepare: impl FnOnce(TentativeMerge) -> PreparedMerge) -> Successor {
        Successor {
            after: self.after,
            prepared: prepare(self.tentative),
        }
    }
}

/// The probable successors of tentative merges in the order of their `heights`: those below the last
/// height, with a neighbour that is not merged before.
pub fn tentative_successors(
    active: &ActiveClusters,
    merges: &[TentativeMerge],
    heights: &[f64],
) -> Vec<TentativeSuccessor> {
    let last = heights[heights.len() - 1];
    let is_merged_before = |slot: u32, distance: f64| {
        let mut earlier = merges.iter().zip(heights);
        earlier.any(|(other, &height)| {
            height <= distance && (other.pair.0 == slot || other.pair.1 == slot)
        })
    };
    let successor = |merge: &TentativeMerge| {
        let (distance, partner) = nearest_neighbour(active, merge)?;
        if distance > last || is_merged_before(partner, distance) {
            return None;
        }
        Some(TentativeSuccessor {
            after: Parents {
                pair: merge.pair,
                births: merge.births,
            },
            tentative: merge.with_next(active, partner)?,
        })
    };
    let operations: usize = merges.iter().map(|m| active.operations(m.pair)).sum();
    if operations < MIN_PARALLEL_OPERATIONS {
        merges.iter().filter_map(successor).collect()
    } else {
        merges.par_iter().filter_map(successor).collect()
    }
}

impl Successor {
    /// Whether its clusters are still those that it was made of.
    pub fn is_valid(&self, active: &ActiveClusters) -> bool {
        let Parents { pair, births } = self.after;
        let tentative = &self.prepared.tentative;
        let is_active = |slot: u32, birth: u32| birth == NEVER || active.is_active(slot, birth);
        active.births_of(pair) == births
            && is_active(tentative.pair.0, tentative.births.0)
            && is_active(tentative.pair.1, tentative.births.1)
    }

    /// Whether it is the successor of a merge of clusters of these births.
    pub fn is_after(&self, parents: (u32, u32)) -> bool {
        self.after.births == parents
    }

    /// The preparation, now that the pair was merged to a cluster of this `birth`.
    pub fn after_merge(self, birth: u32) -> PreparedMerge {
        let mut prepared = self.prepared;
        prepared.tentative.learn_of_birth(birth);
        prepared
    }
}

#[cfg(test)]
mod tests {
    use crate::mahalanobis::agglomerate::agglomerate;
    use crate::mahalanobis::tests::counting::CountingDevice;
    use crate::mahalanobis::{Distance, Options, Problem, Subthreshold};
    use crate::merge::Merge;
    use crate::monitor::Monitor;
    use crate::observations::Observations;
    use crate::testing::{draw, Data, Random};

    /// The merges of all observations, and the number of sweeps.
    fn merges(x: &Observations, options: Options, on_threads: bool) -> (Vec<Merge>, usize) {
        let mut device = CountingDevice::default();
        (device.batch, device.on_threads) = (Some(64), on_threads);
        let problem = Problem::of_observations(x, (0..x.nrows() as u32).collect(), options);
        let merges = agglomerate(0, &problem, &device, &Monitor::default()).unwrap();
        (merges, device.counts.sweeps())
    }

    #[test]
    fn successors_save_sweeps_and_change_no_merge() {
        let mut random = Random(67);
        let (n, p) = (1_000, 4);
        let x = draw(&mut random, Data::Plain, n, p);
        let (mut all_without, mut all_with) = (0, 0);
        for distance in [Distance::Centroid, Distance::FullMahalanobis] {
            for subthreshold in Subthreshold::ALL {
                let options = Options {
                    threshold: 0.02 * n as f64,
                    subthreshold,
                    distance,
                    normalize: false,
                    apriori_intra: true,
                };
                let (expected, without) = merges(&x, options, false);
                let (found, with) = merges(&x, options, true);
                assert!(found == expected, "{options:?}");
                all_without += without;
                all_with += with;
            }
        }
        assert!(all_with < all_without, "{all_with} of {all_without}");
    }
}
