//! Preparation: tentative merges of the probable next merges, with the candidates of the unions.

use rayon::prelude::*;

use super::active::MIN_PARALLEL_OPERATIONS;
use super::agglomeration::Agglomeration;
use super::candidates::{Candidates, CANDIDATES};
use super::entry::{EntryKind, QueueEntry};
use super::lookahead::Lookahead;
use super::radius::Guess;
use super::successors::{tentative_successors, TentativeSuccessor};
use super::tentative::{PreparedMerge, TentativeMerge};
use crate::error::Result;
use crate::mahalanobis::screen::{ClusterFrame, Screen, ScreenAnswer, ScreenRequest};

impl<F: Fn(usize, ClusterFrame) -> Result<Box<dyn Screen>>> Agglomeration<'_, F> {
    /// Prepares the merge of an entry and the probable next merges.
    pub fn prepare(&mut self, entry: &QueueEntry) -> Result<()> {
        self.forget_preparations();
        let (pairs, heights) = self.next_pairs(entry);
        let merges = self.tentative_merges(&pairs);
        let active = &self.active;
        let successors = if self.screen.sweeps_on_threads() {
            tentative_successors(active, &merges, &heights)
        } else {
            Vec::new()
        };
        let pairs_alone = merges.iter().map(|m| (m, vec![m.pair.0, m.pair.1]));
        let sought: Vec<(&TentativeMerge, Vec<u32>)> = pairs_alone
            .chain(successors.iter().map(|s| (&s.tentative, s.slots())))
            .collect();
        let guess = |(merge, _): &(&TentativeMerge, _)| Guess::new(active, merge.pair);
        let guesses: Vec<Guess> = sought.iter().map(guess).collect();
        let requests: Vec<ScreenRequest> = sought
            .iter()
            .zip(&guesses)
            .map(|((merge, skip), guess)| self.request(merge, skip, guess))
            .collect();
        let mut lookahead = Lookahead::default();
        let has_time = active.operations(pairs[0]) < MIN_PARALLEL_OPERATIONS;
        let mut answers = self.screen.sweep(&requests, &mut || {
            if has_time {
                lookahead = Lookahead::new(active, &merges, &heights);
            }
        })?;
        drop(requests);
        for (answer, guess) in answers.iter_mut().zip(&guesses) {
            self.radius.learn(guess, answer.bounds.len());
            answer.keep_nearest(4 * CANDIDATES);
        }
        self.keep_prepared(merges, successors, answers, lookahead);
        Ok(())
    }

    /// The search for the candidates of a tentative merge.
    fn request<'r>(
        &self,
        merge: &'r TentativeMerge,
        skip: &'r [u32],
        guess: &Guess,
    ) -> ScreenRequest<'r> {
        let limit = self.radius.radius(guess);
        ScreenRequest {
            view: &merge.view,
            end: self.screen.roster().positions(),
            capacity: CANDIDATES,
            limit,
            is_tight: limit < f64::INFINITY,
            skip,
        }
    }

    /// Keeps tentative merges and successors with the answers to their requests, in this order.
    fn keep_prepared(
        &mut self,
        merges: Vec<TentativeMerge>,
        successors: Vec<TentativeSuccessor>,
        answers: Vec<ScreenAnswer>,
        lookahead: Lookahead,
    ) {
        self.follow_up = lookahead.follow_up;
        let prepared = |tentative, answer, decided: &[(f64, u32)]| PreparedMerge {
            candidates: Candidates::new(answer, decided, &self.active.births),
            as_of: self.active.next_birth,
            tentative,
        };
        let mut answers = answers.into_iter();
        for (i, (tentative, answer)) in merges.into_iter().zip(&mut answers).enumerate() {
            let decided = lookahead.decided.get(i).map_or(&[][..], |decided| decided);
            let prepared = prepared(tentative, answer, decided);
            self.prepared.insert(prepared.tentative.pair, prepared);
        }
        for (next, answer) in successors.into_iter().zip(answers) {
            let successor = next.prepared(|tentative| prepared(tentative, answer, &[]));
            self.successors.push(successor);
        }
    }

    /// The tentative merges of these pairs.
    fn tentative_merges(&mut self, pairs: &[(u32, u32)]) -> Vec<TentativeMerge> {
        let follow_up = self.follow_up.take();
        let active = &self.active;
        let ready = follow_up.and_then(|next| next.of(pairs[0], active.births_of(pairs[0])));
        let rest = &pairs[usize::from(ready.is_some())..];
        let mut merges: Vec<TentativeMerge> = ready.into_iter().collect();
        let operations: usize = rest.iter().map(|&pair| active.operations(pair)).sum();
        let merge = |&pair: &(u32, u32)| TentativeMerge::new(active, pair);
        if operations < MIN_PARALLEL_OPERATIONS {
            merges.extend(rest.iter().map(merge));
        } else {
            merges.par_extend(rest.par_iter().map(merge));
        }
        merges
    }

    /// Drops preparations for clusters that were merged away, and old preparations, which lack the
    /// more candidates the more births there were since. Then drops recent births that no preparation
    /// needs.
    fn forget_preparations(&mut self) {
        let age = 2 * self.screen.batch() as u32;
        let oldest = self.active.next_birth.saturating_sub(age);
        let mut prepared = std::mem::take(&mut self.prepared);
        prepared.retain(|&(lower, higher), prepared| {
            prepared.as_of >= oldest
                && self.active.is_active(lower, prepared.tentative.births.0)
                && self.active.is_active(higher, prepared.tentative.births.1)
        });
        self.prepared = prepared;
        let mut successors = std::mem::take(&mut self.successors);
        successors.retain(|next| next.prepared.as_of >= oldest && next.is_valid(&self.active));
        self.successors = successors;
        let next = self.successors.iter().map(|next| &next.prepared);
        let oldest = self.prepared.values().chain(next).map(|p| p.as_of).min();
        self.recent
            .retain(|&(birth, _)| oldest.is_some_and(|oldest| birth >= oldest));
    }

    /// The pair of an entry and the next pairs in the queue that share no cluster with each other, and
    /// their heights.
    fn next_pairs(&mut self, entry: &QueueEntry) -> (Vec<(u32, u32)>, Vec<f64>) {
        let mut pairs = vec![entry.pair()];
        let mut heights = vec![f64::from_bits(entry.value)];
        let mut busy = vec![entry.lower, entry.higher];
        let mut at = 0;
        for _ in 1..2 * self.batch {
            let Some(next) = self.queue.get(at) else {
                break;
            };
            if !self.has_owner(&next) {
                self.queue.take(at);
                continue;
            }
            let is_bound = next.kind == EntryKind::Bound;
            if next.kind == EntryKind::Floor || is_bound && self.is_costly(&next) {
                at += 1;
                continue;
            }
            if !self.has_partner(&next) {
                self.queue.take(at);
                self.drop_first(next.owner);
                continue;
            }
            if is_bound {
                self.queue.take(at);
                self.decide(&next);
                continue;
            }
            let pair = next.pair();
            let is_free = !busy.contains(&pair.0) && !busy.contains(&pair.1);
            if is_free && !self.prepared.contains_key(&pair) {
                pairs.push(pair);
                heights.push(f64::from_bits(next.value));
            }
            busy.extend([pair.0, pair.1]);
            at += 1;
        }
        self.adapt_batch(pairs.len());
        (pairs, heights)
    }

    /// Looks further next time while most pairs found were new, and less far while few were.
    fn adapt_batch(&mut self, found: usize) {
        if 2 * found >= self.batch {
            self.batch = (2 * self.batch).min(self.screen.batch());
        } else if 4 * found <= self.batch {
            self.batch = (self.batch / 2).max(2);
        }
    }
}
