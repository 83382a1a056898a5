//! Preparation: makes the probable next merges tentatively, and searches for the candidates of
//! their unions, ahead of time.

use rayon::prelude::*;

use super::agglomeration::Agglomeration;
use super::entry::{EntryKind, QueueEntry};
use super::successors::{ExpectedMerge, Preparer, SearchOutcome};
use super::tentative::PreparedMerge;
use crate::mahalanobis::screen::cpu::MIN_PARALLEL_COORDINATES;

/// Largest number of successors that are prepared together with a merge. A larger number does not
/// change the time (measured).
const MOST_SUCCESSORS: usize = 4;

/// Oversubscription: the searches of a batch may together use this multiple of the number of
/// threads, because some searches and successors take longer than others. Only the time depends on
/// it.
const OVERSUBSCRIPTION: usize = 4;

/// Number of merges in the largest batch, for few threads. If it is smaller, threads are not
/// equally busy. If it is larger, more merges are outdated before their turn comes. Only the time
/// depends on it.
const LARGEST_BATCH: usize = 32;

/// Number of merges per thread in the largest batch, for many threads. Only the time depends on it.
const MERGES_PER_THREAD: usize = 4;

/// Largest number of merges that are prepared together.
pub fn largest_batch() -> usize {
    LARGEST_BATCH.max(MERGES_PER_THREAD * rayon::current_num_threads())
}

impl Agglomeration<'_> {
    /// Prepares the merge of an entry, the probable next merges, and the successors of all of them.
    /// One thread prepares a merge and its successors.
    pub fn prepare(&mut self, entry: &QueueEntry) {
        self.forget_preparations();
        let (new, expected) = self.next_pairs(entry);
        let threads = rayon::current_num_threads();
        let wanted = self.screen.wanted(2);
        let preparer = Preparer {
            active: &self.active,
            screen: &self.screen,
            wanted,
            radius: &self.radius,
            expected: &expected,
            threads: (OVERSUBSCRIPTION * threads / new.len()).clamp(1, threads),
            most_successors: if threads > 1 { MOST_SUCCESSORS } else { 0 },
        };
        let prepare = |merge: &ExpectedMerge| preparer.prepare(merge.pair);
        let positions = self.screen.active().positions();
        let coordinates = new.len() * positions * self.active.problem.x.ncols();
        let prepared: Vec<(PreparedMerge, Vec<SearchOutcome>)> =
            if threads == 1 || coordinates < MIN_PARALLEL_COORDINATES {
                new.iter().map(prepare).collect()
            } else {
                new.par_iter().with_max_len(1).map(prepare).collect()
            };
        for (prepared, outcomes) in prepared {
            for (estimate, found) in outcomes {
                self.radius.learn(&estimate, found, wanted);
            }
            self.prepared.insert(prepared.tentative.pair, prepared);
        }
    }

    /// Drops prepared merges of clusters that were merged away. Also drops old prepared merges,
    /// because clusters made since then are missing from their candidates. Then drops recent births
    /// that no prepared merge needs.
    fn forget_preparations(&mut self) {
        let age = 2 * largest_batch() as u32;
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
    /// with an earlier pair. Returns the pairs that are not prepared, and all pairs.
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
                self.replace_bound(&next);
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

    /// Doubles the batch if at least half of it was new pairs. Halves the batch if at most a
    /// quarter was.
    fn adapt_batch(&mut self, found: usize) {
        if 2 * found >= self.batch {
            self.batch = (2 * self.batch).min(largest_batch());
        } else if 4 * found <= self.batch {
            self.batch = (self.batch / 2).max(2);
        }
    }
}
