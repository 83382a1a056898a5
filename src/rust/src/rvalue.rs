//! Makes and reads R values such that no error of R passes through Rust: see values.c. R raises an
//! error by a jump, which must not cross Rust's stack frames: it would skip their destructors, also
//! the destructors of locks, or end the process where Rust forbids the jump. extendr's own
//! functions that allocate let such errors through, or end the process, so this crate does not use
//! them.
//!
//! All functions here are for R's thread only.

use std::any::Any;
use std::ffi::{c_char, c_void, CStr};
use std::marker::PhantomData;
use std::ops::Deref;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::null_mut;

use extendr_api::prelude::*;
use extendr_api::SEXP;
use gmhclust_core::{Error as CoreError, Result as CoreResult};
use ndarray::{ArrayView2, ShapeBuilder};

/// Bytes of a string, as values.c declares it.
#[repr(C)]
struct Text {
    bytes: *const c_char,
    length: i32,
}

/// The values of a vector, as values.c declares it.
#[repr(C)]
struct View {
    first: *const c_void,
    length: f64,
    rows: f64,
    columns: f64,
}

// R objects are opaque here: only their addresses are passed.
#[allow(improper_ctypes)]
extern "C" {
    /// See values.c. Functions that return an object return a null pointer if R raised an error.
    fn gmhclust_logical(value: i32) -> SEXP;
    fn gmhclust_strings(list: *const Text, count: usize) -> SEXP;
    fn gmhclust_list(names: *const Text, values: *const SEXP, count: usize) -> SEXP;
    fn gmhclust_set_attribute(vector: SEXP, name: *const c_char, value: SEXP) -> SEXP;
    fn gmhclust_pointer(tag: *const c_char, free: extern "C" fn(SEXP)) -> SEXP;
    fn gmhclust_address(pointer: SEXP, tag: *const c_char) -> *mut c_void;
    fn gmhclust_set_address(pointer: SEXP, address: *mut c_void);
    fn gmhclust_read(vector: SEXP, kind: i32, found: *mut View) -> i32;
    fn gmhclust_altrep_data(vector: SEXP, number: i32) -> SEXP;
}

/// The object, or the error that R has too little memory for `what`.
///
/// # Safety
/// `object` is an R object or a null pointer.
pub unsafe fn made(object: SEXP, what: &str) -> CoreResult<Robj> {
    if object.is_null() {
        return Err(CoreError::Memory(format!("R has no memory for {what}")));
    }
    // SAFETY: the caller guarantees an object.
    Ok(unsafe { Robj::from_sexp(object) })
}

/// NULL.
pub fn null() -> Robj {
    ().into()
}

/// TRUE or FALSE.
pub fn logical(value: bool) -> Robj {
    // SAFETY: R always has both.
    unsafe { Robj::from_sexp(gmhclust_logical(i32::from(value))) }
}

/// A string.
///
/// # Errors
/// `Error::Memory` if R has too little memory; the same holds for all functions here that return a
/// `Result`.
pub fn string(value: &str) -> CoreResult<Robj> {
    strings(&[value])
}

/// A character vector.
pub fn strings<S: AsRef<str>>(values: &[S]) -> CoreResult<Robj> {
    let texts: Vec<Text> = values.iter().map(text).collect();
    // SAFETY: the pointer and the length of the texts.
    unsafe { made(gmhclust_strings(texts.as_ptr(), texts.len()), "strings") }
}

/// A named list.
pub fn list<const N: usize>(fields: [(&str, Robj); N]) -> CoreResult<Robj> {
    let names = fields.each_ref().map(|(name, _)| text(name));
    // SAFETY: the objects outlive the call, and are protected.
    let values = fields.each_ref().map(|(_, value)| unsafe { value.get() });
    // SAFETY: there are N names and N values.
    unsafe { made(gmhclust_list(names.as_ptr(), values.as_ptr(), N), "a list") }
}

