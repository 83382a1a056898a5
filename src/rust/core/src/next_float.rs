//! The floating-point numbers beside a number. (`f64::next_up` needs Rust 1.86.)

/// The adjacent numbers of the same type. NaN stays NaN.
pub trait NextFloat {
    /// The least number above; infinity stays.
    fn next_above(self) -> Self;
    /// The greatest number below; minus infinity stays.
    fn next_below(self) -> Self;
}

macro_rules! impl_next_float {
    ($float:ty) => {
        impl NextFloat for $float {
            #[inline]
            fn next_above(self) -> Self {
                if self.is_nan() || self == Self::INFINITY {
                    return self;
                }
                let bits = self.to_bits();
                // The bits of positive numbers are in the order of the numbers, the bits of
                // negative numbers in the reverse order.
                Self::from_bits(if self == 0.0 {
                    1
                } else if self > 0.0 {
                    bits + 1
                } else {
                    bits - 1
                })
            }

            #[inline]
            fn next_below(self) -> Self {
                -(-self).next_above()
            }
        }
    };
}

impl_next_float!(f32);
impl_next_float!(f64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_lies_between() {
        for value in [
            1.0,
            3.7e-20,
            -2.5,
            f64::MIN_POSITIVE,
            -1e300,
            4.9e-324,
            f64::MAX / 4.0,
        ] {
            let (above, below) = (value.next_above(), value.next_below());
            assert!(below < value && value < above);
            for middle in [value / 2.0 + above / 2.0, (value + above) / 2.0] {
                assert!(
                    middle == value || middle == above,
                    "{middle:e} is not beside {value:e}"
                );
            }
            assert_eq!(above.next_below(), value);
            assert_eq!(below.next_above(), value);
            let single = value as f32;
            if single.is_normal() {
                assert_eq!(single.next_above().next_below(), single);
                let step = f64::from(single.next_above()) - f64::from(single);
                assert_eq!((f64::from(single) + 0.4 * step) as f32, single);
                assert_eq!((f64::from(single) + 0.6 * step) as f32, single.next_above());
            }
        }
    }

    #[test]
    fn ends_and_zeros() {
        assert_eq!(f64::MAX.next_above(), f64::INFINITY);
        assert_eq!(f64::INFINITY.next_above(), f64::INFINITY);
        assert_eq!(f64::INFINITY.next_below(), f64::MAX);
        assert_eq!(f64::NEG_INFINITY.next_above(), f64::MIN);
        assert_eq!(f32::NEG_INFINITY.next_below(), f32::NEG_INFINITY);
        assert!(f32::NAN.next_above().is_nan() && f32::NAN.next_below().is_nan());
        for zero in [0.0, -0.0] {
            assert_eq!(f64::to_bits(zero.next_above()), 1);
            assert_eq!(f64::to_bits(zero.next_below()), 1 << 63 | 1);
        }
        assert_eq!(f64::from_bits(1 << 63 | 1).next_above().to_bits(), 1 << 63);
    }
}
