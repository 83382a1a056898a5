//! exp and ln with the same bits on every system; the results of the system's library depend on its
//! version and on the processor. Both are accurate to two units in the last place.

/// The first part of ln 2, which is the sum of two parts. It has trailing zeros, so that its
/// product with an exponent is exact.
const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
/// The second part of ln 2.
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// Number of bits of the fraction of a double.
const FRACTION: u32 = 52;
/// The biased exponent of 1.
const ONE: u64 = 1023;

/// Smallest argument of the exponential; below it, the exponential would be less than the least
/// normal number, and counts as 0.
const LEAST_EXPONENT: f64 = -708.0;

/// The coefficients of the Taylor series of exp, from the 13th power down. For |r| ≤ ln(2)/2, the
/// remainder is below 2⁻⁵⁷.
const SERIES: [f64; 14] = [
    1.0 / 6_227_020_800.0,
    1.0 / 479_001_600.0,
    1.0 / 39_916_800.0,
    1.0 / 3_628_800.0,
    1.0 / 362_880.0,
    1.0 / 40_320.0,
    1.0 / 5_040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    1.0 / 2.0,
    1.0,
    1.0,
];

/// eˣ for x ≤ 0; NaN for NaN. Without branches, so that loops over it use wide instructions.
#[inline(always)]
pub fn exp(x: f64) -> f64 {
    /// Adding this number rounds to a whole number, which is then in the lowest bits.
    const ROUNDING: f64 = (3u64 << 51) as f64;

    let bounded = if x < LEAST_EXPONENT {
        LEAST_EXPONENT
    } else {
        x
    };
    let rounded = bounded.mul_add(std::f64::consts::LOG2_E, ROUNDING);
    let power = rounded - ROUNDING;
    let rest = (-power).mul_add(LN_2_LOW, (-power).mul_add(LN_2_HIGH, bounded));
    let mut sum = SERIES[0];
    for coefficient in &SERIES[1..] {
        sum = sum.mul_add(rest, *coefficient);
    }
    let scale = f64::from_bits(rounded.to_bits().wrapping_add(ONE) << FRACTION);
    if x < LEAST_EXPONENT {
        0.0
    } else {
        sum * scale
    }
}

/// The logarithm of a positive normal number.
#[inline(always)]
pub fn ln(x: f64) -> f64 {
    /// Number of terms of the series of atanh: s is at most 0.172, so the remainder is below 2⁻⁵⁵.
    const TERMS: u32 = 11;

    let bits = x.to_bits();
    let mut exponent = (bits >> FRACTION) as f64 - ONE as f64;
    let mut fraction = f64::from_bits((bits & ((1 << FRACTION) - 1)) | (ONE << FRACTION));
    if fraction > std::f64::consts::SQRT_2 {
        fraction /= 2.0;
        exponent += 1.0;
    }
    // ln f = 2 atanh s
    let s = (fraction - 1.0) / (fraction + 1.0);
    let square = s * s;
    let mut sum = 0.0;
    for term in (1..TERMS).rev() {
        sum = f64::mul_add(sum, square, 1.0 / f64::from(2 * term + 1));
    }
    let rest = exponent.mul_add(LN_2_LOW, 2.0 * s * square * sum);
    exponent.mul_add(LN_2_HIGH, 2.0 * s + rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    fn is_close(found: f64, expected: f64) -> bool {
        (found - expected).abs() <= 2.0 * f64::EPSILON * expected.abs()
    }

    #[test]
    fn both_agree_with_the_system_within_two_units_in_the_last_place() {
        let mut random = Random(1);
        for _ in 0..100_000 {
            let x = -700.0 * random.uniform() * random.uniform() * random.uniform();
            assert!(is_close(exp(x), x.exp()), "exp {x}");
            let y = (1400.0 * random.uniform() - 700.0).exp();
            assert!(is_close(ln(y), y.ln()), "ln {y}");
            let near = 1.0 + 0.5 * (random.uniform() - 0.5);
            assert!(is_close(ln(near), near.ln()), "ln {near}");
        }
    }

    #[test]
    fn the_ends_of_the_range_are_exact() {
        assert_eq!(
            [exp(0.0), exp(-0.0), exp(f64::NEG_INFINITY)],
            [1.0, 1.0, 0.0]
        );
        assert_eq!([exp(-708.5), exp(-1e300)], [0.0, 0.0]);
        assert!(exp(-708.0) > 0.0 && exp(f64::NAN).is_nan());
        assert_eq!(ln(1.0), 0.0);
        assert!(is_close(ln(f64::MAX), f64::MAX.ln()));
        assert!(is_close(ln(f64::MIN_POSITIVE), f64::MIN_POSITIVE.ln()));
    }
}
