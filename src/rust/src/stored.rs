//! Observations that R hands over in blocks of rows.

use std::path::PathBuf;
use std::sync::Arc;

use extendr_api::prelude::*;
use gmhclust_core::matrix::RowSlices;
use gmhclust_core::{Error as CoreError, Monitor, Result as CoreResult};

use crate::arguments;
use crate::data::{Filling, State, StoredObservations};
use crate::folder::path_of;
use crate::job::Job;
use crate::memory::plan;
use crate::rvalue::{self, Pointer, Values};
use crate::vector;

/// Number of rows that are changed together. Only the time depends on it.
const CHANGED_AT_A_TIME: usize = 1 << 16;

/// The folder for a scratch file, if there is to be one.
fn path(folder: &Robj) -> CoreResult<Option<PathBuf>> {
    if folder.is_null() {
        return Ok(None);
    }
    path_of(folder).map(Some)
}

/// Starts to make room for observations, which job_stored_append() hands over.
/// @param rows number of observations.
/// @param columns integer, their number of columns.
/// @param folder NULL for observations in memory; or raw, the name of a folder for a scratch file.
/// @return External pointer to the job. Its value is an external pointer to the observations, which
///   stored_release() frees.
/// @noRd
#[extendr]
fn job_stored_begin(rows: f64, columns: i32, folder: Robj) -> Robj {
    let prepare = || {
        let columns = usize::try_from(columns).unwrap_or(0);
        let filling = Filling::new(rows as usize, columns, path(&folder)?.as_deref())?;
        Ok(move |_: &Monitor| Ok(StoredObservations::new(State::Filling(filling))))
    };
    Job::start(0, prepare(), Pointer::make).into_r()
}

/// Starts to append a block of rows. After an error, the observations are of no use.
/// @param stored external pointer, as of job_stored_begin().
/// @param block double matrix of finite values, with the columns of the observations.
/// @param threads integer.
/// @return External pointer to the job, whose value is NULL.
/// @noRd
#[extendr]
fn job_stored_append(stored: Pointer<StoredObservations>, block: Robj, threads: i32) -> Robj {
    let prepare = || {
        let (rows, columns) = rvalue::size(&block, "x")?;
        plan("a block of rows needs", (8 * rows * columns) as f64)?;
        let stored = StoredObservations::clone(&stored);
        Ok(move |_: &Monitor, values: &[f64]| {
            let mut state = stored.state();
            let State::Filling(mut filling) = std::mem::replace(&mut *state, State::Nothing) else {
                return Err(CoreError::Input("`x` takes no more rows".into()));
            };
            if columns != filling.columns {
                let needed = filling.columns;
                let message = format!("`x` has {columns} columns; by its size, it has {needed}");
                return Err(CoreError::Input(message));
            }
            let block = vector::matrix(values, columns);
            filling.append_block(block, &arguments::cpu(threads)?)?;
            *state = State::Filling(filling);
            Ok(())
        })
    };
    let (rows, work) = (rvalue::rows(&block), prepare());
    Job::start_reading(rows, block, work, |()| Ok(rvalue::null())).into_r()
}

/// Starts to complete observations: no rows follow.
/// @param stored as in job_stored_append().
/// @return External pointer to the job, whose value is NULL.
/// @noRd
#[extendr]
fn job_stored_end(stored: Pointer<StoredObservations>) -> Robj {
    let prepare = || {
        let stored = StoredObservations::clone(&stored);
        Ok(move |_: &Monitor| {
            let mut state = stored.state();
            let State::Filling(filling) = std::mem::replace(&mut *state, State::Nothing) else {
                return Err(CoreError::Input("`x` is complete".into()));
            };
            *state = State::Complete(Arc::new(filling.finish()?));
            Ok(())
        })
    };
    Job::start(0, prepare(), |()| Ok(rvalue::null())).into_r()
}

