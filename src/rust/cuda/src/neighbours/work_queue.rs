//! A queue of work for several devices, some of which may fail.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{ControlFlow, Range};
use std::sync::mpsc::{channel, Receiver};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::scope;

use gmhclust_core::error::{Error, Result};

/// A worker that processes pieces of work on a device.
pub trait Worker: Send {
    /// The number of the worker's device. Several workers may share a device.
    fn device(&self) -> usize;
}

/// A device that failed, and its error.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceLoss {
    pub device: usize,
    pub error: Error,
}

/// Whether a device is among those that failed.
pub fn is_lost(losses: &[DeviceLoss], device: usize) -> bool {
    losses.iter().any(|loss| loss.device == device)
}

/// Adds a device that failed, unless it has failed before.
pub fn record_loss(losses: &mut Vec<DeviceLoss>, device: usize, error: Error) {
    if !is_lost(losses, device) {
        losses.push(DeviceLoss { device, error });
    }
}

/// The state of a queue.
struct WorkQueueState {
    /// The first piece that no worker has claimed yet.
    next: usize,
    /// The end of the pieces.
    end: usize,
    /// Claimed pieces that devices returned when they failed.
    returned: BTreeSet<usize>,
    /// Number of pieces that workers are processing.
    in_progress: usize,
    lost_devices: BTreeSet<usize>,
}

/// Pieces of work that workers claim one at a time.
struct WorkQueue {
    state: Mutex<WorkQueueState>,
    changed: Condvar,
}

impl WorkQueue {
    fn new(pieces: usize) -> Self {
        Self {
            state: Mutex::new(WorkQueueState {
                next: 0,
                end: pieces,
                returned: BTreeSet::new(),
                in_progress: 0,
                lost_devices: BTreeSet::new(),
            }),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, WorkQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims the next piece for a worker on this device. Waits while other workers process the
    /// last pieces, since they may return these pieces. Returns `None` when all pieces are done, or
    /// the device is lost.
    fn claim(&self, device: usize) -> Option<Claim<'_>> {
        let must_wait = |state: &mut WorkQueueState| {
            let is_empty = state.returned.is_empty() && state.next >= state.end;
            is_empty && state.in_progress > 0 && !state.lost_devices.contains(&device)
        };
        let mut state = self
            .changed
            .wait_while(self.state(), must_wait)
            .unwrap_or_else(PoisonError::into_inner);
        if state.lost_devices.contains(&device) {
            return None;
        }
        let piece = state.returned.pop_first().or_else(|| {
            let next = state.next;
            state.next += 1;
            (next < state.end).then_some(next)
        })?;
        state.in_progress += 1;
        Some(Claim { queue: self, piece })
    }
}

/// Empties the queue when it is dropped, also by a panic.
struct StopAtEnd<'a>(&'a WorkQueue);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.returned.clear();
        state.end = 0;
        self.0.changed.notify_all();
    }
}

/// A piece that a worker is processing. The claim ends when the piece is done, or when the worker
/// fails or panics.
struct Claim<'a> {
    queue: &'a WorkQueue,
    piece: usize,
}

impl Claim<'_> {
    /// Returns the piece to the queue because the device failed.
    fn return_piece(self, device: usize) {
        let mut state = self.queue.state();
        if state.end > 0 {
            state.returned.insert(self.piece);
        }
        state.lost_devices.insert(device);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.queue.state().in_progress -= 1;
        self.queue.changed.notify_all();
    }
}

/// A worker's report: its device, the piece, and the result.
type Report<T> = (usize, usize, Result<T>);

