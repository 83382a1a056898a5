//! Vectors of R's that a worker reads or fills in, so that what is as large as memory exists once
//! only.

use extendr_api::prelude::*;
use extendr_api::SEXP;
use gmhclust_core::{Error as CoreError, Result as CoreResult};

// R's objects are opaque here: only their address crosses.
#[allow(improper_ctypes)]
extern "C" {
    /// See allocate.c.
    fn gmhclust_allocate_doubles(length: f64) -> SEXP;
}

/// The place of a vector's values.
pub struct Destination {
    first: *mut f64,
    length: usize,
}

// SAFETY: a place in memory, which is no thread's in particular.
unsafe impl Send for Destination {}

impl Destination {
    /// The values, of which none has a meaning yet.
    ///
    /// # Safety
    /// While the slice is in use the vector must be there, and nobody else may look into it.
    pub unsafe fn values<'a>(self) -> &'a mut [f64] {
        // SAFETY: `allocate` made a double vector of this length; the rest the caller promises.
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
pub fn allocate(length: usize) -> CoreResult<(Robj, Destination)> {
    // SAFETY: this is R's thread, and what comes is an R object.
    let mut vector = unsafe { Robj::from_sexp(gmhclust_allocate_doubles(length as f64)) };
    if vector.is_null() {
        return Err(CoreError::Memory(format!(
            "R has no memory for a result of {:.1} GB",
            8e-9 * length as f64
        )));
    }
    let first = match length {
        // R's pointer to no values points nowhere.
        0 => std::ptr::dangling_mut(),
        _ => vector.as_real_slice_mut().expect("doubles").as_mut_ptr(),
    };
    Ok((vector, Destination { first, length }))
}
