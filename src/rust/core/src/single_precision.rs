//! Rounding of doubles to single precision, on the safe side.

/// The unit roundoff of single precision.
pub const UNIT: f64 = 1.0 / (1u64 << 24) as f64;

/// A single above the value.
pub fn up(value: f64) -> f32 {
    (value as f32).next_up()
}

/// A single below a magnitude, but not below 0.
pub fn down(value: f64) -> f32 {
    (value as f32).next_down().max(0.0)
}
