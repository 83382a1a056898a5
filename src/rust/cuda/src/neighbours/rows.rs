//! The rows of all points in host memory, from which devices copy.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{sys, CudaContext};

/// The rows of all points in host memory, by position.
pub struct Rows {
    /// The values, row by row.
    values: Vec<f32>,
    row_len: usize,
    /// Whether devices store the rows row by row, too. Otherwise they store them value by value.
    row_major: bool,
    /// The context that has page-locked the values.
    locked: Mutex<Option<Arc<CudaContext>>>,
}

impl Rows {
    /// Rows of `row_len` values each. Devices store them row by row if `row_major`.
    pub fn new(values: Vec<f32>, row_len: usize, row_major: bool) -> Self {
        Self {
            values,
            row_len,
            row_major,
            locked: Mutex::new(None),
        }
    }

    /// Number of values of a row.
    pub fn row_len(&self) -> usize {
        self.row_len
    }

    /// Whether devices store the rows row by row. Otherwise they store them value by value.
    pub fn row_major(&self) -> bool {
        self.row_major
    }

    /// Number of rows.
    pub fn count(&self) -> usize {
        self.values.len() / self.row_len
    }

    /// The rows at consecutive positions.
    pub fn between(&self, positions: Range<usize>) -> &[f32] {
        &self.values[positions.start * self.row_len..positions.end * self.row_len]
    }

    /// The rows at some positions, one after the other.
    pub fn at(&self, positions: &[u32]) -> Cow<'_, [f32]> {
        let first = positions.first().map_or(0, |&first| first as usize);
        let follow = |(i, &position): (usize, &u32)| position as usize == first + i;
        if positions.iter().enumerate().all(follow) {
            return Cow::Borrowed(self.between(first..first + positions.len()));
        }
        let mut rows = Vec::with_capacity(positions.len() * self.row_len);
        for &position in positions {
            let position = position as usize;
            rows.extend_from_slice(self.between(position..position + 1));
        }
        Cow::Owned(rows)
    }

    /// Page-locks the rows, so that all devices read them directly. If the driver refuses, copies
    /// take longer.
    pub fn lock(&self, context: &Arc<CudaContext>) {
        let mut locked = self.locked.lock().unwrap_or_else(PoisonError::into_inner);
        if locked.is_some() || context.bind_to_thread().is_err() {
            return;
        }
        let flags = sys::CU_MEMHOSTREGISTER_PORTABLE;
        // SAFETY: the values are neither moved nor changed until `drop` unlocks them.
        let result = unsafe {
            sys::cuMemHostRegister_v2(
                self.values.as_ptr() as *mut _,
                size_of_val(&self.values[..]),
                flags,
            )
        };
        if result.result().is_ok() {
            *locked = Some(context.clone());
        }
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        let locked = self.locked.get_mut();
        if let Some(context) = locked.unwrap_or_else(PoisonError::into_inner) {
            if context.bind_to_thread().is_ok() {
                // SAFETY: locked above, and no copy is in progress: every copier holds the rows. A
                // device that failed has nothing locked.
                let _ = unsafe { sys::cuMemHostUnregister(self.values.as_ptr() as *mut _) };
            }
        }
    }
}
