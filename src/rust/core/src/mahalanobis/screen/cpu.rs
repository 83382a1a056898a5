//! The screen on the CPU: blocks of clusters, dimension after dimension, swept with vectors.

use std::collections::BinaryHeap;
use std::ops::Range;

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::super::shape::packed_len;
use super::{Found, Frame, Precision, Request, Screen, View};
use crate::error::Result;
use crate::memory;
use crate::roster::{Roster, GONE};
use crate::simd::{dispatch, singles, singles_mut};
use crate::single_precision::UNIT;

/// Clusters in a block.
const LANES: usize = 16;

/// Blocks in a group. Clusters that are pushed one after the other are often near each other: a group
/// as a whole can be out of reach.
const GROUP: usize = 16;

/// Clusters in a group.
const GROUP_LANES: usize = GROUP * LANES;

/// Sweeps over fewer coordinates than this are not worth dividing among threads.
const PARALLEL_COORDINATES: usize = 1 << 18;

type Row = [f32; LANES];

// Scalars of a block of balls, after its rows of centres.
const RADIUS: usize = 0;
const BALL_LOW: usize = 1;
const BALL_SCALARS: usize = 2;

// Scalars of a block, after its rows of coordinates.
const ERROR: usize = 0;
const LOW: usize = 1;
const CENTROID_SCALARS: usize = 2;
// Only for full distances:
const VARIANCE: usize = 2;
const FOURTH: usize = 3;
const LARGEST: usize = 4;
const THIRD: usize = 5;
const FULL_SCALARS: usize = 6;

/// A whitening factor as the target of bounds from single means: columns padded to whole rows of
/// lanes.
#[derive(Debug, Clone)]
struct Target {
    columns: Vec<Row>,
    relative: f32,
    absolute: f32,
}

/// The live clusters in vector-wide blocks.
pub struct CpuScreen {
    frame: Frame,
    roster: Roster,
    blocks: Vec<Row>,
    /// The balls around the groups that are full, as lanes of blocks: their centres, then radius
    /// and the least low of their clusters.
    balls: Vec<Row>,
    /// How many groups are full.
    full_groups: usize,
    /// By slot.
    targets: Vec<Option<Box<Target>>>,
}

/// The smallest lower bounds of a sweep, at most `capacity` of them.
#[derive(Debug)]
struct Nearest {
    capacity: usize,
    /// Bounds from here on are of no interest.
    ceiling: f32,
    /// Bits of the bound (bounds are ≥ 0, so their bits order them), then the slot.
    heap: BinaryHeap<u64>,
}

impl Nearest {
    fn new(capacity: usize, ceiling: f32) -> Self {
        Self {
            capacity,
            ceiling,
            heap: BinaryHeap::with_capacity(capacity + 1),
        }
    }

    /// What is not below it is not kept.
    #[inline(always)]
    fn limit(&self) -> f32 {
        if self.heap.len() < self.capacity {
            return self.ceiling;
        }
        self.heap
            .peek()
            .map_or(self.ceiling, |top| f32::from_bits((top >> 32) as u32))
    }

    #[inline(always)]
    fn insert(&mut self, bound: f32, slot: u32) {
        self.heap
            .push((u64::from(bound.to_bits()) << 32) | u64::from(slot));
        if self.heap.len() > self.capacity {
            self.heap.pop();
        }
    }

    /// Takes in what another part of the sweep found.
    fn merge(mut self, other: Nearest) -> Nearest {
        for key in other.heap {
            self.heap.push(key);
            if self.heap.len() > self.capacity {
                self.heap.pop();
            }
        }
        self
    }

    fn into_found(self, unit: f64) -> Found {
        let floor = f64::from(self.limit()) * unit;
        let bounds = self
            .heap
            .into_iter()
            .map(|key| {
                (
                    f64::from(f32::from_bits((key >> 32) as u32)) * unit,
                    key as u32,
                )
            })
            .collect();
        Found { bounds, floor }
    }
}