/// Sets an attribute of a vector in place. `None` if R refuses the attribute or has too little
/// memory.
pub fn set_attribute(mut vector: Robj, name: &CStr, value: &Robj) -> Option<Robj> {
    // SAFETY: both are R objects, and protected.
    let set = unsafe { gmhclust_set_attribute(vector.get_mut(), name.as_ptr(), value.get()) };
    (!set.is_null()).then_some(vector)
}

fn text<S: AsRef<str> + ?Sized>(value: &S) -> Text {
    let value = value.as_ref();
    Text {
        bytes: value.as_ptr().cast(),
        length: value.len() as i32,
    }
}

// ---- external pointers --------------------------------------------------------------------------

/// A type whose values R can refer to.
pub trait Kind: Any {
    /// A name that distinguishes the types.
    const TAG: &'static CStr;
}

/// R's reference to a value, which is dropped when R drops the reference.
pub struct Pointer<T> {
    object: Robj,
    of: PhantomData<T>,
}

impl<T: Kind> Pointer<T> {
    /// A new R object that owns `value`.
    pub fn make(value: T) -> CoreResult<Robj> {
        // SAFETY: the tag is a string; the function frees what is set here.
        let object = unsafe { gmhclust_pointer(T::TAG.as_ptr(), free::<T>) };
        // SAFETY: it is an object or null.
        let mut object = unsafe { made(object, "a reference") }?;
        let address = Box::into_raw(Box::new(value));
        // SAFETY: the object is an external pointer without an address.
        unsafe { gmhclust_set_address(object.get_mut(), address.cast()) };
        Ok(object)
    }

    fn address(&self) -> *mut T {
        // SAFETY: any object is accepted.
        unsafe { gmhclust_address(self.object.get(), T::TAG.as_ptr()) }.cast()
    }
}

impl<T: Kind> Deref for Pointer<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: `try_from` has found an address of this kind. R frees it after `object` is
        // dropped.
        unsafe { &*self.address() }
    }
}

impl<T: Kind> std::ops::DerefMut for Pointer<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and R calls one function at a time.
        unsafe { &mut *self.address() }
    }
}

impl<T: Kind> TryFrom<&Robj> for Pointer<T> {
    type Error = extendr_api::Error;

    fn try_from(object: &Robj) -> std::result::Result<Self, Self::Error> {
        let pointer = Self {
            object: object.clone(),
            of: PhantomData,
        };
        if pointer.address().is_null() {
            let message = "this refers to nothing; it may come from another R session";
            return Err(extendr_api::Error::Other(message.into()));
        }
        Ok(pointer)
    }
}

/// Drops the value of an external pointer.
extern "C" fn free<T: Kind>(pointer: SEXP) {
    // SAFETY: R calls this with an object that `Pointer::make` made.
    let address: *mut T = unsafe { gmhclust_address(pointer, T::TAG.as_ptr()) }.cast();
    if address.is_null() {
        return;
    }
    // SAFETY: as above.
    unsafe { gmhclust_set_address(pointer, null_mut()) };
    // SAFETY: `Pointer::make` made it of a box, and it is dropped once.
    let value = unsafe { Box::from_raw(address) };
    // A panic must not reach R.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(value)));
}

// ---- vectors of arguments -----------------------------------------------------------------------

/// A type of the values of an R vector.
pub trait Number: Copy + 'static {
    /// R's number of the type of the vector.
    const TYPE: i32;
    const NAME: &'static str;
}

impl Number for i32 {
    const TYPE: i32 = 13;
    const NAME: &'static str = "integer";
}

impl Number for f64 {
    const TYPE: i32 = 14;
    const NAME: &'static str = "double";
}

impl Number for u8 {
    const TYPE: i32 = 24;
    const NAME: &'static str = "raw";
}

