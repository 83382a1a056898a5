//! Additions to ndarray: rows as slices, fallible copies in standard layout, and parallel
//! transposition.
//!
//! Matrices are [`Array2`] in standard layout, which is row-major.

use ndarray::{s, Array2, ArrayBase, ArrayView2, Data, Ix2};
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::memory;

/// Number of rows per task: copying fewer rows is not worth a thread. Only the time depends on it.
pub const ROWS_AT_A_TIME: usize = 1 << 12;

/// Number of rows that are transposed together: few enough to stay in cache until their last
/// column. Only the time depends on it.
const BLOCK: usize = 64;

/// The reason why a slice of a matrix must exist, for panics.
pub const STANDARD_LAYOUT: &str = "the matrix is in standard layout";

/// A matrix in standard layout, by slices.
pub trait RowSlices {
    /// The type of the values.
    type Value;

    /// A row.
    ///
    /// # Panics
    /// If there is no such row, or if the matrix is not in standard layout.
    fn row_slice(&self, row: usize) -> &[Self::Value];

    /// All values, row by row.
    ///
    /// # Panics
    /// If the matrix is not in standard layout.
    fn values(&self) -> &[Self::Value];
}

impl<S: Data> RowSlices for ArrayBase<S, Ix2> {
    type Value = S::Elem;

    #[inline(always)]
    fn row_slice(&self, row: usize) -> &[S::Elem] {
        self.row(row).to_slice().expect(STANDARD_LAYOUT)
    }

    fn values(&self) -> &[S::Elem] {
        self.as_slice().expect(STANDARD_LAYOUT)
    }
}

/// A matrix of zeros.
///
/// # Errors
/// `Error::Memory` if there is not enough memory.
pub fn zeros(rows: usize, columns: usize) -> Result<Array2<f64>> {
    let values = memory::zeros(memory::COPY_OF_OBSERVATIONS, rows * columns)?;
    Ok(of_rows(values, rows, columns))
}

/// The matrix with these values, row by row.
fn of_rows(values: Vec<f64>, rows: usize, columns: usize) -> Array2<f64> {
    Array2::from_shape_vec((rows, columns), values).expect("there are this many values")
}

/// The values of a matrix in standard layout, row by row.
///
/// # Panics
/// If the values of the matrix are only a part of its memory.
pub fn into_values(x: Array2<f64>) -> Vec<f64> {
    let size = x.len();
    let (values, _) = x.into_raw_vec_and_offset();
    assert_eq!(values.len(), size, "{STANDARD_LAYOUT}");
    values
}

/// The rows of row-major `values` in `rows`, in this order, as a matrix.
///
/// # Errors
/// `Error::Memory` if there is not enough memory.
pub fn take_rows(values: &[f64], columns: usize, rows: &[u32]) -> Result<Array2<f64>> {
    let mut taken = memory::zeros(memory::COPY_OF_OBSERVATIONS, rows.len() * columns)?;
    copy_rows(values, columns, rows, &mut taken);
    Ok(of_rows(taken, rows.len(), columns))
}

/// As [`take_rows`], into `taken`, which has this size. Works on the threads of the calling pool.
pub fn copy_rows(values: &[f64], columns: usize, rows: &[u32], taken: &mut [f64]) {
    taken
        .par_chunks_mut(columns.max(1))
        .zip(rows)
        .with_min_len(ROWS_AT_A_TIME)
        .for_each(|(copy, &row)| {
            copy.copy_from_slice(&values[row as usize * columns..][..columns]);
        });
}

/// A copy of matrices with `columns` columns each, one below the other, in standard layout.
///
/// # Errors
/// `Error::Input` if a matrix has another number of columns, `Error::Memory` if there is not enough
/// memory.
pub fn stacked(parts: &[ArrayView2<f64>], columns: usize) -> Result<Array2<f64>> {
    stacked_by(parts, columns, |to, part| {
        copy_from_row(to, 0, part);
    })
}

/// As [`stacked`], on the threads of the calling pool.
///
/// # Errors
/// As [`stacked`].
pub fn stacked_on_threads(parts: &[ArrayView2<f64>], columns: usize) -> Result<Array2<f64>> {
    stacked_with_visitor(parts, columns, |_| ())
}