/// Starts to make other observations of stored ones: (value / scale - shift) / unit, in some
/// columns.
/// @param stored as in job_stored_append(), complete.
/// @param columns integers, the numbers of the columns to keep.
/// @param scale,shift,unit doubles, for each of these columns.
/// @param folder as in job_stored_begin().
/// @return As job_stored_begin(); the observations are complete.
/// @noRd
#[extendr]
fn job_stored_changed(
    stored: Pointer<StoredObservations>,
    columns: Robj,
    scale: Robj,
    shift: Robj,
    unit: Robj,
    folder: Robj,
) -> Robj {
    let prepare = || {
        let x = stored.observations()?;
        let columns = arguments::numbers(&columns, "columns")?;
        let numbers =
            |numbers: &Robj| Values::<f64>::of(numbers, "x").map(|values| values.to_vec());
        let (scale, shift, unit) = (numbers(&scale)?, numbers(&shift)?, numbers(&unit)?);
        let lengths = [scale.len(), shift.len(), unit.len()];
        if lengths != [columns.len(); 3] || columns.iter().any(|&column| column >= x.ncols()) {
            return Err(CoreError::Input("the columns do not fit `x`".into()));
        }
        let mut filling = Filling::new(x.nrows(), columns.len(), path(&folder)?.as_deref())?;
        Ok(move |monitor: &Monitor| {
            let mut changed = Vec::with_capacity(CHANGED_AT_A_TIME * columns.len());
            for rows in x.values().chunks(CHANGED_AT_A_TIME * x.ncols()) {
                monitor.check()?;
                changed.clear();
                for row in rows.chunks_exact(x.ncols()) {
                    let change = |(k, &column): (usize, &usize)| {
                        (row[column] / scale[k] - shift[k]) / unit[k]
                    };
                    changed.extend(columns.iter().enumerate().map(change));
                }
                filling.append(&changed)?;
            }
            let x = Arc::new(filling.finish()?);
            Ok(StoredObservations::new(State::Complete(x)))
        })
    };
    Job::start(0, prepare(), Pointer::make).into_r()
}

/// Starts to read stored observations.
/// @param stored as in job_stored_changed().
/// @param rows NULL for all rows, or integers, their numbers.
/// @param columns integers, the numbers of columns.
/// @return External pointer to the job. Its value is a double matrix.
/// @noRd
#[extendr]
fn job_stored_read(stored: Pointer<StoredObservations>, rows: Robj, columns: Robj) -> Robj {
    let prepare = || {
        let x = stored.observations()?;
        let columns = arguments::numbers(&columns, "columns")?;
        let rows = if rows.is_null() {
            None
        } else {
            Some(arguments::numbers(&rows, "rows")?)
        };
        let count = rows.as_ref().map_or(x.nrows(), Vec::len);
        let exist = columns.iter().all(|&column| column < x.ncols());
        if !exist || rows.iter().flatten().any(|&row| row >= x.nrows()) {
            return Err(CoreError::Input("`x` has no such rows or columns".into()));
        }
        let length = count * columns.len();
        let work = move |monitor: &Monitor, _: &[&[f64]], values: &mut [f64]| {
            for (&column, values) in columns.iter().zip(values.chunks_mut(count.max(1))) {
                monitor.check()?;
                for (at, value) in values.iter_mut().enumerate() {
                    let row = rows.as_ref().map_or(at, |rows| rows[at]);
                    *value = x.row_slice(row)[column];
                }
            }
            Ok((count, columns.len()))
        };
        Ok((length, work))
    };
    let to_r = |(rows, columns), values| vector::with_dimensions(values, rows, columns);
    Job::start_filling(0, Vec::new(), prepare(), to_r).into_r()
}

/// Frees stored observations when no job uses them any more.
/// @param stored as in job_stored_append().
/// @return NULL.
/// @noRd
#[extendr]
fn stored_release(stored: Pointer<StoredObservations>) {
    *stored.state() = State::Nothing;
}

extendr_module! {
    mod stored;
    fn job_stored_begin;
    fn job_stored_append;
    fn job_stored_end;
    fn job_stored_changed;
    fn job_stored_read;
    fn stored_release;
}
