//! R vectors that a worker thread reads or fills in directly, without a copy, since a copy may not
//! fit in memory.

use extendr_api::prelude::*;
use extendr_api::SEXP;
use gmhclust_core::matrix::stacked_on_threads;
use gmhclust_core::metric::{Metric, Points};
use gmhclust_core::tasks::fill;
use gmhclust_core::{memory, Cpu, Error as CoreError, Monitor, Observations, Result as CoreResult};
use ndarray::{Array2, ArrayView2, ShapeBuilder};

use crate::memory::ask;
use crate::rvalue::{self, Values};

// R objects are opaque here: only their addresses are passed.
#[allow(improper_ctypes)]
extern "C" {
    /// See values.c. The functions return null pointers if R has too little memory.
    fn gmhclust_allocate_doubles(length: f64) -> SEXP;
    fn gmhclust_allocate_integers(length: f64) -> SEXP;
    fn gmhclust_split_indices(index: *const u32, ends: *const usize, vectors: f64) -> SEXP;
    fn gmhclust_split_doubles(values: *const f64, ends: *const usize, vectors: f64) -> SEXP;
}

/// Pointer to the values of a vector that is filled in.
pub struct Destination<T> {
    first: *mut T,
    length: usize,
}

// SAFETY: a pointer to memory that belongs to no particular thread.
unsafe impl<T: Send> Send for Destination<T> {}

impl<T> Destination<T> {
    /// The values, which are arbitrary before they are filled in.
    ///
    /// # Safety
    /// While the slice is in use, the vector must exist, and no other code may access its values.
    pub unsafe fn values<'a>(self) -> &'a mut [T] {
        // SAFETY: the vector was allocated with this length; the caller guarantees the rest.
        unsafe { std::slice::from_raw_parts_mut(self.first, self.length) }
    }
}

/// Pointer to the values of a vector that is only read.
pub struct Source {
    first: *const f64,
    length: usize,
}

// SAFETY: as above; several threads may read the values.
unsafe impl Send for Source {}

impl Source {
    /// Pointer to the values of an R vector of doubles.
    ///
    /// # Errors
    /// As [`Values::of`].
    pub fn new(vector: &Robj) -> CoreResult<Self> {
        let values = Values::<f64>::of(vector, "x")?;
        Ok(Self {
            first: values.first(),
            length: values.len(),
        })
    }

    /// The values.
    ///
    /// # Safety
    /// While the slice is in use, the vector must exist, and no code may change its values.
    pub unsafe fn values<'a>(&self) -> &'a [f64] {
        // SAFETY: `new` got a double vector of this length; the caller guarantees the rest.
        unsafe { std::slice::from_raw_parts(self.first, self.length) }
    }
}

/// A new R vector of doubles with arbitrary values, and a pointer to them. For R's thread only.
///
/// # Errors
/// `Error::Memory` if R has too little memory, or the limits of the system leave too little.
pub fn allocate(length: usize) -> CoreResult<(Robj, Destination<f64>)> {
    ask("a result needs", (size_of::<f64>() * length) as f64)?;
    // SAFETY: this is R's thread.
    let vector = unsafe { gmhclust_allocate_doubles(length as f64) };
    let mut vector = checked::<f64>(vector, length)?;
    let first = vector.as_real_slice_mut().map(<[f64]>::as_mut_ptr);
    Ok(destination(vector, first, length))
}

/// As [`allocate`], for integers.
///
/// # Errors
/// As [`allocate`].
pub fn allocate_integers(length: usize) -> CoreResult<(Robj, Destination<i32>)> {
    ask("a result needs", (size_of::<i32>() * length) as f64)?;
    // SAFETY: this is R's thread.
    let vector = unsafe { gmhclust_allocate_integers(length as f64) };
    let mut vector = checked::<i32>(vector, length)?;
    let first = vector.as_integer_slice_mut().map(<[i32]>::as_mut_ptr);
    Ok(destination(vector, first, length))
}

