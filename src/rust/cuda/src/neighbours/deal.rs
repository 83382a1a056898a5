//! Dealing out work to several devices.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::mpsc::channel;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::scope;

use gmhclust_core::error::{Error, Result};

/// Who does pieces of work, on a device.
pub trait Worker: Send {
    /// The number of the device, which several workers may share.
    fn device(&self) -> usize;
}

/// A device that failed, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Lost {
    pub device: usize,
    pub error: Error,
}

/// Whether a device is among those that failed.
pub fn is_lost(lost: &[Lost], device: usize) -> bool {
    lost.iter().any(|lost| lost.device == device)
}

/// Adds a device that failed, unless it has failed before.
pub fn lose(lost: &mut Vec<Lost>, device: usize, error: Error) {
    if !is_lost(lost, device) {
        lost.push(Lost { device, error });
    }
}

/// What is left of the work.
struct Hand {
    /// The first piece that nobody has had yet.
    next: usize,
    /// Where there are no more.
    end: usize,
    /// Pieces that were in the hands of those who failed.
    back: BTreeSet<usize>,
    /// How many pieces are in somebody's hands.
    out: usize,
    lost: BTreeSet<usize>,
}

/// The hand, and news of it.
struct Table {
    hand: Mutex<Hand>,
    changed: Condvar,
}

impl Table {
    fn new(pieces: usize) -> Self {
        Self {
            hand: Mutex::new(Hand {
                next: 0,
                end: pieces,
                back: BTreeSet::new(),
                out: 0,
                lost: BTreeSet::new(),
            }),
            changed: Condvar::new(),
        }
    }

    fn hand(&self) -> MutexGuard<'_, Hand> {
        self.hand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next piece for a worker on this device. While others are at the last ones, which may come
    /// back, it waits.
    fn take(&self, device: usize) -> Option<Taken<'_>> {
        let idle = |hand: &mut Hand| {
            let nothing = hand.back.is_empty() && hand.next >= hand.end;
            nothing && hand.out > 0 && !hand.lost.contains(&device)
        };
        let mut hand = self
            .changed
            .wait_while(self.hand(), idle)
            .unwrap_or_else(PoisonError::into_inner);
        if hand.lost.contains(&device) {
            return None;
        }
        let piece = hand.back.pop_first().or_else(|| {
            let next = hand.next;
            hand.next += 1;
            (next < hand.end).then_some(next)
        })?;
        hand.out += 1;
        Some(Taken { table: self, piece })
    }

    /// Has nobody begin another piece.
    fn stop(&self) {
        let mut hand = self.hand();
        hand.back.clear();
        hand.end = 0;
        self.changed.notify_all();
    }
}

/// A piece in the hands of a worker, until it is done, or the worker failed or panicked.
struct Taken<'a> {
    table: &'a Table,
    piece: usize,
}

impl Taken<'_> {
    /// Hands it back, as the device failed.
    fn hand_back(self, device: usize) {
        let mut hand = self.table.hand();
        if hand.end > 0 {
            hand.back.insert(self.piece);
        }
        hand.lost.insert(device);
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.table.hand().out -= 1;
        self.table.changed.notify_all();
    }
}

