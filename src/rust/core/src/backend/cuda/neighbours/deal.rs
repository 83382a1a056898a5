//! Dealing out work to several devices.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread::scope;

use crate::error::Result;

/// Has `workers` do `work` on pieces, each in a thread of its own and each taking the next piece
/// when it has done one: so a fast one does more of them. Meanwhile this thread takes what is done,
/// in the order of the pieces.
///
/// # Errors
/// The first that a worker or `take` returns; no other piece is begun then.
pub fn deal<W: Send, T: Send>(
    workers: &mut [W],
    pieces: &[Range<usize>],
    work: impl Fn(&mut W, Range<usize>) -> Result<T> + Sync,
    mut take: impl FnMut(Range<usize>, T) -> Result<()>,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let stop = || next.store(pieces.len(), Ordering::Relaxed);
    let (sender, receiver) = channel();
    scope(|scope| {
        for worker in workers {
            let sender = sender.clone();
            let (next, work) = (&next, &work);
            scope.spawn(move || loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(piece) = pieces.get(number) else {
                    return;
                };
                let done = work(worker, piece.clone());
                let failed = done.is_err();
                if sender.send((number, done)).is_err() || failed {
                    return;
                }
            });
        }
        // What is left are the threads' own: once they are through, there is nothing to receive.
        drop(sender);
        let mut early = BTreeMap::new();
        let mut due = 0;
        let taken = receiver.iter().try_for_each(|(number, done)| {
            early.insert(number, done?);
            while let Some(done) = early.remove(&due) {
                take(pieces[due].clone(), done)?;
                due += 1;
            }
            Ok(())
        });
        stop();
        taken
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use std::sync::Barrier;

    fn pieces(count: usize) -> Vec<Range<usize>> {
        (0..count).map(|i| 3 * i..3 * i + 3).collect()
    }

    #[test]
    fn every_piece_is_done_once_and_taken_in_order() {
        for (workers, count) in [(1, 5), (2, 7), (5, 100), (4, 2), (3, 0)] {
            let mut done = vec![0; workers];
            let mut taken = Vec::new();
            let dealt = deal(
                &mut done,
                &pieces(count),
                |done, piece| {
                    *done += 1;
                    Ok(piece.sum::<usize>())
                },
                |piece, sum| {
                    assert_eq!(sum, piece.clone().sum::<usize>());
                    taken.push(piece);
                    Ok(())
                },
            );
            assert_eq!(dealt, Ok(()));
            assert_eq!(taken, pieces(count));
            assert_eq!(done.iter().sum::<usize>(), count);
        }
    }

    #[test]
    fn all_workers_are_at_it_at_a_time() {
        let all_there = Barrier::new(3);
        let mut done = [0; 3];
        let work = |done: &mut i32, _| {
            all_there.wait();
            *done += 1;
            Ok(())
        };
        assert_eq!(deal(&mut done, &pieces(3), work, |_, ()| Ok(())), Ok(()));
        assert_eq!(done, [1, 1, 1]);
    }

    #[test]
    fn a_failure_ends_it() {
        let gone = Error::Device("gone".into());
        let mut began = [0; 2];
        let mut taken = 0;
        let dealt = deal(
            &mut began,
            &pieces(1_000_000),
            |began, piece| {
                *began += 1;
                if piece.start == 30 {
                    return Err(gone.clone());
                }
                Ok(())
            },
            |piece, ()| {
                assert!(piece.start < 30);
                taken += 1;
                Ok(())
            },
        );
        assert_eq!(dealt, Err(gone));
        assert!(taken <= 10);
        let refused = deal(
            &mut began,
            &pieces(1_000_000),
            |_, _| Ok(()),
            |_, ()| Err(Error::Interrupt),
        );
        assert_eq!(refused, Err(Error::Interrupt));
        assert!(began.iter().sum::<i32>() < 1_000_000);
    }
}
