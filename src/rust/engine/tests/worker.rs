//! Tests of a worker: its value, its errors, and its end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::time::Duration;

use gmhclust_core::{Error, Monitor};
use gmhclust_engine::Worker;

/// A time longer than any test takes.
const LONG: Duration = Duration::from_secs(600);

fn nothing_to_stop() {}

#[test]
fn work_has_ended_when_it_has_a_value_and_not_before() {
    let (finish, may_finish) = channel();
    let mut worker = Worker::start((), move |_| {
        may_finish.recv().unwrap();
        Ok(7)
    });
    assert!(!worker.wait(Duration::ZERO, nothing_to_stop));
    finish.send(()).unwrap();
    assert!(worker.wait(LONG, nothing_to_stop));
    assert_eq!(worker.take(), Ok(7));
}

#[test]
fn a_value_is_waited_for_and_can_be_taken_once() {
    let mut worker = Worker::start((), |_: &Monitor| Ok("value"));
    assert_eq!(worker.take(), Ok("value"));
    let failure = worker.take().unwrap_err();
    assert_eq!(failure.kind, "internal");
    assert_eq!(failure.message, "the result was taken before");
}

#[test]
fn errors_and_panics_are_failures_and_a_panic_is_a_bug() {
    let failure = |work: fn() -> gmhclust_core::Result<()>| {
        Worker::start((), move |_| work()).take().unwrap_err()
    };
    let error = failure(|| Err(Error::Input("`x` is odd".into())));
    assert_eq!(
        (error.kind, error.message.as_str()),
        ("input", "`x` is odd")
    );
    let panics: [fn() -> gmhclust_core::Result<()>; 2] = [
        || panic!("a string"),
        || std::panic::panic_any(String::from("a string")),
    ];
    for work in panics {
        let bug = failure(work);
        assert_eq!(bug.kind, "internal");
        assert_eq!(bug.message, "this is a bug in gmhclust: a string");
    }
    let mut never_started = Worker::<()>::failed(Error::Memory("full".into()));
    assert!(never_started.wait(Duration::ZERO, nothing_to_stop));
    assert_eq!(never_started.take().unwrap_err().kind, "memory");
}

/// Work that ends only when the monitor says stop, and then reports its end.
fn endless(stopped: &Arc<AtomicBool>) -> Worker<()> {
    let stopped = Arc::clone(stopped);
    Worker::start((), move |monitor| loop {
        if let Err(error) = monitor.check() {
            stopped.store(true, Ordering::SeqCst);
            return Err(error);
        }
        std::thread::yield_now();
    })
}

#[test]
fn cancelled_and_dropped_work_has_stopped() {
    let stopped = Arc::new(AtomicBool::new(false));
    let mut worker = endless(&stopped);
    worker.cancel();
    assert!(stopped.load(Ordering::SeqCst));
    assert_eq!(worker.take().unwrap_err().kind, "interrupt");
    let stopped = Arc::new(AtomicBool::new(false));
    drop(endless(&stopped));
    assert!(stopped.load(Ordering::SeqCst));
}

#[test]
fn the_value_of_cancelled_work_is_freed() {
    let value = Arc::new(());
    let theirs = Arc::clone(&value);
    let mut worker = Worker::start((), move |_| Ok(theirs));
    assert!(worker.wait(LONG, nothing_to_stop));
    assert_eq!(Arc::strong_count(&value), 2);
    worker.cancel();
    assert_eq!(Arc::strong_count(&value), 1);
}

/// Records that it was dropped.
struct Reserve(Arc<AtomicBool>);

impl Drop for Reserve {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn the_reserve_is_kept_while_work_runs_and_gone_when_it_has_ended() {
    let gone = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&gone);
    let mut worker = Worker::start(Reserve(Arc::clone(&gone)), move |_| {
        Ok(seen.load(Ordering::SeqCst))
    });
    assert!(worker.wait(LONG, nothing_to_stop));
    assert!(gone.load(Ordering::SeqCst));
    assert_eq!(worker.take(), Ok(false), "while it worked");
}

#[test]
fn progress_and_warnings_are_seen_from_outside() {
    let mut worker = Worker::start((), |monitor: &Monitor| {
        monitor.expect(5);
        monitor.advance(3);
        monitor.warn("beware".into());
        Ok(())
    });
    assert_eq!(worker.take(), Ok(()));
    assert_eq!(worker.monitor().progress(), (3, 5));
    assert_eq!(worker.monitor().warnings(), ["beware"]);
}