/// Has `workers` do `work` on pieces, each in a thread of its own and each taking the next piece
/// when it has done one: so a fast one does more of them. Meanwhile this thread takes what is done,
/// in the order of the pieces.
///
/// Where a device fails, its workers get no more pieces, and what it was at goes to the others; it
/// joins those in `lost`.
///
/// # Errors
/// That of the last device that failed where none is left to do all pieces; otherwise the first that
/// a worker or `take` returns. No other piece is begun then.
pub fn deal<W: Worker, T: Send>(
    workers: &mut [W],
    pieces: &[Range<usize>],
    lost: &mut Vec<Lost>,
    work: impl Fn(&mut W, Range<usize>) -> Result<T> + Sync,
    mut take: impl FnMut(Range<usize>, T) -> Result<()>,
) -> Result<()> {
    let table = Table::new(pieces.len());
    let (sender, receiver) = channel();
    scope(|scope| {
        for worker in workers {
            let sender = sender.clone();
            let (table, work) = (&table, &work);
            scope.spawn(move || {
                let device = worker.device();
                while let Some(taken) = table.take(device) {
                    let number = taken.piece;
                    let done = work(worker, pieces[number].clone());
                    if let Err(Error::Device(_)) = done {
                        taken.hand_back(device);
                    }
                    let failed = done.is_err();
                    if sender.send((device, number, done)).is_err() || failed {
                        return;
                    }
                }
            });
        }
        // What is left are the threads' own: once they are through, there is nothing to receive.
        drop(sender);
        let mut early = BTreeMap::new();
        let mut due = 0;
        let taken = receiver.iter().try_for_each(|(device, number, done)| {
            match done {
                Err(error @ Error::Device(_)) => {
                    lose(lost, device, error);
                    return Ok(());
                }
                done => early.insert(number, done?),
            };
            while let Some(done) = early.remove(&due) {
                take(pieces[due].clone(), done)?;
                due += 1;
            }
            Ok(())
        });
        table.stop();
        taken?;
        match lost.last() {
            Some(lost) if due < pieces.len() => Err(lost.error.clone()),
            _ => Ok(()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::thread::sleep;
    use std::time::Duration;

    /// A worker that counts what it has begun.
    struct Counter {
        device: usize,
        /// The piece at which it fails, by its own count from 1.
        fails_at: Option<usize>,
        begun: usize,
    }

    impl Worker for Counter {
        fn device(&self) -> usize {
            self.device
        }
    }

    /// One for each of these devices.
    fn counters(devices: impl IntoIterator<Item = usize>) -> Vec<Counter> {
        let counter = |device| Counter {
            device,
            fails_at: None,
            begun: 0,
        };
        devices.into_iter().map(counter).collect()
    }

    fn pieces(count: usize) -> Vec<Range<usize>> {
        (0..count).map(|i| 3 * i..3 * i + 3).collect()
    }

    fn gone(device: usize) -> Error {
        Error::Device(format!("{device} is gone"))
    }

    /// Deals out so many pieces: what came of it, how many were taken, and which devices were lost.
    fn deal_to(workers: &mut [Counter], count: usize) -> (Result<()>, usize, Vec<usize>) {
        let mut taken = 0;
        let mut lost = Vec::new();
        let dealt = deal(
            workers,
            &pieces(count),
            &mut lost,
            |worker, piece| {
                worker.begun += 1;
                if worker.fails_at == Some(worker.begun) {
                    return Err(gone(worker.device));
                }
                Ok(piece.sum::<usize>())
            },
            |piece, sum| {
                assert_eq!(piece, 3 * taken..3 * taken + 3);
                assert_eq!(sum, piece.sum::<usize>());
                taken += 1;
                Ok(())
            },
        );
        for lost in &lost {
            assert_eq!(lost.error, gone(lost.device));
        }
        let mut lost: Vec<usize> = lost.into_iter().map(|lost| lost.device).collect();
        lost.sort_unstable();
        (dealt, taken, lost)
    }

    #[test]
    fn every_piece_is_done_once_and_taken_in_order() {
        for (workers, count) in [(1, 5), (2, 7), (5, 100), (4, 2), (3, 0)] {
            let mut workers = counters(0..workers);
            let (dealt, taken, lost) = deal_to(&mut workers, count);
            assert_eq!((dealt, taken, lost), (Ok(()), count, vec![]));
            assert_eq!(workers.iter().map(|w| w.begun).sum::<usize>(), count);
        }
    }

    #[test]
    fn all_workers_are_at_it_at_a_time() {
        let all_there = Barrier::new(3);
        let mut workers = counters(0..3);
        let work = |worker: &mut Counter, _| {
            all_there.wait();
            worker.begun += 1;
            Ok(())
        };
        let lost = &mut Vec::new();
        let dealt = deal(&mut workers, &pieces(3), lost, work, |_, ()| Ok(()));
        assert_eq!(dealt, Ok(()));
        assert!(workers.iter().all(|worker| worker.begun == 1));
    }

    #[test]
    fn an_error_that_is_no_devices_ends_it() {
        let full = Error::Memory("full".into());
        let mut workers = counters(0..2);
        let mut taken = 0;
        let mut lost = Vec::new();
        let dealt = deal(
            &mut workers,
            &pieces(1_000_000),
            &mut lost,
            |worker, piece| {
                worker.begun += 1;
                if piece.start == 30 {
                    return Err(full.clone());
                }
                Ok(())
            },
            |piece, ()| {
                assert!(piece.start < 30);
                taken += 1;
                Ok(())
            },
        );
        assert_eq!(dealt, Err(full));
        assert!(taken <= 10);
        for error in [Error::Interrupt, gone(7)] {
            let refused = deal(
                &mut workers,
                &pieces(1_000_000),
                &mut lost,
                |_, _| Ok(()),
                |_, ()| Err(error.clone()),
            );
            assert_eq!(refused, Err(error));
        }
        assert_eq!(lost, []);
        assert!(workers.iter().map(|w| w.begun).sum::<usize>() < 1_000_000);
    }

    #[test]
    fn the_others_do_what_a_device_that_fails_leaves() {
        for at in [1, 2, 5, 30] {
            for (devices, failing) in [(2, 1), (3, 2), (5, 3)] {
                let mut workers = counters(0..devices);
                let to_fail = workers[..failing].iter_mut();
                to_fail.for_each(|worker| worker.fails_at = Some(at));
                let (dealt, taken, lost) = deal_to(&mut workers, 100);
                assert_eq!((dealt, taken), (Ok(()), 100));
                // A slow one may not have come so far; who failed began nothing any more.
                let failed: Vec<usize> = (0..failing).filter(|&d| workers[d].begun == at).collect();
                assert_eq!(lost, failed);
                assert!(workers[..failing].iter().all(|worker| worker.begun <= at));
            }
        }
    }

    #[test]
    fn who_has_nothing_to_do_any_more_waits_for_what_may_come_back() {
        // Both have a piece, the last ones; the first fails when the second is through.
        let (both_there, through) = (Barrier::new(2), Barrier::new(2));
        let mut workers = counters(0..2);
        let mut lost = Vec::new();
        let mut taken = Vec::new();
        let dealt = deal(
            &mut workers,
            &pieces(2),
            &mut lost,
            |worker, piece| {
                worker.begun += 1;
                if worker.begun == 1 {
                    both_there.wait();
                }
                if worker.device == 0 {
                    through.wait();
                    // Time for the second to find that there is nothing.
                    sleep(Duration::from_millis(20));
                    return Err(gone(0));
                }
                if worker.begun == 1 {
                    through.wait();
                }
                Ok(piece)
            },
            |piece, done| {
                assert_eq!(piece, done);
                taken.push(piece);
                Ok(())
            },
        );
        assert_eq!(dealt, Ok(()));
        assert_eq!(taken, pieces(2));
        assert_eq!(workers[1].begun, 2);
        assert_eq!(lost.len(), 1);
    }

    #[test]
    fn workers_on_one_device_share_its_fate() {
        for at in [1, 3] {
            let mut workers = counters([0, 0, 1, 1]);
            workers[0].fails_at = Some(at);
            let (dealt, taken, lost) = deal_to(&mut workers, 200);
            assert_eq!((dealt, taken), (Ok(()), 200));
            let failed = workers[0].begun == at;
            assert_eq!(lost, if failed { vec![0] } else { vec![] });
        }
        // Nobody else is there: the second is not to do what the first leaves.
        let mut workers = counters([0, 0]);
        let both_there = Barrier::new(2);
        let mut lost = Vec::new();
        workers[0].fails_at = Some(1);
        let work = |worker: &mut Counter, _| {
            worker.begun += 1;
            if worker.begun == 1 {
                both_there.wait();
            }
            if worker.fails_at.is_some() {
                return Err(gone(0));
            }
            Ok(())
        };
        let dealt = deal(&mut workers, &pieces(50), &mut lost, work, |_, ()| Ok(()));
        assert_eq!(dealt, Err(gone(0)));
        assert_eq!(lost.len(), 1);
    }

    #[test]
    fn nothing_is_dealt_to_a_device_that_failed() {
        let table = Table::new(3);
        let (first, second) = (table.take(0).unwrap(), table.take(0).unwrap());
        first.hand_back(0);
        drop(second);
        assert!(table.take(0).is_none());
        // Another device begins with the piece that came back.
        let pieces: Vec<usize> = std::iter::from_fn(|| table.take(1).map(|t| t.piece)).collect();
        assert_eq!(pieces, [0, 2]);
    }

    #[test]
    fn where_all_devices_fail_the_last_ones_error_ends_it() {
        for at in [1, 2, 5] {
            let mut workers = counters(0..3);
            let to_fail = workers.iter_mut();
            to_fail.for_each(|worker| worker.fails_at = Some(at));
            let (dealt, taken, lost) = deal_to(&mut workers, 100);
            assert!(matches!(dealt, Err(Error::Device(_))), "{dealt:?}");
            assert!(taken <= 3 * (at - 1));
            assert_eq!(lost, [0, 1, 2]);
        }
    }

    #[test]
    fn a_panic_ends_it_too() {
        let panics = || {
            deal(
                &mut counters(0..2),
                &pieces(50),
                &mut Vec::new(),
                |_, piece| {
                    assert!(piece.start != 60, "piece 20");
                    Ok(())
                },
                |_, ()| Ok(()),
            )
        };
        assert!(std::panic::catch_unwind(panics).is_err());
    }
}
