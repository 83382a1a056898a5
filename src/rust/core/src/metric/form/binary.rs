//! The asymmetric binary distance of R's `dist`.

use pulp::Simd;

use super::definition::Form;
use super::lanes::{add_where, na_where_zero};

/// Asymmetric binary (Jaccard), for coordinates that are 0, 1 or missing.
#[derive(Debug, Clone, Copy)]
pub struct Binary;

impl Form for Binary {
    /// Three numbers of coordinates: where the rows differ, where at least one row is 1, and where
    /// neither row lacks a value.
    type State<S: Simd> = (S::f64s, S::f64s, S::f64s);

    #[inline(always)]
    fn start<S: Simd>(self, simd: S) -> Self::State<S> {
        let zero = simd.splat_f64s(0.0);
        (zero, zero, zero)
    }

    #[inline(always)]
    fn add<S: Simd>(
        self,
        simd: S,
        (differ, some, both): Self::State<S>,
        a: S::f64s,
        b: S::f64s,
    ) -> Self::State<S> {
        let difference = simd.abs_f64s(simd.sub_f64s(a, b));
        let there = simd.equal_f64s(difference, difference);
        let (differ, both) = add_where(simd, (differ, both), there, difference);
        let one = simd.max_f64s(a, b);
        let one = simd.select_f64s(there, one, simd.splat_f64s(0.0));
        (differ, simd.add_f64s(some, one), both)
    }

    #[inline(always)]
    fn finish<S: Simd>(self, simd: S, (differ, some, both): Self::State<S>) -> S::f64s {
        let zero = simd.splat_f64s(0.0);
        let none = simd.equal_f64s(some, zero);
        let share = simd.select_f64s(none, zero, simd.div_f64s(differ, some));
        na_where_zero(simd, both, share)
    }
}
