//! The maximum distance.

use pulp::Simd;

use super::definition::Form;
use super::lanes::na_where_zero;

/// The greatest difference.
#[derive(Debug, Clone, Copy)]
pub struct Maximum<const MISSING: bool>;

impl<const MISSING: bool> Form for Maximum<MISSING> {
    /// The greatest difference so far, and the number of coordinates seen.
    type State<S: Simd> = (S::f64s, S::f64s);

    #[inline(always)]
    fn start<S: Simd>(self, simd: S) -> Self::State<S> {
        (simd.splat_f64s(0.0), simd.splat_f64s(0.0))
    }

    #[inline(always)]
    fn add<S: Simd>(
        self,
        simd: S,
        (greatest, count): Self::State<S>,
        a: S::f64s,
        b: S::f64s,
    ) -> Self::State<S> {
        let difference = simd.abs_f64s(simd.sub_f64s(a, b));
        let greater = simd.max_f64s(difference, greatest);
        if !MISSING {
            return (greater, count);
        }
        let there = simd.equal_f64s(difference, difference);
        let one = simd.splat_f64s(1.0);
        (
            simd.select_f64s(there, greater, greatest),
            simd.add_f64s(count, simd.select_f64s(there, one, simd.splat_f64s(0.0))),
        )
    }

    #[inline(always)]
    fn finish<S: Simd>(self, simd: S, (greatest, count): Self::State<S>) -> S::f64s {
        if MISSING {
            na_where_zero(simd, count, greatest)
        } else {
            greatest
        }
    }
}
