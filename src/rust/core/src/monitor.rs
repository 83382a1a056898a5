//! Progress, interruption and warnings of a long computation.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::memory;

/// The state that the worker and the caller of a computation share. The worker reports finished
/// work and checks for a stop; the caller shows the progress and may request a stop.
///
/// Each computation counts work in its own unit (agglomeration: pairs of clusters that a full sweep
/// compares), so that equal amounts take about equal time.
#[derive(Debug, Default)]
pub struct Monitor {
    stop: AtomicBool,
    done: AtomicU64,
    total: AtomicU64,
    warnings: Mutex<Vec<String>>,
}

impl Monitor {
    /// Requests the worker to stop at its next check.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether a stop was requested.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Checks whether to continue.
    ///
    /// # Errors
    /// `Error::Interrupt` after a stop was requested, `Error::Memory` in a [`memory::shortage`].
    pub fn check(&self) -> Result<()> {
        if self.stopped() {
            return Err(Error::Interrupt);
        }
        memory::check_shortage()
    }

    /// Adds `work` units to the expected work.
    pub fn expect(&self, work: u64) {
        self.total.fetch_add(work, Ordering::Relaxed);
    }

    /// Reports `work` finished units.
    pub fn advance(&self, work: u64) {
        self.done.fetch_add(work, Ordering::Relaxed);
    }

    /// Finished and expected units so far.
    pub fn progress(&self) -> (u64, u64) {
        (
            self.done.load(Ordering::Relaxed),
            self.total.load(Ordering::Relaxed),
        )
    }

    /// Warns the caller of a problem that does not affect the result. Repeated messages are kept
    /// once.
    pub fn warn(&self, message: String) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if !warnings.contains(&message) {
            warnings.push(message);
        }
    }

    /// The warnings so far.
    pub fn warnings(&self) -> Vec<String> {
        let warnings = self.warnings.lock();
        warnings.unwrap_or_else(PoisonError::into_inner).clone()
    }
}
