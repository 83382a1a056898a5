//! Observations as jobs get them: a matrix of R, or blocks of rows that R has handed over, in
//! memory or in a scratch file.

use std::borrow::Cow;
use std::ffi::CStr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use extendr_api::prelude::*;
use gmhclust_core::magnitude::RunningMaximum;
use gmhclust_core::matrix::{self, RowSlices};
use gmhclust_core::observations::Input;
use gmhclust_core::populations::Columns;
use gmhclust_core::{memory, Cpu, Error as CoreError, Observations, Result as CoreResult};
use gmhclust_reserve::ScratchWriter;
use ndarray::ArrayView2;

use crate::memory::plan;
use crate::rvalue::{self, Kind, Pointer};
use crate::vector;

/// Observations that are being handed over, or that are complete. Jobs share them with R's object.
#[derive(Clone)]
pub struct StoredObservations(Arc<Mutex<State>>);

pub enum State {
    Filling(Filling),
    Complete(Arc<Observations>),
    /// After an error, or after stored_release().
    Nothing,
}

/// Observations that are being handed over.
pub struct Filling {
    rows: usize,
    pub columns: usize,
    to: RowsDestination,
    maximum: RunningMaximum,
}

enum RowsDestination {
    Memory {
        /// All values; zeros where no rows have been handed over.
        all: Vec<f64>,
        /// Number of values that have been handed over.
        count: usize,
    },
    Scratch(ScratchWriter),
}

/// The place for the next `more` of all values, of which `count` have been handed over.
///
/// # Errors
/// `Error::Input` if there are too many.
fn next_values<'a>(
    all: &'a mut [f64],
    count: &mut usize,
    more: usize,
) -> CoreResult<&'a mut [f64]> {
    let before = *count;
    let to = all.get_mut(before..before + more);
    let to = to.ok_or_else(|| CoreError::Input("there are too many rows".into()))?;
    *count += more;
    Ok(to)
}

impl Kind for StoredObservations {
    const TAG: &'static CStr = c"gmhclust observations";
}

impl Filling {
    /// Room for this many observations: in memory, or in a scratch file in a folder.
    ///
    /// # Errors
    /// `Error::Memory` if there is too little memory; `Error::Input` if there are too many rows, or
    /// if no file can be made.
    pub fn new(rows: usize, columns: usize, folder: Option<&Path>) -> CoreResult<Self> {
        // Observations are numbered in 32 bits.
        if u32::try_from(rows).is_err() || rows.checked_mul(8 * columns).is_none() {
            return Err(CoreError::Input(format!("`x` has {rows} rows, too many")));
        }
        let to = match folder {
            Some(folder) => RowsDestination::Scratch(ScratchWriter::new(folder)?),
            None => {
                let bytes = size_of::<f64>() * rows * columns;
                plan("the observations need", bytes as f64)?;
                let all = memory::zeros("the observations need", rows * columns)?;
                RowsDestination::Memory { all, count: 0 }
            }
        };
        Ok(Self {
            rows,
            columns,
            to,
            maximum: RunningMaximum::default(),
        })
    }

    /// Appends rows; `values` are in their order.
    ///
    /// # Errors
    /// `Error::Input` if there are too many; `Error::Memory` if the disk is full.
    pub fn append(&mut self, values: &[f64]) -> CoreResult<()> {
        self.maximum.update(values);
        match &mut self.to {
            RowsDestination::Memory { all, count } => {
                next_values(all, count, values.len())?.copy_from_slice(values);
                Ok(())
            }
            RowsDestination::Scratch(writer) => writer.append(values),
        }
    }

