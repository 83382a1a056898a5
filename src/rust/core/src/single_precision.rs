//! Directed rounding of doubles to single precision, for bounds.

use crate::next_float::NextFloat;

/// The unit roundoff of single precision.
pub const UNIT_ROUNDOFF: f64 = 1.0 / (1u64 << 24) as f64;

/// Exceeds what underflow can add to a bound: the least number that is not subnormal.
pub const UNDERFLOW: f32 = f32::MIN_POSITIVE;

/// An upper bound on the error in the norm of a vector of at most 2¹³ elements whose squares
/// underflow: each square is off by at most half of the least number, 2⁻¹⁴⁹.
pub const LOST_IN_NORM: f32 = 1.0 / (1u128 << 68) as f32;

/// Smallest magnitude of a coordinate in single precision; smaller coordinates become zero. Their
/// squares and products would be near the subnormal numbers, which are many times slower.
pub const TINY: f64 = 1.0 / (1u128 << 100) as f64;

/// A coordinate for single precision: 0 if its magnitude is below [`TINY`].
#[inline(always)]
pub fn without_tiny(coordinate: f64) -> f64 {
    if coordinate.abs() < TINY {
        0.0
    } else {
        coordinate
    }
}

/// A single that is not below the value.
pub fn up(value: f64) -> f32 {
    (value as f32).next_above()
}

/// A single that is not above a non-negative value, and not below 0.
pub fn down(value: f64) -> f32 {
    (value as f32).next_below().max(0.0)
}