/// Lets `workers` do `work` on pieces, each worker in its own thread. A worker claims the next
/// piece when it has done a piece, so a fast worker does more pieces. Meanwhile the calling thread
/// calls `begin`, and then passes results to `take`, in the order of the pieces, until all pieces
/// are done or `take` breaks. Returns whether `take` broke.
///
/// If a device fails, its workers get no more pieces, another device does the piece that failed,
/// and the device is added to `losses`.
///
/// # Errors
/// If all devices fail, the error of the last device; otherwise the first error that a worker or
/// `take` returns. After an error, no worker begins a further piece.
pub fn process<W: Worker, T: Send>(
    workers: &mut [W],
    pieces: &[Range<usize>],
    losses: &mut Vec<DeviceLoss>,
    begin: impl FnOnce(),
    work: impl Fn(&mut W, Range<usize>) -> Result<T> + Sync,
    take: impl FnMut(Range<usize>, T) -> Result<ControlFlow<()>>,
) -> Result<ControlFlow<()>> {
    let queue = WorkQueue::new(pieces.len());
    let (sender, receiver) = channel();
    scope(|scope| {
        for worker in workers {
            let sender = sender.clone();
            let (queue, work) = (&queue, &work);
            scope.spawn(move || {
                let device = worker.device();
                while let Some(claim) = queue.claim(device) {
                    let piece = claim.piece;
                    let done = work(worker, pieces[piece].clone());
                    if let Err(Error::Device(_)) = done {
                        claim.return_piece(device);
                    }
                    let failed = done.is_err();
                    if sender.send((device, piece, done)).is_err() || failed {
                        return;
                    }
                }
            });
        }
        // Only the threads hold senders now, so the reports end when the threads end.
        drop(sender);
        let _stop = StopAtEnd(&queue);
        begin();
        take_in_order(&receiver, pieces, losses, take)
    })
}

