//! Row-major matrices of observations.

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::memory;

/// Rows per task: copying fewer is not worth a thread.
const ROWS_AT_A_TIME: usize = 1 << 12;

/// Rows that are transposed together: few enough to stay in cache until their last column.
const BLOCK: usize = 64;

/// Observations in rows, dimensions in columns, row-major, all finite.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    values: Vec<f64>,
    rows: usize,
    columns: usize,
}

impl Matrix {
    /// From R's column-major storage, `rows * columns` values. O(rows · columns) time.
    ///
    /// # Errors
    /// `Error::Input` when the sizes disagree, when there are fewer than 2 rows or no columns, or
    /// when a value is not finite (the first one in row order is named, counting from 1);
    /// `Error::Memory` where there is not enough.
    pub fn from_column_major(values: &[f64], rows: usize, columns: usize) -> Result<Self> {
        check_size(values, rows, columns)?;
        let row_major = row_major(&[values], columns)?;
        Self::from_row_major(row_major, rows, columns)
    }

    /// As [`Matrix::from_column_major`], on the threads of the pool that it is called from.
    ///
    /// # Errors
    /// As there.
    pub fn from_column_major_on_threads(
        values: &[f64],
        rows: usize,
        columns: usize,
    ) -> Result<Self> {
        check_size(values, rows, columns)?;
        let row_major = row_major_on_threads(&[values], columns)?;
        // A finite sum has finite terms.
        let is_finite = |some: &[f64]| some.iter().sum::<f64>().is_finite();
        let finite = row_major.par_chunks(ROWS_AT_A_TIME).all(is_finite);
        if rows < 2 || columns == 0 || !finite {
            return Self::from_row_major(row_major, rows, columns);
        }
        Ok(Self {
            values: row_major,
            rows,
            columns,
        })
    }

    /// From row-major storage, `rows * columns` values; errors as [`Matrix::from_column_major`].
    pub fn from_row_major(values: Vec<f64>, rows: usize, columns: usize) -> Result<Self> {
        if rows < 2 {
            return Err(Error::Input(format!(
                "`X` has {rows} row(s), clustering needs at least 2"
            )));
        }
        if columns == 0 {
            return Err(Error::Input(
                "`X` has no columns, clustering needs at least 1".into(),
            ));
        }
        check_size(&values, rows, columns)?;
        if let Some(at) = values.iter().position(|value| !value.is_finite()) {
            return Err(Error::Input(format!(
                "`X` has {} in row {}, column {}, clustering needs finite values",
                values[at],
                at / columns + 1,
                at % columns + 1
            )));
        }
        Ok(Self {
            values,
            rows,
            columns,
        })
    }

    /// Number of observations.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of dimensions.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// One observation.
    #[inline(always)]
    pub fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.columns..][..self.columns]
    }

    /// The observations in `rows`, in this order.
    ///
    /// # Errors
    /// `Error::Memory` where there is not enough.
    pub fn select(&self, rows: &[u32]) -> Result<Self> {
        let mut values = memory::zeros(memory::OBSERVATIONS, rows.len() * self.columns)?;
        values
            .par_chunks_mut(self.columns)
            .zip(rows)
            .with_min_len(ROWS_AT_A_TIME)
            .for_each(|(copy, &row)| copy.copy_from_slice(self.row(row as usize)));
        Ok(Self {
            values,
            rows: rows.len(),
            columns: self.columns,
        })
    }

    /// All values, row after row.
    pub fn values(&self) -> &[f64] {
        &self.values
    }
}

/// The row-major values of column-major matrices with `columns` columns, stacked by rows.
///
/// # Errors
/// `Error::Input` when the length of a matrix is no multiple of `columns`, `Error::Memory` where
/// there is not enough.
pub fn row_major(parts: &[&[f64]], columns: usize) -> Result<Vec<f64>> {
    joined(parts, columns, |to, part, rows| {
        for (block, some_rows) in to.chunks_mut(BLOCK * columns.max(1)).enumerate() {
            fill_rows(some_rows, block, part, rows, columns);
        }
    })
}

/// As [`row_major`], on the threads of the pool that it is called from.
///
/// # Errors
/// As there.
pub fn row_major_on_threads(parts: &[&[f64]], columns: usize) -> Result<Vec<f64>> {
    joined(parts, columns, |to, part, rows| {
        to.par_chunks_mut(BLOCK * columns.max(1))
            .enumerate()
            .with_min_len((ROWS_AT_A_TIME / BLOCK / columns.max(1)).max(1))
            .for_each(|(block, some_rows)| fill_rows(some_rows, block, part, rows, columns));
    })
}

/// The values that `fill` writes for each matrix, given the matrix and its number of rows.
fn joined(
    parts: &[&[f64]],
    columns: usize,
    fill: impl Fn(&mut [f64], &[f64], usize),
) -> Result<Vec<f64>> {
    let len = parts.iter().map(|part| part.len()).sum();
    let mut row_major = memory::zeros(memory::OBSERVATIONS, len)?;
    let mut rest = &mut row_major[..];
    for part in parts {
        let rows = part.len() / columns.max(1);
        check_size(part, rows, columns)?;
        let (some, others) = rest.split_at_mut(part.len());
        fill(some, part, rows);
        rest = others;
    }
    Ok(row_major)
}

/// Writes row-major values in column-major order, each converted by `convert`. Works on the threads
/// of the pool that it is called from.
pub fn column_major_on_threads<T: Copy + Sync, U: Send>(
    values: &[T],
    columns: usize,
    column_major: &mut [U],
    convert: impl Fn(T) -> U + Sync,
) {
    /// Columns per task: a row's values of them share a cache line.
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

/// Transposes the rows of a block of [`BLOCK`] rows.
fn fill_rows(some_rows: &mut [f64], block: usize, values: &[f64], rows: usize, columns: usize) {
    for j in 0..columns {
        let column = &values[j * rows + block * BLOCK..];
        let to = some_rows[j..].iter_mut().step_by(columns);
        to.zip(column).for_each(|(to, &value)| *to = value);
    }
}

/// Checks that there are `rows * columns` values.
///
/// # Errors
/// `Error::Input` when there are not.
pub fn check_size(values: &[f64], rows: usize, columns: usize) -> Result<()> {
    if values.len() == rows * columns {
        return Ok(());
    }
    Err(Error::Input(format!(
        "`X` has {} values, but {rows} rows and {columns} columns need {}",
        values.len(),
        rows * columns
    )))
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

/// The centre of row-major `values`: by column, the median of at most 1000 evenly spaced rows,
/// which outliers do not move.
pub fn middle(values: &[f64], columns: usize) -> Vec<f64> {
    middle_of(values.chunks_exact(columns), columns)
}

/// As [`middle`], of an iterator over rows.
pub fn middle_of<'a>(rows: impl ExactSizeIterator<Item = &'a [f64]>, columns: usize) -> Vec<f64> {
    /// Rows of a sample, at most.
    const ROWS: usize = 1000;

    let step = rows.len().div_ceil(ROWS).max(1);
    let some: Vec<&[f64]> = rows.step_by(step).collect();
    let median = |k: usize| {
        let mut column: Vec<f64> = some.iter().map(|row| row[k]).collect();
        let at = column.len() / 2;
        *column.select_nth_unstable_by(at, f64::total_cmp).1
    };
    (0..columns).map(median).collect()
}
