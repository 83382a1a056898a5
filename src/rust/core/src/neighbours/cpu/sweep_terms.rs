//! The terms that sweeps accumulate.

use pulp::Simd;

/// One kind of [`RowSum`](crate::neighbours::single::RowSum).
pub trait SweepTerm: Copy {
    /// Adds the term of one coordinate of two views.
    fn add<S: Simd>(self, simd: S, sum: S::f32s, a: S::f32s, b: S::f32s) -> S::f32s;

    /// The sum after the last coordinate.
    #[inline(always)]
    fn finish<S: Simd>(self, _: S, sum: S::f32s) -> S::f32s {
        sum
    }
}

/// [`RowSum::Squares`](crate::neighbours::single::RowSum::Squares).
#[derive(Clone, Copy)]
pub struct Squares;

impl SweepTerm for Squares {
    #[inline(always)]
    fn add<S: Simd>(self, simd: S, sum: S::f32s, a: S::f32s, b: S::f32s) -> S::f32s {
        let difference = simd.sub_f32s(a, b);
        simd.mul_add_e_f32s(difference, difference, sum)
    }
}

/// [`RowSum::Magnitudes`](crate::neighbours::single::RowSum::Magnitudes).
#[derive(Clone, Copy)]
pub struct Magnitudes;

impl SweepTerm for Magnitudes {
    #[inline(always)]
    fn add<S: Simd>(self, simd: S, sum: S::f32s, a: S::f32s, b: S::f32s) -> S::f32s {
        simd.add_f32s(sum, simd.abs_f32s(simd.sub_f32s(a, b)))
    }
}

/// [`RowSum::Greatest`](crate::neighbours::single::RowSum::Greatest).
#[derive(Clone, Copy)]
pub struct Greatest;

impl SweepTerm for Greatest {
    #[inline(always)]
    fn add<S: Simd>(self, simd: S, sum: S::f32s, a: S::f32s, b: S::f32s) -> S::f32s {
        simd.max_f32s(sum, simd.abs_f32s(simd.sub_f32s(a, b)))
    }
}

/// [`RowSum::Quotients`](crate::neighbours::single::RowSum::Quotients).
#[derive(Clone, Copy)]
pub struct Quotients;

impl SweepTerm for Quotients {
    #[inline(always)]
    fn add<S: Simd>(self, simd: S, sum: S::f32s, a: S::f32s, b: S::f32s) -> S::f32s {
        let difference = simd.abs_f32s(simd.sub_f32s(a, b));
        let magnitude = simd.add_f32s(simd.abs_f32s(a), simd.abs_f32s(b));
        // This makes 0/0 zero and changes no other quotient: coordinates are zero or far greater
        // than `MIN_POSITIVE`.
        let magnitude = simd.add_f32s(magnitude, simd.splat_f32s(f32::MIN_POSITIVE));
        simd.add_f32s(sum, simd.div_f32s(difference, magnitude))
    }
}

/// [`RowSum::Products`](crate::neighbours::single::RowSum::Products).
#[derive(Clone, Copy)]
pub struct Products;

impl SweepTerm for Products {
    #[inline(always)]
    fn add<S: Simd>(self, simd: S, sum: S::f32s, a: S::f32s, b: S::f32s) -> S::f32s {
        simd.negate_mul_add_e_f32s(a, b, sum)
    }
}

/// [`RowSum::AbsoluteProducts`](crate::neighbours::single::RowSum::AbsoluteProducts).
#[derive(Clone, Copy)]
pub struct AbsoluteProducts;

impl SweepTerm for AbsoluteProducts {
    #[inline(always)]
    fn add<S: Simd>(self, simd: S, sum: S::f32s, a: S::f32s, b: S::f32s) -> S::f32s {
        simd.mul_add_e_f32s(a, b, sum)
    }

    #[inline(always)]
    fn finish<S: Simd>(self, simd: S, sum: S::f32s) -> S::f32s {
        simd.neg_f32s(simd.abs_f32s(sum))
    }
}