/// Passes the results of all pieces to `take`, in their order. Returns as [`process`] does.
fn take_in_order<T>(
    reports: &Receiver<Report<T>>,
    pieces: &[Range<usize>],
    losses: &mut Vec<DeviceLoss>,
    mut take: impl FnMut(Range<usize>, T) -> Result<ControlFlow<()>>,
) -> Result<ControlFlow<()>> {
    let mut early = BTreeMap::new();
    let mut due = 0;
    for (device, piece, done) in reports {
        match done {
            Err(error @ Error::Device(_)) => {
                record_loss(losses, device, error);
                continue;
            }
            done => early.insert(piece, done?),
        };
        while let Some(done) = early.remove(&due) {
            if take(pieces[due].clone(), done)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            due += 1;
        }
    }
    match losses.last() {
        Some(loss) if due < pieces.len() => Err(loss.error.clone()),
        _ => Ok(ControlFlow::Continue(())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::thread::sleep;
    use std::time::Duration;

    const DONE: Result<ControlFlow<()>> = Ok(ControlFlow::Continue(()));

    /// A worker that counts the pieces that it has begun.
    struct Counter {
        device: usize,
        /// The piece at which this worker fails, by its own count from 1.
        fails_at: Option<usize>,
        begun: usize,
    }

    impl Worker for Counter {
        fn device(&self) -> usize {
            self.device
        }
    }

    /// One worker for each of these devices.
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

    /// Lets the workers process `count` pieces. Returns the result, the number of results taken,
    /// and the lost devices.
    fn process_by(
        workers: &mut [Counter],
        count: usize,
    ) -> (Result<ControlFlow<()>>, usize, Vec<usize>) {
        let mut taken = 0;
        let mut lost = Vec::new();
        let processed = process(
            workers,
            &pieces(count),
            &mut lost,
            || {},
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
                DONE
            },
        );
        for lost in &lost {
            assert_eq!(lost.error, gone(lost.device));
        }
        let mut lost: Vec<usize> = lost.into_iter().map(|lost| lost.device).collect();
        lost.sort_unstable();
        (processed, taken, lost)
    }

    #[test]
    fn every_piece_is_done_once_and_taken_in_order() {
        for (workers, count) in [(1, 5), (2, 7), (5, 100), (4, 2), (3, 0)] {
            let mut workers = counters(0..workers);
            let (processed, taken, lost) = process_by(&mut workers, count);
            assert_eq!((processed, taken, lost), (DONE, count, vec![]));
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
        let processed = process(&mut workers, &pieces(3), lost, || {}, work, |_, ()| DONE);
        assert_eq!(processed, DONE);
        assert!(workers.iter().all(|worker| worker.begun == 1));
    }

    #[test]
    fn an_error_that_is_no_devices_ends_it() {
        let full = Error::Memory("full".into());
        let mut workers = counters(0..2);
        let mut taken = 0;
        let mut lost = Vec::new();
        let processed = process(
            &mut workers,
            &pieces(1_000_000),
            &mut lost,
            || {},
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
                DONE
            },
        );
        assert_eq!(processed, Err(full));
        assert!(taken <= 10);
        for error in [Error::Interrupt, gone(7)] {
            let refused = process(
                &mut workers,
                &pieces(1_000_000),
                &mut lost,
                || {},
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
                let (processed, taken, lost) = process_by(&mut workers, 100);
                assert_eq!((processed, taken), (DONE, 100));
                // A slow worker may not have reached its failure. A worker that failed has begun no
                // further piece.
                let failed: Vec<usize> = (0..failing).filter(|&d| workers[d].begun == at).collect();
                assert_eq!(lost, failed);
                assert!(workers[..failing].iter().all(|worker| worker.begun <= at));
            }
        }
    }

    #[test]
    fn who_has_nothing_to_do_any_more_waits_for_what_may_come_back() {
        // Each worker processes one of the last two pieces. The first worker fails after the second
        // worker is done.
        let (both_there, through) = (Barrier::new(2), Barrier::new(2));
        let mut workers = counters(0..2);
        let mut lost = Vec::new();
        let mut taken = Vec::new();
        let processed = process(
            &mut workers,
            &pieces(2),
            &mut lost,
            || {},
            |worker, piece| {
                worker.begun += 1;
                if worker.begun == 1 {
                    both_there.wait();
                }
                if worker.device == 0 {
                    through.wait();
                    // Gives the second worker time to find the queue empty.
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
                DONE
            },
        );
        assert_eq!(processed, DONE);
        assert_eq!(taken, pieces(2));
        assert_eq!(workers[1].begun, 2);
        assert_eq!(lost.len(), 1);
    }

    #[test]
    fn workers_on_one_device_share_its_fate() {
        for at in [1, 3] {
            let mut workers = counters([0, 0, 1, 1]);
            workers[0].fails_at = Some(at);
            let (processed, taken, lost) = process_by(&mut workers, 200);
            assert_eq!((processed, taken), (DONE, 200));
            let failed = workers[0].begun == at;
            assert_eq!(lost, if failed { vec![0] } else { vec![] });
        }
        // There is no other device: the second worker must not do the piece that the first returns.
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
        let processed = process(
            &mut workers,
            &pieces(50),
            &mut lost,
            || {},
            work,
            |_, ()| DONE,
        );
        assert_eq!(processed, Err(gone(0)));
        assert_eq!(lost.len(), 1);
    }

    #[test]
    fn nothing_is_claimed_by_a_device_that_failed() {
        let queue = WorkQueue::new(3);
        let (first, second) = (queue.claim(0).unwrap(), queue.claim(0).unwrap());
        first.return_piece(0);
        drop(second);
        assert!(queue.claim(0).is_none());
        // Another device begins with the returned piece.
        let pieces: Vec<usize> = std::iter::from_fn(|| queue.claim(1).map(|t| t.piece)).collect();
        assert_eq!(pieces, [0, 2]);
    }

    #[test]
    fn where_all_devices_fail_the_last_ones_error_ends_it() {
        for at in [1, 2, 5] {
            let mut workers = counters(0..3);
            let to_fail = workers.iter_mut();
            to_fail.for_each(|worker| worker.fails_at = Some(at));
            let (processed, taken, lost) = process_by(&mut workers, 100);
            assert!(matches!(processed, Err(Error::Device(_))), "{processed:?}");
            assert!(taken <= 3 * (at - 1));
            assert_eq!(lost, [0, 1, 2]);
        }
    }

    #[test]
    fn a_panic_ends_it_too() {
        let panics = || {
            process(
                &mut counters(0..2),
                &pieces(50),
                &mut Vec::new(),
                || {},
                |_, piece| {
                    assert!(piece.start != 60, "piece 20");
                    Ok(())
                },
                |_, ()| DONE,
            )
        };
        assert!(std::panic::catch_unwind(panics).is_err());
    }
}
