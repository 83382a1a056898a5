//! Lower bounds on the distances between a query and a register of clusters.

use pulp::Simd;

use super::differences::differences;
use super::layout::{Layout, FOURTH, LANES, LARGEST, LOW, THIRD, VARIANCE};
use crate::mahalanobis::options::Distance;
use crate::mahalanobis::packed::packed_len;
use crate::mahalanobis::screen::view::ClusterView;
use crate::simd::singles_mut;
use crate::single_precision::UNIT;

/// One register of clusters during a sweep.
pub struct Register<'a, S: Simd> {
    /// The rows of the block; `part` is the index of this register within each row.
    pub rows: &'a [S::f32s],
    pub part: usize,
    /// The distances of the means from the mean of the query, and their squares.
    pub distance: S::f32s,
    pub square: S::f32s,
    /// The sum of the errors of both means.
    pub error: S::f32s,
    /// A factor below 1 that makes a rounded distance a lower bound on the exact one.
    pub shrink: f32,
}

impl<S: Simd> Register<'_, S> {
    /// Lower bounds on the directed distances from the clusters to the query and back, without the
    /// bounds from the clusters' own whitening factors. `room` has one register per dimension.
    #[inline(always)]
    pub fn bounds<const DOUBLE: bool>(
        &self,
        simd: S,
        layout: &Layout,
        query: &ClusterView,
        room: &mut [f32],
    ) -> (S::f32s, S::f32s) {
        let (p, coordinates) = (layout.dimensions, layout.coordinates());
        let registers = LANES / S::F32_LANES;
        let splat = |value: f32| simd.splat_f32s(value);
        let row = |k: usize| self.rows[k * registers + self.part];
        let shrunk = simd.mul_f32s(self.distance, splat(self.shrink));
        let centroids = simd.max_f32s(simd.sub_f32s(shrunk, self.error), splat(0.0));
        let (mut near, mut far) = (centroids, centroids);
        if layout.distance == Distance::FullMahalanobis {
            let margin = splat(1.0 - (4.0 * p as f32 + 96.0) * UNIT as f32);
            let from_query = self.mean_norm(
                simd,
                [query.variance, query.fourth, query.largest, query.third].map(splat),
            );
            let from_target = self.mean_norm(
                simd,
                [VARIANCE, FOURTH, LARGEST, THIRD].map(|scalar| row(coordinates + scalar)),
            );
            let safe = |bound| simd.sub_f32s(simd.mul_f32s(bound, margin), self.error);
            near = simd.max_f32s(near, safe(from_target));
            far = simd.max_f32s(far, safe(from_query));
        }
        let mut to_query = simd.mul_f32s(splat(query.low), near);
        let to_target = simd.mul_f32s(row(coordinates + LOW), far);
        if !query.whitening.is_empty() {
            let room = singles_mut::<S>(room);
            differences::<S, DOUBLE>(simd, query, self.rows, self.part, room);
            let whitened = norm_of_product(simd, &query.whitening, room);
            let lost = simd.mul_f32s(splat(query.absolute), self.error);
            let lost = simd.mul_add_e_f32s(splat(query.relative), self.distance, lost);
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
        let total = simd.add_f32s(total, splat(f32::MIN_POSITIVE));
        let ratio = simd.div_f32s(second, simd.sqrt_f32s(total));
        simd.mul_f32s(simd.sqrt_f32s(second), ratio)
    }
}

/// ‖Wδ‖ for a register of vectors δ and a packed lower triangle W.
#[inline(always)]
fn norm_of_product<S: Simd>(simd: S, whitening: &[f32], difference: &[S::f32s]) -> S::f32s {
    let mut square = simd.splat_f32s(0.0);
    for i in 0..difference.len() {
        let factors = &whitening[packed_len(i)..][..=i];
        let mut whitened = simd.splat_f32s(0.0);
        for (&factor, &d) in factors.iter().zip(difference) {
            whitened = simd.mul_add_e_f32s(simd.splat_f32s(factor), d, whitened);
        }
        square = simd.mul_add_e_f32s(whitened, whitened, square);
    }
    simd.sqrt_f32s(square)
}
