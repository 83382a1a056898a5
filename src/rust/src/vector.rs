//! Vectors of R's that a worker reads or fills in, so that what is as large as memory exists once
//! only.

use extendr_api::prelude::*;
use extendr_api::SEXP;
use gmhclust_core::{memory, Error as CoreError, Result as CoreResult};

// R's objects are opaque here: only their address crosses.
#[allow(improper_ctypes)]
extern "C" {
    /// See allocate.c.
    fn gmhclust_allocate_doubles(length: f64) -> SEXP;
    fn gmhclust_allocate_integers(length: f64) -> SEXP;
}

/// The place of a vector's values.
pub struct Destination<T> {
    first: *mut T,
    length: usize,
}

// SAFETY: a place in memory, which is no thread's in particular.
unsafe impl<T: Send> Send for Destination<T> {}

impl<T> Destination<T> {
    /// The values, of which none has a meaning yet.
    ///
    /// # Safety
    /// While the slice is in use the vector must be there, and nobody else may look into it.
    pub unsafe fn values<'a>(self) -> &'a mut [T] {
        // SAFETY: it was allocated with this length; the rest the caller promises.
        unsafe { std::slice::from_raw_parts_mut(self.first, self.length) }
    }
}

/// The place of the values of a vector that is only read.
pub struct Source {
    first: *const f64,
    length: usize,
}

// SAFETY: as above; many threads may read.
unsafe impl Send for Source {}

impl Source {
    /// Of a double vector of R's.
    ///
    /// # Errors
    /// `Error::Input` for another object.
    pub fn new(vector: &Robj) -> CoreResult<Self> {
        let values = vector
            .as_real_slice()
            .ok_or_else(|| CoreError::Input("`x` is no double vector".into()))?;
        Ok(Self {
            first: values.as_ptr(),
            length: values.len(),
        })
    }

    /// The values.
    ///
    /// # Safety
    /// While the slice is in use the vector must be there, and nobody may change it.
    pub unsafe fn values<'a>(&self) -> &'a [f64] {
        // SAFETY: `new` was given a double vector of this length; the rest the caller promises.
        unsafe { std::slice::from_raw_parts(self.first, self.length) }
    }
}

/// A double vector of R's without particular values, and where these are. For R's thread only.
///
/// # Errors
/// `Error::Memory` where R has no memory for it.
pub fn allocate(length: usize) -> CoreResult<(Robj, Destination<f64>)> {
    // SAFETY: this is R's thread, and what comes is an R object.
    let mut vector = unsafe { Robj::from_sexp(gmhclust_allocate_doubles(length as f64)) };
    let first = vector.as_real_slice_mut().map(<[f64]>::as_mut_ptr);
    destination(vector, first, length)
}

/// As [`allocate`], an integer vector.
///
/// # Errors
/// As there.
pub fn allocate_integers(length: usize) -> CoreResult<(Robj, Destination<i32>)> {
    // SAFETY: this is R's thread, and what comes is an R object.
    let mut vector = unsafe { Robj::from_sexp(gmhclust_allocate_integers(length as f64)) };
    let first = vector.as_integer_slice_mut().map(<[i32]>::as_mut_ptr);
    destination(vector, first, length)
}

/// A double vector of R's with these values. For R's thread only.
///
/// # Errors
/// As [`allocate`].
pub fn doubles(values: impl ExactSizeIterator<Item = f64>) -> CoreResult<Robj> {
    let (mut vector, _) = allocate(values.len())?;
    let places = vector.as_real_slice_mut().into_iter().flatten();
    places.zip(values).for_each(|(to, value)| *to = value);
    Ok(vector)
}

/// As [`doubles`], an integer vector.
///
/// # Errors
/// As there.
pub fn integers(values: impl ExactSizeIterator<Item = i32>) -> CoreResult<Robj> {
    let (mut vector, _) = allocate_integers(values.len())?;
    let places = vector.as_integer_slice_mut().into_iter().flatten();
    places.zip(values).for_each(|(to, value)| *to = value);
    Ok(vector)
}

/// Makes a vector a matrix.
pub fn with_dimensions(mut vector: Robj, rows: usize, columns: usize) -> Robj {
    let dimensions = [rows as i32, columns as i32];
    vector.set_attrib("dim", dimensions).expect("lengths agree");
    vector
}

/// A vector that was allocated, unless it is none, and where its values are.
fn destination<T>(
    vector: Robj,
    first: Option<*mut T>,
    length: usize,
) -> CoreResult<(Robj, Destination<T>)> {
    let Some(first) = first else {
        return Err(CoreError::Memory(format!(
            "R has no memory for a result of {}",
            memory::in_words((size_of::<T>() * length) as f64)
        )));
    };
    // R's pointer to no values points nowhere.
    let first = if length == 0 {
        std::ptr::dangling_mut()
    } else {
        first
    };
    Ok((vector, Destination { first, length }))
}
