//! The sum of squares about the means of columns, as R computes it.

use std::thread;

use gmhclust_core::tasks::join;

extern "C" {
    /// See squares.c.
    fn gmhclust_squares_about_means(x: *const f64, n: usize, p: usize, extended: i32) -> f64;
}

/// Does `work`, and meanwhile computes the sum of squares of `values`, column after column, about
/// the means of the columns: the bits of `sum(scale(x, scale = FALSE)^2)` in R. `extended` says
/// whether R adds in long double.
pub fn with_squares_about_means<T>(
    values: &[f64],
    columns: usize,
    extended: bool,
    work: impl FnOnce() -> T,
) -> (T, f64) {
    let squares = || {
        let rows = values.len() / columns.max(1);
        // SAFETY: the function reads this number of values.
        unsafe { gmhclust_squares_about_means(values.as_ptr(), rows, columns, i32::from(extended)) }
    };
    thread::scope(|scope| {
        // If the system gives no thread, the calling one computes them afterwards.
        let spawned = thread::Builder::new().spawn_scoped(scope, squares);
        let worked = work();
        (worked, spawned.map_or_else(|_| squares(), join))
    })
}
