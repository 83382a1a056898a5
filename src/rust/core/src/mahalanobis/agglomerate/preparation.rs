//! Preparation: the probable next merges are made tentatively, and the candidates of their unions
//! searched for, ahead of time.

use rayon::prelude::*;

use super::active::MIN_PARALLEL_OPERATIONS;
use super::agglomeration::Agglomeration;
use super::candidates::Candidates;
use super::entry::{EntryKind, QueueEntry};
use super::lookahead::Lookahead;
use super::radius::Guess;
use super::successors::{ExpectedMerge, Finding, Preparer};
use super::tentative::{PreparedMerge, TentativeMerge};
use crate::error::Result;
use crate::mahalanobis::screen::cpu::MIN_PARALLEL_COORDINATES;
use crate::mahalanobis::screen::{ScreenAnswer, ScreenRequest};

/// Largest number of successors of a merge that are prepared with it. A larger number does not
/// change the time (measured).
const MOST_SUCCESSORS: usize = 4;

/// Oversubscription: the searches of a batch may together use this multiple of the number of
/// threads, since searches and their successors do not all take the same time. Only the time
/// depends on it.
const SHARES: usize = 4;

impl Agglomeration<'_> {
    /// Prepares the merge of an entry and the probable next merges.
    pub fn prepare(&mut self, entry: &QueueEntry) -> Result<()> {
        self.forget_preparations();
        let (new, expected) = self.next_pairs(entry);
        match self.screen.on_threads() {
            Some(_) => self.prepare_on_threads(&new, &expected),
            None => self.prepare_on_device(&new)?,
        }
        Ok(())
    }

    /// Prepares these merges and their probable successors, each merge on one thread.
    fn prepare_on_threads(&mut self, new: &[ExpectedMerge], expected: &[ExpectedMerge]) {
        let threads = rayon::current_num_threads();
        let (positions, wanted) = (self.screen.roster().positions(), self.screen.wanted(2));
        let preparer = Preparer {
            active: &self.active,
            screen: self.screen.on_threads().expect("threads search it"),
            positions,
            wanted,
            radius: &self.radius,
            expected,
            threads: (SHARES * threads / new.len()).clamp(1, threads),
            most_successors: if threads > 1 { MOST_SUCCESSORS } else { 0 },
        };
        let prepare = |merge: &ExpectedMerge| preparer.prepare(merge.pair);
        let coordinates = new.len() * positions * self.active.problem.x.ncols();
        let prepared: Vec<(PreparedMerge, Vec<Finding>)> =
            if threads == 1 || coordinates < MIN_PARALLEL_COORDINATES {
                new.iter().map(prepare).collect()
            } else {
                new.par_iter().with_max_len(1).map(prepare).collect()
            };
        for (prepared, findings) in prepared {
            for (guess, found) in findings {
                self.radius.learn(&guess, found, wanted);
            }
            self.prepared.insert(prepared.tentative.pair, prepared);
        }
    }

    /// Prepares these merges in one sweep of the device; the CPU looks ahead meanwhile.
    fn prepare_on_device(&mut self, new: &[ExpectedMerge]) -> Result<()> {
        let merges = self.tentative_merges(new);
        let (active, wanted) = (&self.active, self.screen.wanted(2));
        let skip: Vec<[u32; 2]> = merges.iter().map(|m| [m.pair.0, m.pair.1]).collect();
        let guesses: Vec<Guess> = merges
            .iter()
            .map(|merge| Guess::new(active, merge.pair, wanted))
            .collect();
        let sought = merges.iter().zip(&skip).zip(&guesses);
        let requests: Vec<ScreenRequest> = sought
            .map(|((merge, skip), guess)| self.request(merge, skip, guess))
            .collect();
        let mut lookahead = Lookahead::default();
        let has_time = active.operations(new[0].pair) < MIN_PARALLEL_OPERATIONS;
        let mut answers = self.screen.sweep(&requests, &mut || {
            if has_time {
                lookahead = Lookahead::new(active, &merges, new);
            }
        })?;
        drop(requests);
        for (answer, guess) in answers.iter_mut().zip(&guesses) {
            self.radius.learn(guess, answer.bounds.len(), wanted);
            answer.keep_nearest(4 * wanted);
        }
        self.keep_prepared(merges, answers, lookahead);
        Ok(())
    }

    /// The search for the candidates of a tentative merge's union.
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
            capacity: self.screen.wanted(2),
            limit,
            is_tight: limit < f64::INFINITY,
            skip,
        }
    }

    /// Stores tentative merges with the answers to their requests, which are in the same order.
    fn keep_prepared(
        &mut self,
        merges: Vec<TentativeMerge>,
        answers: Vec<ScreenAnswer>,
        lookahead: Lookahead,
    ) {
        self.follow_up = lookahead.follow_up;
        for (i, (tentative, answer)) in merges.into_iter().zip(answers).enumerate() {
            let decided = lookahead.decided.get(i).map_or(&[][..], |decided| decided);
            let prepared = PreparedMerge {
                candidates: Candidates::new(answer, decided, &self.active.births),
                as_of: self.active.next_birth,
                tentative,
                successor: None,
            };
            self.prepared.insert(prepared.tentative.pair, prepared);
        }
    }

    /// The tentative merges of these pairs.
    fn tentative_merges(&mut self, new: &[ExpectedMerge]) -> Vec<TentativeMerge> {
        let follow_up = self.follow_up.take();
        let (active, first) = (&self.active, new[0].pair);
        let ready = follow_up.and_then(|next| next.of(first, active.births_of(first)));
        let rest = &new[usize::from(ready.is_some())..];
        let mut merges: Vec<TentativeMerge> = ready.into_iter().collect();
        let operations: usize = rest.iter().map(|next| active.operations(next.pair)).sum();
        let merge = |next: &ExpectedMerge| TentativeMerge::new(active, next.pair);
        if operations < MIN_PARALLEL_OPERATIONS {
            merges.extend(rest.iter().map(merge));
        } else {
            merges.par_extend(rest.par_iter().map(merge));
        }
        merges
    }

    /// Drops prepared merges of clusters that were merged away, and old ones: clusters made since
    /// the preparation are missing from its candidates. Then drops recent births that no prepared
    /// merge needs.
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
        // A successor was prepared at the same birth as the merge before it.
        let oldest = self.prepared.values().map(|p| p.as_of).min();
        self.recent
            .retain(|&(birth, _)| oldest.is_some_and(|oldest| birth >= oldest));
    }

    /// The pair of an entry and the next pairs in the queue, without pairs that share a cluster
    /// with an earlier one. Returns the pairs that are not prepared, and all pairs.
    fn next_pairs(&mut self, entry: &QueueEntry) -> (Vec<ExpectedMerge>, Vec<ExpectedMerge>) {
        let merge_of = |entry: &QueueEntry| ExpectedMerge {
            pair: entry.pair(),
            height: f64::from_bits(entry.value),
        };
        let mut new = vec![merge_of(entry)];
        let mut expected = new.clone();
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
            if !busy.contains(&pair.0) && !busy.contains(&pair.1) {
                expected.push(merge_of(&next));
                if !self.prepared.contains_key(&pair) {
                    new.push(merge_of(&next));
                }
            }
            busy.extend([pair.0, pair.1]);
            at += 1;
        }
        self.adapt_batch(new.len());
        (new, expected)
    }

    /// Doubles the batch if at least half of it was new pairs, halves it if at most a quarter was.
    fn adapt_batch(&mut self, found: usize) {
        if 2 * found >= self.batch {
            self.batch = (2 * self.batch).min(self.screen.batch());
        } else if 4 * found <= self.batch {
            self.batch = (self.batch / 2).max(2);
        }
    }
}
