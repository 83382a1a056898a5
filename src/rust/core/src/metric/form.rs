//! Each dissimilarity, defined once: what one coordinate adds, and what becomes of the sum.
//!
//! A form works on vectors whose lanes are different pairs of observations; with
//! [`pulp::Scalar`] it works on one pair. Every lane sees the same operations in the same order,
//! coordinate after coordinate, so that a distance has the same bits wherever it is computed.
//!
//! The operations are those of R's `dist` (R's src/library/stats/src/distance.c): sums are not
//! fused, a coordinate that one observation lacks is left out, and sums are scaled up for what was
//! left out.

use pulp::bytemuck::cast_slice_mut;
use pulp::Simd;

use super::ZeroOverZero;

/// R's `NA_real_`: the distance of observations that share no coordinate.
pub const NA: f64 = f64::from_bits(0x7FF0_0000_0000_07A2);

/// A dissimilarity of pairs of observations, one pair in each lane.
pub trait Form: Copy + Send + Sync {
    /// What has been added up so far.
    type State<S: Simd>: Copy;

    /// Before the first coordinate.
    fn start<S: Simd>(self, simd: S) -> Self::State<S>;

    /// Takes in one coordinate of each of the two observations.
    fn add<S: Simd>(self, simd: S, state: Self::State<S>, a: S::f64s, b: S::f64s)
        -> Self::State<S>;

    /// The distances, after the last coordinate.
    fn finish<S: Simd>(self, simd: S, state: Self::State<S>) -> S::f64s;
}

/// What a sum over the coordinates adds for a difference, and what becomes of the sum.
pub trait Term: Copy + Send + Sync {
    /// The term of a difference.
    fn of<S: Simd>(self, simd: S, difference: S::f64s) -> S::f64s;

    /// The distance that a sum of terms makes.
    fn last<S: Simd>(self, simd: S, sum: S::f64s) -> S::f64s;
}

/// Euclidean: d².
#[derive(Debug, Clone, Copy)]
pub struct Square;

impl Term for Square {
    #[inline(always)]
    fn of<S: Simd>(self, simd: S, difference: S::f64s) -> S::f64s {
        simd.mul_f64s(difference, difference)
    }

    #[inline(always)]
    fn last<S: Simd>(self, simd: S, sum: S::f64s) -> S::f64s {
        simd.sqrt_f64s(sum)
    }
}

/// Manhattan: |d|.
#[derive(Debug, Clone, Copy)]
pub struct Magnitude;

impl Term for Magnitude {
    #[inline(always)]
    fn of<S: Simd>(self, simd: S, difference: S::f64s) -> S::f64s {
        simd.abs_f64s(difference)
    }

    #[inline(always)]
    fn last<S: Simd>(self, _: S, sum: S::f64s) -> S::f64s {
        sum
    }
}

/// Minkowski: |d|^p.
#[derive(Debug, Clone, Copy)]
pub struct Power(pub f64);

impl Term for Power {
    #[inline(always)]
    fn of<S: Simd>(self, simd: S, difference: S::f64s) -> S::f64s {
        power(simd.abs_f64s(difference), self.0)
    }

    #[inline(always)]
    fn last<S: Simd>(self, _: S, sum: S::f64s) -> S::f64s {
        power(sum, 1.0 / self.0)
    }
}

/// Lane by lane: the C library's `pow`, which R uses for all powers but squares, has no vectors.
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

/// A sum over the coordinates; where `HOLES`, over those that both observations have.
#[derive(Debug, Clone, Copy)]
pub struct Sum<T, const HOLES: bool> {
    pub term: T,
    /// Number of coordinates.
    pub columns: f64,
}

impl<T: Term, const HOLES: bool> Form for Sum<T, HOLES> {
    /// The sum, and how many coordinates are in it.
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
        let term = self.term.of(simd, difference);
        if !HOLES {
            return (simd.add_f64s(sum, term), count);
        }
        // False where one is missing, and for the difference of two equal infinities.
        let there = simd.equal_f64s(difference, difference);
        add_where(simd, (sum, count), there, term)
    }

    #[inline(always)]
    fn finish<S: Simd>(self, simd: S, (sum, count): Self::State<S>) -> S::f64s {
        if !HOLES {
            return self.term.last(simd, sum);
        }
        let sum = scaled_up(simd, sum, count, self.columns);
        na_where_zero(simd, count, self.term.last(simd, sum))
    }
}

