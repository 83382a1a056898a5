//! Coordinates in half precision (IEEE 754 binary16).
//!
//! This is own code instead of the `half` crate: these two functions are tested on every finite
//! half, while the crate would add itself and `zerocopy` to the vendored sources.

/// Factor of coordinates in half precision. Coordinates are below 2 and become at most 2¹⁵, so that
/// none overflows and no relevant one is subnormal. kernels/kmeans/launch.cuh has the same factor,
/// and kernels/products/launch.cuh its square.
const HALF_SCALE: f32 = (1 << 14) as f32;

/// A coordinate below 2 in magnitude, rounded to half precision.
pub fn rounded_to_half(coordinate: f32) -> f32 {
    from_half(half_bits(coordinate)) / HALF_SCALE
}

/// The bits of the half that is nearest to a coordinate times `HALF_SCALE`, 2¹⁴.
pub fn half_bits(coordinate: f32) -> u16 {
    to_half(coordinate * HALF_SCALE)
}

/// The coordinate that has these [`half_bits`].
#[cfg(any(test, feature = "testing"))]
pub fn coordinate_of_half(bits: u16) -> f32 {
    from_half(bits) / HALF_SCALE
}

/// The bits of the half that is nearest to a value of magnitude at most 2¹⁵, ties to even.
fn to_half(value: f32) -> u16 {
    /// The least normal half. Below it, halves are multiples of 2⁻²⁴, the spacing of singles from
    /// 1/2 to 1.
    const LEAST: f32 = 1.0 / (1 << 14) as f32;
    /// Difference between the exponent biases of single and half precision.
    const BIAS: u32 = 127 - 15;
    /// Number of bits by which the fraction of a single is longer.
    const MORE: u32 = 23 - 10;

    let magnitude = value.abs();
    let bits = magnitude.to_bits();
    let half = if magnitude < LEAST {
        (magnitude + 0.5).to_bits() - 0.5f32.to_bits()
    } else {
        let to_even = bits >> MORE & 1;
        (bits + (1 << (MORE - 1)) - 1 + to_even - (BIAS << 23)) >> MORE
    };
    half as u16 | (value.to_bits() >> 16) as u16 & 0x8000
}

/// The value of a finite half.
fn from_half(half: u16) -> f32 {
    let (exponent, fraction) = (u32::from(half) >> 10 & 31, u32::from(half) & 0x3ff);
    let magnitude = match exponent {
        0 => fraction as f32 / (1 << 24) as f32,
        _ => f32::from_bits((exponent + 127 - 15) << 23 | fraction << 13),
    };
    if half >> 15 == 1 {
        -magnitude
    } else {
        magnitude
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::next_float::NextFloat;

    #[test]
    fn halves_are_the_nearest_ones() {
        // Every finite half rounds to itself, and a value between two halves to the nearer one, or
        // to the even one if both are equally near.
        for bits in 0..0x77ffu16 {
            let (value, next) = (from_half(bits), from_half(bits + 1));
            assert_eq!(to_half(value), bits);
            assert_eq!(to_half(-value), bits | 0x8000);
            let middle = 0.5 * (value + next);
            assert_eq!(to_half(middle), bits + (bits & 1));
            assert_eq!(to_half(middle.next_below()), bits);
            assert_eq!(to_half(middle.next_above()), bits + 1);
        }
        assert_eq!(from_half(to_half(1.0)), 1.0);
        assert_eq!(from_half(1), 2f32.powi(-24));
        assert_eq!(from_half(0x0400), 2f32.powi(-14));
        assert_eq!(from_half(0x7800), 32_768.0);
    }
}
