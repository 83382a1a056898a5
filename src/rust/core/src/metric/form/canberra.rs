//! Canberra's metric (Lance and Williams 1966, doi:10.1093/comjnl/9.1.60), as in R's `dist`.

use pulp::Simd;

use super::definition::Form;
use super::lanes::{add_where, na_where_zero, scaled_up};
use crate::metric::zero_over_zero::ZeroOverZero;

/// Canberra's metric. One form serves data with and without missing values, since zeros need the
/// same count as missing coordinates.
#[derive(Debug, Clone, Copy)]
pub struct Canberra {
    pub zero_over_zero: ZeroOverZero,
    /// Number of coordinates.
    pub columns: f64,
}

impl Form for Canberra {
    /// The sum, and the number of coordinates in it.
    type State<S: Simd> = (S::f64s, S::f64s);

    #[inline(always)]
    fn start<S: Simd>(self, simd: S) -> Self::State<S> {
        (simd.splat_f64s(0.0), simd.splat_f64s(0.0))
    }

    #[inline(always)]
    fn add<S: Simd>(
        self,
        simd: S,
        state: Self::State<S>,
        a: S::f64s,
        b: S::f64s,
    ) -> Self::State<S> {
        let difference = simd.abs_f64s(simd.sub_f64s(a, b));
        let magnitude = simd.add_f64s(simd.abs_f64s(a), simd.abs_f64s(b));
        let one = simd.splat_f64s(1.0);
        // If difference and magnitude are equal, the quotient is 1, also for infinities.
        let opposite = simd.equal_f64s(difference, magnitude);
        let quotient = simd.div_f64s(difference, magnitude);
        let quotient = simd.select_f64s(opposite, one, quotient);
        // R treats magnitudes up to this as zero. Comparisons with a missing coordinate are false.
        let least = simd.splat_f64s(f64::MIN_POSITIVE);
        let some = simd.greater_than_f64s(magnitude, least);
        let there = simd.and_m64s(some, simd.equal_f64s(quotient, quotient));
        let state = add_where(simd, state, there, quotient);
        let zeros = simd.less_than_or_equal_f64s(magnitude, least);
        match self.zero_over_zero {
            ZeroOverZero::Omitted => state,
            ZeroOverZero::Zero => add_where(simd, state, zeros, simd.splat_f64s(0.0)),
            ZeroOverZero::One => add_where(simd, state, zeros, one),
        }
    }

    #[inline(always)]
    fn finish<S: Simd>(self, simd: S, (sum, count): Self::State<S>) -> S::f64s {
        na_where_zero(simd, count, scaled_up(simd, sum, count, self.columns))
    }
}