/// The rows and columns of a matrix of doubles.
///
/// # Errors
/// As [`Values::of`] and [`Values::dim`].
pub fn size(matrix: &Robj, arg: &str) -> CoreResult<(usize, usize)> {
    Values::<f64>::of(matrix, arg)?.dim(arg)
}

/// The rows of a matrix of doubles, 0 of any other object: for the size of the memory reserve.
pub fn rows(matrix: &Robj) -> usize {
    size(matrix, "").map_or(0, |(rows, _)| rows)
}

/// The objects that have the values of a vector: itself and, if it shares them with other vectors,
/// where R keeps them. R may replace the latter while R code runs, and then frees what was there
/// unless it is protected.
pub fn owners(vector: &Robj) -> [Robj; 3] {
    // SAFETY: an R object; R has both others as long as it has this one.
    let data = |number| unsafe { Robj::from_sexp(gmhclust_altrep_data(vector.get(), number)) };
    [vector.clone(), data(1), data(2)]
}

/// The values of an R vector. The vector lives as long as this value.
pub struct Values<T> {
    first: *const T,
    length: usize,
    /// Rows and columns of a matrix.
    dim: Option<(usize, usize)>,
    _object: Robj,
}

impl<T: Number> Values<T> {
    /// The values of a vector; `arg` names it in errors.
    ///
    /// # Errors
    /// `Error::Input` if the object is of another type; `Error::Memory` if R cannot give its
    /// values.
    pub fn of(object: &Robj, arg: &str) -> CoreResult<Self> {
        let mut found = View {
            first: std::ptr::null(),
            length: 0.0,
            rows: -1.0,
            columns: -1.0,
        };
        // SAFETY: an R object, and room for the result.
        let state = unsafe { gmhclust_read(object.get(), T::TYPE, &mut found) };
        if state == 1 {
            let name = T::NAME;
            return Err(CoreError::Input(format!("`{arg}` is no {name} vector")));
        }
        if state != 0 {
            return Err(CoreError::Memory(format!(
                "R cannot give the values of `{arg}`: it has too little memory, or the class of \
                 the object keeps them"
            )));
        }
        let length = found.length as usize;
        Ok(Self {
            // R's pointer to the values of an empty vector is not a valid address.
            first: if length == 0 {
                std::ptr::NonNull::dangling().as_ptr()
            } else {
                found.first.cast()
            },
            length,
            dim: (found.rows >= 0.0).then_some((found.rows as usize, found.columns as usize)),
            _object: object.clone(),
        })
    }

    /// As [`Values::of`], and `None` for NULL.
    ///
    /// # Errors
    /// As [`Values::of`].
    pub fn of_optional(object: &Robj, arg: &str) -> CoreResult<Option<Self>> {
        if object.is_null() {
            return Ok(None);
        }
        Self::of(object, arg).map(Some)
    }

    /// The rows and columns of a matrix.
    ///
    /// # Errors
    /// `Error::Input` if the vector is no matrix.
    pub fn dim(&self, arg: &str) -> CoreResult<(usize, usize)> {
        match self.dim {
            Some((rows, columns)) if rows * columns == self.length => Ok((rows, columns)),
            _ => Err(CoreError::Input(format!("`{arg}` is no matrix"))),
        }
    }

    /// The values of a matrix.
    ///
    /// # Errors
    /// As [`Values::dim`].
    pub fn matrix(&self, arg: &str) -> CoreResult<ArrayView2<'_, T>> {
        let shape = self.dim(arg)?.f();
        Ok(ArrayView2::from_shape(shape, self).expect("has as many values"))
    }

    /// Pointer to the first value, which is valid while R keeps the vector.
    pub fn first(&self) -> *const T {
        self.first
    }
}

impl<T: Number> Deref for Values<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: R gave the pointer for a vector of this type and length, which `_object`
        // protects. R does not change a vector while a function of the library runs.
        unsafe { std::slice::from_raw_parts(self.first, self.length) }
    }
}
