//! Sweeps: searches for the candidates of all clusters at the start, and later of each cluster
//! whose floor is reached.

use std::cmp::Reverse;

use rayon::prelude::*;

use super::active::ActiveClusters;
use super::agglomeration::Agglomeration;
use super::candidates::{Candidate, Candidates};
use super::entry::EntryKind;
use super::preparation::largest_batch;
use super::spatial_order::{sort_spatially, SPATIAL_GROUP};
use crate::dendrogram::overflow;
use crate::error::Result;
use crate::mahalanobis::screen::{ClusterView, MeanPrecision, ScreenAnswer, ScreenRequest};
use crate::next_float::NextFloat;

/// Smallest number of clusters that are sorted spatially. For fewer clusters, sorting takes longer
/// than it saves. Only the time depends on it.
const MIN_SORTED_CLUSTERS: usize = 16 * SPATIAL_GROUP;

/// A cluster is coarse if its nearest neighbours may be nearer than this times the error of its
/// mean. Measured; only the time depends on it.
const COARSE_ERRORS: f64 = 8.0;

/// If at least 1 in this number of clusters is coarse, the screen stores means in double precision.
/// A sweep in double precision takes about twice as long. But in single precision, each coarse
/// cluster costs the exact distances to all clusters within its error. Only the time depends on it.
const COARSE_RATIO: usize = 64;

/// Largest number of clusters in the sample that estimates the share of coarse clusters.
const COARSE_SAMPLE: usize = 1024;

/// Number of pairs of clusters that the first sweeps compare between two checks of the monitor,
/// about 0.1 s, in up to [`DIMENSIONS_BETWEEN_CHECKS`] dimensions. In more dimensions, the number
/// is smaller in proportion. If it is too large, an interrupt is answered late.
const PAIRS_BETWEEN_CHECKS: usize = 1 << 27;
/// Largest number of dimensions for which [`PAIRS_BETWEEN_CHECKS`] is not reduced.
const DIMENSIONS_BETWEEN_CHECKS: usize = 64;

