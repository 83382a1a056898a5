//! A sweep: the comparison of a query with all clusters of some blocks.

use pulp::{Simd, WithSimd};

use super::differences::squared_distance;
use super::layout::{ERROR, GROUP, LANES, STRETCH};
use super::least_bounds::{LeastBounds, SharedLimit};
use super::lower_bounds::Register;
use super::store::ClusterStore;
use crate::active_positions::INACTIVE;
use crate::mahalanobis::screen::request::ScreenRequest;
use crate::mahalanobis::screen::view::ClusterView;
use crate::simd::{lanes, singles, singles_mut};
use crate::single_precision::{UNDERFLOW, UNIT_ROUNDOFF};

/// A group of blocks, and a lower bound on the distances from a query to all its clusters.
#[derive(Debug, Clone, Copy)]
pub struct NearGroup {
    bound: f32,
    group: u32,
}

/// A kernel that finds groups among the first `blocks` blocks, nearest groups first. A group is
/// found if it can hold a cluster whose bound is below the limit. An incomplete group has no ball
/// and comes last. `DOUBLE` says that coordinates have second parts.
pub struct NearGroups<'a, const DOUBLE: bool> {
    pub store: &'a ClusterStore,
    pub query: &'a ClusterView,
    pub blocks: usize,
    pub limit: f32,
}

impl<const DOUBLE: bool> WithSimd for NearGroups<'_, DOUBLE> {
    type Output = Vec<NearGroup>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Vec<NearGroup> {
        let ClusterStore {
            layout,
            group_balls: balls,
            ..
        } = self.store;
        let groups = self.blocks.div_ceil(GROUP);
        let complete = groups.min(balls.len());
        let mut near = Vec::with_capacity(groups);
        for index in 0..complete.div_ceil(LANES) {
            let bounds = balls.bounds::<S, DOUBLE>(simd, layout, self.query, index);
            for (group, bound) in (index * LANES..complete).zip(bounds) {
                if bound < self.limit {
                    let group = group as u32;
                    near.push(NearGroup { bound, group });
                }
            }
        }
        near.sort_unstable_by(|a, b| a.bound.total_cmp(&b.bound));
        let incomplete = (complete..groups).map(|group| NearGroup {
            bound: 0.0,
            group: group as u32,
        });
        near.extend(incomplete);
        near
    }
}

/// A kernel that sweeps some groups. `DOUBLE` says that coordinates have second parts.
pub struct ClusterSweep<'a, const DOUBLE: bool> {
    pub store: &'a ClusterStore,
    pub request: &'a ScreenRequest<'a>,
    pub groups: &'a [NearGroup],
    /// The index of this part of the sweep. The part takes every `of`-th group from this index on.
    pub part: usize,
    /// Number of parts of the sweep.
    pub of: usize,
    /// Number of leading blocks to search.
    pub blocks: usize,
    /// The limit that all parts share.
    pub limit: &'a SharedLimit,
    pub nearest: LeastBounds,
}

impl<const DOUBLE: bool> WithSimd for ClusterSweep<'_, DOUBLE> {
    type Output = LeastBounds;

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) -> LeastBounds {
        let layout = &self.store.layout;
        let mut scratch = vec![0.0f32; layout.dimensions * S::F32_LANES];
        for near in self.groups.iter().skip(self.part).step_by(self.of) {
            self.nearest.lower_limit(self.limit.get());
            // The limit may have come down since the groups were compared.
            if near.bound < self.nearest.limit() {
                self.sweep_group(simd, near.group as usize, &mut scratch);
                self.limit.lower(self.nearest.limit());
            }
        }
        self.nearest
    }
}

