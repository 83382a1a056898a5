//! One minus the cosine of the angle between two rows.

use pulp::Simd;

use super::definition::Form;
use super::lanes::{na_where_zero, one_minus};
use super::products::{cosine, ProductSums};

/// One minus the cosine of the angle between rows of unit length.
#[derive(Debug, Clone, Copy)]
pub struct Angle {
    pub absolute: bool,
}

impl Form for Angle {
    /// The dot product.
    type State<S: Simd> = S::f64s;

    #[inline(always)]
    fn start<S: Simd>(self, simd: S) -> S::f64s {
        simd.splat_f64s(0.0)
    }

    #[inline(always)]
    fn add<S: Simd>(self, simd: S, dot: S::f64s, a: S::f64s, b: S::f64s) -> S::f64s {
        simd.mul_add_f64s(a, b, dot)
    }

    #[inline(always)]
    fn finish<S: Simd>(self, simd: S, dot: S::f64s) -> S::f64s {
        one_minus(simd, dot, self.absolute)
    }
}

/// One minus the cosine of the angle between rows of any length, over the coordinates that neither
/// row lacks.
#[derive(Debug, Clone, Copy)]
pub struct AngleOfCommon {
    pub absolute: bool,
}

impl Form for AngleOfCommon {
    type State<S: Simd> = ProductSums<S::f64s>;

    #[inline(always)]
    fn start<S: Simd>(self, simd: S) -> Self::State<S> {
        ProductSums::new(simd.splat_f64s(0.0))
    }

    #[inline(always)]
    fn add<S: Simd>(self, simd: S, sums: Self::State<S>, a: S::f64s, b: S::f64s) -> Self::State<S> {
        let there = simd.and_m64s(simd.equal_f64s(a, a), simd.equal_f64s(b, b));
        let (zero, one) = (simd.splat_f64s(0.0), simd.splat_f64s(1.0));
        let a = simd.select_f64s(there, a, zero);
        let b = simd.select_f64s(there, b, zero);
        ProductSums {
            count: simd.add_f64s(sums.count, simd.select_f64s(there, one, zero)),
            aa: simd.mul_add_f64s(a, a, sums.aa),
            bb: simd.mul_add_f64s(b, b, sums.bb),
            ab: simd.mul_add_f64s(a, b, sums.ab),
        }
    }

    #[inline(always)]
    fn finish<S: Simd>(self, simd: S, sums: Self::State<S>) -> S::f64s {
        let distance = one_minus(simd, cosine(simd, &sums), self.absolute);
        na_where_zero(simd, sums.count, distance)
    }
}
