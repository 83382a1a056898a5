//! The sum of squares about the means of columns, with the bits of R's `colMeans()` and `sum()`.

use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;

use gmhclust_core::matrix::RowSlices;
use gmhclust_core::tasks::{join, of_parts};
use gmhclust_core::{Cpu, Result as CoreResult};

use crate::data::Rows;

extern "C" {
    /// See squares.c.
    fn gmhclust_means(
        x: *const f64,
        n: usize,
        columns: usize,
        steps: Steps,
        stop: *const c_int,
        means: *mut f64,
    );
    fn gmhclust_squares(
        x: *const f64,
        n: usize,
        p: usize,
        steps: Steps,
        means: *const f64,
        stop: *const c_int,
    ) -> f64;
}

/// The distance, in values, to the next row and to the next column.
#[repr(C)]
#[derive(Clone, Copy)]
struct Steps {
    row: usize,
    column: usize,
}

/// A matrix with at least one row.
#[derive(Clone, Copy)]
struct Matrix<'a> {
    values: &'a [f64],
    rows: usize,
    columns: usize,
    steps: Steps,
}

impl<'a> Matrix<'a> {
    fn new(rows: Rows<'a>) -> Self {
        match rows {
            Rows::Matrix(values, columns) => {
                let rows = (values.len() / columns.max(1)).max(1);
                let steps = Steps {
                    row: 1,
                    column: rows,
                };
                Self {
                    values,
                    rows,
                    columns,
                    steps,
                }
            }
            Rows::Stored(x) => {
                let (rows, columns) = x.dim();
                let steps = Steps {
                    row: columns,
                    column: 1,
                };
                let values = x.values();
                Self {
                    values,
                    rows,
                    columns,
                    steps,
                }
            }
        }
    }

    fn column(self, column: usize) -> impl Iterator<Item = &'a f64> {
        let values = self.values[column * self.steps.column..].iter();
        values.step_by(self.steps.row).take(self.rows)
    }
}

/// Does `work`, and meanwhile computes the sum of squares of all values about the means of their
/// columns: the bits of `sum(scale(x, scale = FALSE)^2)` in R. `extended` says whether R adds in
/// long double. Only the means are computed on several threads, as the squares are added one after
/// the other, column by column.
///
/// # Errors
/// Those of `work`.
pub fn with_squares_about_means<T>(
    rows: Rows,
    extended: bool,
    cpu: &Cpu,
    work: impl FnOnce() -> CoreResult<T>,
) -> CoreResult<(T, f64)> {
    let stop = AtomicI32::new(0);
    let x = Matrix::new(rows);
    let squares = || match extended {
        true => in_long_double(x, cpu, &stop),
        false => in_double(x, &stop),
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

fn in_long_double(x: Matrix, cpu: &Cpu, stop: &AtomicI32) -> f64 {
    // At most four columns, whose additions need not wait for each other.
    let means = |columns: &[usize]| {
        let mut means = vec![0.0; columns.len()];
        let first = &x.values[columns[0] * x.steps.column..];
        // SAFETY: these are columns of the matrix, and the number of means is theirs.
        unsafe {
            let (from, to) = (first.as_ptr(), means.as_mut_ptr());
            gmhclust_means(from, x.rows, columns.len(), x.steps, stop.as_ptr(), to);
        }
        means
    };
    let columns: Vec<usize> = (0..x.columns).collect();
    let means = cpu.install(|| of_parts(&columns, 4, means)).concat();
    // SAFETY: there are these numbers of values and means.
    unsafe {
        let (from, p) = (x.values.as_ptr(), means.len());
        gmhclust_squares(from, x.rows, p, x.steps, means.as_ptr(), stop.as_ptr())
    }
}

/// The sum if R adds in double precision. It is computed in Rust, because a C compiler may fuse
/// multiplications and additions.
fn in_double(x: Matrix, stop: &AtomicI32) -> f64 {
    let mut total = 0.0;
    for column in 0..x.columns {
        if stop.load(Ordering::Relaxed) != 0 {
            break;
        }
        let mean = x.column(column).fold(0.0, |sum, value| sum + value) / x.rows as f64;
        for value in x.column(column) {
            let difference = value - mean;
            total += difference * difference;
        }
    }
    total
}
