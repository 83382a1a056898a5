//! What a long computation and the one who waits for it tell each other.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::{Error, Result};

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

    /// `Err(Error::Interrupt)` once somebody asked to stop.
    pub fn check(&self) -> Result<()> {
        if self.stopped() {
            Err(Error::Interrupt)
        } else {
            Ok(())
        }
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
}