/// As [`stacked_on_threads`]. Also passes all values to `visit`, block by block, while they are in
/// cache.
///
/// # Errors
/// As [`stacked`].
pub fn stacked_with_visitor(
    parts: &[ArrayView2<f64>],
    columns: usize,
    visit: impl Fn(&[f64]) + Sync,
) -> Result<Array2<f64>> {
    stacked_by(parts, columns, |to, part| {
        copy_with_visitor(part, to, &visit)
    })
}

/// Writes the rows of a matrix to `to`, on the threads of the calling pool. Also passes all values
/// to `visit`, block by block, while they are in cache.
pub fn copy_with_visitor(from: &ArrayView2<f64>, to: &mut [f64], visit: impl Fn(&[f64]) + Sync) {
    let columns = from.ncols().max(1);
    to.par_chunks_mut(BLOCK * columns)
        .enumerate()
        .with_min_len((ROWS_AT_A_TIME / BLOCK / columns).max(1))
        .for_each(|(block, to)| {
            copy_from_row(to, block * BLOCK, from);
            visit(to);
        });
}

/// The rows of `x`, which may have any layout, in this order. Works on the threads of the calling
/// pool. Also passes all values to `visit`, block by block, while they are in cache.
///
/// # Errors
/// `Error::Memory` if there is not enough memory.
pub fn rows_with_visitor(
    x: &ArrayView2<f64>,
    rows: &[u32],
    visit: impl Fn(&[f64]) + Sync,
) -> Result<Array2<f64>> {
    let columns = x.ncols();
    let mut values = memory::zeros(memory::COPY_OF_OBSERVATIONS, rows.len() * columns)?;
    values
        .par_chunks_mut(BLOCK * columns.max(1))
        .zip(rows.par_chunks(BLOCK))
        .with_min_len((ROWS_AT_A_TIME / BLOCK / columns.max(1)).max(1))
        .for_each(|(to, rows)| {
            for (j, column) in x.columns().into_iter().enumerate() {
                let to = to[j..].iter_mut().step_by(columns);
                to.zip(rows)
                    .for_each(|(to, &row)| *to = column[row as usize]);
            }
            visit(to);
        });
    Ok(of_rows(values, rows.len(), columns))
}

/// As [`stacked`]; `copy` writes the values of one of the matrices.
fn stacked_by(
    parts: &[ArrayView2<f64>],
    columns: usize,
    copy: impl Fn(&mut [f64], &ArrayView2<f64>),
) -> Result<Array2<f64>> {
    let rows = parts.iter().map(|part| part.nrows()).sum();
    let mut values = memory::zeros(memory::COPY_OF_OBSERVATIONS, rows * columns)?;
    let mut rest = &mut values[..];
    for part in parts {
        if part.ncols() != columns {
            return Err(Error::Input(format!(
                "a matrix has {} column(s); it needs {columns}, as the others",
                part.ncols()
            )));
        }
        let (some, others) = rest.split_at_mut(part.len());
        copy(some, part);
        rest = others;
    }
    Ok(of_rows(values, rows, columns))
}

/// Copies consecutive rows of `from`, row `first` and those after it, to `to`, which has room for
/// some rows: at once from standard layout, otherwise column by column in blocks.
pub fn copy_from_row(to: &mut [f64], first: usize, from: &ArrayView2<f64>) {
    let columns = from.ncols();
    if let Some(values) = from.as_slice() {
        return to.copy_from_slice(&values[first * columns..][..to.len()]);
    }
    for (block, to) in to.chunks_mut(BLOCK * columns.max(1)).enumerate() {
        let first = first + block * BLOCK;
        let rows = first..first + to.len() / columns;
        for (j, column) in from.columns().into_iter().enumerate() {
            let to = to[j..].iter_mut().step_by(columns);
            match column.to_slice() {
                Some(column) => to.zip(&column[rows.clone()]).for_each(|(to, &v)| *to = v),
                None => to
                    .zip(column.slice(s![rows.clone()]))
                    .for_each(|(to, &v)| *to = v),
            }
        }
    }
}

