//! The single-precision screen: lower bounds on the distances from one cluster to many.
//!
//! Means are kept relative to a centre and scaled by a power of two, so that coordinates are at
//! most about 1, in blocks of [`LANES`] clusters, dimension after dimension. Positions are in
//! order of birth. With δ = a − b the difference of two means, the bounds are
//!
//! 1. ‖δ‖·s ≤ ‖Wδ‖, s a lower bound on the smallest singular value of the whitening factor W;
//! 2. ‖Wδ‖ itself in single precision;
//! 3. for full distances, by Hölder's inequality, (E‖r‖²)^(3/2) / (E‖r‖⁴)^(1/2) ≤ E‖r‖ with
//!    r = x − b over the members x of a cluster with mean a, where, from central moments,
//!    E‖r‖² = V + ‖δ‖² and E‖r‖⁴ ≤ F + 4λ‖δ‖² + 4τ‖δ‖ + 2V‖δ‖² + ‖δ‖⁴.
//!
//! What a bound loses to rounding is covered: each cluster's `error` bounds how far its stored
//! mean is from the real one, and the other margins are a priori bounds of the form c·p·2⁻²⁴.

use std::collections::BinaryHeap;

use pulp::{Simd, WithSimd};

use super::simd::{singles, singles_mut};
use crate::mahalanobis::shape::packed_len;

/// Clusters in a block.
pub const LANES: usize = 16;

type Row = [f32; LANES];

/// Single precision's unit roundoff.
const UNIT: f64 = 1.0 / (1u64 << 24) as f64;

/// Marks the position of a cluster that was merged away.
const GONE: u32 = u32::MAX;

// Scalars of a block, after its p rows of coordinates.
const ERROR: usize = 0;
const LOW: usize = 1;
const CENTROID_SCALARS: usize = 2;
// Only for full distances:
const VARIANCE: usize = 2;
const FOURTH: usize = 3;
const LARGEST: usize = 4;
const THIRD: usize = 5;
const FULL_SCALARS: usize = 6;

/// Bounds on the central moments of a cluster's members, in data units.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spread {
    /// E‖r‖² (from below in numerators, from above in denominators: exact up to rounding).
    pub variance: f64,
    /// An upper bound on E‖r‖⁴.
    pub fourth: f64,
    /// An upper bound on the largest eigenvalue of E rrᵀ.
    pub largest: f64,
    /// An upper bound on ‖E‖r‖²r‖.
    pub third: f64,
}

/// What the screen needs to know of a cluster.
#[derive(Debug, Clone, Copy)]
pub struct Profile<'a> {
    pub mean: &'a [f64],
    /// Packed whitening factor, or empty for the identity.
    pub whitening: &'a [f64],
    /// A lower bound on ‖Wy‖/‖y‖; 1 for the identity.
    pub low: f64,
    /// An upper bound on ‖Wy‖/‖y‖; 1 for the identity.
    pub stretch: f64,
    pub spread: Spread,
}

/// A whitening factor as the target of bounds from single means: columns padded to whole rows of
/// lanes.
#[derive(Debug, Clone)]
struct Target {
    columns: Vec<Row>,
    relative: f32,
    absolute: f32,
}

/// The live clusters as the screen sees them.
pub struct Screen {
    p: usize,
    full: bool,
    center: Vec<f64>,
    /// Data units for one screen unit, a power of two.
    unit: f64,
    /// What rounding the sums of full distances can cost, relative to the stretch.
    sum_error: f64,
    blocks: Vec<Row>,
    /// By position, the slot, or [`GONE`].
    slots: Vec<u32>,
    /// By slot.
    positions: Vec<u32>,
    targets: Vec<Option<Box<Target>>>,
    gone: usize,
}

/// One cluster against which others are bounded.
pub struct Query {
    mean: Vec<f32>,
    error: f32,
    low: f32,
    /// Packed, or empty for the identity.
    whitening: Vec<f32>,
    relative: f32,
    absolute: f32,
    variance: f32,
    fourth: f32,
    largest: f32,
    third: f32,
}

/// The smallest lower bounds of a sweep, at most `capacity` of them.
#[derive(Debug)]
pub struct Nearest {
    capacity: usize,
    /// Bits of the bound (bounds are ≥ 0, so their bits order them), then the slot.
    heap: BinaryHeap<u64>,
}

