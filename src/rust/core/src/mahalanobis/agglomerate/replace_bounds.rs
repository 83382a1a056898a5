//! Replaces lower bounds by exact distances.

use std::cmp::Reverse;

use rayon::prelude::*;

use super::agglomeration::Agglomeration;
use super::candidates::Candidate;
use super::entry::{EntryKind, QueueEntry};
use crate::mahalanobis::clusters::ExactDistance;

/// Largest number of queue entries among which costly bounds are searched for, to replace them by
/// distances in parallel. A longer search takes more time than the threads save. Only the time
/// depends on it.
const MAX_QUEUE_SEARCH: usize = 64;

/// Smallest number of operations that are divided among threads. One thread does fewer operations
/// before another thread has begun. Only the time depends on it.
const MIN_PARALLEL_OPERATIONS: usize = 1 << 17;

impl Agglomeration<'_> {
    /// Replaces the bound of an entry by the exact distance.
    pub fn replace_bound(&mut self, entry: &QueueEntry) {
        if self.is_costly(entry) && self.is_worth_threads(entry) {
            return self.replace_bounds(entry.owner);
        }
        let exact = self
            .active
            .clusters
            .exact_distance(entry.lower, entry.higher);
        let distance = self.active.clusters.keep(exact);
        let heap = &mut self.active.candidates[entry.owner as usize].heap;
        let mut first = heap.peek_mut().expect("there is a first candidate");
        first.0 = first.0.with_distance(distance);
        drop(first);
        self.enqueue(entry.owner);
    }

    /// Whether all threads have enough work if each of them computes a distance as costly as the
    /// distance of this entry.
    fn is_worth_threads(&self, entry: &QueueEntry) -> bool {
        let threads = rayon::current_num_threads();
        let clusters = &self.active.clusters;
        threads > 1
            && threads * clusters.operations_of_distance(entry.lower, entry.higher)
                >= MIN_PARALLEL_OPERATIONS
    }

    /// Replaces the first bound of a cluster by the distance, which is costly to compute. Meanwhile
    /// the other threads replace further bounds below the next merge's height.
    fn replace_bounds(&mut self, owner: u32) {
        let most = rayon::current_num_threads();
        let (owners, next_merge) = self.take_costly(owner, most);
        let bounds = self.take_bounds(&owners, next_merge, most);
        let clusters = &mut self.active.clusters;
        let exact_distance = |&(owner, bound): &(u32, Candidate)| {
            let (lower, higher) = (owner.min(bound.partner), owner.max(bound.partner));
            clusters.exact_distance(lower, higher)
        };
        let exact: Vec<ExactDistance> = bounds.par_iter().map(exact_distance).collect();
        for ((owner, bound), exact) in bounds.into_iter().zip(exact) {
            let heap = &mut self.active.candidates[owner as usize].heap;
            let distance = clusters.keep(exact);
            heap.push(Reverse(bound.with_distance(distance)));
        }
        for owner in owners {
            self.enqueue(owner);
        }
    }

    /// Takes at most `most` clusters from the queue: `owner`, and clusters whose first bound is
    /// costly and below the next merge's height. Also returns the bits of a lower bound on the next
    /// merge's height, from the part of the queue that was searched (`u64::MAX` if the whole queue
    /// was searched and holds no merge).
    fn take_costly(&mut self, owner: u32, most: usize) -> (Vec<u32>, u64) {
        let mut owners = vec![owner];
        let mut at = 0;
        while let Some(entry) = self.queue.get(at) {
            let is_active = self.has_owner(&entry)
                && (entry.kind == EntryKind::Floor || self.has_partner(&entry));
            let is_merge = is_active && entry.kind == EntryKind::Distance;
            if is_merge || owners.len() == most || at == MAX_QUEUE_SEARCH {
                return (owners, entry.value);
            }
            if is_active && entry.kind == EntryKind::Bound && self.is_costly(&entry) {
                self.queue.take(at);
                owners.push(entry.owner);
            } else {
                at += 1;
            }
        }
        (owners, u64::MAX)
    }

    /// Takes the bounds below the next merge's height from the candidates of `owners`: at most
    /// `most` bounds, each with its owner.
    fn take_bounds(
        &mut self,
        owners: &[u32],
        mut next_merge: u64,
        most: usize,
    ) -> Vec<(u32, Candidate)> {
        let active = &mut self.active;
        let mut bounds: Vec<(u32, Candidate)> = Vec::with_capacity(most);
        for &owner in owners {
            while let Some(&Reverse(first)) = active.candidates[owner as usize].heap.peek() {
                let is_active = active.is_active(first.partner, first.partner_birth);
                if first.is_exact && is_active {
                    next_merge = next_merge.min(first.value);
                }
                let is_below = bounds.is_empty() || first.value < next_merge;
                if first.is_exact || !is_below || bounds.len() == most {
                    break;
                }
                active.candidates[owner as usize].heap.pop();
                if is_active {
                    bounds.push((owner, first));
                }
            }
        }
        bounds
    }
}
