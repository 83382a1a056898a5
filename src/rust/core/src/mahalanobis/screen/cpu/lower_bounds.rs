//! Lower bounds on the distances between a query and a register of clusters.

use pulp::Simd;

use super::differences::differences;
use super::layout::{Layout, FOURTH, LANES, LARGEST, STRETCH, THIRD, VARIANCE};
use crate::mahalanobis::options::Distance;
use crate::mahalanobis::packed::packed_len;
use crate::mahalanobis::screen::view::ClusterView;
use crate::simd::{lanes, singles_mut};
use crate::single_precision::{LOST_IN_NORM, UNDERFLOW, UNIT_ROUNDOFF};

/// One register of clusters during a sweep.
pub struct Register<'a, S: Simd> {
    /// The rows of the block.
    pub rows: &'a [S::f32s],
    /// The index of this register within each row.
    pub part: usize,
    /// The distances of the means from the mean of the query.
    pub distance: S::f32s,
    /// The squares of the distances.
    pub square: S::f32s,
    /// The sum of the errors of both means.
    pub error: S::f32s,
    /// A factor below 1 that makes a rounded distance a lower bound on the exact distance.
    pub shrink: f32,
    /// The lanes of the clusters that may have bounds below `limit`.
    pub near: u32,
    /// The limit of the sweep.
    pub limit: f32,
}

impl<S: Simd> Register<'_, S> {
    /// Lower bounds on the directed distances from the clusters to the query and back, without the
    /// bounds from the clusters' own whitening factors. `scratch` has one register per dimension.
    #[inline(always)]
    pub fn bounds<const DOUBLE: bool>(
        &self,
        simd: S,
        layout: &Layout,
        query: &ClusterView,
        scratch: &mut [f32],
    ) -> (S::f32s, S::f32s) {
        let (p, coordinates) = (layout.dimensions, layout.coordinates());
        let registers = LANES / S::F32_LANES;
        let splat = |value: f32| simd.splat_f32s(value);
        let row = |k: usize| self.rows[k * registers + self.part];
        let shrunk = simd.mul_f32s(self.distance, splat(self.shrink));
        let centroids = simd.max_f32s(simd.sub_f32s(shrunk, self.error), splat(0.0));
        let (mut near, mut far) = (centroids, centroids);
        if layout.distance == Distance::FullMahalanobis {
            let margin = splat(1.0 - (4.0 * p as f32 + 96.0) * UNIT_ROUNDOFF as f32);
            let from_query = self.mean_norm(
                simd,
                [
                    query.variance,
                    query.fourth,
                    query.largest_eigenvalue,
                    query.third,
                ]
                .map(splat),
            );
            let from_target = self.mean_norm(
                simd,
                [VARIANCE, FOURTH, LARGEST, THIRD].map(|scalar| row(coordinates + scalar)),
            );
            let safe = |bound| simd.sub_f32s(simd.mul_f32s(bound, margin), self.error);
            near = simd.max_f32s(near, safe(from_target));
            far = simd.max_f32s(far, safe(from_query));
        }
        let mut to_query = simd.mul_f32s(splat(query.least_stretch), near);
        let to_target = simd.mul_f32s(row(coordinates + STRETCH), far);
        if !query.whitening.is_empty() {
            let scratch = singles_mut::<S>(scratch);
            differences::<S, DOUBLE>(simd, query, self.rows, self.part, scratch);
            let absolute = splat(query.mean_error_factor);
            let lost = simd.mul_add_e_f32s(absolute, self.error, splat(LOST_IN_NORM));
            let lost = simd.mul_add_e_f32s(splat(query.relative), self.distance, lost);
            // Above the norm `least`, the bound is not below the limit. The factors allow for
            // rounding. The norm of any of the rows gives a valid bound.
            let missing = simd.sub_f32s(splat(2.000_01 * self.limit), to_target);
            let least = simd.mul_f32s(simd.add_f32s(missing, lost), splat(1.000_01));
            let least = simd.max_f32s(least, splat(0.0));
            let enough = simd.mul_f32s(least, least);
            let square = square_of_product(simd, &query.whitening, scratch, self.near, enough);
            let whitened = simd.sqrt_f32s(square);
            to_query = simd.max_f32s(to_query, simd.sub_f32s(whitened, lost));
        }
        (to_query, to_target)
    }

    /// Hölder's bound on E‖r‖ from variance, fourth moment, largest eigenvalue and third moment.
    #[inline(always)]
    fn mean_norm(&self, simd: S, [variance, fourth, largest, third]: [S::f32s; 4]) -> S::f32s {
        let splat = |value: f32| simd.splat_f32s(value);
        let second = simd.add_f32s(variance, self.square);
        // `variance` is a lower bound on the variance; 2.00001 times it is above twice the
        // variance.
        let factor = simd.mul_add_e_f32s(splat(2.000_01), variance, self.square);
        let factor = simd.mul_add_e_f32s(splat(4.0), largest, factor);
        let total = simd.mul_add_e_f32s(factor, self.square, fourth);
        let total = simd.mul_add_e_f32s(simd.mul_f32s(splat(4.0), third), self.distance, total);
        let total = simd.add_f32s(total, splat(UNDERFLOW));
        let ratio = simd.div_f32s(second, simd.sqrt_f32s(total));
        simd.mul_f32s(simd.sqrt_f32s(second), ratio)
    }
}