/// The greatest difference.
#[derive(Debug, Clone, Copy)]
pub struct Maximum<const HOLES: bool>;

impl<const HOLES: bool> Form for Maximum<HOLES> {
    /// The greatest so far, and among how many.
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
        if !HOLES {
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
        if HOLES {
            na_where_zero(simd, count, greatest)
        } else {
            greatest
        }
    }
}

/// Canberra, for any values: its zeros need the count that missing coordinates need.
#[derive(Debug, Clone, Copy)]
pub struct Canberra {
    pub zero_over_zero: ZeroOverZero,
    /// Number of coordinates.
    pub columns: f64,
}

impl Form for Canberra {
    /// The sum, and how many coordinates are in it.
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
        // Where they are equal it is 1, also for infinities, whose quotient is none.
        let opposite = simd.equal_f64s(difference, magnitude);
        let quotient = simd.div_f64s(difference, magnitude);
        let quotient = simd.select_f64s(opposite, one, quotient);
        // What R takes as zero. All comparisons are false where a coordinate is missing.
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

/// Asymmetric binary (Jaccard), for coordinates that are 0, 1 or missing.
#[derive(Debug, Clone, Copy)]
pub struct Binary;

impl Form for Binary {
    /// In how many coordinates the two differ, in how many one is 1, and how many both have.
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

/// One minus the cosine of the angle between rows of any length, in the coordinates that both have.
#[derive(Debug, Clone, Copy)]
pub struct AngleOfCommon {
    pub absolute: bool,
}

/// Sums of products, and over how many coordinates.
#[derive(Debug, Clone, Copy)]
pub struct Products<V> {
    count: V,
    aa: V,
    bb: V,
    ab: V,
}

impl<V: Copy> Products<V> {
    #[inline(always)]
    fn new(zero: V) -> Self {
        Self {
            count: zero,
            aa: zero,
            bb: zero,
            ab: zero,
        }
    }
}

impl Form for AngleOfCommon {
    type State<S: Simd> = Products<S::f64s>;

    #[inline(always)]
    fn start<S: Simd>(self, simd: S) -> Self::State<S> {
        Products::new(simd.splat_f64s(0.0))
    }

    #[inline(always)]
    fn add<S: Simd>(self, simd: S, sums: Self::State<S>, a: S::f64s, b: S::f64s) -> Self::State<S> {
        let there = simd.and_m64s(simd.equal_f64s(a, a), simd.equal_f64s(b, b));
        let (zero, one) = (simd.splat_f64s(0.0), simd.splat_f64s(1.0));
        let a = simd.select_f64s(there, a, zero);
        let b = simd.select_f64s(there, b, zero);
        Products {
            count: simd.add_f64s(sums.count, simd.select_f64s(there, one, zero)),
            aa: simd.mul_add_f64s(a, a, sums.aa),
            bb: simd.mul_add_f64s(b, b, sums.bb),
            ab: simd.mul_add_f64s(a, b, sums.ab),
        }
    }

    #[inline(always)]
    fn finish<S: Simd>(self, simd: S, sums: Self::State<S>) -> S::f64s {
        let distance = one_minus(simd, ratio(simd, &sums), self.absolute);
        na_where_zero(simd, sums.count, distance)
    }
}

/// One minus Pearson's correlation in the coordinates that both rows have, by Welford's updates of
/// means and products (Technometrics 4, 1962), in which the products of a constant row stay zero.
#[derive(Debug, Clone, Copy)]
pub struct CorrelationOfCommon {
    pub absolute: bool,
}

impl Form for CorrelationOfCommon {
    /// Sums of products about the means, and the means.
    type State<S: Simd> = (Products<S::f64s>, S::f64s, S::f64s);

    #[inline(always)]
    fn start<S: Simd>(self, simd: S) -> Self::State<S> {
        let zero = simd.splat_f64s(0.0);
        (Products::new(zero), zero, zero)
    }

