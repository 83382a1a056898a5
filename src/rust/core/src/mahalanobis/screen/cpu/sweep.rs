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
use crate::simd::{lanes, singles, singles_mut};
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
            if bound < self.nearest.limit() {
                self.sweep_group(simd, group as usize, &mut room);
            }
        }
        self.nearest
    }
}

impl<const DOUBLE: bool> ClusterSweep<'_, DOUBLE> {
    /// The groups that can hold a cluster whose bound is below the limit: a lower bound for the whole
    /// group, and its number. The nearest are first, an incomplete one, which has no ball, is last.
    #[inline(always)]
    fn groups_below<S: Simd>(&self, simd: S) -> Vec<(f32, u32)> {
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
                    below.push((bound, group as u32));
                }
            }
        }
        below.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        below.extend((complete.end..groups.end).map(|group| (0.0, group as u32)));
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
        // All at once: a branch for each block would be hard to predict.
        let limit = self.nearest.limit();
        let mut below = (0..self.blocks.end.min(start + GROUP) - start)
            .fold(0u32, |bits, k| bits | u32::from(bounds[k] < limit) << k);
        while below != 0 {
            self.sweep_block(simd, start + below.trailing_zeros() as usize, room);
            below &= below - 1;
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
            self.collect(simd, first, lanes::<S>(near), &register, bounds);
        }
    }

    /// Keeps those of the `near` lanes of a register, whose first is at this place, whose bounds are
    /// below the limit.
    #[inline(always)]
    fn collect<S: Simd>(
        &mut self,
        simd: S,
        first: usize,
        near: u32,
        register: &Register<S>,
        (to_query, to_target): (S::f32s, S::f32s),
    ) {
        let ClusterStore {
            layout,
            places,
            blocks,
            targets,
            ..
        } = self.store;
        let slack = 0.5 * (1.0 - 4.0 * UNIT as f32);
        // Not a number after an overflow, which bounds nothing.
        let loose = simd.mul_f32s(simd.splat_f32s(slack), simd.add_f32s(to_query, to_target));
        let limit = simd.splat_f32s(self.nearest.limit());
        let mut left = near & !lanes::<S>(simd.less_than_or_equal_f32s(limit, loose));
        if left == 0 {
            return;
        }
        let [mut to_queries, mut to_targets, mut distances, mut errors] = [[0.0f32; LANES]; 4];
        singles_mut::<S>(&mut to_queries)[0] = to_query;
        singles_mut::<S>(&mut to_targets)[0] = to_target;
        singles_mut::<S>(&mut distances)[0] = register.distance;
        singles_mut::<S>(&mut errors)[0] = register.error;
        let block = &blocks[first / LANES * layout.height()..][..layout.coordinates()];
        while left != 0 {
            let l = left.trailing_zeros() as usize;
            left &= left - 1;
            let place = first + l;
            let slot = places.slot(place);
            if !self.is_wanted(slot) {
                continue;
            }
            let (to_query, to_target) = (to_queries[l].max(0.0), to_targets[l].max(0.0));
            let lane = (block, place % LANES);
            // A closure might not be compiled for the instruction set of `simd`.
            let tighter = match &targets[place] {
                Some(target) if slack * (to_query + to_target) < self.nearest.limit() => {
                    target.bound(simd, layout, self.query, lane, distances[l], errors[l])
                }
                _ => 0.0,
            };
            let bound = slack * (to_query + to_target.max(tighter));
            if bound < self.nearest.limit() {
                self.nearest.insert(bound, slot);
            }
        }
    }

    /// Whether a slot's cluster is old enough, and not to be left out.
    #[inline(always)]
    fn is_wanted(&self, slot: u32) -> bool {
        let roster = &self.store.roster;
        slot != GONE
            && (self.end == roster.positions() || roster.position(slot) < self.end)
            && self.skip.binary_search(&slot).is_err()
    }
}