/// A new R vector of doubles with these values. For R's thread only.
///
/// # Errors
/// As [`allocate`].
pub fn doubles(values: impl ExactSizeIterator<Item = f64>) -> CoreResult<Robj> {
    let (mut vector, _) = allocate(values.len())?;
    let places = vector.as_real_slice_mut().into_iter().flatten();
    places.zip(values).for_each(|(to, value)| *to = value);
    Ok(vector)
}

/// As [`doubles`], for integers.
///
/// # Errors
/// As [`allocate`].
pub fn integers(values: impl ExactSizeIterator<Item = i32>) -> CoreResult<Robj> {
    let (mut vector, _) = allocate_integers(values.len())?;
    let places = vector.as_integer_slice_mut().into_iter().flatten();
    places.zip(values).for_each(|(to, value)| *to = value);
    Ok(vector)
}

/// As [`integers`], of `length` values: `value` has the value at an index. The CPU's threads fill
/// in the vector.
///
/// # Errors
/// As [`allocate`].
pub fn integers_on_threads(
    length: usize,
    value: impl Fn(usize) -> i32 + Sync,
    cpu: &Cpu,
) -> CoreResult<Robj> {
    let (vector, destination) = allocate_integers(length)?;
    fill_in(destination, value, cpu);
    Ok(vector)
}

/// As [`integers_on_threads`], for doubles.
///
/// # Errors
/// As [`allocate`].
pub fn doubles_on_threads(
    length: usize,
    value: impl Fn(usize) -> f64 + Sync,
    cpu: &Cpu,
) -> CoreResult<Robj> {
    let (vector, destination) = allocate(length)?;
    fill_in(destination, value, cpu);
    Ok(vector)
}

fn fill_in<T: Send>(to: Destination<T>, value: impl Fn(usize) -> T + Sync, cpu: &Cpu) {
    // SAFETY: the vector is new, and this function has the only pointer to its values.
    let values = unsafe { to.values() };
    cpu.install(|| fill(values, &value));
}

/// A number.
///
/// # Errors
/// As [`allocate`].
pub fn double(value: f64) -> CoreResult<Robj> {
    doubles([value].into_iter())
}

/// An integer.
///
/// # Errors
/// As [`allocate`].
pub fn integer(value: i32) -> CoreResult<Robj> {
    integers([value].into_iter())
}

/// A new R list of integer vectors, the indices up to each of `ends`, counted from 1. For R's
/// thread only.
///
/// # Errors
/// As [`allocate`].
pub fn split_indices(index: &[u32], ends: &[usize]) -> CoreResult<Robj> {
    split(index, ends, gmhclust_split_indices)
}

/// As [`split_indices`], for doubles.
///
/// # Errors
/// As [`allocate`].
pub fn split_doubles(values: &[f64], ends: &[usize]) -> CoreResult<Robj> {
    split(values, ends, gmhclust_split_doubles)
}

fn split<T>(
    values: &[T],
    ends: &[usize],
    make: unsafe extern "C" fn(*const T, *const usize, f64) -> SEXP,
) -> CoreResult<Robj> {
    assert!(ends.is_sorted() && ends.last().is_none_or(|&end| end == values.len()));
    let bytes = (size_of_val(values) + VECTOR_BYTES * ends.len()) as f64;
    ask("a result needs", bytes)?;
    let what = format!("a result of {}", memory::in_words(bytes));
    // SAFETY: this is R's thread, and the ends are places in the values, in increasing order.
    unsafe {
        let list = make(values.as_ptr(), ends.as_ptr(), ends.len() as f64);
        rvalue::made(list, &what)
    }
}

/// Bytes of an R vector without its values, plus the pointer to it in a list.
pub const VECTOR_BYTES: usize = 56;