impl Nearest {
    /// Empty, for the `capacity` smallest.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            heap: BinaryHeap::with_capacity(capacity + 1),
        }
    }

    #[inline(always)]
    fn limit(&self) -> f32 {
        if self.heap.len() < self.capacity {
            return f32::INFINITY;
        }
        self.heap
            .peek()
            .map_or(f32::INFINITY, |top| f32::from_bits((top >> 32) as u32))
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
    pub fn merge(&mut self, other: Nearest) {
        for key in other.heap {
            self.heap.push(key);
            if self.heap.len() > self.capacity {
                self.heap.pop();
            }
        }
    }

    /// A lower bound on everything that was left out, in screen units.
    pub fn floor(&self) -> f64 {
        f64::from(self.limit())
    }

    /// The bounds found (in screen units) and their slots, in no order.
    pub fn into_entries(self) -> impl Iterator<Item = (f64, u32)> {
        self.heap
            .into_iter()
            .map(|key| (f64::from(f32::from_bits((key >> 32) as u32)), key as u32))
    }
}

/// Clusters that a sweep leaves out because their distance is known already.
#[derive(Debug, Default)]
pub struct Marks {
    stamps: Vec<u32>,
    current: u32,
}

impl Marks {
    /// For slots below `slots`; nothing marked.
    pub fn new(slots: usize) -> Self {
        Self {
            stamps: vec![0; slots],
            current: 1,
        }
    }

    /// Forgets all marks.
    pub fn clear(&mut self) {
        self.current += 1;
    }

    /// Marks a slot.
    pub fn mark(&mut self, slot: u32) {
        self.stamps[slot as usize] = self.current;
    }

    #[inline(always)]
    fn has(&self, slot: u32) -> bool {
        self.stamps
            .get(slot as usize)
            .is_some_and(|&stamp| stamp == self.current)
    }
}

/// The next single above.
fn up(value: f64) -> f32 {
    (value as f32).next_up()
}

/// The next single below, for positive values.
fn down(value: f64) -> f32 {
    (value as f32).next_down().max(0.0)
}

impl Screen {
    /// Empty, for clusters in slots below `slots` whose means lie within `reach` of `center`.
    /// `full` prepares for full distances over at most 2^`log2_terms` members.
    pub fn new(slots: usize, center: Vec<f64>, reach: f64, full: bool, log2_terms: u32) -> Self {
        // Clamped so that fourth powers stay in range; a smaller reach makes bounds loose.
        let exponent = ((reach.to_bits() >> 52) as i64 - 1022).clamp(-250, 250);
        Self {
            p: center.len(),
            full,
            center,
            unit: f64::from_bits(((exponent + 1023) as u64) << 52),
            sum_error: 2.0f64.powi(2 * log2_terms as i32 - 90),
            blocks: Vec::new(),
            slots: Vec::new(),
            positions: vec![GONE; slots],
            targets: vec![None; slots],
            gone: 0,
        }
    }

    /// Data units for one screen unit.
    pub fn unit(&self) -> f64 {
        self.unit
    }

    /// Number of positions in use, those of clusters merged away included.
    pub fn positions(&self) -> usize {
        self.slots.len()
    }

    /// Where a slot's cluster is.
    pub fn position(&self, slot: u32) -> usize {
        self.positions[slot as usize] as usize
    }