/// Writes row-major values in column-major order, each converted by `convert`. Works on the threads
/// of the calling pool.
pub fn column_major_on_threads<T: Copy + Sync, U: Send>(
    values: &[T],
    columns: usize,
    column_major: &mut [U],
    convert: impl Fn(T) -> U + Sync,
) {
    /// Number of columns per task: a row's values in these columns share a cache line.
    const COLUMNS_PER_TASK: usize = 8;

    let rows = values.len() / columns.max(1);
    let mut tasks = Vec::new();
    let groups = column_major.chunks_mut(COLUMNS_PER_TASK * rows.max(1));
    for (group, some_columns) in groups.enumerate() {
        let some_columns = some_columns.chunks_mut(rows);
        let mut parts: Vec<_> = some_columns.map(|c| c.chunks_mut(ROWS_AT_A_TIME)).collect();
        for first in (0..rows).step_by(ROWS_AT_A_TIME) {
            let parts: Vec<&mut [U]> = parts.iter_mut().filter_map(Iterator::next).collect();
            tasks.push((first, group * COLUMNS_PER_TASK, parts));
        }
    }
    tasks
        .into_par_iter()
        .for_each(|(first, column, mut parts)| {
            for row in 0..parts[0].len() {
                let some = &values[(first + row) * columns + column..];
                for (part, &value) in parts.iter_mut().zip(some) {
                    part[row] = convert(value);
                }
            }
        });
}

/// The least and the greatest value of each column of some rows.
pub fn bounding_box<'a>(
    rows: impl Iterator<Item = &'a [f64]>,
    columns: usize,
) -> (Vec<f64>, Vec<f64>) {
    let mut least = vec![f64::INFINITY; columns];
    let mut greatest = vec![f64::NEG_INFINITY; columns];
    for row in rows {
        for (k, &value) in row.iter().enumerate() {
            least[k] = least[k].min(value);
            greatest[k] = greatest[k].max(value);
        }
    }
    (least, greatest)
}

/// As [`bounding_box`], of `rows` rows, given a function that returns a row. Works on the threads
/// of the calling pool.
pub fn bounding_box_on_threads<'a>(
    rows: usize,
    row: impl Fn(usize) -> &'a [f64] + Sync,
    columns: usize,
) -> (Vec<f64>, Vec<f64>) {
    /// Number of rows per task. Only the time depends on it.
    const ROWS_PER_TASK: usize = 1 << 12;

    let of_task = |task: usize| {
        let some = task * ROWS_PER_TASK..rows.min((task + 1) * ROWS_PER_TASK);
        bounding_box(some.map(&row), columns)
    };
    let tasks = (0..rows.div_ceil(ROWS_PER_TASK)).into_par_iter();
    let boxes: Vec<_> = tasks.map(of_task).collect();
    let corners = boxes
        .iter()
        .flat_map(|(least, greatest)| [&least[..], greatest]);
    bounding_box(corners, columns)
}

/// The centre of row-major values: by column, the median of at most 1000 evenly spaced rows, which
/// outliers do not move.
pub fn sampled_medians(values: &[f64], columns: usize) -> Vec<f64> {
    let row = |row: usize| &values[row * columns..][..columns];
    sampled_medians_of(values.len() / columns.max(1), row, columns)
}

/// As [`sampled_medians`], of `rows` rows, given a function that returns a row.
pub fn sampled_medians_of<'a>(
    rows: usize,
    row: impl Fn(usize) -> &'a [f64],
    columns: usize,
) -> Vec<f64> {
    /// Largest number of rows in the sample.
    const ROWS: usize = 1000;

    let step = rows.div_ceil(ROWS).max(1);
    let some: Vec<&[f64]> = (0..rows).step_by(step).map(row).collect();
    let median = |k: usize| {
        let mut column: Vec<f64> = some.iter().map(|row| row[k]).collect();
        let at = column.len() / 2;
        *column.select_nth_unstable_by(at, f64::total_cmp).1
    };
    (0..columns).map(median).collect()
}
