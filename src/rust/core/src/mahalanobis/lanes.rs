//! Rows of matrices as registers.

use pulp::{as_arrays, as_arrays_mut, Simd};

use crate::simd::{doubles, doubles_mut};

/// Number of doubles in the widest vector register (AVX-512). A slice whose length is a multiple of
/// this number is whole registers on all processors.
pub const WIDEST: usize = 8;

/// Smallest number of elements of a row for which blocks of rows are worthwhile.
pub const MIN_BLOCKED: usize = 32;

/// Calls a function with the fastest register block for rows of `$p` elements. Its second generic
/// parameter is the number of registers of a row that it processes at a time, its third the number
/// of rows.
macro_rules! for_rows_of {
    ($p:expr, $function:ident::<$simd:ident>($($argument:expr),*)) => {
        match $p.div_ceil($simd::F64_LANES) {
            _ if $p >= $crate::mahalanobis::lanes::MIN_BLOCKED =>
                $function::<$simd, 4, 4>($($argument),*),
            1 => $function::<$simd, 1, 1>($($argument),*),
            2 => $function::<$simd, 2, 1>($($argument),*),
            3..=4 => $function::<$simd, 4, 1>($($argument),*),
            _ => $function::<$simd, 8, 1>($($argument),*),
        }
    };
}
pub(super) use for_rows_of;

/// The length of a row of `p` elements, padded to whole groups of `R` registers.
#[inline(always)]
pub fn row_width<S: Simd, const R: usize>(p: usize) -> usize {
    p.next_multiple_of((R * S::F64_LANES).max(WIDEST))
}

/// `values` as groups of `R` registers; the length must be a multiple of a group.
#[inline(always)]
pub fn groups<S: Simd, const R: usize>(values: &[f64]) -> &[[S::f64s; R]] {
    as_arrays(doubles::<S>(values)).0
}

/// As [`groups`], mutable.
#[inline(always)]
pub fn groups_mut<S: Simd, const R: usize>(values: &mut [f64]) -> &mut [[S::f64s; R]] {
    as_arrays_mut(doubles_mut::<S>(values)).0
}

/// Adds `factor` · `values` to `sums`.
#[inline(always)]
pub fn add_multiple<S: Simd, const R: usize>(
    simd: S,
    sums: &mut [S::f64s; R],
    factor: f64,
    values: &[S::f64s; R],
) {
    let factor = simd.splat_f64s(factor);
    for r in 0..R {
        sums[r] = simd.mul_add_f64s(factor, values[r], sums[r]);
    }
}

/// Adds the squares of `values` to `sums`.
#[inline(always)]
pub fn add_squares<S: Simd, const R: usize>(
    simd: S,
    sums: &mut [S::f64s; R],
    values: &[S::f64s; R],
) {
    for r in 0..R {
        sums[r] = simd.mul_add_f64s(values[r], values[r], sums[r]);
    }
}
