//! Balls around groups of clusters: lower bounds for a group as a whole.

use std::ops::Range;

use pulp::Simd;

use super::differences::squared_distance;
use super::layout::{Layout, Row, ERROR, GROUP, GROUP_LANES, LANES, LOW};
use crate::mahalanobis::screen::view::ClusterView;
use crate::simd::{singles, singles_mut};
use crate::single_precision::UNIT;

// The rows of a block of balls after those of the centres.
const RADIUS: usize = 0;
const LEAST_LOW: usize = 1;
const BALL_SCALARS: usize = 2;

/// The balls around the complete groups, as lanes of blocks: centres, then the radius and the least `low`
/// of the clusters.
#[derive(Debug, Default)]
pub struct Balls {
    rows: Vec<Row>,
    /// Number of complete groups.
    groups: usize,
}

impl Balls {
    /// Number of balls, which is the number of complete groups.
    pub fn len(&self) -> usize {
        self.groups
    }

    /// Removes all balls.
    pub fn clear(&mut self) {
        self.groups = 0;
    }

    /// Adds the ball around the next group, which is complete.
    pub fn enclose_next(&mut self, blocks: &[Row], layout: &Layout) {
        let height = layout.height();
        let coordinates = layout.coordinates();
        let group = self.groups;
        self.groups += 1;
        let rows = coordinates + BALL_SCALARS;
        if self.rows.len() < self.groups.div_ceil(LANES) * rows {
            self.rows.resize(self.rows.len() + rows, [0.0; LANES]);
        }
        let blocks = &blocks[group * GROUP * height..][..GROUP * height];
        let ball = &mut self.rows[group / LANES * rows..][..rows];
        let lane = group % LANES;
        set_center(ball, lane, blocks, layout);
        let (mut radius, low) = radius_and_low(ball, lane, blocks, layout);
        let p = layout.dimensions;
        if layout.is_double {
            // The differences of second parts are rounded on the ball's side, too.
            let rests = ball[p..coordinates].iter().map(|row| row[lane].abs());
            radius += rests.sum::<f32>() * 2.0 * UNIT as f32;
        }
        ball[coordinates + RADIUS][lane] = radius * (1.0 + (p as f32 + 16.0) * UNIT as f32);
        ball[coordinates + LEAST_LOW][lane] = low;
    }

    /// The groups of these blocks that can hold a cluster whose bound is below the limit, nearest
    /// first: the bits of a lower bound for the whole group, and its number.
    #[inline(always)]
    pub fn groups_below<S: Simd, const DOUBLE: bool>(
        &self,
        simd: S,
        layout: &Layout,
        query: &ClusterView,
        blocks: &Range<usize>,
        limit: f32,
    ) -> Vec<(u32, u32)> {
        let (p, coordinates) = (layout.dimensions, layout.coordinates());
        let registers = LANES / S::F32_LANES;
        let shrink = simd.splat_f32s(1.0 - (p as f32 + 8.0) * UNIT as f32);
        let half = simd.splat_f32s(0.5 * 0.999_999);
        let query_low = simd.splat_f32s(query.low);
        let query_error = simd.splat_f32s(query.error);
        let groups = blocks.start / GROUP..blocks.end.div_ceil(GROUP);
        let complete = groups.start..groups.end.min(self.groups).max(groups.start);
        let mut below = Vec::with_capacity(groups.len());
        for index in complete.start / LANES..complete.end.div_ceil(LANES) {
            let height = coordinates + BALL_SCALARS;
            let rows = &self.rows[index * height..][..height];
            let values = singles::<S>(rows.as_flattened());
            let mut bounds = [0.0f32; LANES];
            for (part, bound) in singles_mut::<S>(&mut bounds).iter_mut().enumerate() {
                let row = |k: usize| values[k * registers + part];
                let square = squared_distance::<S, DOUBLE>(simd, query, values, part);
                let distance = simd.mul_f32s(simd.sqrt_f32s(square), shrink);
                let radius = simd.add_f32s(query_error, row(coordinates + RADIUS));
                let distance = simd.max_f32s(simd.sub_f32s(distance, radius), simd.splat_f32s(0.0));
                let low = simd.add_f32s(query_low, row(coordinates + LEAST_LOW));
                *bound = simd.mul_f32s(simd.mul_f32s(low, distance), half);
            }
            for (group, bound) in (index * LANES..).zip(bounds) {
                // An overflow to NaN bounds nothing: `max` makes it zero.
                let bound = bound.max(0.0);
                if complete.contains(&group) && bound < limit {
                    below.push((bound.to_bits(), group as u32));
                }
            }
        }
        below.sort_unstable();
        below.extend((complete.end..groups.end).map(|group| (0, group as u32)));
        below
    }
}

/// Puts the centre of a ball at the mean of the clusters. The ball is right about any point, so
/// rounding does not matter.
fn set_center(ball: &mut [Row], lane: usize, blocks: &[Row], layout: &Layout) {
    let (p, height) = (layout.dimensions, layout.height());
    for k in 0..p {
        let values = blocks.chunks(height).flat_map(|block| block[k]);
        let mean = values.map(f64::from).sum::<f64>() / GROUP_LANES as f64;
        ball[k][lane] = mean as f32;
        if layout.is_double {
            let rests = blocks.chunks(height).flat_map(|block| block[p + k]);
            let rest = rests.map(f64::from).sum::<f64>() / GROUP_LANES as f64;
            ball[p + k][lane] = (mean - f64::from(ball[k][lane]) + rest) as f32;
        }
    }
}

/// The largest distance of a cluster from a ball's centre, errors included, and the least `low`.
fn radius_and_low(ball: &[Row], lane: usize, blocks: &[Row], layout: &Layout) -> (f32, f32) {
    let (p, height) = (layout.dimensions, layout.height());
    let (mut radius, mut low) = (0.0f32, f32::INFINITY);
    for block in blocks.chunks(height) {
        let scalars = &block[layout.coordinates()..];
        let lows = scalars[LOW].iter().zip(&scalars[ERROR]).enumerate();
        for (l, (&least, error)) in lows {
            let difference = |k: usize| match layout.is_double {
                false => block[k][l] - ball[k][lane],
                true => (block[k][l] - ball[k][lane]) + (block[p + k][l] - ball[p + k][lane]),
            };
            let square: f32 = (0..p).map(|k| difference(k).powi(2)).sum();
            radius = radius.max(square.sqrt() + error);
            // `min` ignores removed clusters, whose `low` is NaN.
            low = low.min(least);
        }
    }
    (radius, low)
}