impl<const DOUBLE: bool> ClusterSweep<'_, DOUBLE> {
    /// Keeps the clusters of a group whose bounds are below the limit.
    #[inline(always)]
    fn sweep_group<S: Simd>(&mut self, simd: S, group: usize, scratch: &mut [f32]) {
        // The balls of a group's blocks are one block of balls.
        const { assert!(GROUP == LANES) };
        let balls = &self.store.block_balls;
        let start = group * GROUP;
        let bounds = if start < balls.len() {
            balls.bounds::<S, DOUBLE>(simd, &self.store.layout, self.request.view, group)
        } else {
            [0.0; LANES]
        };
        // Compares all blocks before the first branch, because one branch for each block would be
        // hard to predict.
        let limit = self.nearest.limit();
        let mut below = (0..self.blocks.min(start + GROUP) - start)
            .fold(0u32, |bits, k| bits | u32::from(bounds[k] < limit) << k);
        while below != 0 {
            self.sweep_block(simd, start + below.trailing_zeros() as usize, scratch);
            below &= below - 1;
        }
    }

    /// Keeps the clusters of a block whose bounds are below the limit.
    #[inline(always)]
    fn sweep_block<S: Simd>(&mut self, simd: S, index: usize, scratch: &mut [f32]) {
        let layout = &self.store.layout;
        let (height, coordinates) = (layout.height(), layout.coordinates());
        let query = self.request.view;
        let registers = LANES / S::F32_LANES;
        let shrink = 1.0 - (layout.dimensions as f32 + 8.0) * UNIT_ROUNDOFF as f32;
        let query_low = simd.splat_f32s(query.least_stretch);
        let query_error = simd.splat_f32s(query.error);
        let cautious = simd.splat_f32s(shrink * 0.999_999);
        let rows = &self.store.blocks[index * height..][..height];
        let rows = singles::<S>(rows.as_flattened());
        for part in 0..registers {
            let row = |k: usize| rows[k * registers + part];
            let square = squared_distance::<S, DOUBLE>(simd, query, rows, part);
            // Tests (s_a + s_b)·(shrink·√square − error) ≤ 2·limit without the root. The test is
            // true for all clusters if both sides underflow: underflow of the product with the
            // square can matter only if the least stretches are great, and then their product with
            // the error is greater. The test is never true for a removed cluster, whose least
            // stretch is NaN.
            let least_stretch = simd.add_f32s(query_low, row(coordinates + STRETCH));
            let error = simd.add_f32s(query_error, row(coordinates + ERROR));
            let left = simd.mul_f32s(least_stretch, cautious);
            let left = simd.mul_f32s(left, simd.mul_f32s(left, square));
            let limit = self.nearest.limit();
            let right = simd.mul_add_e_f32s(least_stretch, error, simd.splat_f32s(2.0 * limit));
            let underflow = simd.splat_f32s(UNDERFLOW);
            let right = simd.mul_add_e_f32s(right, right, underflow);
            let near = simd.less_than_or_equal_f32s(left, right);
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
                near: lanes::<S>(near),
                limit,
            };
            let bounds = register.bounds::<DOUBLE>(simd, layout, query, scratch);
            let first = index * LANES + part * S::F32_LANES;
            self.collect(simd, first, &register, bounds, scratch);
        }
    }

    /// Keeps the near clusters of a register whose bounds are below the limit. `first` is the place
    /// of lane 0.
    #[inline(always)]
    fn collect<S: Simd>(
        &mut self,
        simd: S,
        first: usize,
        register: &Register<S>,
        (to_query, to_target): (S::f32s, S::f32s),
        scratch: &mut [f32],
    ) {
        let ClusterStore {
            layout,
            places,
            blocks,
            targets,
            ..
        } = self.store;
        let slack = 0.5 * (1.0 - 4.0 * UNIT_ROUNDOFF as f32);
        let average =
            |to_query: f32, to_target: f32| (slack * (to_query + to_target) - UNDERFLOW).max(0.0);
        // NaN after an overflow gives no bound: `left` keeps the lane.
        let loose = simd.mul_add_e_f32s(
            simd.splat_f32s(slack),
            simd.add_f32s(to_query, to_target),
            simd.splat_f32s(-UNDERFLOW),
        );
        let limit = simd.splat_f32s(self.nearest.limit());
        let mut left = register.near & !lanes::<S>(simd.less_than_or_equal_f32s(limit, loose));
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
                Some(target) if average(to_query, to_target) < self.nearest.limit() => target
                    .bound(
                        simd,
                        layout,
                        self.request.view,
                        lane,
                        (distances[l], errors[l]),
                        scratch,
                    ),
                _ => 0.0,
            };
            let bound = average(to_query, to_target.max(tighter));
            if bound < self.nearest.limit() {
                self.nearest.insert(bound, slot);
            }
        }
    }

    /// Whether a slot's cluster is before the end of the request and not in its `skip`.
    #[inline(always)]
    fn is_wanted(&self, slot: u32) -> bool {
        let active = &self.store.active;
        let ScreenRequest { end, skip, .. } = *self.request;
        slot != INACTIVE
            && (end == active.positions() || active.position(slot) < end)
            && skip.binary_search(&slot).is_err()
    }
}
