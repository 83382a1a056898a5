//! The sum of squares about the means of columns, with the bits of R's `colMeans()` and `sum()`.

use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;

use gmhclust_core::lazy_rows::LazyRows;
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
    fn gmhclust_zero(total: *mut LongDouble);
    fn gmhclust_rounded(total: *const LongDouble) -> f64;
    fn gmhclust_add_squares(
        x: *const f64,
        n: usize,
        step: usize,
        mean: f64,
        stop: *const c_int,
        total: *mut LongDouble,
    );
    fn gmhclust_has_increments() -> c_int;
    fn gmhclust_increments(
        x: *const f64,
        n: usize,
        step: usize,
        mean: f64,
        exponent: c_int,
        increments: *mut LongDouble,
    );
    fn gmhclust_add_increment(
        total: *mut LongDouble,
        exponent: c_int,
        increments: *const LongDouble,
    ) -> c_int;
}

/// Room for a `long double` of C.
#[repr(C, align(16))]
#[derive(Clone, Copy, Default)]
struct LongDouble([u8; 16]);

/// Number of values of a column whose squares a thread adds up at a time.
const ADDED_AT_A_TIME: usize = 1 << 16;

/// Smallest number of threads for which adding up in parts is faster, because each square is read
/// once more, and added twice.
const FEWEST_THREADS: usize = 4;

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
            Rows::StoredObservations(x) => {
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

    /// All columns in parts of `rows` values, column after column.
    fn parts(self, means: &[f64], rows: usize) -> Vec<Part<'a>> {
        let columns = means.iter().enumerate();
        let parts = columns.flat_map(|(column, &mean)| {
            (0..self.rows).step_by(rows).map(move |first| Part {
                values: &self.values[column * self.steps.column + first * self.steps.row..],
                step: self.steps.row,
                count: rows.min(self.rows - first),
                mean,
            })
        });
        parts.collect()
    }

    fn column(self, column: usize) -> impl Iterator<Item = &'a f64> {
        let values = self.values[column * self.steps.column..].iter();
        values.step_by(self.steps.row).take(self.rows)
    }
}

/// The type in which R adds.
#[derive(Debug, Clone, Copy)]
pub enum Addition {
    Double,
    /// With `in_parts`, the CPU's threads add up parts, in less time and with more work; otherwise
    /// one thread adds.
    LongDouble {
        in_parts: bool,
    },
}

/// Does `work`, and meanwhile computes the sum of squares of all values about the means of their
/// columns: the bits of `sum(scale(x, scale = FALSE)^2)` in R, which adds squares one after the
/// other, column by column. The sum begins once `work` has read the values by `read`: until then,
/// both would take memory's bandwidth from each other, and a GPU would wait.
///
/// # Errors
/// Those of `work`.
pub fn with_squares_about_means<T>(
    rows: Rows,
    read: &LazyRows,
    addition: Addition,
    cpu: &Cpu,
    work: impl FnOnce() -> CoreResult<T>,
) -> CoreResult<(T, f64)> {
    let stop = AtomicI32::new(0);
    let x = Matrix::new(rows);
    let squares = || {
        read.wait_until_read();
        match addition {
            Addition::Double => in_double(x, &stop),
            Addition::LongDouble { in_parts } => in_long_double(x, in_parts, cpu, &stop),
        }
    };
    thread::scope(|scope| {
        // If the system gives no thread, the calling one computes them afterwards.
        let spawned = thread::Builder::new().spawn_scoped(scope, squares);
        let worked = {
            let _end = read.wake_at_end();
            work()
        };
        if worked.is_err() {
            stop.store(1, Ordering::Relaxed);
        }
        let squares = spawned.map_or_else(|_| squares(), join);
        Ok((worked?, squares))
    })
}