impl CpuScreen {
    /// Empty, for clusters in slots below `slots`.
    pub fn new(slots: usize, frame: Frame) -> Self {
        Self {
            frame,
            roster: Roster::new(slots),
            blocks: Vec::new(),
            balls: Vec::new(),
            full_groups: 0,
            targets: vec![None; slots],
        }
    }

    /// Whether coordinates have second parts.
    fn is_double(&self) -> bool {
        self.frame.precision == Precision::Double
    }

    /// Rows of a block's coordinates: the first parts of all, then the second parts where there are
    /// some.
    fn coordinates(&self) -> usize {
        let parts = if self.is_double() { 2 } else { 1 };
        parts * self.frame.dimensions()
    }

    /// Rows of a block.
    fn height(&self) -> usize {
        let scalars = if self.frame.full() {
            FULL_SCALARS
        } else {
            CENTROID_SCALARS
        };
        self.coordinates() + scalars
    }

    /// Closes the gaps; the order of birth stays.
    fn compact(&mut self) {
        let height = self.height();
        let kept = self.roster.compact();
        for (to, from) in kept.iter().map(|&from| from as usize).enumerate() {
            for k in 0..height {
                self.blocks[to / LANES * height + k][to % LANES] =
                    self.blocks[from / LANES * height + k][from % LANES];
            }
        }
        self.blocks.truncate(kept.len().div_ceil(LANES) * height);
        for lane in kept.len()..kept.len().next_multiple_of(LANES) {
            let low = kept.len() / LANES * height + self.coordinates() + LOW;
            self.blocks[low][lane % LANES] = f32::NAN;
        }
        self.full_groups = 0;
        for _ in 0..kept.len() / GROUP_LANES {
            self.close_group();
        }
    }

    /// Draws the ball around the next group, which is full.
    fn close_group(&mut self) {
        let (p, height) = (self.frame.dimensions(), self.height());
        let (is_double, coordinates) = (self.is_double(), self.coordinates());
        let group = self.full_groups;
        self.full_groups += 1;
        let rows = coordinates + BALL_SCALARS;
        if self.balls.len() < self.full_groups.div_ceil(LANES) * rows {
            self.balls.resize(self.balls.len() + rows, [0.0; LANES]);
        }
        let blocks = &self.blocks[group * GROUP * height..][..GROUP * height];
        let ball = &mut self.balls[group / LANES * rows..][..rows];
        let lane = group % LANES;
        // About the mean of the clusters; whatever the rounding, the ball is around this point.
        for k in 0..p {
            let values = blocks.chunks(height).flat_map(|block| block[k]);
            let mean = values.map(f64::from).sum::<f64>() / GROUP_LANES as f64;
            ball[k][lane] = mean as f32;
            if is_double {
                let rests = blocks.chunks(height).flat_map(|block| block[p + k]);
                let rest = rests.map(f64::from).sum::<f64>() / GROUP_LANES as f64;
                ball[p + k][lane] = (mean - f64::from(ball[k][lane]) + rest) as f32;
            }
        }
        let (mut radius, mut low) = (0.0f32, f32::INFINITY);
        for block in blocks.chunks(height) {
            let scalars = &block[coordinates..];
            let lows = scalars[LOW].iter().zip(&scalars[ERROR]).enumerate();
            for (l, (&least, error)) in lows {
                let difference = |k: usize| match is_double {
                    false => block[k][l] - ball[k][lane],
                    true => (block[k][l] - ball[k][lane]) + (block[p + k][l] - ball[p + k][lane]),
                };
                let square: f32 = (0..p).map(|k| difference(k).powi(2)).sum();
                radius = radius.max(square.sqrt() + error);
                // Not those that are gone: their low is NaN.
                low = low.min(least);
            }
        }
        if is_double {
            // Differences of second parts are rounded on the ball's side, too.
            let rests = ball[p..coordinates].iter().map(|row| row[lane].abs());
            radius += rests.sum::<f32>() * 2.0 * UNIT as f32;
        }
        ball[coordinates + RADIUS][lane] = radius * (1.0 + (p as f32 + 16.0) * UNIT as f32);
        ball[coordinates + BALL_LOW][lane] = low;
    }

