//! Sums of terms over the coordinates: Euclidean, Manhattan and Minkowski distances.

use pulp::bytemuck::cast_slice_mut;
use pulp::Simd;

use super::definition::Form;
use super::lanes::{add_where, na_where_zero, scaled_up};

/// The term of a sum over the coordinates, and the step from the sum to the distance.
pub trait Term: Copy + Send + Sync {
    /// The term of a difference.
    fn core<S: Simd>(self, simd: S, difference: S::f64s) -> S::f64s;

    /// The distance, given the sum of terms.
    fn epilog<S: Simd>(self, simd: S, sum: S::f64s) -> S::f64s;
}

/// Euclidean: d².
#[derive(Debug, Clone, Copy)]
pub struct Square;

impl Term for Square {
    #[inline(always)]
    fn core<S: Simd>(self, simd: S, difference: S::f64s) -> S::f64s {
        simd.mul_f64s(difference, difference)
    }

    #[inline(always)]
    fn epilog<S: Simd>(self, simd: S, sum: S::f64s) -> S::f64s {
        simd.sqrt_f64s(sum)
    }
}

/// d², without the root at the end.
#[derive(Debug, Clone, Copy)]
pub struct SumOfSquares;

impl Term for SumOfSquares {
    #[inline(always)]
    fn core<S: Simd>(self, simd: S, difference: S::f64s) -> S::f64s {
        simd.mul_f64s(difference, difference)
    }

    #[inline(always)]
    fn epilog<S: Simd>(self, _: S, sum: S::f64s) -> S::f64s {
        sum
    }
}

/// Manhattan: |d|.
#[derive(Debug, Clone, Copy)]
pub struct Magnitude;

impl Term for Magnitude {
    #[inline(always)]
    fn core<S: Simd>(self, simd: S, difference: S::f64s) -> S::f64s {
        simd.abs_f64s(difference)
    }

    #[inline(always)]
    fn epilog<S: Simd>(self, _: S, sum: S::f64s) -> S::f64s {
        sum
    }
}

/// Minkowski: |d|^p.
#[derive(Debug, Clone, Copy)]
pub struct Power(pub f64);

impl Term for Power {
    #[inline(always)]
    fn core<S: Simd>(self, simd: S, difference: S::f64s) -> S::f64s {
        power(simd.abs_f64s(difference), self.0)
    }

    #[inline(always)]
    fn epilog<S: Simd>(self, _: S, sum: S::f64s) -> S::f64s {
        power(sum, 1.0 / self.0)
    }
}

/// Powers, lane by lane: R uses the C library's `pow` for all powers except squares, and `pow` has
/// no vector version.
#[inline(always)]
fn power<V: pulp::bytemuck::Pod>(mut base: V, exponent: f64) -> V {
    for value in cast_slice_mut::<V, f64>(std::slice::from_mut(&mut base)) {
        *value = if exponent == 2.0 {
            *value * *value
        } else {
            value.powf(exponent)
        };
    }
    base
}

/// A sum over the coordinates; if `MISSING`, over the coordinates that neither observation lacks.
#[derive(Debug, Clone, Copy)]
pub struct Sum<T, const MISSING: bool> {
    pub term: T,
    /// Number of coordinates.
    pub columns: f64,
}

impl<T: Term, const MISSING: bool> Form for Sum<T, MISSING> {
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
        (sum, count): Self::State<S>,
        a: S::f64s,
        b: S::f64s,
    ) -> Self::State<S> {
        let difference = simd.sub_f64s(a, b);
        let term = self.term.core(simd, difference);
        if !MISSING {
            return (simd.add_f64s(sum, term), count);
        }
        // False if a coordinate is missing, and for the difference of two equal infinities.
        let there = simd.equal_f64s(difference, difference);
        add_where(simd, (sum, count), there, term)
    }

    #[inline(always)]
    fn finish<S: Simd>(self, simd: S, (sum, count): Self::State<S>) -> S::f64s {
        if !MISSING {
            return self.term.epilog(simd, sum);
        }
        let sum = scaled_up(simd, sum, count, self.columns);
        na_where_zero(simd, count, self.term.epilog(simd, sum))
    }
}
