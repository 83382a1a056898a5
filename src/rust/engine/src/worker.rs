//! Runs work on a new thread. The calling thread waits for the work, reads its progress and can
//! cancel it.

use std::any::Any;
use std::cell::Cell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gmhclust_core::{memory, Error, Monitor, Result};

/// Time from the start of the work to the first check of the memory limits.
const FIRST_CHECK: Duration = Duration::from_millis(5);

/// Bytes that a thread needs: 2 MiB, Rust's default for its stack, and 256 KiB for the system.
const THREAD_BYTES: f64 = (9 << 18) as f64;

/// The error of some work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The kind of the error: as [`Error::kind`], or `"internal"` for a bug of this package.
    pub kind: &'static str,
    pub message: String,
}

impl Failure {
    fn internal(message: String) -> Self {
        Self {
            kind: "internal",
            message,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            kind: error.kind(),
            message: error.to_string(),
        }
    }
}

type Outcome<V> = std::result::Result<V, Failure>;

enum Phase<V> {
    Running,
    Ended(Outcome<V>),
    Taken,
}

/// The state that both threads share.
struct Shared<V> {
    monitor: Monitor,
    phase: Mutex<Phase<V>>,
    ended: Condvar,
}

impl<V> Shared<V> {
    fn new(phase: Phase<V>) -> Arc<Self> {
        Arc::new(Self {
            monitor: Monitor::default(),
            phase: Mutex::new(phase),
            ended: Condvar::new(),
        })
    }

    fn phase(&self) -> MutexGuard<'_, Phase<V>> {
        // No code panics while it holds the lock, so even a poisoned phase would be valid.
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Work that runs on a thread until it ends or is cancelled. Dropping the worker cancels the work.
pub struct Worker<V> {
    shared: Arc<Shared<V>>,
    thread: Option<JoinHandle<()>>,
    /// The time of the next check of the memory limits.
    next_check: Cell<Instant>,
}

impl<V: Send + 'static> Worker<V> {
    /// Starts `work` on a new thread, which holds `reserve` until the work has ended. If no thread
    /// can be started, the worker holds the error.
    pub fn start(
        reserve: impl Send + 'static,
        work: impl FnOnce(&Monitor) -> Result<V> + Send + 'static,
    ) -> Self {
        // If the system has too little memory for a thread, it may end the process.
        if let Err(error) = memory::check("a thread to work on needs", THREAD_BYTES) {
            return Self::failed(error);
        }
        let shared = Shared::new(Phase::Running);
        let its_own = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("gmhclust".into());
        let spawned = thread.spawn(move || {
            let outcome = outcome(work, &its_own.monitor);
            drop(reserve);
            *its_own.phase() = Phase::Ended(outcome);
            its_own.ended.notify_all();
        });
        match spawned {
            Ok(thread) => Self {
                shared,
                thread: Some(thread),
                next_check: Cell::new(Instant::now() + FIRST_CHECK),
            },
            Err(error) => Self::failed(Error::Memory(format!(
                "the operating system gave no thread to work on: {error}"
            ))),
        }
    }

    /// A worker whose work failed before it had a thread.
    pub fn failed(error: Error) -> Self {
        Self {
            shared: Shared::new(Phase::Ended(Err(error.into()))),
            thread: None,
            next_check: Cell::new(Instant::now()),
        }
    }
}

impl<V> Worker<V> {
    /// Blocks until the work has ended, but at most for `timeout`. Returns whether it has ended.
    ///
    /// Meanwhile checks the memory limits, and calls `stop` if a limit is near. `stop` must stop
    /// all work. This check is needed because small allocations are not checked, and because other
    /// processes take memory, too.
    pub fn wait(&self, timeout: Duration, stop: impl Fn()) -> bool {
        let until = Instant::now() + timeout;
        loop {
            let look = self.next_check.get();
            if self.has_ended_by(until.min(look)) {
                return true;
            }
            if until < look {
                return false;
            }
            let (is_near, next) = memory::watch();
            if is_near {
                stop();
            }
            self.next_check.set(Instant::now() + next);
        }
    }

    /// Blocks until the work has ended, but at most until `end`. Returns whether it has ended.
    fn has_ended_by(&self, end: Instant) -> bool {
        let timeout = end.saturating_duration_since(Instant::now());
        let (phase, _) = self
            .shared
            .ended
            .wait_timeout_while(self.shared.phase(), timeout, |phase| {
                matches!(phase, Phase::Running)
            })
            .unwrap_or_else(PoisonError::into_inner);
        !matches!(*phase, Phase::Running)
    }

    /// The monitor of the work, with its progress and warnings.
    pub fn monitor(&self) -> &Monitor {
        &self.shared.monitor
    }

    /// Waits for the end of the work, and returns its value. The value can be taken once.
    ///
    /// # Errors
    /// The errors of the work, and `"internal"` if the work panicked or its value was taken before.
    pub fn take(&mut self) -> std::result::Result<V, Failure> {
        self.join();
        let phase = std::mem::replace(&mut *self.shared.phase(), Phase::Taken);
        match phase {
            Phase::Ended(outcome) => outcome,
            Phase::Running => Err(Failure::internal(
                "the worker ended without a result".into(),
            )),
            Phase::Taken => Err(Failure::internal("the result was taken before".into())),
        }
    }

    /// Asks the work to stop, waits until it has stopped, and frees its value.
    pub fn cancel(&mut self) {
        self.shared.monitor.stop();
        self.join();
        *self.shared.phase() = Phase::Ended(Err(Error::Interrupt.into()));
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            // The thread catches its panics, so joining it gives no error.
            let _ = thread.join();
        }
    }
}

impl<V> Drop for Worker<V> {
    fn drop(&mut self) {
        self.cancel();
    }
}

fn outcome<V>(work: impl FnOnce(&Monitor) -> Result<V>, monitor: &Monitor) -> Outcome<V> {
    match catch_unwind(AssertUnwindSafe(|| work(monitor))) {
        Ok(done) => done.map_err(Failure::from),
        Err(panic) => Err(Failure::internal(format!(
            "this is a bug in gmhclust: {}",
            panic_message(panic.as_ref())
        ))),
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    if let Some(message) = panic.downcast_ref::<String>() {
        message
    } else if let Some(message) = panic.downcast_ref::<&str>() {
        message
    } else {
        "a panic without a message"
    }
}
