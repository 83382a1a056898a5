//! Reads records of numbers from files.

use extendr_api::prelude::*;
use gmhclust_core::records::{Format, Records};
use gmhclust_core::{Error as CoreError, Monitor, Result as CoreResult};

use crate::arguments::{self, Fields};
use crate::folder::path_of;
use crate::job::Job;
use crate::rvalue::{self, Values};
use crate::vector;

extern "C" {
    /// C's `asinh()`, which R's `asinh()` calls. The last bits of Rust's function differ.
    fn asinh(x: f64) -> f64;
}

/// Starts to read records of a file.
/// @param path raw, the name of the file.
/// @param layout list(begin, width, bytes, is_real, is_signed, endian): the place of the first
///   byte, the number of values of a record and of bytes of a value, flags, and "little" or "big".
/// @param column_length NULL, or a double: the number of all records, if the file stores the first
///   values of all records first, then all second values, and so on.
/// @param first,count doubles: the number of the first record to read, from 1, and how many.
/// @param columns integers: the places of the values to read, from 1.
/// @param ranges,cofactors NULL, or a double for each of these values: values are taken modulo
///   `ranges`; then asinh(value / cofactor) is taken, unless the cofactor is NA.
/// @param threads integer: the number of threads.
/// @return External pointer to the job. Its value is a double matrix, or NULL if the file is too
///   short.
/// @noRd
#[extendr]
#[allow(clippy::too_many_arguments)]
fn job_records(
    path: Robj,
    layout: List,
    column_length: Nullable<f64>,
    first: f64,
    count: f64,
    columns: Robj,
    ranges: Robj,
    cofactors: Robj,
    threads: i32,
) -> Robj {
    let prepare = || {
        let mut records = records_of(&path, &layout)?;
        if let Nullable::NotNull(all) = column_length {
            records = records.column_major_records(all as usize);
        }
        let places = arguments::numbers(&columns, "columns")?;
        let numbers = |values: &Robj, name| -> CoreResult<Option<Vec<f64>>> {
            let numbers = Values::<f64>::of_optional(values, name)?.map(|values| values.to_vec());
            match numbers {
                Some(numbers) if numbers.len() != places.len() => Err(CoreError::Input(format!(
                    "`{name}` has not one number for each of `columns`"
                ))),
                numbers => Ok(numbers),
            }
        };
        let (ranges, cofactors) = (
            numbers(&ranges, "ranges")?,
            numbers(&cofactors, "cofactors")?,
        );
        let change = move |at: usize, values: &mut [f64]| {
            if let Some(ranges) = &ranges {
                values.iter_mut().for_each(|value| *value %= ranges[at]);
            }
            let cofactor = cofactors.as_ref().map(|cofactors| cofactors[at]);
            if let Some(cofactor) = cofactor.filter(|cofactor| !cofactor.is_nan()) {
                for value in values {
                    // SAFETY: a function of the C library without side effects.
                    *value = unsafe { asinh(*value / cofactor) };
                }
            }
        };
        let (first, count, each) = (first as usize - 1, count as usize, places.len());
        let cpu = arguments::cpu(threads)?;
        let work = move |monitor: &Monitor, _: &[&[f64]], values: &mut [f64]| {
            let rows = (first, count);
            let is_whole = records.read(rows, &places, values, change, &cpu, monitor)?;
            Ok((is_whole, count, each))
        };
        Ok((count * each, work))
    };
    let to_r = |(is_whole, rows, columns), values| {
        if is_whole {
            vector::with_dimensions(values, rows, columns)
        } else {
            Ok(rvalue::null())
        }
    };
    Job::start_filling(0, Vec::new(), prepare(), to_r).into_r()
}

fn records_of(path: &Robj, layout: &List) -> CoreResult<Records> {
    let fields = Fields::new("layout", layout);
    let endian: String = fields.get("endian")?;
    let format = Format {
        is_real: fields.get("is_real")?,
        is_signed: fields.get("is_signed")?,
        bytes: fields.get::<f64>("bytes")? as usize,
        is_big_endian: endian == "big",
    };
    let begin = fields.get::<f64>("begin")? as u64;
    Records::new(
        path_of(path)?,
        begin,
        fields.get::<f64>("width")? as usize,
        format,
    )
}

extendr_module! {
    mod records;
    fn job_records;
}
