//! A level of the ball tree: each ball gives a lower bound on the distances to all clusters in it.

use pulp::Simd;

use super::differences::squared_distance;
use super::layout::{Layout, Row, ERROR, LANES, STRETCH};
use crate::mahalanobis::screen::view::ClusterView;
use crate::simd::{singles, singles_mut};
use crate::single_precision::{UNDERFLOW, UNIT_ROUNDOFF};

/// Row of the radii, after the rows of the centres.
const RADIUS: usize = 0;
/// Row of the least `least_stretch` of the clusters in each ball, after the rows of the centres.
const LEAST_STRETCH: usize = 1;
/// Number of rows after the rows of the centres.
const BALL_SCALARS: usize = 2;

/// Balls, each around the clusters of `size` consecutive blocks. Each ball is a lane of a block of
/// balls. The block has rows of centres, then a row of radii and a row of the least `least_stretch`
/// of the clusters in each ball.
#[derive(Debug)]
pub struct Balls {
    /// Blocks of clusters per ball.
    size: usize,
    rows: Vec<Row>,
    count: usize,
}

impl Balls {
    /// An empty level for balls around `size` blocks each.
    pub fn new(size: usize) -> Self {
        Self {
            size,
            rows: Vec::new(),
            count: 0,
        }
    }

    /// Number of balls.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Removes all balls.
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// Adds the ball around the next `size` blocks.
    pub fn enclose_next(&mut self, blocks: &[Row], layout: &Layout) {
        let ball = self.count;
        self.count += 1;
        let height = layout.coordinates() + BALL_SCALARS;
        let needed = self.count.div_ceil(LANES) * height;
        if self.rows.len() < needed {
            self.rows.resize(needed, [0.0; LANES]);
        }
        self.enclose(ball, blocks, layout);
    }

    /// Recomputes a ball from the present clusters of its blocks.
    pub fn enclose(&mut self, ball: usize, blocks: &[Row], layout: &Layout) {
        let rows = self.size * layout.height();
        let blocks = &blocks[ball * rows..][..rows];
        let (ball, lane) = self.rows_of(ball, layout);
        set_center(ball, lane, blocks, layout);
        let (mut radius, mut least) = (0.0f32, f32::INFINITY);
        for block in blocks.chunks(layout.height()) {
            let reaches = reaches(ball, lane, block, layout);
            for (reach, least_stretch) in reaches.iter().zip(block[layout.coordinates() + STRETCH])
            {
                if !least_stretch.is_nan() {
                    radius = radius.max(*reach);
                    least = least.min(least_stretch);
                }
            }
        }
        ball[layout.coordinates() + RADIUS][lane] = radius;
        ball[layout.coordinates() + LEAST_STRETCH][lane] = least;
    }

    /// Widens a ball to contain the cluster in a lane of `block`, one of its blocks.
    pub fn include(&mut self, ball: usize, block: &[Row], cluster: usize, layout: &Layout) {
        let (ball, lane) = self.rows_of(ball, layout);
        let reach = reaches(ball, lane, block, layout)[cluster];
        let least_stretch = block[layout.coordinates() + STRETCH][cluster];
        let scalars = &mut ball[layout.coordinates()..];
        scalars[RADIUS][lane] = scalars[RADIUS][lane].max(reach);
        scalars[LEAST_STRETCH][lane] = scalars[LEAST_STRETCH][lane].min(least_stretch);
    }

    /// The rows of the block that stores a ball, and the ball's lane.
    fn rows_of(&mut self, ball: usize, layout: &Layout) -> (&mut [Row], usize) {
        let height = layout.coordinates() + BALL_SCALARS;
        (
            &mut self.rows[ball / LANES * height..][..height],
            ball % LANES,
        )
    }

