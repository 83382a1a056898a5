//! The active clusters of a problem, their births and their candidates.

use std::cmp::Reverse;

use super::candidates::{Candidate, Candidates};
use crate::error::Result;
use crate::mahalanobis::clusters::Clusters;
use crate::mahalanobis::options::Distance;
use crate::mahalanobis::problem::{BoundingBox, Problem};
use crate::mahalanobis::screen::{ClusterFrame, ClusterView};
use crate::mahalanobis::subthreshold::ShapeRule;
use crate::memory;
use crate::monitor::Monitor;

/// Largest number of members of two clusters for which their full Mahalanobis distance is computed
/// before it is needed. With more members, the distance takes longer than the preparation saves.
/// Only the time depends on it.
const MAX_CHEAP_MEMBERS: usize = 64;

/// The birth of a cluster that does not exist, because it was merged away or is not made yet.
pub const NO_BIRTH: u32 = u32::MAX;

/// The active clusters, and what the agglomeration knows of each: its birth and its candidates.
pub struct ActiveClusters<'a> {
    pub problem: &'a Problem<'a>,
    pub rule: ShapeRule,
    pub frame: ClusterFrame,
    pub clusters: Clusters<'a>,
    /// The birth of each slot's cluster: the number of the cluster in the order in which clusters
    /// were made. [`NO_BIRTH`] for a cluster that was merged away.
    pub births: Vec<u32>,
    pub next_birth: u32,
    pub candidates: Vec<Candidates>,
}

impl<'a> ActiveClusters<'a> {
    /// The problem's clusters at the start, with shapes under `rule` and no births yet.
    ///
    /// # Errors
    /// As [`Clusters::new`].
    pub fn new(
        problem: &'a Problem<'a>,
        bounding_box: &BoundingBox,
        rule: ShapeRule,
        monitor: &'a Monitor,
    ) -> Result<Self> {
        let n = problem.clusters();
        Ok(Self {
            problem,
            rule,
            frame: ClusterFrame::of_problem(problem, bounding_box),
            clusters: Clusters::new(problem, bounding_box.diagonal(), &rule, monitor)?,
            births: memory::filled("the clusters need", n, 0)?,
            next_birth: 0,
            candidates: memory::collected(
                "the candidates of the clusters need",
                (0..n).map(|_| Candidates::default()),
            )?,
        })
    }

    /// Assigns the next birth to the cluster of a slot, and returns the birth.
    pub fn assign_birth(&mut self, slot: u32) -> u32 {
        let birth = self.next_birth;
        self.births[slot as usize] = birth;
        self.next_birth += 1;
        birth
    }

    /// Whether a slot still holds the cluster of this birth.
    pub fn is_active(&self, slot: u32, birth: u32) -> bool {
        self.births[slot as usize] == birth
    }

    pub fn births_of(&self, pair: (u32, u32)) -> (u32, u32) {
        (self.births[pair.0 as usize], self.births[pair.1 as usize])
    }

    /// A slot's cluster in screen units.
    pub fn view(&self, slot: u32) -> ClusterView {
        self.frame.view(&self.clusters.profile(slot))
    }

    /// The active candidates of `owner`, one cluster of `pair`, without the other cluster of the
    /// pair.
    pub fn neighbours(&self, owner: u32, pair: (u32, u32)) -> impl Iterator<Item = &Candidate> {
        let heap = self.candidates[owner as usize].heap.iter();
        let is_other = move |c: &&Candidate| c.partner != pair.0 && c.partner != pair.1;
        heap.map(|Reverse(candidate)| candidate)
            .filter(is_other)
            .filter(|c| self.is_active(c.partner, c.partner_birth))
    }

    /// Whether the exact distance of a pair takes long to compute.
    pub fn is_costly(&self, a: u32, b: u32) -> bool {
        self.is_costly_for(self.clusters.size(a) + self.clusters.size(b))
    }

    /// Whether the exact distance of two clusters with this number of members together takes long
    /// to compute.
    pub fn is_costly_for(&self, members: usize) -> bool {
        match self.problem.options.distance {
            Distance::Centroid => false,
            Distance::FullMahalanobis => members > MAX_CHEAP_MEMBERS,
        }
    }
}