    fn answer(&self, request: &Request) -> Found {
        let ceiling = (request.limit / self.frame.unit()) as f32;
        let part = |blocks: Range<usize>| {
            let nearest = Nearest::new(request.capacity, ceiling.next_up());
            if self.is_double() {
                dispatch(Sweep::<true>::new(self, request, blocks, nearest))
            } else {
                dispatch(Sweep::<false>::new(self, request, blocks, nearest))
            }
        };
        let blocks = request.end.div_ceil(LANES);
        let threads = rayon::current_num_threads();
        let nearest =
            if threads == 1 || request.end * self.frame.dimensions() < PARALLEL_COORDINATES {
                part(0..blocks)
            } else {
                let share = blocks.div_ceil(threads).next_multiple_of(GROUP);
                // Fewer than threads where whole groups do not suffice for all.
                (0..blocks.div_ceil(share))
                    .into_par_iter()
                    .map(|t| part(t * share..((t + 1) * share).min(blocks)))
                    .reduce_with(Nearest::merge)
                    .expect("there is a block")
            };
        nearest.into_found(self.frame.unit())
    }
}

impl Screen for CpuScreen {
    fn push(&mut self, slot: u32, view: &View) -> Result<()> {
        let (p, height) = (self.frame.dimensions(), self.height());
        let coordinates = self.coordinates();
        let position = self.roster.push(slot);
        let lane = position % LANES;
        if lane == 0 {
            memory::reserve(&mut self.blocks, "the screen of the clusters needs", height)?;
            self.blocks.resize(self.blocks.len() + height, [0.0; LANES]);
            let start = self.blocks.len() - height;
            self.blocks[start + coordinates + LOW] = [f32::NAN; LANES];
        }
        let block = &mut self.blocks[position / LANES * height..][..height];
        for (row, &value) in block.iter_mut().zip(view.mean.iter().chain(&view.rest)) {
            row[lane] = value;
        }
        let scalars = &mut block[coordinates..];
        scalars[ERROR][lane] = view.error;
        scalars[LOW][lane] = view.low;
        if self.frame.full() {
            scalars[VARIANCE][lane] = view.variance;
            scalars[FOURTH][lane] = view.fourth;
            scalars[LARGEST][lane] = view.largest;
            scalars[THIRD][lane] = view.third;
        }
        self.targets[slot as usize] = target(view, p);
        if self.roster.positions() == (self.full_groups + 1) * GROUP_LANES {
            self.close_group();
        }
        Ok(())
    }

    fn remove(&mut self, slot: u32) -> Result<()> {
        let position = self.roster.remove(slot);
        let low = position / LANES * self.height() + self.coordinates() + LOW;
        // A comparison with NaN is false: no bound of this lane passes a sweep.
        self.blocks[low][position % LANES] = f32::NAN;
        self.targets[slot as usize] = None;
        if self.roster.is_sparse() {
            self.compact();
        }
        Ok(())
    }

    fn roster(&self) -> &Roster {
        &self.roster
    }

