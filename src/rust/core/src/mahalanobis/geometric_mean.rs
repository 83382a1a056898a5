//! A geometric mean with the same bits on every device.

/// The geometric mean of positive numbers, within a few units in the last place. It uses additions,
/// multiplications and divisions only, so that it has the same bits on every device.
#[inline(always)]
pub fn geometric_mean(values: &[f64]) -> f64 {
    let mut mantissa = 1.0;
    let mut exponent = 0i64;
    for &value in values {
        let (m, e) = split(value);
        let (m, carry) = split(mantissa * m);
        mantissa = m;
        exponent += e + carry;
    }
    let count = values.len() as i64;
    let whole = exponent.div_euclid(count);
    let part = (exponent.rem_euclid(count) as f64 + log2_of_mantissa(mantissa)) / count as f64;
    scale_by_power_of_two(exp2_of_fraction(part), whole)
}

/// `value` = mantissa · 2^exponent with the mantissa in [1, 2).
#[inline(always)]
fn split(value: f64) -> (f64, i64) {
    const MANTISSA: u64 = (1 << 52) - 1;
    const TWO_TO_54: f64 = 18_014_398_509_481_984.0;
    let (value, shift) = if value < f64::MIN_POSITIVE {
        (value * TWO_TO_54, 54)
    } else {
        (value, 0)
    };
    let bits = value.to_bits();
    let exponent = (bits >> 52) as i64 - 1023 - shift;
    (f64::from_bits((bits & MANTISSA) | (1023 << 52)), exponent)
}

/// `value`·2^`exponent`, in two steps so that neither factor leaves the range of doubles.
#[inline(always)]
fn scale_by_power_of_two(value: f64, exponent: i64) -> f64 {
    let power = |e: i64| f64::from_bits(((e + 1023) as u64) << 52);
    let half = exponent / 2;
    value * power(half) * power(exponent - half)
}

/// log₂ of a number in [1, 2): 2/ln 2 · artanh((x−1)/(x+1)) by its series.
#[inline(always)]
fn log2_of_mantissa(x: f64) -> f64 {
    // The series converges fastest around 1: halve mantissas above √2.
    let (x, offset) = if x > std::f64::consts::SQRT_2 {
        (x * 0.5, 1.0)
    } else {
        (x, 0.0)
    };
    let z = (x - 1.0) / (x + 1.0);
    let square = z * z;
    let mut sum = 1.0 / 23.0;
    for odd in [21.0, 19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        sum = square.mul_add(sum, 1.0 / odd);
    }
    (2.0 * std::f64::consts::LOG2_E * z).mul_add(sum, offset)
}

/// The coefficients 1/k! of the exponential series.
const COEFFICIENTS: [f64; 17] = {
    let mut coefficients = [1.0; 17];
    let (mut k, mut factorial) = (1, 1.0);
    while k < 17 {
        factorial *= k as f64;
        coefficients[k] = 1.0 / factorial;
        k += 1;
    }
    coefficients
};

/// 2^x for x in [0, 1], by the exponential series around the middle.
#[inline(always)]
fn exp2_of_fraction(x: f64) -> f64 {
    let y = (x - 0.5) * std::f64::consts::LN_2;
    let [rest @ .., last] = COEFFICIENTS;
    let sum = rest.iter().rev().fold(last, |sum, c| sum.mul_add(y, *c));
    std::f64::consts::SQRT_2 * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn geometric_mean_agrees_with_logarithms() {
        for values in [
            vec![2.0],
            vec![1e-300, 1e300, 7.0],
            vec![4.0; 14],
            vec![1e-310, 3.0],
            (1..600).map(|i| i as f64 * 1e-8).collect(),
        ] {
            let logarithms: f64 = values.iter().map(|v: &f64| v.ln()).sum();
            let expected = (logarithms / values.len() as f64).exp();
            let got = geometric_mean(&values);
            assert!(
                (got / expected - 1.0).abs() < 1e-13,
                "{got} is not {expected}"
            );
        }
        assert!((geometric_mean(&[8.0, 2.0]) - 4.0).abs() < 1e-15);
    }
}