    #[inline(always)]
    fn add<S: Simd>(
        self,
        simd: S,
        (sums, mean_a, mean_b): Self::State<S>,
        a: S::f64s,
        b: S::f64s,
    ) -> Self::State<S> {
        let there = simd.and_m64s(simd.equal_f64s(a, a), simd.equal_f64s(b, b));
        // A coordinate that one lacks is at the means, where it changes nothing but their share.
        let a = simd.select_f64s(there, a, mean_a);
        let b = simd.select_f64s(there, b, mean_b);
        let (zero, one) = (simd.splat_f64s(0.0), simd.splat_f64s(1.0));
        let count = simd.add_f64s(sums.count, simd.select_f64s(there, one, zero));
        let share = simd.div_f64s(one, simd.max_f64s(count, one));
        let (from_a, from_b) = (simd.sub_f64s(a, mean_a), simd.sub_f64s(b, mean_b));
        // How much of the squared distance from the old means is not explained by the new ones.
        let rest = simd.sub_f64s(one, share);
        let product = |simd: S, x, y, sum| simd.mul_add_f64s(simd.mul_f64s(x, y), rest, sum);
        let sums = Products {
            count,
            aa: product(simd, from_a, from_a, sums.aa),
            bb: product(simd, from_b, from_b, sums.bb),
            ab: product(simd, from_a, from_b, sums.ab),
        };
        let mean_a = simd.mul_add_f64s(from_a, share, mean_a);
        let mean_b = simd.mul_add_f64s(from_b, share, mean_b);
        (sums, mean_a, mean_b)
    }

    #[inline(always)]
    fn finish<S: Simd>(self, simd: S, (sums, _, _): Self::State<S>) -> S::f64s {
        let distance = one_minus(simd, ratio(simd, &sums), self.absolute);
        let one = simd.splat_f64s(1.0);
        let enough = simd.greater_than_f64s(sums.count, one);
        simd.select_f64s(enough, distance, simd.splat_f64s(NA))
    }
}

/// The cosine that sums of products make; NaN where a row has no direction.
#[inline(always)]
fn ratio<S: Simd>(simd: S, sums: &Products<S::f64s>) -> S::f64s {
    let lengths = simd.mul_f64s(simd.sqrt_f64s(sums.aa), simd.sqrt_f64s(sums.bb));
    simd.div_f64s(sums.ab, lengths)
}

/// One minus a similarity or its magnitude.
#[inline(always)]
pub fn one_minus<S: Simd>(simd: S, similarity: S::f64s, absolute: bool) -> S::f64s {
    let (one, least) = (simd.splat_f64s(1.0), simd.splat_f64s(-1.0));
    let similarity = if absolute {
        simd.abs_f64s(similarity)
    } else {
        similarity
    };
    // Rounding can take it past the ends. What is NaN stays so: comparisons with it are false.
    let above = simd.greater_than_f64s(similarity, one);
    let similarity = simd.select_f64s(above, one, similarity);
    let below = simd.less_than_f64s(similarity, least);
    simd.sub_f64s(one, simd.select_f64s(below, least, similarity))
}

/// Adds a term to a sum and 1 to its count, in some of the lanes.
#[inline(always)]
fn add_where<S: Simd>(
    simd: S,
    (sum, count): (S::f64s, S::f64s),
    lanes: S::m64s,
    term: S::f64s,
) -> (S::f64s, S::f64s) {
    // Adding 0 changes no bit, for the sums are never -0.
    let zero = simd.splat_f64s(0.0);
    let one = simd.splat_f64s(1.0);
    (
        simd.add_f64s(sum, simd.select_f64s(lanes, term, zero)),
        simd.add_f64s(count, simd.select_f64s(lanes, one, zero)),
    )
}

/// A sum over `count` coordinates scaled up to all of them, by R's operations.
#[inline(always)]
fn scaled_up<S: Simd>(simd: S, sum: S::f64s, count: S::f64s, columns: f64) -> S::f64s {
    let columns = simd.splat_f64s(columns);
    let scaled = simd.div_f64s(sum, simd.div_f64s(count, columns));
    simd.select_f64s(simd.equal_f64s(count, columns), sum, scaled)
}

#[inline(always)]
fn na_where_zero<S: Simd>(simd: S, count: S::f64s, distance: S::f64s) -> S::f64s {
    let none = simd.equal_f64s(count, simd.splat_f64s(0.0));
    simd.select_f64s(none, simd.splat_f64s(NA), distance)
}
