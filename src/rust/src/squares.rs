//! The sum of squares about the means of columns, with the bits of R's `colMeans()` and `sum()`.

use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;

use gmhclust_core::tasks::{join, of_parts};
use gmhclust_core::{Cpu, Result as CoreResult};

extern "C" {
    /// See squares.c.
    fn gmhclust_means(x: *const f64, n: usize, columns: usize, stop: *const c_int, means: *mut f64);
    fn gmhclust_squares(
        x: *const f64,
        n: usize,
        p: usize,
        means: *const f64,
        stop: *const c_int,
    ) -> f64;
}

/// Does `work`, and meanwhile computes the sum of squares of `values`, in columns of `rows`, at
/// least 1, about the means of the columns: the bits of `sum(scale(x, scale = FALSE)^2)` in R.
/// `extended` says whether R adds in long double. Only the means are computed on several threads,
/// as the squares are added one after the other.
///
/// # Errors
/// Those of `work`.
pub fn with_squares_about_means<T>(
    values: &[f64],
    rows: usize,
    extended: bool,
    cpu: &Cpu,
    work: impl FnOnce() -> CoreResult<T>,
) -> CoreResult<(T, f64)> {
    let stop = AtomicI32::new(0);
    let squares = || match extended {
        true => in_long_double(values, rows, cpu, &stop),
        false => in_double(values, rows, &stop),
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

fn in_long_double(values: &[f64], rows: usize, cpu: &Cpu, stop: &AtomicI32) -> f64 {
    // At most four columns, whose additions need not wait for each other.
    let means = |columns: &[f64]| {
        let mut means = vec![0.0; columns.len() / rows];
        // SAFETY: these are columns of this number of values, and the number of means is theirs.
        unsafe {
            let (x, to) = (columns.as_ptr(), means.as_mut_ptr());
            gmhclust_means(x, rows, columns.len() / rows, stop.as_ptr(), to);
        }
        means
    };
    let means = cpu.install(|| of_parts(values, 4 * rows, means)).concat();
    // SAFETY: there are these numbers of values and means.
    unsafe {
        let (x, p) = (values.as_ptr(), means.len());
        gmhclust_squares(x, rows, p, means.as_ptr(), stop.as_ptr())
    }
}

/// The sum where R adds in double precision. In Rust, since a C compiler may fuse multiplications
/// and additions.
fn in_double(values: &[f64], rows: usize, stop: &AtomicI32) -> f64 {
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
