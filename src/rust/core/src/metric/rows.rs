//! The distance of two rows, and of one row from several.

use pulp::{Scalar, Simd, WithSimd};

use super::form::Form;
use crate::simd::dispatch;

/// Number of distances that [`distances_of_rows`] computes: enough independent sums to hide the
/// latency of an addition, few enough to stay in registers. Only the time depends on it.
pub const DISTANCES_AT_ONCE: usize = 8;

/// The distance of two rows.
pub fn distance_of_rows<F: Form>(form: F, a: &[f64], b: &[f64]) -> f64 {
    dispatch(PairDistance { form, a, b })
}

/// The distances of a row from several others, in little more time than one; the bits are those of
/// [`distance_of_rows`].
pub fn distances_of_rows<F: Form>(
    form: F,
    a: &[f64],
    others: [&[f64]; DISTANCES_AT_ONCE],
) -> [f64; DISTANCES_AT_ONCE] {
    let others = others.map(|other| &other[..a.len()]);
    dispatch(SeveralDistances { form, a, others })
}

/// As [`PairDistance`], between a row and several others.
struct SeveralDistances<'a, F> {
    form: F,
    a: &'a [f64],
    others: [&'a [f64]; DISTANCES_AT_ONCE],
}

impl<F: Form> WithSimd for SeveralDistances<'_, F> {
    type Output = [f64; DISTANCES_AT_ONCE];

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Self::Output {
        let mut states = [self.form.start(Scalar); DISTANCES_AT_ONCE];
        for (k, &a) in self.a.iter().enumerate() {
            for (state, other) in states.iter_mut().zip(&self.others) {
                *state = self.form.add(Scalar, *state, a, other[k]);
            }
        }
        states.map(|state| self.form.finish(Scalar, state))
    }
}

/// A kernel that computes the distance of two prepared rows. It uses no vectors, but `mul_add` is
/// an instruction only in dispatched code.
struct PairDistance<'a, F> {
    form: F,
    a: &'a [f64],
    b: &'a [f64],
}

impl<F: Form> WithSimd for PairDistance<'_, F> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> f64 {
        let mut state = self.form.start(Scalar);
        for (&a, &b) in self.a.iter().zip(self.b) {
            state = self.form.add(Scalar, state, a, b);
        }
        self.form.finish(Scalar, state)
    }
}
