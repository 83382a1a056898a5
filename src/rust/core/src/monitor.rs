//! What a long computation and the one who waits for it tell each other.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::memory;

/// Shared between the worker, which reports work done and asks whether to stop, and the caller,
/// who draws the progress and may ask to stop.
///
/// Work is counted in units of the computation's own choice (for agglomeration: pairs of clusters
/// that a full sweep looks at), so that equal steps take about equal time.
#[derive(Debug, Default)]
pub struct Monitor {
    stop: AtomicBool,
    done: AtomicU64,
    total: AtomicU64,
    warnings: Mutex<Vec<String>>,
}

impl Monitor {
    /// Asks the worker to stop at the next opportunity.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether somebody asked to stop.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether to go on.
    ///
    /// # Errors
    /// `Error::Interrupt` once somebody asked to stop, `Error::Memory` in a [`memory::shortage`].
    pub fn check(&self) -> Result<()> {
        if self.stopped() {
            return Err(Error::Interrupt);
        }
        memory::check_shortage()
    }

    /// Announces `work` more units to do.
    pub fn expect(&self, work: u64) {
        self.total.fetch_add(work, Ordering::Relaxed);
    }

    /// Reports `work` units done.
    pub fn advance(&self, work: u64) {
        self.done.fetch_add(work, Ordering::Relaxed);
    }

    /// Work units done and expected so far.
    pub fn progress(&self) -> (u64, u64) {
        (
            self.done.load(Ordering::Relaxed),
            self.total.load(Ordering::Relaxed),
        )
    }

    /// Tells the caller of something that went wrong on the way to a result that is right all the
    /// same; what is said twice is told once.
    pub fn warn(&self, message: String) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if !warnings.contains(&message) {
            warnings.push(message);
        }
    }

    /// What there was to warn of so far.
    pub fn warnings(&self) -> Vec<String> {
        let warnings = self.warnings.lock();
        warnings.unwrap_or_else(PoisonError::into_inner).clone()
    }
}
