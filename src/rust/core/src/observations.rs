//! Observations, checked once.

use std::fmt::Debug;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::magnitude::{largest, RunningMaximum};
use crate::matrix::{self, RowSlices};
use ndarray::{Array2, ArrayView2};

/// Observations in rows: at least two rows and one column of finite values.
#[derive(Debug, Clone)]
pub struct Observations {
    values: Values,
    rows: usize,
    columns: usize,
    largest: f64,
}

/// Values, row by row.
#[derive(Debug, Clone)]
enum Values {
    Memory(Vec<f64>),
    Stored(Arc<dyn Storage>),
}

/// Values outside of this process's own memory, such as those of a file.
pub trait Storage: Debug + Send + Sync {
    /// The values, row by row. Reading them may take long.
    fn values(&self) -> &[f64];

    /// A new storage of the same kind with the values of `rows`, in this order, given the number of
    /// columns. Works on the threads of the calling pool.
    ///
    /// # Errors
    /// `Error::Memory` if there is too little memory, or room in the storage.
    fn take_rows(&self, rows: &[u32], columns: usize) -> Result<Arc<dyn Storage>>;
}

/// Observations as a caller has them.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// A matrix in any layout, which was not checked.
    Matrix(ArrayView2<'a, f64>),
    Observations(&'a Observations),
}

impl<'a> From<&'a Observations> for Input<'a> {
    fn from(x: &'a Observations) -> Self {
        Self::Observations(x)
    }
}

impl Input<'_> {
    /// Numbers of rows and columns.
    pub fn dim(&self) -> (usize, usize) {
        match self {
            Self::Matrix(x) => x.dim(),
            Self::Observations(x) => x.dim(),
        }
    }
}

impl Observations {
    /// Checks `x`, and copies it only if it is not in standard layout.
    ///
    /// # Errors
    /// `Error::Input` when there are fewer than 2 rows or no columns, or when a value is not finite
    /// (the first one in row order is named, counting from 1); `Error::Memory` if there is not
    /// enough memory.
    pub fn new(x: Array2<f64>) -> Result<Self> {
        if !x.is_standard_layout() {
            return Self::copied(x.view());
        }
        let largest = largest(x.values());
        Self::checked(x, largest)
    }

    /// A copy of `x`, which may have any layout.
    ///
    /// # Errors
    /// As [`Observations::new`].
    pub fn copied(x: ArrayView2<f64>) -> Result<Self> {
        Self::new(matrix::stacked(&[x], x.ncols())?)
    }

    /// As [`Observations::copied`], on the threads of the calling pool.
    ///
    /// # Errors
    /// As [`Observations::copied`].
    pub fn copied_on_threads(x: ArrayView2<f64>) -> Result<Self> {
        let maximum = RunningMaximum::default();
        let x = matrix::stacked_with_visitor(&[x], x.ncols(), |some| maximum.update(some))?;
        Self::checked(x, maximum.value())
    }

    /// The rows of `x`, which may have any layout, in this order; copied on the threads of the
    /// calling pool.
    ///
    /// # Errors
    /// As [`Observations::copied`], also for rows of `x` that are not in `order`.
    pub fn copied_in_order(x: ArrayView2<f64>, order: &[u32]) -> Result<Self> {
        let maximum = RunningMaximum::default();
        let copied = matrix::rows_with_visitor(&x, order, |some| maximum.update(some))?;
        let largest = maximum.value();
        if largest.is_infinite() {
            return Err(not_finite(x.iter(), x.ncols()));
        }
        Self::checked(copied, largest)
    }

    /// Observations with these values, row by row, given the largest magnitude of a value.
    ///
    /// # Errors
    /// `Error::Input` as [`Observations::new`].
    ///
    /// # Panics
    /// If there are not as many values as the size says.
    pub fn in_memory(values: Vec<f64>, size: (usize, usize), largest: f64) -> Result<Self> {
        assert_eq!(values.len(), size.0 * size.1, "the size is of these values");
        Self::of(Values::Memory(values), size, largest)
    }