    /// Appends the rows of a matrix, on several threads.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn append_block(&mut self, block: ArrayView2<f64>, cpu: &Cpu) -> CoreResult<()> {
        debug_assert_eq!(block.ncols(), self.columns, "the caller has checked");
        let maximum = &self.maximum;
        let visit = |values: &[f64]| maximum.update(values);
        match &mut self.to {
            RowsDestination::Memory { all, count } => {
                let to = next_values(all, count, block.len())?;
                cpu.install(|| matrix::copy_with_visitor(&block, to, visit));
                Ok(())
            }
            RowsDestination::Scratch(writer) => {
                let columns = self.columns;
                let rows =
                    cpu.install(|| matrix::stacked_with_visitor(&[block], columns, visit))?;
                writer.append(rows.values())
            }
        }
    }

    /// The observations.
    ///
    /// # Errors
    /// `Error::Input` if rows are missing, or as [`ScratchWriter::finish`].
    pub fn finish(self) -> CoreResult<Observations> {
        let largest = self.maximum.value();
        let x = match self.to {
            RowsDestination::Memory { mut all, count } => {
                all.truncate(count);
                let rows = count / self.columns.max(1);
                Observations::in_memory(all, (rows, self.columns), largest)
            }
            RowsDestination::Scratch(writer) => {
                Observations::stored(Arc::new(writer.finish()?), self.columns, largest)
            }
        }?;
        if x.nrows() != self.rows {
            let (got, needed) = (x.nrows(), self.rows);
            let message = format!("`x` has {got} rows; by its size, it has {needed}");
            return Err(CoreError::Input(message));
        }
        Ok(x)
    }
}

impl StoredObservations {
    pub fn new(state: State) -> Self {
        Self(Arc::new(Mutex::new(state)))
    }

    /// The present state, locked for the calling thread.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The observations.
    ///
    /// # Errors
    /// `Error::Input` if they are not complete.
    pub fn observations(&self) -> CoreResult<Arc<Observations>> {
        match &*self.state() {
            State::Complete(x) => Ok(x.clone()),
            _ => Err(CoreError::Input("`x` is not complete".into())),
        }
    }
}

/// Argument `x` of a job.
pub enum Data {
    /// A matrix of R.
    Matrix(Robj),
    StoredObservations(Arc<Observations>),
}

impl Data {
    /// The data in an R object: a reference to stored observations, or else a matrix, which
    /// [`Data::dim`] checks.
    ///
    /// # Errors
    /// `Error::Input` if the stored observations are incomplete or were released.
    pub fn of(x: Robj) -> CoreResult<Self> {
        match Pointer::<StoredObservations>::try_from(&x) {
            Ok(stored) => Ok(Self::StoredObservations(stored.observations()?)),
            Err(_) => Ok(Self::Matrix(x)),
        }
    }

    /// Numbers of rows and columns.
    ///
    /// # Errors
    /// `Error::Input` if it is no matrix of doubles.
    pub fn dim(&self) -> CoreResult<(usize, usize)> {
        match self {
            Self::Matrix(x) => rvalue::size(x, "x"),
            Self::StoredObservations(x) => Ok(x.dim()),
        }
    }

    /// Bytes that [`Rows::observations`] takes for each value.
    pub fn bytes_per_value(&self) -> usize {
        match self {
            Self::Matrix(_) => size_of::<f64>(),
            Self::StoredObservations(_) => 0,
        }
    }
}

/// The values of [`Data`].
#[derive(Clone, Copy)]
pub enum Rows<'a> {
    /// A matrix of R, column by column, and its number of columns.
    Matrix(&'a [f64], usize),
    StoredObservations(&'a Observations),
}

impl<'a> Rows<'a> {
    /// Some columns, read in place.
    ///
    /// # Errors
    /// As [`Columns::new`].
    pub fn columns(self, used: &'a [usize]) -> CoreResult<Columns<'a>> {
        match self {
            Self::Matrix(values, columns) => {
                Columns::new(values, values.len() / columns.max(1), used)
            }
            Self::StoredObservations(x) => Columns::of(x, used),
        }
    }

    /// The observations, for work that copies them in its own way.
    pub fn input(self) -> Input<'a> {
        match self {
            Self::Matrix(values, columns) => Input::Matrix(vector::matrix(values, columns)),
            Self::StoredObservations(x) => Input::Observations(x),
        }
    }

    /// The observations, copied on the CPU's threads if R has them.
    ///
    /// # Errors
    /// As [`Observations::copied_on_threads`].
    pub fn observations(self, cpu: &Cpu) -> CoreResult<Cow<'a, Observations>> {
        match self {
            Self::Matrix(values, columns) => {
                vector::observations(values, columns, cpu).map(Cow::Owned)
            }
            Self::StoredObservations(x) => Ok(Cow::Borrowed(x)),
        }
    }
}