    /// Lower bounds on the distances from a query to all clusters in each ball of a block of balls.
    /// The bound of a ball that contains the query is negative.
    #[inline(always)]
    pub fn bounds<S: Simd, const DOUBLE: bool>(
        &self,
        simd: S,
        layout: &Layout,
        query: &ClusterView,
        index: usize,
    ) -> [f32; LANES] {
        let (p, coordinates) = (layout.dimensions, layout.coordinates());
        let registers = LANES / S::F32_LANES;
        let shrink = simd.splat_f32s(1.0 - (p as f32 + 8.0) * UNIT_ROUNDOFF as f32);
        let half = simd.splat_f32s(0.5 * 0.999_999);
        let underflow = simd.splat_f32s(-UNDERFLOW);
        let height = coordinates + BALL_SCALARS;
        let values = singles::<S>(self.rows[index * height..][..height].as_flattened());
        let mut bounds = [0.0f32; LANES];
        for (part, bound) in singles_mut::<S>(&mut bounds).iter_mut().enumerate() {
            let row = |k: usize| values[k * registers + part];
            let square = squared_distance::<S, DOUBLE>(simd, query, values, part);
            let distance = simd.mul_f32s(simd.sqrt_f32s(square), shrink);
            let radius = simd.add_f32s(simd.splat_f32s(query.error), row(coordinates + RADIUS));
            let distance = simd.sub_f32s(distance, radius);
            let least_stretch = simd.add_f32s(
                simd.splat_f32s(query.least_stretch),
                row(coordinates + LEAST_STRETCH),
            );
            *bound = simd.mul_add_e_f32s(simd.mul_f32s(least_stretch, distance), half, underflow);
        }
        // NaN after an overflow gives no bound: 0.
        bounds.map(|bound| if bound.is_nan() { 0.0 } else { bound })
    }
}

/// Sets the centre of a ball to the mean of its clusters. A ball is valid around any centre, so
/// rounding does not matter.
fn set_center(ball: &mut [Row], lane: usize, blocks: &[Row], layout: &Layout) {
    let (p, height) = (layout.dimensions, layout.height());
    let lows = |block: &[Row]| block[layout.coordinates() + STRETCH];
    let all_lows = blocks.chunks(height).flat_map(lows);
    let count = all_lows
        .filter(|least_stretch| !least_stretch.is_nan())
        .count()
        .max(1) as f64;
    let mean = |k: usize| {
        let mut sum = 0.0;
        for block in blocks.chunks(height) {
            for (value, least_stretch) in block[k].iter().zip(lows(block)) {
                sum += if least_stretch.is_nan() {
                    0.0
                } else {
                    f64::from(*value)
                };
            }
        }
        sum / count
    };
    for k in 0..p {
        let first = mean(k);
        ball[k][lane] = first as f32;
        if layout.is_double {
            ball[p + k][lane] = (first - f64::from(ball[k][lane]) + mean(p + k)) as f32;
        }
    }
}

/// For each cluster of a block, an upper bound on its distance from a ball's centre, errors
/// included.
fn reaches(ball: &[Row], lane: usize, block: &[Row], layout: &Layout) -> Row {
    let (p, coordinates) = (layout.dimensions, layout.coordinates());
    let mut squares = [0.0f32; LANES];
    let mut rests = 0.0;
    for k in 0..p {
        let center = ball[k][lane];
        let mut differences = block[k].map(|value| value - center);
        if layout.is_double {
            let rest = ball[p + k][lane];
            for (difference, value) in differences.iter_mut().zip(block[p + k]) {
                *difference += value - rest;
            }
            // The ball's second parts also cause rounding in the differences.
            rests += rest.abs();
        }
        for (square, difference) in squares.iter_mut().zip(differences) {
            *square += difference * difference;
        }
    }
    let lost = rests * 2.0 * UNIT_ROUNDOFF as f32;
    let widen = 1.0 + (p as f32 + 16.0) * UNIT_ROUNDOFF as f32;
    let errors = squares.iter().zip(block[coordinates + ERROR]);
    let mut reaches = [0.0f32; LANES];
    for (reach, (square, error)) in reaches.iter_mut().zip(errors) {
        *reach = (square.sqrt() + error + lost) * widen;
    }
    reaches
}
