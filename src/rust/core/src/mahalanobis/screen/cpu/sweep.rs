//! A sweep: the comparison of a query with all clusters of some blocks.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::differences::squared_distance;
use super::layout::{ERROR, GROUP, LANES, LOW};
use super::least_bounds::LeastBounds;
use super::lower_bounds::Register;
use super::store::ClusterStore;
use crate::mahalanobis::screen::request::ScreenRequest;
use crate::mahalanobis::screen::view::ClusterView;
use crate::roster::GONE;
use crate::simd::{singles, singles_mut};
use crate::single_precision::UNIT;

/// A sweep over blocks, as a kernel; `DOUBLE` where coordinates have second parts.
pub struct ClusterSweep<'a, const DOUBLE: bool> {
    store: &'a ClusterStore,
    query: &'a ClusterView,
    blocks: Range<usize>,
    end: usize,
    skip: &'a [u32],
    nearest: LeastBounds,
}

impl<'a, const DOUBLE: bool> ClusterSweep<'a, DOUBLE> {
    pub fn new(
        store: &'a ClusterStore,
        request: &ScreenRequest<'a>,
        blocks: Range<usize>,
        nearest: LeastBounds,
    ) -> Self {
        Self {
            store,
            query: request.view,
            blocks,
            end: request.end,
            skip: request.skip,
            nearest,
        }
    }
}

impl<const DOUBLE: bool> WithSimd for ClusterSweep<'_, DOUBLE> {
    type Output = LeastBounds;

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) -> LeastBounds {
        let layout = &self.store.layout;
        let mut room = vec![0.0f32; layout.dimensions * S::F32_LANES];
        for (bound, group) in self.groups_below(simd) {
            // The limit has come down since the groups were compared.
            if f32::from_bits(bound) < self.nearest.limit() {
                self.sweep_group(simd, group as usize, &mut room);
            }
        }
        self.nearest
    }
}

