//! Exact distances between clusters, which decide the merges, and lower bounds on them in double
//! precision.

use super::merged::MergedCluster;
use super::state::{Clusters, KeptSum};
use crate::mahalanobis::distance::{self, ExactSum};
use crate::mahalanobis::options::Distance;
use crate::mahalanobis::screen::Profile;
use crate::memory;

/// Smallest number of members whose sum of distances to another cluster is kept. A sum over fewer
/// members is computed faster than looked up. Only memory and speed depend on it.
const MIN_KEPT_MEMBERS: usize = 32;

/// Number of sums, about 8 MB, that are kept between two checks of the available memory. Only
/// memory and speed depend on it.
const SUMS_BETWEEN_CHECKS: usize = 1 << 17;

/// Bytes that have to be available, or all sums are dropped: four times the sums until the next
/// check, since a hash table that grows is in memory twice, the second time with double the room.
/// If too low, memory may run out before that check; if too high, sums are dropped without need.
const ROOM_FOR_SUMS: f64 = 32e6;

/// A distance and, if it is a full Mahalanobis distance, the sums that are worth keeping.
#[derive(Debug)]
pub struct ExactDistance {
    pub distance: f64,
    sums: [Option<(u32, u32, KeptSum)>; 2],
}

impl Clusters<'_> {
    /// A lower bound on the distance of two clusters, computed as a screen does, but in double
    /// precision.
    pub fn bound(&self, a: u32, b: u32) -> f64 {
        let (a, b) = (self.profile(a), self.profile(b));
        let differences = a.mean.iter().zip(b.mean).map(|(a, b)| a - b);
        let square: f64 = differences.map(|d| d * d).sum();
        let centroids = square.sqrt();
        let directed = |from: &Profile, to: &Profile| {
            let norm = centroids.max(from.spread.mean_norm(square));
            let norm = norm * (1.0 - 1e-9) - from.mean_error;
            let rounding = distance::quanta(to.stretch, self.diagonal, self.log2_terms).rounding();
            (to.least_stretch * norm - rounding).max(0.0)
        };
        distance::average(directed(&a, &b), directed(&b, &a))
    }

    /// The exact distance of two clusters.
    pub fn exact_distance(&self, a: u32, b: u32) -> ExactDistance {
        if self.problem.options.distance == Distance::Centroid || self.size(a) + self.size(b) == 2 {
            return ExactDistance {
                distance: self.part(a).centroid_distance(&self.part(b)),
                sums: [None, None],
            };
        }
        let (a_to_b, first) = self.directed(a, b);
        let (b_to_a, second) = self.directed(b, a);
        ExactDistance {
            distance: distance::average(a_to_b, b_to_a),
            sums: [first.map(|sum| (a, b, sum)), second.map(|sum| (b, a, sum))],
        }
    }

    /// Keeps the sums of an exact distance for later ones, and returns the distance. If memory is
    /// short, drops all sums: distances have the same bits without them, but take longer.
    pub fn keep(&mut self, exact: ExactDistance) -> f64 {
        for (from, to, sum) in exact.sums.into_iter().flatten() {
            self.sums[from as usize].insert(to, sum);
            self.new_sums += 1;
        }
        if self.new_sums >= SUMS_BETWEEN_CHECKS {
            self.new_sums = 0;
            if memory::check("the sums of distances need", ROOM_FOR_SUMS).is_err() {
                self.free_sums();
            }
        }
        exact.distance
    }

    /// The mean of the distances from the members of one cluster to another cluster, and the sum to
    /// keep, if it is worth keeping.
    fn directed(&self, from: u32, to: u32) -> (f64, Option<KeptSum>) {
        if self.size(from) == 1 {
            return (self.part(from).distance_to(&self.part(to)), None);
        }
        let target = self.profile(to);
        let quanta = distance::quanta(target.stretch, self.diagonal, self.log2_terms);
        let members = &self.members[from as usize];
        let mut kept = self.kept_sum(from, to);
        let sums = members.sums(self.problem.x, kept.members, &target, &quanta, self.monitor);
        kept.sum.combine(&sums.in_blocks);
        kept.members = members.in_blocks();
        let mut sum = kept.sum;
        sum.combine(&sums.others);
        let worth_keeping = members.len() >= MIN_KEPT_MEMBERS;
        (sum.mean(members.len()), worth_keeping.then_some(kept))
    }

    /// The kept sum of the distances from one cluster's members to another cluster; if none is
    /// kept, a sum of 0 over no members.
    fn kept_sum(&self, from: u32, to: u32) -> KeptSum {
        let version = self.versions[to as usize];
        let kept = self.sums[from as usize].get(&to);
        let kept = kept.filter(|kept| kept.version == version);
        kept.copied().unwrap_or(KeptSum {
            version,
            members: 0,
            sum: ExactSum::default(),
        })
    }

    /// The approximate number of operations of a full Mahalanobis distance.
    pub fn operations_of_distance(&self, a: u32, b: u32) -> usize {
        let directed = |from: u32, to: u32| {
            let rest = self.size(from) - self.kept_sum(from, to).members;
            rest * self.p.max(self.profile(to).whitening.len())
        };
        directed(a, b) + directed(b, a)
    }

    /// The exact distance between a slot's cluster and `union`, the union of the clusters in slots
    /// `of`.
    pub fn exact_distance_to_union(&self, union: &MergedCluster, of: &[u32], slot: u32) -> f64 {
        let (part, other) = (union.part(), self.part(slot));
        if self.problem.options.distance == Distance::Centroid {
            return part.centroid_distance(&other);
        }
        let to_union = if other.size == 1 {
            other.distance_to(&part)
        } else {
            self.sum_to(&[slot], &union.profile()).mean(other.size)
        };
        let from_union = self.sum_to(of, &self.profile(slot)).mean(part.size);
        distance::average(from_union, to_union)
    }

    /// The sum of the distances from the members of some slots' clusters to another cluster.
    fn sum_to(&self, from: &[u32], target: &Profile) -> ExactSum {
        let quanta = distance::quanta(target.stretch, self.diagonal, self.log2_terms);
        let mut all = ExactSum::default();
        for &slot in from {
            let members = &self.members[slot as usize];
            let sums = members.sums(self.problem.x, 0, target, &quanta, self.monitor);
            all.combine(&sums.in_blocks);
            all.combine(&sums.others);
        }
        all
    }
}