    fn sweep(&mut self, requests: &[Request<'_>], _: &mut dyn FnMut()) -> Result<Vec<Found>> {
        let this = &*self;
        let coordinates: usize = requests.iter().map(|r| r.end).sum::<usize>();
        if requests.len() == 1 || coordinates * self.frame.dimensions() < PARALLEL_COORDINATES {
            return Ok(requests.iter().map(|r| this.answer(r)).collect());
        }
        Ok(requests.par_iter().map(|r| this.answer(r)).collect())
    }

    fn batch(&self) -> usize {
        4 * rayon::current_num_threads()
    }

    fn is_outgrown(&self, _: usize) -> bool {
        false
    }
}

impl CpuScreen {
    /// The groups of these blocks with something whose bound can be below the limit, the nearest
    /// first: the bits of a bound for the whole group, and its number.
    #[inline(always)]
    fn groups_in_reach<S: Simd, const DOUBLE: bool>(
        &self,
        simd: S,
        query: &View,
        blocks: &Range<usize>,
        limit: f32,
    ) -> Vec<(u32, u32)> {
        let (p, coordinates) = (self.frame.dimensions(), self.coordinates());
        let registers = LANES / S::F32_LANES;
        let shrink = simd.splat_f32s(1.0 - (p as f32 + 8.0) * UNIT as f32);
        let half = simd.splat_f32s(0.5 * 0.999_999);
        let query_low = simd.splat_f32s(query.low);
        let query_error = simd.splat_f32s(query.error);
        let groups = blocks.start / GROUP..blocks.end.div_ceil(GROUP);
        let full = groups.start..groups.end.min(self.full_groups).max(groups.start);
        let mut reached = Vec::with_capacity(groups.len());
        for index in full.start / LANES..full.end.div_ceil(LANES) {
            let height = coordinates + BALL_SCALARS;
            let rows = &self.balls[index * height..][..height];
            let values = singles::<S>(rows.as_flattened());
            let mut bounds = [0.0f32; LANES];
            for (part, bound) in singles_mut::<S>(&mut bounds).iter_mut().enumerate() {
                let row = |k: usize| values[k * registers + part];
                let mut square = simd.splat_f32s(0.0);
                for k in 0..p {
                    let d = difference::<S, DOUBLE>(simd, query, k, row);
                    square = simd.mul_add_e_f32s(d, d, square);
                }
                let distance = simd.mul_f32s(simd.sqrt_f32s(square), shrink);
                let radius = simd.add_f32s(query_error, row(coordinates + RADIUS));
                let distance = simd.max_f32s(simd.sub_f32s(distance, radius), simd.splat_f32s(0.0));
                let low = simd.add_f32s(query_low, row(coordinates + BALL_LOW));
                *bound = simd.mul_f32s(simd.mul_f32s(low, distance), half);
            }
            for (group, bound) in (index * LANES..).zip(bounds) {
                // What overflowed to NaN bounds nothing: `max` makes it zero.
                let bound = bound.max(0.0);
                if full.contains(&group) && bound < limit {
                    reached.push((bound.to_bits(), group as u32));
                }
            }
        }
        reached.sort_unstable();
        reached.extend((full.end..groups.end).map(|group| (0, group as u32)));
        reached
    }

    /// A lower bound on ‖Wδ‖ from a target's own shape, `distance` being ‖δ‖; 0 where it has none.
    #[inline(always)]
    fn bound_to_target<S: Simd>(
        &self,
        simd: S,
        query: &View,
        position: usize,
        distance: f32,
        error: f32,
    ) -> f32 {
        let Some(target) = &self.targets[self.roster.slot(position) as usize] else {
            return 0.0;
        };
        let (p, height) = (self.frame.dimensions(), self.height());
        let block = &self.blocks[position / LANES * height..][..self.coordinates()];
        let lane = position % LANES;
        let groups = p.div_ceil(LANES);
        let registers = LANES / S::F32_LANES;
        let columns = singles::<S>(target.columns.as_flattened());
        let mut square = simd.splat_f32s(0.0);
        for part in 0..groups * registers {
            let mut whitened = simd.splat_f32s(0.0);
            let last = p.min((part + 1) * S::F32_LANES);
            for k in 0..last {
                let mut difference = query.mean[k] - block[k][lane];
                if self.is_double() {
                    difference += query.rest[k] - block[p + k][lane];
                }
                let difference = simd.splat_f32s(difference);
                let column = columns[k * groups * registers + part];
                whitened = simd.mul_add_e_f32s(column, difference, whitened);
            }
            square = simd.mul_add_e_f32s(whitened, whitened, square);
        }
        let norm = simd.reduce_sum_f32s(square).sqrt();
        (norm - target.relative * distance - target.absolute * error).max(0.0)
    }