impl Agglomeration<'_> {
    /// Sweeps all active clusters against each other and queues them, from scratch. Stores means in
    /// double precision if too many clusters are coarse.
    pub fn start(&mut self) -> Result<()> {
        let mut slots: Vec<u32> = self.active.clusters.active().collect();
        let is_sorted = slots.len() >= MIN_SORTED_CLUSTERS;
        if is_sorted {
            sort_spatially(&mut slots, &self.active.clusters);
        }
        // This estimate saves sweeps in single precision that would find too many candidates.
        if is_sorted && self.is_single() && self.is_sample_coarse(&slots) {
            self.refine_means();
        }
        let coarse = self.sweep_all(&slots, is_sorted)?;
        if self.is_single() && COARSE_RATIO * coarse >= slots.len() {
            self.refine_means();
            self.sweep_all(&slots, is_sorted)?;
        }
        Ok(())
    }

    fn is_single(&self) -> bool {
        self.active.frame.precision == MeanPrecision::Single
    }

    /// Whether at least 1 in [`COARSE_RATIO`] of a sample of clusters is coarse. `slots` are in
    /// spatial order.
    fn is_sample_coarse(&self, slots: &[u32]) -> bool {
        let step = slots.len().div_ceil(COARSE_SAMPLE);
        let sample: Vec<usize> = (SPATIAL_GROUP..slots.len()).step_by(step).collect();
        let (active, wanted) = (&self.active, self.screen.wanted(1));
        let count = |&at: &usize| {
            let limit = first_limit(active, &slots[..at], slots[at], wanted);
            usize::from(is_coarse(active, &active.view(slots[at]), limit))
        };
        let coarse: usize = sample.par_iter().map(count).sum();
        COARSE_RATIO * coarse >= sample.len()
    }

    /// Replaces the screen by a screen that stores means in double precision.
    fn refine_means(&mut self) {
        self.active.frame.precision = MeanPrecision::Double;
        self.renew_screen();
    }

    /// Sweeps all active clusters, in the order of `slots`, against each other and queues them.
    /// Returns the number of coarse clusters.
    fn sweep_all(&mut self, slots: &[u32], is_sorted: bool) -> Result<usize> {
        for &slot in slots {
            self.active.assign_birth(slot);
            self.screen.push(slot, &self.active.view(slot))?;
        }
        self.queue.clear();
        self.prepared.clear();
        self.recent.clear();
        self.batch = largest_batch();
        let p = self.active.problem.x.ncols();
        let coordinates = slots.len() * p.div_ceil(DIMENSIONS_BETWEEN_CHECKS);
        let at_a_time = (PAIRS_BETWEEN_CHECKS / coordinates).max(1);
        let mut coarse = 0;
        for start in (0..slots.len()).step_by(at_a_time) {
            self.monitor.check()?;
            let end = (start + at_a_time).min(slots.len());
            coarse += self.sweep_from(&slots[..end], start, is_sorted)?;
        }
        Ok(coarse)
    }

    /// Sweeps each cluster from index `start` on against all clusters before it, and queues it.
    /// Returns the number of coarse clusters.
    fn sweep_from(&mut self, slots: &[u32], start: usize, is_sorted: bool) -> Result<usize> {
        let active = &self.active;
        let (of_points, of_others) = (self.screen.wanted(1), self.screen.wanted(2));
        let wanted = |slot: u32| match active.clusters.size(slot) {
            1 => of_points,
            _ => of_others,
        };
        let swept: Vec<(ClusterView, f64)> = (start..slots.len())
            .into_par_iter()
            .map(|at| {
                let limit = if is_sorted {
                    first_limit(active, &slots[..at], slots[at], wanted(slots[at]))
                } else {
                    f64::INFINITY
                };
                (active.view(slots[at]), limit)
            })
            .collect();
        let requests: Vec<ScreenRequest> = swept
            .iter()
            .zip(start..)
            .map(|(&(ref view, limit), end)| ScreenRequest {
                view,
                end,
                capacity: wanted(slots[end]),
                limit,
                skip: &[],
            })
            .collect();
        let answers = self.screen.sweep(&requests);
        let views = swept.iter().map(|(view, _)| view).zip(&answers);
        let is_coarse =
            |(view, answer): &(&ClusterView, &ScreenAnswer)| is_coarse(active, view, answer.floor);
        let coarse = views.filter(is_coarse).count();
        for (at, answer) in (start..).zip(answers) {
            let slot = slots[at];
            let candidates = Candidates::new(answer, &self.active.births);
            self.active.candidates[slot as usize] = candidates;
            self.enqueue(slot);
            self.monitor.advance(at as u64);
        }
        Ok(coarse)
    }

    /// Searches for more candidates of a cluster whose floor is reached, and of clusters whose
    /// floors are among the next entries of the queue.
    pub fn sweep_again(&mut self, owner: u32) -> Result<()> {
        self.monitor.check()?;
        let owners = self.owners_of_floors(owner);
        let searches: Vec<FurtherSearch> =
            owners.into_iter().map(|o| self.further_search(o)).collect();
        let requests: Vec<ScreenRequest> = searches.iter().map(FurtherSearch::request).collect();
        let answers = self.screen.sweep(&requests);
        drop(requests);
        for (search, answer) in searches.into_iter().zip(answers) {
            self.keep_found(search, answer)?;
        }
        Ok(())
    }

    /// The cluster `first`, whose floor is reached, and the clusters whose floors are among the
    /// next entries of the queue. Takes these entries from the queue.
    fn owners_of_floors(&mut self, first: u32) -> Vec<u32> {
        let mut owners = vec![first];
        let mut at = 0;
        for _ in 1..2 * self.batch {
            let Some(next) = self.queue.get(at) else {
                break;
            };
            if next.kind != EntryKind::Floor {
                at += 1;
                continue;
            }
            self.queue.take(at);
            if self.has_owner(&next) {
                owners.push(next.owner);
            }
        }
        owners
    }

    /// The search for clusters at or above an owner's floor.
    fn further_search(&mut self, owner: u32) -> FurtherSearch {
        let old = std::mem::take(&mut self.active.candidates[owner as usize]);
        let known: Vec<Reverse<Candidate>> = old
            .heap
            .into_iter()
            .filter(|Reverse(c)| c.is_exact && self.active.is_active(c.partner, c.partner_birth))
            .collect();
        let mut skip: Vec<u32> = known.iter().map(|Reverse(c)| c.partner).collect();
        skip.sort_unstable();
        FurtherSearch {
            owner,
            view: self.active.view(owner),
            end: self.screen.active().position(owner),
            wanted: self.screen.wanted(self.active.clusters.size(owner)),
            floor: old.floor,
            sweeps: old.sweeps,
            known,
            skip,
        }
    }

    /// Stores the candidates that a further search has found, and queues their owner.
    fn keep_found(&mut self, search: FurtherSearch, answer: ScreenAnswer) -> Result<()> {
        let mut candidates = Candidates::new(answer, &self.active.births);
        candidates.sweeps = search.sweeps + 1;
        if search.floor == f64::INFINITY {
            return Err(overflow("x"));
        }
        // Without this check, a screen that breaks its contract would cause an endless loop.
        assert!(
            candidates.floor > search.floor || !candidates.heap.is_empty(),
            "a sweep finds something new"
        );
        candidates.heap.extend(search.known);
        self.active.candidates[search.owner as usize] = candidates;
        self.enqueue(search.owner);
        Ok(())
    }
}

