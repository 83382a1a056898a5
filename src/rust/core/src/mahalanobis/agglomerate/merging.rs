//! The steps of an agglomeration.

use std::cmp::Reverse;

use super::active::NO_BIRTH;
use super::agglomeration::Agglomeration;
use super::candidates::{Candidate, Candidates};
use super::entry::{EntryKind, QueueEntry};
use super::tentative::PreparedMerge;
use crate::error::Result;
use crate::merge::Merge;

impl Agglomeration<'_> {
    /// Does the next step for the head of the queue: sweeps again, drops a stale candidate,
    /// replaces a bound by the distance, or merges.
    pub fn process(&mut self, head: QueueEntry) -> Result<()> {
        if !self.has_owner(&head) {
            return Ok(());
        }
        match head.kind {
            EntryKind::Floor => return self.sweep_again(head.owner),
            _ if !self.has_partner(&head) => self.drop_first(head.owner),
            EntryKind::Bound => self.replace_bound(&head),
            EntryKind::Distance => return self.merge(head),
        }
        Ok(())
    }

    /// Merges the pair of an entry.
    fn merge(&mut self, head: QueueEntry) -> Result<()> {
        self.monitor.check()?;
        let prepared = self.take_prepared(&head);
        let (lower, higher) = head.pair();
        self.merges.push(Merge {
            lower,
            higher,
            height: f64::from_bits(head.value),
        });
        self.monitor
            .advance(self.screen.active().positions() as u64);
        self.screen.remove(lower);
        self.screen.remove(higher);
        self.active.candidates[higher as usize] = Candidates::default();
        self.active.births[higher as usize] = NO_BIRTH;
        let rule = self.active.rule;
        let clusters = &mut self.active.clusters;
        let below = |size: usize| usize::from(!rule.is_full_size(size));
        let before = below(clusters.size(lower)) + below(clusters.size(higher));
        clusters.replace(lower, higher, prepared.tentative.merged, &rule);
        self.below_threshold -= before - below(clusters.size(lower));
        if self.count() == 1 {
            return Ok(());
        }
        if self.below_threshold == 0 && !rule.all_full_size {
            return self.switch_to_full_size();
        }
        let birth = self.active.assign_birth(lower);
        if let Some(mut next) = prepared.successor {
            next.tentative.set_union_birth(birth);
            self.prepared.insert(next.tentative.pair, *next);
        }
        let candidates = self.with_recent(lower, prepared.candidates, prepared.as_of);
        self.active.candidates[lower as usize] = candidates;
        self.recent.push((birth, lower));
        self.screen.push(lower, &prepared.tentative.view)?;
        self.enqueue(lower);
        Ok(())
    }

    /// Takes the prepared merge of an entry. Prepares the merge now if it is not prepared yet.
    fn take_prepared(&mut self, head: &QueueEntry) -> PreparedMerge {
        let pair = head.pair();
        let births = self.active.births_of(pair);
        let is_valid = |p: &PreparedMerge| p.tentative.births == births;
        if !self.prepared.get(&pair).is_some_and(is_valid) {
            self.prepare(head);
        }
        self.prepared.remove(&pair).expect("is prepared")
    }

    /// The candidates of a slot's cluster: `candidates`, which were found before birth `as_of`, and
    /// the clusters made since.
    fn with_recent(&self, slot: u32, mut candidates: Candidates, as_of: u32) -> Candidates {
        for &(partner_birth, partner) in &self.recent {
            if partner_birth < as_of || !self.active.is_active(partner, partner_birth) {
                continue;
            }
            let bound = self.active.clusters.bound(slot, partner);
            if bound < candidates.floor {
                candidates.heap.push(Reverse(Candidate {
                    value: bound.to_bits(),
                    is_exact: false,
                    partner,
                    partner_birth,
                }));
            }
        }
        candidates
    }

    /// Recomputes all shapes and sweeps all clusters again. Called when all clusters have become
    /// full-size.
    fn switch_to_full_size(&mut self) -> Result<()> {
        self.active.rule = self.active.problem.options.shape_rule(true);
        let slots: Vec<u32> = self.active.clusters.active().collect();
        for slot in slots {
            self.active.clusters.reshape(slot, &self.active.rule);
        }
        self.active.clusters.clear_sums();
        self.renew_screen();
        self.start()
    }
}
