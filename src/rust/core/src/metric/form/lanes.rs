//! Operations on lanes that several forms share.

use pulp::Simd;

/// R's `NA_real_`: the distance of observations that share no coordinate.
pub const NA: f64 = f64::from_bits(0x7FF0_0000_0000_07A2);

/// One minus a similarity or its magnitude.
#[inline(always)]
pub fn one_minus<S: Simd>(simd: S, similarity: S::f64s, absolute: bool) -> S::f64s {
    let (one, least) = (simd.splat_f64s(1.0), simd.splat_f64s(-1.0));
    let similarity = if absolute {
        simd.abs_f64s(similarity)
    } else {
        similarity
    };
    // Rounding can exceed ±1. NaN stays NaN, since comparisons with it are false.
    let above = simd.greater_than_f64s(similarity, one);
    let similarity = simd.select_f64s(above, one, similarity);
    let below = simd.less_than_f64s(similarity, least);
    simd.sub_f64s(one, simd.select_f64s(below, least, similarity))
}

/// Adds a term to a sum and 1 to its count, in some of the lanes.
#[inline(always)]
pub fn add_where<S: Simd>(
    simd: S,
    (sum, count): (S::f64s, S::f64s),
    lanes: S::m64s,
    term: S::f64s,
) -> (S::f64s, S::f64s) {
    // Adding 0 changes no bit, since the sums are never −0.
    let zero = simd.splat_f64s(0.0);
    let one = simd.splat_f64s(1.0);
    (
        simd.add_f64s(sum, simd.select_f64s(lanes, term, zero)),
        simd.add_f64s(count, simd.select_f64s(lanes, one, zero)),
    )
}

/// A sum over `count` coordinates, scaled up to all `columns` coordinates by R's operations.
#[inline(always)]
pub fn scaled_up<S: Simd>(simd: S, sum: S::f64s, count: S::f64s, columns: f64) -> S::f64s {
    let columns = simd.splat_f64s(columns);
    let scaled = simd.div_f64s(sum, simd.div_f64s(count, columns));
    simd.select_f64s(simd.equal_f64s(count, columns), sum, scaled)
}

/// Replaces the distance by [`NA`] in lanes whose count is 0.
#[inline(always)]
pub fn na_where_zero<S: Simd>(simd: S, count: S::f64s, distance: S::f64s) -> S::f64s {
    let none = simd.equal_f64s(count, simd.splat_f64s(0.0));
    simd.select_f64s(none, simd.splat_f64s(NA), distance)
}
