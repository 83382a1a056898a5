//! Address space that running jobs keep in reserve for a shortage.

use std::ffi::c_void;

use gmhclust_core::memory;
use gmhclust_core::Result;

use crate::spin_lock::SpinLock;

/// Ballast bytes per observation: 8 vectors of 8-byte elements.
const BALLAST_PER_OBSERVATION: usize = 64;

/// Ballast bytes of every job, for allocations that do not grow with the number of observations.
const BALLAST_AT_LEAST: usize = 1 << 20;

extern "C" {
    /// See ballast.c.
    fn gmhclust_ballast_take(bytes: usize) -> *mut c_void;
    fn gmhclust_ballast_give_back(ballast: *mut c_void, bytes: usize);
}

/// Address space that is reserved for a shortage.
struct Reserved {
    first: *mut c_void,
    bytes: usize,
}

// SAFETY: a pointer to memory that belongs to no particular thread.
unsafe impl Send for Reserved {}

/// The reserve that all running jobs share, and the number of these jobs.
struct Reserve {
    reserved: Option<Reserved>,
    jobs: usize,
}

static RESERVE: SpinLock<Reserve> = SpinLock::new(Reserve {
    reserved: None,
    jobs: 0,
});

impl Reserve {
    /// Returns the reserved address space to the system.
    fn release(&mut self) {
        if let Some(Reserved { first, bytes }) = self.reserved.take() {
            // SAFETY: it was reserved with this size, and is returned once.
            unsafe { gmhclust_ballast_give_back(first, bytes) };
        }
    }
}

/// Tells running computations to stop, because a limit on memory is near.
pub fn stop_computations() {
    if RESERVE.lock().jobs > 0 {
        memory::set_shortage(true);
    }
}

/// Returns the ballast to the system, so that its memory can serve other requests.
pub fn release() {
    RESERVE.lock().release();
}

/// Address space that is reserved until this value is dropped, or until a shortage.
pub struct Ballast(());

impl Ballast {
    /// The ballast of a job on this number of observations.
    ///
    /// # Errors
    /// `Error::Memory` if the system refuses the address space.
    pub fn new(observations: usize) -> Result<Self> {
        let bytes = observations
            .saturating_mul(BALLAST_PER_OBSERVATION)
            .saturating_add(BALLAST_AT_LEAST);
        let mut reserve = RESERVE.lock();
        if reserve.reserved.as_ref().is_none_or(|it| it.bytes < bytes) {
            reserve.release();
            // SAFETY: the function accepts any size.
            let first = unsafe { gmhclust_ballast_take(bytes) };
            if first.is_null() {
                drop(reserve);
                return Err(memory::too_little(
                    "the reserve of a computation needs",
                    bytes as f64,
                ));
            }
            reserve.reserved = Some(Reserved { first, bytes });
        }
        reserve.jobs += 1;
        Ok(Self(()))
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        let mut reserve = RESERVE.lock();
        reserve.jobs -= 1;
        if reserve.jobs == 0 {
            reserve.release();
            // The computations have ended, and have freed all but their results.
            memory::set_shortage(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use gmhclust_core::Error;

    use super::*;
    use crate::system::MOST;

    fn reserved() -> Option<usize> {
        RESERVE.lock().reserved.as_ref().map(|it| it.bytes)
    }

    #[test]
    fn jobs_share_the_largest_ballast_until_a_shortage_or_their_end() {
        stop_computations();
        assert!(!memory::shortage(), "no job runs");
        let small = Ballast::new(0).unwrap();
        assert_eq!(reserved(), Some(BALLAST_AT_LEAST));
        let large = Ballast::new(1_000).unwrap();
        assert_eq!(reserved(), Some(BALLAST_AT_LEAST + 64_000));
        drop(large);
        assert!(reserved().is_some(), "the other job runs");
        let refused = Ballast::new(MOST);
        assert!(matches!(refused.map(drop), Err(Error::Memory(_))));
        assert_eq!(reserved(), None);
        stop_computations();
        assert!(memory::shortage());
        let later = Ballast::new(10).unwrap();
        assert!(memory::shortage(), "the job that has to stop runs");
        drop(small);
        assert!(reserved().is_some());
        drop(later);
        assert_eq!(reserved(), None);
        assert!(!memory::shortage());
    }
}
