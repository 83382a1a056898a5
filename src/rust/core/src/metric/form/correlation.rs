//! One minus Pearson's correlation of rows with missing values.

use pulp::Simd;

use super::definition::Form;
use super::lanes::{one_minus, NA};
use super::products::{cosine, ProductSums};

/// One minus Pearson's correlation over the coordinates that neither row lacks, by Welford's
/// updates of means and products (Technometrics 4, 1962). With these, the products of a constant
/// row stay zero.
#[derive(Debug, Clone, Copy)]
pub struct CorrelationOfCommon {
    pub absolute: bool,
}

impl Form for CorrelationOfCommon {
    /// Sums of products about the means, and the means.
    type State<S: Simd> = (ProductSums<S::f64s>, S::f64s, S::f64s);

    #[inline(always)]
    fn start<S: Simd>(self, simd: S) -> Self::State<S> {
        let zero = simd.splat_f64s(0.0);
        (ProductSums::new(zero), zero, zero)
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
        // A missing coordinate is replaced by the mean, which leaves sums and means unchanged.
        let a = simd.select_f64s(there, a, mean_a);
        let b = simd.select_f64s(there, b, mean_b);
        let (zero, one) = (simd.splat_f64s(0.0), simd.splat_f64s(1.0));
        let count = simd.add_f64s(sums.count, simd.select_f64s(there, one, zero));
        let share = simd.div_f64s(one, simd.max_f64s(count, one));
        let (from_a, from_b) = (simd.sub_f64s(a, mean_a), simd.sub_f64s(b, mean_b));
        // The share of the squared distance from the old means that remains about the new means.
        let rest = simd.sub_f64s(one, share);
        let product = |simd: S, x, y, sum| simd.mul_add_f64s(simd.mul_f64s(x, y), rest, sum);
        let sums = ProductSums {
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
        let distance = one_minus(simd, cosine(simd, &sums), self.absolute);
        let one = simd.splat_f64s(1.0);
        let enough = simd.greater_than_f64s(sums.count, one);
        simd.select_f64s(enough, distance, simd.splat_f64s(NA))
    }
}
