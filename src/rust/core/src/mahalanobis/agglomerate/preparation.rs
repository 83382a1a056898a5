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

/// Largest batch, for few threads. If it is smaller, threads are not equally busy. If it is larger,
/// more merges are outdated before their turn comes. Only the time depends on it.
const LARGEST_BATCH: usize = 32;

/// Largest batch for each thread, for many threads. Only the time depends on it.
const MERGES_PER_THREAD: usize = 4;

/// The largest batch, see [`Agglomeration::batch`].
pub fn largest_batch() -> usize {
    LARGEST_BATCH.max(MERGES_PER_THREAD * rayon::current_num_threads())
}

/// The merges that are probably next.
struct ExpectedMerges {
    unprepared: Vec<ExpectedMerge>,
    all: Vec<ExpectedMerge>,
}

impl Agglomeration<'_> {
    /// Prepares the merge of an entry, the probable next merges, and the successors of all of them.
    /// One thread prepares a merge and its successors.
    pub fn prepare(&mut self, entry: &QueueEntry) {
        self.forget_preparations();
        let ExpectedMerges { unprepared, all } = self.expected_merges(entry);
        let threads = rayon::current_num_threads();
        let wanted = self.screen.wanted(2);
        let preparer = Preparer {
            active: &self.active,
            screen: &self.screen,
            wanted,
            radius: &self.radius,
            expected: &all,
            threads: (OVERSUBSCRIPTION * threads / unprepared.len()).clamp(1, threads),
            most_successors: if threads > 1 { MOST_SUCCESSORS } else { 0 },
        };
        let prepare = |merge: &ExpectedMerge| preparer.prepare(merge.pair);
        let positions = self.screen.active().positions();
        let coordinates = unprepared.len() * positions * self.active.problem.x.ncols();
        let prepared: Vec<(PreparedMerge, Vec<SearchOutcome>)> =
            if threads == 1 || coordinates < MIN_PARALLEL_COORDINATES {
                unprepared.iter().map(prepare).collect()
            } else {
                let unprepared = unprepared.par_iter().with_max_len(1);
                unprepared.map(prepare).collect()
            };
        for (prepared, outcomes) in prepared {
            for (estimate, found) in outcomes {
                self.radius.learn(&estimate, found, wanted);
            }
            self.prepared.insert(prepared.tentative.pair, prepared);
        }
    }

    /// Drops prepared merges of clusters that were merged away. Also drops old prepared merges,
    /// since many clusters made after them would have to be compared with their unions. Then drops
    /// recent births that no prepared merge needs.
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
    /// with an earlier pair. On the way, drops stale entries and replaces cheap bounds by
    /// distances.
    fn expected_merges(&mut self, entry: &QueueEntry) -> ExpectedMerges {
        let merge_of = |entry: &QueueEntry| ExpectedMerge {
            pair: entry.pair(),
            height: f64::from_bits(entry.value),
        };
        let mut all = vec![merge_of(entry)];
        let mut unprepared = all.clone();
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
                all.push(merge_of(&next));
                if !self.prepared.contains_key(&pair) {
                    unprepared.push(merge_of(&next));
                }
            }
            busy.extend([pair.0, pair.1]);
            at += 1;
        }
        self.adapt_batch(unprepared.len());
        ExpectedMerges { unprepared, all }
    }

    /// Doubles the batch if the number of unprepared merges that were found is at least half of it.
    /// Halves it if the number is at most a quarter of it.
    fn adapt_batch(&mut self, found: usize) {
        if 2 * found >= self.batch {
            self.batch = (2 * self.batch).min(largest_batch());
        } else if 4 * found <= self.batch {
            self.batch = (self.batch / 2).max(2);
        }
    }
}
