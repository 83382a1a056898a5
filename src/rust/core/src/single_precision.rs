//! Directed rounding of doubles to single precision, for bounds.

use crate::next_float::NextFloat;

/// The unit roundoff of single precision.
pub const UNIT: f64 = 1.0 / (1u64 << 24) as f64;

/// A single that is not below the value.
pub fn up(value: f64) -> f32 {
    (value as f32).next_above()
}

/// A single that is not above a non-negative value, and not below 0.
pub fn down(value: f64) -> f32 {
    (value as f32).next_below().max(0.0)
}