    /// Observations whose values are stored elsewhere, given the largest magnitude of their values.
    ///
    /// # Errors
    /// `Error::Input` as [`Observations::new`].
    pub fn stored(values: Arc<dyn Storage>, columns: usize, largest: f64) -> Result<Self> {
        let rows = values.values().len() / columns.max(1);
        Self::of(Values::Stored(values), (rows, columns), largest)
    }

    /// Checks `x`, a matrix in standard layout, given the largest magnitude of its values.
    fn checked(x: Array2<f64>, largest: f64) -> Result<Self> {
        let size = x.dim();
        Self::in_memory(matrix::into_values(x), size, largest)
    }

    fn of(values: Values, (rows, columns): (usize, usize), largest: f64) -> Result<Self> {
        check_size(rows, columns)?;
        let x = Self {
            values,
            rows,
            columns,
            largest,
        };
        if largest.is_infinite() {
            return Err(not_finite(x.values().iter(), columns));
        }
        Ok(x)
    }

    /// The largest magnitude of a value, including values that [`Observations::take_rows`] left
    /// out.
    pub fn largest(&self) -> f64 {
        self.largest
    }

    /// Number of observations.
    #[inline(always)]
    pub fn nrows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    #[inline(always)]
    pub fn ncols(&self) -> usize {
        self.columns
    }

    /// Numbers of rows and columns.
    #[inline(always)]
    pub fn dim(&self) -> (usize, usize) {
        (self.rows, self.columns)
    }

    /// The values as a matrix in standard layout.
    pub fn view(&self) -> ArrayView2<'_, f64> {
        let view = ArrayView2::from_shape(self.dim(), self.values());
        view.expect("there are this many values")
    }

    /// Whether the values are outside of this process's own memory.
    pub fn are_stored(&self) -> bool {
        matches!(self.values, Values::Stored(_))
    }

    /// The observations in `rows`, in this order, in the same kind of storage. Works on the threads
    /// of the calling pool.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory, or room to store them.
    pub fn take_rows(&self, rows: &[u32]) -> Result<Self> {
        let values = match &self.values {
            Values::Memory(values) => {
                let taken = matrix::take_rows(values, self.columns, rows)?;
                Values::Memory(matrix::into_values(taken))
            }
            Values::Stored(stored) => Values::Stored(stored.take_rows(rows, self.columns)?),
        };
        Ok(Self {
            values,
            rows: rows.len(),
            columns: self.columns,
            largest: self.largest,
        })
    }
}

impl RowSlices for Observations {
    type Value = f64;

    #[inline(always)]
    fn row_slice(&self, row: usize) -> &[f64] {
        &self.values()[row * self.columns..][..self.columns]
    }

    #[inline(always)]
    fn values(&self) -> &[f64] {
        match &self.values {
            Values::Memory(values) => values,
            Values::Stored(stored) => stored.values(),
        }
    }
}

impl PartialEq for Observations {
    fn eq(&self, other: &Self) -> bool {
        self.dim() == other.dim() && self.values() == other.values()
    }
}

/// Checks that there is something to cluster.
pub(crate) fn check_size(rows: usize, columns: usize) -> Result<()> {
    if rows < 2 {
        return Err(Error::Input(format!(
            "`x` has {rows} row(s); clustering needs at least 2"
        )));
    }
    if columns == 0 {
        return Err(Error::Input(
            "`x` has no columns; clustering needs at least 1".into(),
        ));
    }
    Ok(())
}

/// The error for the first value that is not finite, of values row by row.
pub(crate) fn not_finite<'a>(mut values: impl Iterator<Item = &'a f64>, columns: usize) -> Error {
    let found = (0..).zip(&mut values).find(|(_, value)| !value.is_finite());
    let (at, value) = found.expect("a value is not finite");
    Error::Input(format!(
        "`x` has {value} in row {}, column {}; clustering needs finite values",
        at / columns + 1,
        at % columns + 1
    ))
}