fn in_long_double(x: Matrix, in_parts: bool, cpu: &Cpu, stop: &AtomicI32) -> f64 {
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
    let parts = x.parts(&means, ADDED_AT_A_TIME);
    // SAFETY: the function takes no arguments.
    let has_increments = in_parts && unsafe { gmhclust_has_increments() } != 0;
    let increments = if has_increments && cpu.threads() >= FEWEST_THREADS {
        cpu.install(|| all_increments(&parts, stop))
    } else {
        vec![None; parts.len()]
    };
    let mut total = LongDouble::default();
    // SAFETY: `total` has room for a long double.
    unsafe { gmhclust_zero(&mut total) };
    for (part, increments) in parts.iter().zip(&increments) {
        if stop.load(Ordering::Relaxed) != 0 {
            break;
        }
        part.add(increments.as_ref(), stop, &mut total);
    }
    // SAFETY: `total` is a long double.
    unsafe { gmhclust_rounded(&total) }
}

/// Consecutive values of a column.
struct Part<'a> {
    /// From the first value on.
    values: &'a [f64],
    step: usize,
    count: usize,
    mean: f64,
}

/// The amount that the squares of a part add to any sum that is from 2^exponent to below
/// 2^(exponent + 1) before and after. See squares.c.
#[derive(Clone, Copy)]
struct Increments {
    exponent: c_int,
    /// For a sum that is an even multiple of the unit of its last bit, and for an odd multiple.
    of: [LongDouble; 2],
}

/// The increments of each part of a sum, if its exponent does not seem to change there. If another
/// thread sets `stop`, the function soon returns other values.
fn all_increments(parts: &[Part], stop: &AtomicI32) -> Vec<Option<Increments>> {
    let goes_on = || stop.load(Ordering::Relaxed) == 0;
    let sums = of_parts(parts, 1, |part| match goes_on() {
        true => part[0].approximate_sum(),
        false => 0.0,
    });
    let mut sum = 0.0;
    let ends = sums.iter().map(|of_part| {
        let before = sum;
        sum += of_part;
        [before, sum]
    });
    let ends: Vec<(&Part, [f64; 2])> = parts.iter().zip(ends).collect();
    of_parts(&ends, 1, |part| {
        let (part, ends) = &part[0];
        let [before, after] = ends.map(exponent);
        let is_normal = ends.iter().all(|end| end.is_normal());
        let has_one = is_normal && before == after && goes_on();
        has_one.then(|| part.increments(before))
    })
}

/// The exponent of a normal number: the greatest power of two that is not above it.
fn exponent(number: f64) -> c_int {
    (number.to_bits() >> 52) as c_int - 1023
}

impl Part<'_> {
    /// The sum of the squares, except for rounding.
    fn approximate_sum(&self) -> f64 {
        let mut sums = [0.0; 4];
        let mut values = self.values.iter().step_by(self.step).take(self.count);
        loop {
            for sum in &mut sums {
                let Some(value) = values.next() else {
                    return sums.iter().sum();
                };
                *sum += (value - self.mean) * (value - self.mean);
            }
        }
    }

    fn increments(&self, exponent: c_int) -> Increments {
        let mut of = [LongDouble::default(); 2];
        let (from, step, mean) = (self.values.as_ptr(), self.step, self.mean);
        // SAFETY: there are these values, and room for two long doubles.
        unsafe { gmhclust_increments(from, self.count, step, mean, exponent, of.as_mut_ptr()) };
        Increments { exponent, of }
    }

    /// Adds the squares to `total`: by the increments if they fit, otherwise one after the other.
    fn add(&self, increments: Option<&Increments>, stop: &AtomicI32, total: &mut LongDouble) {
        // SAFETY: these are long doubles.
        let fits = |&Increments { exponent, ref of }: &Increments| unsafe {
            gmhclust_add_increment(total, exponent, of.as_ptr()) != 0
        };
        if increments.is_some_and(fits) {
            return;
        }
        let (from, step, mean) = (self.values.as_ptr(), self.step, self.mean);
        // SAFETY: there are these values, and `total` is a long double.
        unsafe { gmhclust_add_squares(from, self.count, step, mean, stop.as_ptr(), total) };
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
