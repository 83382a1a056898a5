//! The state of an agglomeration.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::active::{ActiveClusters, NO_BIRTH};
use super::entry::{EntryKind, QueueEntry};
use super::queue::Queue;
use super::radius::RadiusFactors;
use super::tentative::PreparedMerge;
use crate::error::Result;
use crate::mahalanobis::problem::{BoundingBox, Problem};
use crate::mahalanobis::screen::cpu::CpuScreen;
use crate::memory;
use crate::merge::Merge;
use crate::monitor::Monitor;

/// The state of an agglomeration.
pub struct Agglomeration<'a> {
    pub monitor: &'a Monitor,
    pub active: ActiveClusters<'a>,
    /// The births and slots of the clusters that were made since the oldest prepared merge.
    pub recent: Vec<(u32, u32)>,
    /// Number of active clusters below the threshold.
    pub below_threshold: usize,
    pub queue: Queue<QueueEntry>,
    pub screen: CpuScreen,
    pub prepared: HashMap<(u32, u32), PreparedMerge>,
    /// Half the number of entries of the queue that a preparation looks at.
    pub batch: usize,
    pub radius: RadiusFactors,
    pub merges: Vec<Merge>,
}

impl<'a> Agglomeration<'a> {
    /// The state before the first sweeps.
    ///
    /// # Errors
    /// As [`ActiveClusters::new`].
    pub fn new(
        problem: &'a Problem<'a>,
        bounding_box: &BoundingBox,
        monitor: &'a Monitor,
    ) -> Result<Self> {
        let n = problem.clusters();
        let full_size = problem.options.shape_rule(true);
        let below_threshold = (0..n)
            .filter(|&s| !full_size.is_full_size(problem.size_of(s)))
            .count();
        let rule = problem.options.shape_rule(below_threshold == 0);
        let active = ActiveClusters::new(problem, bounding_box, rule, monitor)?;
        Ok(Self {
            monitor,
            screen: CpuScreen::new(n, &active.frame),
            active,
            recent: Vec::new(),
            below_threshold,
            queue: Queue::with_capacity(n)?,
            prepared: HashMap::new(),
            batch: 1,
            radius: RadiusFactors::default(),
            merges: memory::room("the merges need", n - 1)?,
        })
    }

    /// Number of active clusters.
    pub fn count(&self) -> usize {
        self.active.problem.clusters() - self.merges.len()
    }

    /// Replaces the screen by an empty one.
    pub fn renew_screen(&mut self) {
        let slots = self.active.problem.clusters();
        self.screen = CpuScreen::new(slots, &self.active.frame);
    }

    /// Queues a cluster by the smaller of its first candidate's value and its floor.
    pub fn enqueue(&mut self, owner: u32) {
        let candidates = &self.active.candidates[owner as usize];
        let floor = candidates.floor.to_bits();
        let (value, kind, partner, partner_birth) = match candidates.heap.peek() {
            Some(Reverse(first)) if first.value < floor => {
                let kind = if first.is_exact {
                    EntryKind::Distance
                } else {
                    EntryKind::Bound
                };
                (first.value, kind, first.partner, first.partner_birth)
            }
            // No older cluster is left. Younger clusters own the pairs with this cluster.
            None if candidates.floor == f64::INFINITY => return,
            _ => (floor, EntryKind::Floor, owner, NO_BIRTH),
        };
        self.queue.push(QueueEntry {
            value,
            kind,
            lower: owner.min(partner),
            higher: owner.max(partner),
            owner,
            owner_birth: self.active.births[owner as usize],
            partner_birth,
        });
    }

    /// Drops a cluster's first candidate, whose partner was merged away.
    pub fn drop_first(&mut self, owner: u32) {
        self.active.candidates[owner as usize].heap.pop();
        self.enqueue(owner);
    }

    /// Whether the owner of an entry is active.
    pub fn has_owner(&self, entry: &QueueEntry) -> bool {
        self.active.is_active(entry.owner, entry.owner_birth)
    }

    /// Whether the partner in an entry is active.
    pub fn has_partner(&self, entry: &QueueEntry) -> bool {
        self.active.is_active(entry.partner(), entry.partner_birth)
    }

    /// Whether the exact distance of an entry's pair takes long to compute.
    pub fn is_costly(&self, entry: &QueueEntry) -> bool {
        self.active.is_costly(entry.lower, entry.higher)
    }
}
