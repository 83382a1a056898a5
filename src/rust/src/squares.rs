//! The sum of squares about the means of columns, as R computes it.

use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;

use gmhclust_core::tasks::join;
use gmhclust_core::Result as CoreResult;

extern "C" {
    /// See squares.c.
    fn gmhclust_squares_about_means(x: *const f64, n: usize, p: usize, stop: *const c_int) -> f64;
}

/// Does `work`, and meanwhile computes the sum of squares of `values`, column after column, about
/// the means of the columns: the bits of `sum(scale(x, scale = FALSE)^2)` in R. `extended` says
/// whether R adds in long double.
///
/// # Errors
/// Those of `work`.
pub fn with_squares_about_means<T>(
    values: &[f64],
    columns: usize,
    extended: bool,
    work: impl FnOnce() -> CoreResult<T>,
) -> CoreResult<(T, f64)> {
    let stop = AtomicI32::new(0);
    let squares = || {
        if extended {
            let rows = values.len() / columns.max(1);
            // SAFETY: the function reads this number of values, and a number that may change.
            unsafe { gmhclust_squares_about_means(values.as_ptr(), rows, columns, stop.as_ptr()) }
        } else {
            in_double_precision(values, columns, &stop)
        }
    };
    thread::scope(|scope| {
        // If the system gives no thread, the calling one computes them afterwards.
        let spawned = thread::Builder::new().spawn_scoped(scope, squares);
        let worked = work();
        if worked.is_err() {
            stop.store(1, Ordering::Relaxed);
        }
        let squares = spawned.map_or_else(|_| squares(), join);
        Ok((worked?, squares))
    })
}

/// The same where R adds in double precision. In Rust, since a C compiler may fuse multiplications
/// and additions.
fn in_double_precision(values: &[f64], columns: usize, stop: &AtomicI32) -> f64 {
    let rows = (values.len() / columns.max(1)).max(1);
    let mut total = 0.0;
    for column in values.chunks(rows) {
        if stop.load(Ordering::Relaxed) != 0 {
            break;
        }
        let mean = column.iter().fold(0.0, |sum, value| sum + value) / rows as f64;
        for value in column {
            let difference = value - mean;
            total += difference * difference;
        }
    }
    total
}