    /// Keeps what is near among a register of clusters from the first of `positions` on.
    #[inline(always)]
    fn collect<S: Simd>(
        &self,
        simd: S,
        query: &View,
        positions: Range<usize>,
        (lanes, to_query, to_target): (&Lanes<S>, S::f32s, S::f32s),
        skip: &[u32],
        nearest: &mut Nearest,
    ) {
        let [mut to_queries, mut to_targets, mut distances, mut errors] = [[0.0f32; LANES]; 4];
        singles_mut::<S>(&mut to_queries)[0] = to_query;
        singles_mut::<S>(&mut to_targets)[0] = to_target;
        singles_mut::<S>(&mut distances)[0] = lanes.distance;
        singles_mut::<S>(&mut errors)[0] = lanes.error;
        let slack = 0.5 * (1.0 - 4.0 * UNIT as f32);
        for (l, position) in positions.take(S::F32_LANES).enumerate() {
            let limit = nearest.limit();
            let slot = self.roster.slot(position);
            // What overflowed to NaN bounds nothing: `max` makes it zero.
            let (to_query, to_target) = (to_queries[l].max(0.0), to_targets[l].max(0.0));
            let loose = slack * (to_query + to_target);
            if slot == GONE || loose >= limit || skip.binary_search(&slot).is_ok() {
                continue;
            }
            let tighter = self.bound_to_target(simd, query, position, distances[l], errors[l]);
            let bound = slack * (to_query + to_target.max(tighter));
            if bound < limit {
                nearest.insert(bound, slot);
            }
        }
    }
}

fn target(query: &View, p: usize) -> Option<Box<Target>> {
    if query.whitening.is_empty() {
        return None;
    }
    let groups = p.div_ceil(LANES);
    let mut columns = vec![[0.0; LANES]; p * groups];
    for i in 0..p {
        for j in 0..=i {
            columns[j * groups + i / LANES][i % LANES] = query.whitening[packed_len(i) + j];
        }
    }
    Some(Box::new(Target {
        columns,
        relative: query.relative,
        absolute: query.absolute,
    }))
}

/// Coordinate `k` of a query minus that of a register of clusters, given the rows of their
/// coordinates.
#[inline(always)]
fn difference<S: Simd, const DOUBLE: bool>(
    simd: S,
    query: &View,
    k: usize,
    row: impl Fn(usize) -> S::f32s,
) -> S::f32s {
    let first = simd.sub_f32s(simd.splat_f32s(query.mean[k]), row(k));
    if !DOUBLE {
        return first;
    }
    let other = row(query.mean.len() + k);
    simd.add_f32s(first, simd.sub_f32s(simd.splat_f32s(query.rest[k]), other))
}

/// A sweep over blocks, as a kernel; `DOUBLE` where coordinates have second parts.
struct Sweep<'a, const DOUBLE: bool> {
    screen: &'a CpuScreen,
    query: &'a View,
    blocks: Range<usize>,
    end: usize,
    skip: &'a [u32],
    nearest: Nearest,
}

impl<'a, const DOUBLE: bool> Sweep<'a, DOUBLE> {
    fn new(
        screen: &'a CpuScreen,
        request: &Request<'a>,
        blocks: Range<usize>,
        nearest: Nearest,
    ) -> Self {
        Self {
            screen,
            query: request.view,
            blocks,
            end: request.end,
            skip: request.skip,
            nearest,
        }
    }
}

