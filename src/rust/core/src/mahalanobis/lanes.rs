//! Rows of matrices as registers.

use pulp::Simd;

use crate::simd::{doubles, doubles_mut};

/// So many elements are whole registers of any processor.
pub const WIDEST: usize = 8;

/// Calls a function of `simd` whose second parameter in `::<>` is how many registers of a row to work
/// on at a time, the best for rows of `$p` elements.
macro_rules! for_rows_of {
    ($p:expr, $function:ident::<$simd:ident>($($argument:expr),*)) => {
        match $p.div_ceil($simd::F64_LANES) {
            1 => $function::<$simd, 1>($($argument),*),
            2 => $function::<$simd, 2>($($argument),*),
            3..=4 => $function::<$simd, 4>($($argument),*),
            _ => $function::<$simd, 8>($($argument),*),
        }
    };
}
pub(super) use for_rows_of;

/// How many elements a row of `p` takes: whole groups of `R` registers.
#[inline(always)]
pub fn row_width<S: Simd, const R: usize>(p: usize) -> usize {
    p.next_multiple_of((R * S::F64_LANES).max(WIDEST))
}

/// Groups of `R` registers; `values` are whole groups.
#[inline(always)]
pub fn groups<S: Simd, const R: usize>(values: &[f64]) -> &[[S::f64s; R]] {
    doubles::<S>(values).as_chunks::<R>().0
}

/// As [`groups`].
#[inline(always)]
pub fn groups_mut<S: Simd, const R: usize>(values: &mut [f64]) -> &mut [[S::f64s; R]] {
    doubles_mut::<S>(values).as_chunks_mut::<R>().0
}

/// Adds `factor` times some values to others.
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