/// The values of an R matrix with this many columns, at least 1.
///
/// # Panics
/// If some of the columns have no values.
pub fn matrix(values: &[f64], columns: usize) -> ArrayView2<'_, f64> {
    matrix_of(values, (values.len() / columns.max(1), columns))
}

/// The values of an R matrix with this many rows and columns.
fn matrix_of(values: &[f64], size: (usize, usize)) -> ArrayView2<'_, f64> {
    ArrayView2::from_shape(size.f(), values).expect("R's matrices are complete")
}

/// The rows of an R matrix with this many columns, copied on the CPU's threads.
///
/// # Errors
/// As [`Observations::copied_on_threads`].
pub fn observations(values: &[f64], columns: usize, cpu: &Cpu) -> CoreResult<Observations> {
    cpu.install(|| Observations::copied_on_threads(matrix(values, columns)))
}

/// The rows of R matrices of these sizes, one matrix below the other, copied on the threads of the
/// calling pool.
///
/// # Errors
/// As [`stacked_on_threads`].
///
/// # Panics
/// If a matrix has more or fewer values than its size says.
pub fn stacked(matrices: &[&[f64]], sizes: &[(usize, usize)]) -> CoreResult<Array2<f64>> {
    let parts = matrices.iter().copied().zip(sizes);
    let parts = parts.map(|(values, &size)| matrix_of(values, size));
    let columns = sizes.first().map_or(0, |&(_, columns)| columns);
    stacked_on_threads(&parts.collect::<Vec<_>>(), columns)
}

/// As [`stacked`], prepared for a metric, on the CPU's threads.
///
/// # Errors
/// As [`Points::prepare`].
pub fn points(
    metric: Metric,
    matrices: &[&[f64]],
    sizes: &[(usize, usize)],
    cpu: &Cpu,
    monitor: &Monitor,
) -> CoreResult<Points> {
    cpu.install(|| Points::prepare(metric, stacked(matrices, sizes)?, monitor))
}

/// The sizes of a matrix and, if there is one, of another; their names are for errors.
///
/// # Errors
/// As [`rvalue::size`].
pub fn sizes(matrices: &[Robj], names: [&str; 2]) -> CoreResult<Vec<(usize, usize)>> {
    let matrices = matrices.iter().zip(names);
    matrices
        .map(|(matrix, name)| rvalue::size(matrix, name))
        .collect()
}

/// A matrix, and another unless it is NULL.
pub fn with_optional(matrix: Robj, other: Robj) -> Vec<Robj> {
    let other = (!other.is_null()).then_some(other);
    [Some(matrix), other].into_iter().flatten().collect()
}

/// Turns a vector into a matrix by setting its dimensions; the length must fit.
///
/// # Errors
/// `Error::Memory` if R has too little memory.
pub fn with_dimensions(vector: Robj, rows: usize, columns: usize) -> CoreResult<Robj> {
    let dimensions = integers([rows as i32, columns as i32].into_iter())?;
    let matrix = rvalue::set_attribute(vector, c"dim", &dimensions);
    matrix.ok_or_else(|| CoreError::Memory("R has no memory for dimensions".into()))
}

/// A vector of this length that R has allocated.
///
/// # Errors
/// `Error::Memory` if R could not allocate it.
fn checked<T>(vector: SEXP, length: usize) -> CoreResult<Robj> {
    let bytes = memory::in_words((size_of::<T>() * length) as f64);
    // SAFETY: an R object or a null pointer.
    unsafe { rvalue::made(vector, &format!("a result of {bytes}")) }
}

/// A vector and a pointer to its values.
fn destination<T>(vector: Robj, first: Option<*mut T>, length: usize) -> (Robj, Destination<T>) {
    // R's pointer to the values of an empty vector is not a valid address.
    let first = match first {
        Some(first) if length > 0 => first,
        _ => std::ptr::NonNull::dangling().as_ptr(),
    };
    (vector, Destination { first, length })
}