impl<const DOUBLE: bool> ClusterSweep<'_, DOUBLE> {
    /// The groups that can hold a cluster whose bound is below the limit: the bits of a lower bound for
    /// the whole group, and its number. The nearest are first, an incomplete one, which has no ball, is
    /// last.
    #[inline(always)]
    fn groups_below<S: Simd>(&self, simd: S) -> Vec<(u32, u32)> {
        let ClusterStore {
            layout,
            group_balls: balls,
            ..
        } = self.store;
        let limit = self.nearest.limit();
        let groups = self.blocks.start / GROUP..self.blocks.end.div_ceil(GROUP);
        let complete = groups.start..groups.end.min(balls.len()).max(groups.start);
        let mut below = Vec::with_capacity(groups.len());
        for index in complete.start / LANES..complete.end.div_ceil(LANES) {
            let bounds = balls.bounds::<S, DOUBLE>(simd, layout, self.query, index);
            for (group, bound) in (index * LANES..).zip(bounds) {
                if complete.contains(&group) && bound < limit {
                    below.push((bound.to_bits(), group as u32));
                }
            }
        }
        below.sort_unstable();
        below.extend((complete.end..groups.end).map(|group| (0, group as u32)));
        below
    }

    /// Keeps the clusters of a group whose bounds are below the limit.
    #[inline(always)]
    fn sweep_group<S: Simd>(&mut self, simd: S, group: usize, room: &mut [f32]) {
        // The balls of a group's blocks are one block of balls.
        const { assert!(GROUP == LANES) };
        let balls = &self.store.block_balls;
        let start = group * GROUP;
        let bounds = if start < balls.len() {
            balls.bounds::<S, DOUBLE>(simd, &self.store.layout, self.query, group)
        } else {
            [0.0; LANES]
        };
        for (index, bound) in (start..self.blocks.end).zip(bounds) {
            if bound < self.nearest.limit() {
                self.sweep_block(simd, index, room);
            }
        }
    }

    /// Keeps the clusters of a block whose bounds are below the limit.
    #[inline(always)]
    fn sweep_block<S: Simd>(&mut self, simd: S, index: usize, room: &mut [f32]) {
        let layout = &self.store.layout;
        let (height, coordinates) = (layout.height(), layout.coordinates());
        let query = self.query;
        let registers = LANES / S::F32_LANES;
        let shrink = 1.0 - (layout.dimensions as f32 + 8.0) * UNIT as f32;
        let query_low = simd.splat_f32s(query.low);
        let query_error = simd.splat_f32s(query.error);
        let cautious = simd.splat_f32s(shrink * 0.999_999);
        let rows = &self.store.blocks[index * height..][..height];
        let rows = singles::<S>(rows.as_flattened());
        for part in 0..registers {
            let row = |k: usize| rows[k * registers + part];
            let square = squared_distance::<S, DOUBLE>(simd, query, rows, part);
            // Is (s_a + s_b)·(shrink·√square − error) ≤ 2·limit? Asked without the root. True for all
            // clusters where both sides underflow, and never for a removed one, whose low is NaN.
            let low = simd.add_f32s(query_low, row(coordinates + LOW));
            let error = simd.add_f32s(query_error, row(coordinates + ERROR));
            let left = simd.mul_f32s(low, cautious);
            let left = simd.mul_f32s(simd.mul_f32s(left, left), square);
            let limit = simd.splat_f32s(2.0 * self.nearest.limit());
            let right = simd.mul_add_e_f32s(low, error, limit);
            let near = simd.less_than_or_equal_f32s(left, simd.mul_f32s(right, right));
            if simd.first_true_m32s(near) == S::F32_LANES {
                continue;
            }
            let register = Register {
                rows,
                part,
                distance: simd.sqrt_f32s(square),
                square,
                error,
                shrink,
            };
            let bounds = register.bounds::<DOUBLE>(simd, layout, query, room);
            let first = index * LANES + part * S::F32_LANES;
            self.collect(simd, first, &register, bounds);
        }
    }

    /// Keeps the clusters of a register, from this place on, whose bounds are below the limit.
    #[inline(always)]
    fn collect<S: Simd>(
        &mut self,
        simd: S,
        first: usize,
        register: &Register<S>,
        (to_query, to_target): (S::f32s, S::f32s),
    ) {
        let ClusterStore {
            layout,
            roster,
            places,
            blocks,
            targets,
            ..
        } = self.store;
        let [mut to_queries, mut to_targets, mut distances, mut errors] = [[0.0f32; LANES]; 4];
        singles_mut::<S>(&mut to_queries)[0] = to_query;
        singles_mut::<S>(&mut to_targets)[0] = to_target;
        singles_mut::<S>(&mut distances)[0] = register.distance;
        singles_mut::<S>(&mut errors)[0] = register.error;
        let slack = 0.5 * (1.0 - 4.0 * UNIT as f32);
        let block = &blocks[first / LANES * layout.height()..][..layout.coordinates()];
        let last = (first + S::F32_LANES).min(places.positions());
        for (l, place) in (first..last).enumerate() {
            let limit = self.nearest.limit();
            let slot = places.slot(place);
            // An overflow to NaN bounds nothing: `max` makes it zero.
            let (to_query, to_target) = (to_queries[l].max(0.0), to_targets[l].max(0.0));
            let loose = slack * (to_query + to_target);
            let is_wanted = slot != GONE
                && loose < limit
                && roster.position(slot) < self.end
                && self.skip.binary_search(&slot).is_err();
            if !is_wanted {
                continue;
            }
            let lane = (block, place % LANES);
            // A closure might not be compiled for the instruction set of `simd`.
            let tighter = match &targets[slot as usize] {
                Some(target) => {
                    target.bound(simd, layout, self.query, lane, distances[l], errors[l])
                }
                None => 0.0,
            };
            let bound = slack * (to_query + to_target.max(tighter));
            if bound < limit {
                self.nearest.insert(bound, slot);
            }
        }
    }
}