/// Number of rows of W that are multiplied together, since each sum waits for its last addition.
const ROWS: usize = 8;

/// Smallest number of rows of W that are multiplied together. The processor overlaps short sums by
/// itself.
const MIN_ROWS: usize = 4 * ROWS;

/// ‖Wδ‖² for a register of vectors δ and a packed lower triangle W. If the sum over the first rows
/// is above `enough` in all lanes of `near`, returns this sum.
#[inline(always)]
fn square_of_product<S: Simd>(
    simd: S,
    whitening: &[f32],
    difference: &[S::f32s],
    near: u32,
    enough: S::f32s,
) -> S::f32s {
    let p = difference.len();
    let mut square = simd.splat_f32s(0.0);
    let together = if p < MIN_ROWS { 0 } else { p - p % ROWS };
    for first in (0..together).step_by(ROWS) {
        let some = squares_of_rows::<S, ROWS>(simd, whitening, difference, first);
        square = simd.add_f32s(square, some);
        let is_enough = lanes::<S>(simd.less_than_f32s(enough, square));
        if near & !is_enough == 0 {
            return square;
        }
    }
    for i in together..p {
        let factors = &whitening[packed_len(i)..][..=i];
        let mut whitened = simd.splat_f32s(0.0);
        for (&factor, &d) in factors.iter().zip(difference) {
            whitened = simd.mul_add_e_f32s(simd.splat_f32s(factor), d, whitened);
        }
        square = simd.mul_add_e_f32s(whitened, whitened, square);
    }
    square
}

/// The sum of the squares of `N` elements of Wδ, from element `first` on.
#[inline(always)]
fn squares_of_rows<S: Simd, const N: usize>(
    simd: S,
    whitening: &[f32],
    difference: &[S::f32s],
    first: usize,
) -> S::f32s {
    let mut rows: [&[f32]; N] = [&[]; N];
    for (n, row) in rows.iter_mut().enumerate() {
        *row = &whitening[packed_len(first + n)..][..=first];
    }
    let mut products = [simd.splat_f32s(0.0); N];
    for (k, &d) in difference[..=first].iter().enumerate() {
        for n in 0..N {
            products[n] = simd.mul_add_e_f32s(simd.splat_f32s(rows[n][k]), d, products[n]);
        }
    }
    let (rest, mut square) = (&difference[first + 1..][..N - 1], simd.splat_f32s(0.0));
    for n in 0..N {
        let factors = &whitening[packed_len(first + n) + first + 1..][..n];
        for k in 0..n {
            products[n] = simd.mul_add_e_f32s(simd.splat_f32s(factors[k]), rest[k], products[n]);
        }
        square = simd.mul_add_e_f32s(products[n], products[n], square);
    }
    square
}