impl<const DOUBLE: bool> WithSimd for Sweep<'_, DOUBLE> {
    type Output = Nearest;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Nearest {
        let Sweep {
            screen,
            query,
            blocks,
            end,
            skip,
            mut nearest,
        } = self;
        let (p, height) = (screen.frame.dimensions(), screen.height());
        let coordinates = screen.coordinates();
        let registers = LANES / S::F32_LANES;
        let shrink = 1.0 - (p as f32 + 8.0) * UNIT as f32;
        let query_low = simd.splat_f32s(query.low);
        let query_error = simd.splat_f32s(query.error);
        let cautious = simd.splat_f32s(shrink * 0.999_999);
        let mut differences = vec![0.0f32; p * S::F32_LANES];
        let groups = screen.groups_in_reach::<S, DOUBLE>(simd, query, &blocks, nearest.limit());
        let in_groups = groups.iter().flat_map(|&(bound, group)| {
            let start = group as usize * GROUP;
            let end = (start + GROUP).min(blocks.end);
            (start..end).map(move |index| (f32::from_bits(bound), index))
        });
        for (bound, index) in in_groups {
            // The limit has come down since the groups were looked at.
            if bound >= nearest.limit() {
                continue;
            }
            let rows = &screen.blocks[index * height..][..height];
            let values = singles::<S>(rows.as_flattened());
            for part in 0..registers {
                let row = |k: usize| values[k * registers + part];
                let mut square = simd.splat_f32s(0.0);
                for k in 0..p {
                    let d = difference::<S, DOUBLE>(simd, query, k, row);
                    square = simd.mul_add_e_f32s(d, d, square);
                }
                // Is (s_a + s_b)·(shrink·√square − error) ≤ 2·limit? Asked without the root, of all
                // where both sides underflow, and never of a cluster that is gone: its low is NaN.
                let low = simd.add_f32s(query_low, row(coordinates + LOW));
                let error = simd.add_f32s(query_error, row(coordinates + ERROR));
                let left = simd.mul_f32s(low, cautious);
                let left = simd.mul_f32s(simd.mul_f32s(left, left), square);
                let limit = simd.splat_f32s(2.0 * nearest.limit());
                let right = simd.mul_add_e_f32s(low, error, limit);
                let near = simd.less_than_or_equal_f32s(left, simd.mul_f32s(right, right));
                if simd.first_true_m32s(near) == S::F32_LANES {
                    continue;
                }
                let lanes = Lanes {
                    distance: simd.sqrt_f32s(square),
                    square,
                    error,
                    shrink,
                };
                let values = &values[part..];
                let (to_query, to_target) = lanes.bounds::<DOUBLE>(
                    simd,
                    screen,
                    query,
                    values,
                    registers,
                    &mut differences,
                );
                let position = index * LANES + part * S::F32_LANES;
                screen.collect(
                    simd,
                    query,
                    position..end,
                    (&lanes, to_query, to_target),
                    skip,
                    &mut nearest,
                );
            }
        }
        nearest
    }
}

/// One register of clusters during a sweep.
struct Lanes<S: Simd> {
    distance: S::f32s,
    square: S::f32s,
    error: S::f32s,
    shrink: f32,
}

impl<S: Simd> Lanes<S> {
    /// Lower bounds from the clusters to the query and back, all but those from the clusters' own
    /// whitening factors. `rows` holds every `registers`-th register of the block.
    #[inline(always)]
    fn bounds<const DOUBLE: bool>(
        &self,
        simd: S,
        screen: &CpuScreen,
        query: &View,
        rows: &[S::f32s],
        registers: usize,
        differences: &mut [f32],
    ) -> (S::f32s, S::f32s) {
        let (p, coordinates) = (screen.frame.dimensions(), screen.coordinates());
        let splat = |value: f32| simd.splat_f32s(value);
        let row = |k: usize| rows[k * registers];
        let shrunk = simd.mul_f32s(self.distance, splat(self.shrink));
        let centroids = simd.max_f32s(simd.sub_f32s(shrunk, self.error), splat(0.0));
        let (mut near, mut far) = (centroids, centroids);
        if screen.frame.full() {
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
            let differences = singles_mut::<S>(differences);
            for (k, d) in differences.iter_mut().enumerate() {
                *d = difference::<S, DOUBLE>(simd, query, k, row);
            }
            let whitened = norm_of_product(simd, &query.whitening, differences);
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
        // The variance is from below; 2.00001 of it is twice the variance from above.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mahalanobis::screen::checks::check_answers;

    #[test]
    fn answers_are_what_they_promise() {
        for precision in [Precision::Single, Precision::Double] {
            check_answers(precision, |slots, frame| {
                Box::new(CpuScreen::new(slots, frame))
            });
        }
    }
}