/// A search for further candidates of a cluster.
struct FurtherSearch {
    owner: u32,
    view: ClusterView,
    /// The cluster's position.
    end: usize,
    /// Number of candidates that the cluster's first search asked for. Each further search asks for
    /// twice the number of the search before.
    wanted: usize,
    floor: f64,
    /// Number of earlier searches.
    sweeps: u32,
    /// Candidates whose exact distances are known.
    known: Vec<Reverse<Candidate>>,
    /// The slots of `known`, in increasing order.
    skip: Vec<u32>,
}

impl FurtherSearch {
    fn request(&self) -> ScreenRequest<'_> {
        ScreenRequest {
            view: &self.view,
            end: self.end,
            // The capacity grows up to one more than the number of all clusters, so that the last
            // search leaves no cluster out.
            capacity: (self.wanted << self.sweeps.min(28)).min(self.end + 1),
            limit: next_limit(self.floor, self.sweeps),
            skip: &self.skip,
        }
    }
}

/// An estimate of the distance from a slot's cluster to its `wanted`-th nearest of the `older`
/// clusters, which are in spatial order. A bad estimate costs time only.
fn first_limit(active: &ActiveClusters, older: &[u32], slot: u32, wanted: usize) -> f64 {
    let last = &older[older.len().saturating_sub(SPATIAL_GROUP / 4)..];
    let cheap = last.iter().filter(|&&other| !active.is_costly(slot, other));
    let distance = |&other: &u32| active.clusters.exact_distance(slot, other).distance;
    let mut distances: Vec<f64> = cheap.map(distance).collect();
    if distances.len() < wanted {
        return f64::INFINITY;
    }
    let (_, &mut limit, _) = distances.select_nth_unstable_by(wanted - 1, f64::total_cmp);
    limit.next_above()
}

/// Whether a cluster is coarse: its neighbours up to distance `limit` are so near that the rounding
/// of its mean hides which neighbour is nearest.
fn is_coarse(active: &ActiveClusters, view: &ClusterView, limit: f64) -> bool {
    let error = f64::from(view.error * view.mean_error_factor) * active.frame.unit();
    limit < COARSE_ERRORS * error
}

/// Number of sweeps of a cluster, its first one included, below which a further sweep has a low
/// limit, which makes it fast: three further sweeps have it. Only the time depends on it.
const LOW_SWEEPS: u32 = 4;
/// The low limit, as a multiple of the floor. Only the time depends on it.
const LOW_LIMIT: f64 = 2.0;

/// The limit of a further sweep of a cluster, for clusters at or above `floor`. `sweeps` is the
/// number of sweeps of the cluster before, its first one included.
fn next_limit(floor: f64, sweeps: u32) -> f64 {
    if floor > 0.0 && sweeps < LOW_SWEEPS {
        LOW_LIMIT * floor
    } else {
        f64::INFINITY
    }
}