    /// The slots of the live clusters in order of birth.
    pub fn live(&self) -> impl Iterator<Item = u32> + '_ {
        self.slots.iter().copied().filter(|&slot| slot != GONE)
    }

    fn scalars(&self) -> usize {
        if self.full {
            FULL_SCALARS
        } else {
            CENTROID_SCALARS
        }
    }

    /// Adds a cluster as the youngest.
    pub fn push(&mut self, slot: u32, profile: &Profile) {
        let position = self.slots.len();
        let lane = position % LANES;
        let height = self.p + self.scalars();
        if lane == 0 {
            self.blocks.resize(self.blocks.len() + height, [0.0; LANES]);
            let start = self.blocks.len() - height;
            self.blocks[start + self.p + LOW] = [f32::NAN; LANES];
        }
        let start = position / LANES * height;
        let query = self.query(profile);
        for (k, &value) in query.mean.iter().enumerate() {
            self.blocks[start + k][lane] = value;
        }
        let scalars = &mut self.blocks[start + self.p..];
        scalars[ERROR][lane] = query.error;
        scalars[LOW][lane] = query.low;
        if self.full {
            scalars[VARIANCE][lane] = query.variance;
            scalars[FOURTH][lane] = query.fourth;
            scalars[LARGEST][lane] = query.largest;
            scalars[THIRD][lane] = query.third;
        }
        self.slots.push(slot);
        self.positions[slot as usize] = position as u32;
        self.targets[slot as usize] = target(&query, self.p);
    }

    /// Removes a cluster.
    pub fn remove(&mut self, slot: u32) {
        let position = self.position(slot);
        let height = self.p + self.scalars();
        let low = position / LANES * height + self.p + LOW;
        // A comparison with NaN is false: no bound of this lane passes a sweep.
        self.blocks[low][position % LANES] = f32::NAN;
        self.slots[position] = GONE;
        self.positions[slot as usize] = GONE;
        self.targets[slot as usize] = None;
        self.gone += 1;
        if self.gone > 4 * LANES + self.slots.len() / 8 {
            self.compact();
        }
    }

    /// Closes the gaps; the order of birth stays.
    fn compact(&mut self) {
        let height = self.p + self.scalars();
        let mut to = 0;
        for from in 0..self.slots.len() {
            let slot = self.slots[from];
            if slot == GONE {
                continue;
            }
            if to < from {
                let (source, sink) = (from / LANES * height, to / LANES * height);
                for k in 0..height {
                    self.blocks[sink + k][to % LANES] = self.blocks[source + k][from % LANES];
                }
                self.slots[to] = slot;
                self.positions[slot as usize] = to as u32;
            }
            to += 1;
        }
        self.slots.truncate(to);
        self.blocks.truncate(to.div_ceil(LANES) * height);
        for lane in to..to.next_multiple_of(LANES) {
            self.blocks[to / LANES * height + self.p + LOW][lane % LANES] = f32::NAN;
        }
        self.gone = 0;
    }

    /// The cluster of `profile` as the other side of a sweep.
    pub fn query(&self, profile: &Profile) -> Query {
        let scale = 1.0 / self.unit;
        let mut mean = Vec::with_capacity(self.p);
        let mut square = 0.0f64;
        for (value, center) in profile.mean.iter().zip(&self.center) {
            let exact = (value - center) * scale;
            let single = exact as f32;
            let difference = f64::from(single) - exact;
            // The two roundings of `exact` itself.
            let lost = difference.abs() + exact.abs() * 2.0 * f64::EPSILON;
            square += lost * lost;
            mean.push(single);
        }
        let usable = profile
            .whitening
            .iter()
            .all(|w| w.abs() < f64::from(f32::MAX) * 1e-20);
        let whitening: Vec<f32> = if usable {
            profile.whitening.iter().map(|&w| w as f32).collect()
        } else {
            vec![0.0; profile.whitening.len()]
        };
        // With no bound from the shape, zero is one.
        let (low, stretch) = if usable {
            (profile.low, profile.stretch)
        } else {
            (0.0, 0.0)
        };
        let sums = if self.full && low > 0.0 {
            self.sum_error * stretch / low
        } else {
            0.0
        };
        let floor_error = 1.0 / (1u64 << 60) as f64;
        let squared = scale * scale;
        let spread = &profile.spread;
        let slack = 1e-6;
        Query {
            mean,
            error: up(square.sqrt() * 1.000_001 + sums + floor_error),
            low: if profile.whitening.is_empty() {
                1.0
            } else {
                down(low)
            },
            whitening,
            relative: up((2 * self.p + 12) as f64 * UNIT * stretch),
            absolute: up(1.000_001 * stretch),
            variance: down(spread.variance * squared * (1.0 - slack)),
            fourth: up(spread.fourth * squared * squared * (1.0 + slack)),
            largest: up(spread.largest * squared * (1.0 + slack)),
            third: up(spread.third * squared * scale * (1.0 + slack)),
        }
    }

    /// The smallest lower bounds from `query` to the clusters at the positions of these blocks
    /// that lie before `end`, `marks` left out.
    pub fn sweep<'a>(
        &'a self,
        query: &'a Query,
        blocks: std::ops::Range<usize>,
        end: usize,
        marks: &'a Marks,
        nearest: Nearest,
    ) -> Sweep<'a> {
        Sweep {
            screen: self,
            query,
            blocks,
            end,
            marks,
            nearest,
        }
    }

    /// A lower bound on ‖Wδ‖ from a target's own shape, `distance` being ‖δ‖; 0 where it has none.
    #[inline(always)]
    fn bound_to_target<S: Simd>(
        &self,
        simd: S,
        query: &Query,
        position: usize,
        distance: f32,
        error: f32,
    ) -> f32 {
        let Some(target) = &self.targets[self.slots[position] as usize] else {
            return 0.0;
        };
        let height = self.p + self.scalars();
        let block = &self.blocks[position / LANES * height..][..self.p];
        let lane = position % LANES;
        let groups = self.p.div_ceil(LANES);
        let registers = LANES / S::F32_LANES;
        let columns = singles::<S>(target.columns.as_flattened());
        let mut square = simd.splat_f32s(0.0);
        for part in 0..groups * registers {
            let mut whitened = simd.splat_f32s(0.0);
            let last = self.p.min((part + 1) * S::F32_LANES);
            for (k, row) in block[..last].iter().enumerate() {
                let difference = simd.splat_f32s(query.mean[k] - row[lane]);
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
        query: &Query,
        positions: std::ops::Range<usize>,
        (lanes, to_query, to_target): (&Lanes<S>, S::f32s, S::f32s),
        marks: &Marks,
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
            let slot = self.slots[position];
            // What overflowed to NaN bounds nothing: `max` makes it zero.
            let (to_query, to_target) = (to_queries[l].max(0.0), to_targets[l].max(0.0));
            let loose = slack * (to_query + to_target);
            if slot == GONE || loose >= limit || marks.has(slot) {
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

fn target(query: &Query, p: usize) -> Option<Box<Target>> {
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

/// A sweep over blocks, as a kernel.
pub struct Sweep<'a> {
    screen: &'a Screen,
    query: &'a Query,
    blocks: std::ops::Range<usize>,
    end: usize,
    marks: &'a Marks,
    nearest: Nearest,
}

impl WithSimd for Sweep<'_> {
    type Output = Nearest;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Nearest {
        let Sweep {
            screen,
            query,
            blocks,
            end,
            marks,
            mut nearest,
        } = self;
        let p = screen.p;
        let height = p + screen.scalars();
        let registers = LANES / S::F32_LANES;
        let shrink = 1.0 - (p as f32 + 8.0) * UNIT as f32;
        let query_low = simd.splat_f32s(query.low);
        let query_error = simd.splat_f32s(query.error);
        let cautious = simd.splat_f32s(shrink * 0.999_999);
        let mut difference = vec![0.0f32; p * S::F32_LANES];
        for index in blocks {
            let rows = &screen.blocks[index * height..][..height];
            let values = singles::<S>(rows.as_flattened());
            for part in 0..registers {
                let row = |k: usize| values[k * registers + part];
                let mut square = simd.splat_f32s(0.0);
                for (k, &mean) in query.mean.iter().enumerate() {
                    let d = simd.sub_f32s(simd.splat_f32s(mean), row(k));
                    square = simd.mul_add_e_f32s(d, d, square);
                }
                // Is (s_a + s_b)·(shrink·√square − error) < 2·limit? Asked without the root, and
                // never of a cluster that is gone: its low is NaN.
                let low = simd.add_f32s(query_low, row(p + LOW));
                let error = simd.add_f32s(query_error, row(p + ERROR));
                let left = simd.mul_f32s(low, cautious);
                let left = simd.mul_f32s(simd.mul_f32s(left, left), square);
                let limit = simd.splat_f32s(2.0 * nearest.limit());
                let right = simd.mul_add_e_f32s(low, error, limit);
                let near = simd.less_than_f32s(left, simd.mul_f32s(right, right));
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
                let (to_query, to_target) =
                    lanes.bounds(simd, screen, query, values, registers, &mut difference);
                let position = index * LANES + part * S::F32_LANES;
                screen.collect(
                    simd,
                    query,
                    position..end,
                    (&lanes, to_query, to_target),
                    marks,
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
    fn bounds(
        &self,
        simd: S,
        screen: &Screen,
        query: &Query,
        rows: &[S::f32s],
        registers: usize,
        difference: &mut [f32],
    ) -> (S::f32s, S::f32s) {
        let p = screen.p;
        let splat = |value: f32| simd.splat_f32s(value);
        let row = |k: usize| rows[k * registers];
        let shrunk = simd.mul_f32s(self.distance, splat(self.shrink));
        let centroids = simd.max_f32s(simd.sub_f32s(shrunk, self.error), splat(0.0));
        let (mut near, mut far) = (centroids, centroids);
        if screen.full {
            let margin = splat(1.0 - (4.0 * p as f32 + 96.0) * UNIT as f32);
            let from_query = self.mean_norm(
                simd,
                [query.variance, query.fourth, query.largest, query.third].map(splat),
            );
            let from_target = self.mean_norm(
                simd,
                [VARIANCE, FOURTH, LARGEST, THIRD].map(|scalar| row(p + scalar)),
            );
            let safe = |bound| simd.sub_f32s(simd.mul_f32s(bound, margin), self.error);
            near = simd.max_f32s(near, safe(from_target));
            far = simd.max_f32s(far, safe(from_query));
        }
        let mut to_query = simd.mul_f32s(splat(query.low), near);
        let to_target = simd.mul_f32s(row(p + LOW), far);
        if !query.whitening.is_empty() {
            let difference = singles_mut::<S>(difference);
            for (k, &mean) in query.mean.iter().enumerate() {
                difference[k] = simd.sub_f32s(splat(mean), row(k));
            }
            let whitened = norm_of_product(simd, &query.whitening, difference);
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
