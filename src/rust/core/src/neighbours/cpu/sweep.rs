//! Sweeps of a few queries over all references, a register-blocked tile at a time.

use pulp::{Simd, WithSimd};

use super::blocks::{Blocks, Row, ALLOWANCE, ERROR, FACTOR, HALF, LANES};
use crate::neighbours::single::{Frame, Scalars, Sums, Threshold, View};
use crate::simd::{dispatch, lanes, singles, singles_mut};

/// Queries in a tile.
pub const QUERIES: usize = 6;

/// Registers of references in a tile.
const REGISTERS: usize = 2;

/// Room for so many references is made before they are found.
const MOST_ROOM: usize = 1024;

/// What is asked for one query.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// References of this group do not count.
    pub group: u32,
    /// How many of the nearest references to keep.
    pub capacity: usize,
    /// The greatest bound that is of interest, in view units.
    pub limit: f32,
    /// How many references may come that look near and are not among the nearest, before the sweep
    /// gives the query up. Where bounds of many references are the same, each of these takes far
    /// longer than one that is far away.
    pub patience: usize,
}

/// A query of a sweep and what it has found.
pub struct Query {
    view: Scalars,
    group: u32,
    capacity: usize,
    /// The nearest references so far, and others that have come since they were last sorted out:
    /// bits of the bound (bounds are ≥ 0, so their bits order them), then the position.
    keys: Vec<u64>,
    /// Only keys below it count.
    floor: u64,
    /// Whether references were left out for others; their keys are from the floor on.
    left_out: bool,
    threshold: Threshold,
    /// What is left of [`Wanted::patience`].
    patience: usize,
}

impl Query {
    fn new(frame: &Frame, view: Scalars, wanted: &Wanted) -> Self {
        let &Wanted {
            group,
            capacity,
            limit,
            patience,
        } = wanted;
        // The first key beyond all those with this bound.
        let floor = (u64::from(limit.to_bits()) + 1) << 32;
        Self {
            threshold: frame.threshold(&view, limit),
            view,
            group,
            capacity,
            keys: Vec::with_capacity((2 * capacity).min(MOST_ROOM)),
            floor,
            left_out: false,
            patience,
        }
    }

    /// Whether the sweep gave it up: then it has not seen all references.
    fn is_given_up(&self) -> bool {
        self.patience == 0
    }

    #[inline(always)]
    fn insert(&mut self, frame: &Frame, key: u64) {
        if key >= self.floor {
            self.patience = self.patience.saturating_sub(1);
            if self.is_given_up() {
                // No sum is below it.
                self.threshold.base = f32::NEG_INFINITY;
            }
            return;
        }
        self.keys.push(key);
        if self.keys.len() >= 2 * self.capacity {
            self.sort_out(frame);
        }
    }

    /// Keeps the nearest of what has come.
    #[inline(never)]
    fn sort_out(&mut self, frame: &Frame) {
        if self.keys.len() <= self.capacity {
            return;
        }
        let (_, &mut first_left_out, _) = self.keys.select_nth_unstable(self.capacity);
        self.keys.truncate(self.capacity);
        self.floor = first_left_out;
        self.left_out = true;
        let limit = f32::from_bits((first_left_out >> 32) as u32);
        if !self.is_given_up() {
            self.threshold = frame.threshold(&self.view, limit);
        }
    }

    fn finish(mut self, frame: &Frame) -> Found {
        self.sort_out(frame);
        self.keys.sort_unstable();
        Found {
            floor: self.left_out.then_some(self.floor),
            given_up: self.is_given_up(),
            keys: self.keys,
        }
    }
}

/// What a sweep found for a query. A key is the bits of a lower bound in view units, then the
/// position.
#[derive(Debug)]
pub struct Found {
    /// The least keys of references within the limit, in increasing order.
    pub keys: Vec<u64>,
    /// All other keys of references within the limit are from here on; `None` without others.
    pub floor: Option<u64>,
    /// Whether there may be any other references beside these.
    pub given_up: bool,
}

/// The nearest references of some queries; the groups are those of the positions. Begins at the
/// block of the position `first`, near which the nearest ones are where the data are sorted: the
/// earlier they are found, the fewer others are kept for a while.
pub fn sweep(
    frame: &Frame,
    blocks: &Blocks,
    groups: &[[u32; LANES]],
    queries: &[(View, Wanted)],
    first: usize,
) -> Vec<Found> {
    let coordinates = tiles(frame.columns(), queries);
    let mut found = queries
        .iter()
        .map(|(view, wanted)| Query::new(frame, view.scalars, wanted))
        .collect::<Vec<_>>();
    let sweep = Sweep {
        frame,
        blocks,
        groups,
        coordinates: &coordinates,
        queries: &mut found,
        first: first / LANES,
    };
    match frame.sums() {
        Sums::Squares => dispatch(Over(sweep, Squares)),
        Sums::Magnitudes => dispatch(Over(sweep, Magnitudes)),
        Sums::Greatest => dispatch(Over(sweep, Greatest)),
        Sums::Quotients => dispatch(Over(sweep, Quotients)),
        Sums::Products => dispatch(Over(sweep, Products)),
        Sums::AbsoluteProducts => dispatch(Over(sweep, AbsoluteProducts)),
    }
    found.into_iter().map(|query| query.finish(frame)).collect()
}

/// The coordinates of queries, those of a tile side by side; the last query is repeated where a
/// tile is not full.
fn tiles(columns: usize, queries: &[(View, Wanted)]) -> Vec<[f32; QUERIES]> {
    let mut coordinates = Vec::with_capacity(queries.len().div_ceil(QUERIES) * columns);
    for tile in queries.chunks(QUERIES) {
        let view = |q: usize| &tile[q.min(tile.len() - 1)].0.values;
        let side_by_side = |k| std::array::from_fn(|q| view(q)[k]);
        coordinates.extend((0..columns).map(side_by_side));
    }
    coordinates
}

/// What is added up: [`Sums`], one by one.
trait Term: Copy {
    /// Adds what one coordinate of two views gives.
    fn add<S: Simd>(self, simd: S, sum: S::f32s, a: S::f32s, b: S::f32s) -> S::f32s;

    /// After the last coordinate.
    #[inline(always)]
    fn finish<S: Simd>(self, _: S, sum: S::f32s) -> S::f32s {
        sum
    }
}

#[derive(Clone, Copy)]
struct Squares;

impl Term for Squares {
    #[inline(always)]
    fn add<S: Simd>(self, simd: S, sum: S::f32s, a: S::f32s, b: S::f32s) -> S::f32s {
        let difference = simd.sub_f32s(a, b);
        simd.mul_add_e_f32s(difference, difference, sum)
    }
}

#[derive(Clone, Copy)]
struct Magnitudes;

impl Term for Magnitudes {
    #[inline(always)]
    fn add<S: Simd>(self, simd: S, sum: S::f32s, a: S::f32s, b: S::f32s) -> S::f32s {
        simd.add_f32s(sum, simd.abs_f32s(simd.sub_f32s(a, b)))
    }
}

#[derive(Clone, Copy)]
struct Greatest;

impl Term for Greatest {
    #[inline(always)]
    fn add<S: Simd>(self, simd: S, sum: S::f32s, a: S::f32s, b: S::f32s) -> S::f32s {
        simd.max_f32s(sum, simd.abs_f32s(simd.sub_f32s(a, b)))
    }
}

#[derive(Clone, Copy)]
struct Quotients;

impl Term for Quotients {
    #[inline(always)]
    fn add<S: Simd>(self, simd: S, sum: S::f32s, a: S::f32s, b: S::f32s) -> S::f32s {
        let difference = simd.abs_f32s(simd.sub_f32s(a, b));
        let magnitude = simd.add_f32s(simd.abs_f32s(a), simd.abs_f32s(b));
        // Makes 0/0 zero, and changes no other quotient: coordinates are zero or far greater.
        let magnitude = simd.add_f32s(magnitude, simd.splat_f32s(f32::MIN_POSITIVE));
        simd.add_f32s(sum, simd.div_f32s(difference, magnitude))
    }
}

#[derive(Clone, Copy)]
struct Products;

impl Term for Products {
    #[inline(always)]
    fn add<S: Simd>(self, simd: S, sum: S::f32s, a: S::f32s, b: S::f32s) -> S::f32s {
        simd.negate_mul_add_e_f32s(a, b, sum)
    }
}

#[derive(Clone, Copy)]
struct AbsoluteProducts;

impl Term for AbsoluteProducts {
    #[inline(always)]
    fn add<S: Simd>(self, simd: S, sum: S::f32s, a: S::f32s, b: S::f32s) -> S::f32s {
        simd.mul_add_e_f32s(a, b, sum)
    }

    #[inline(always)]
    fn finish<S: Simd>(self, simd: S, sum: S::f32s) -> S::f32s {
        simd.neg_f32s(simd.abs_f32s(sum))
    }
}

/// Some queries, QUERIES to a tile, over all blocks.
struct Sweep<'a> {
    frame: &'a Frame,
    blocks: &'a Blocks,
    groups: &'a [[u32; LANES]],
    coordinates: &'a [[f32; QUERIES]],
    queries: &'a mut [Query],
    /// The block to begin with.
    first: usize,
}

struct Over<'a, T>(Sweep<'a>, T);

impl<T: Term> WithSimd for Over<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Over(sweep, term) = self;
        let columns = sweep.frame.columns();
        let blocks = || sweep.blocks.iter().zip(sweep.groups).enumerate();
        let in_turn = blocks().skip(sweep.first).chain(blocks().take(sweep.first));
        for (index, (block, groups)) in in_turn {
            let (coordinates, scalars) = block.split_at(columns);
            let tiles = sweep.coordinates.chunks_exact(columns);
            for (queries, tile) in sweep.queries.chunks_mut(QUERIES).zip(tiles) {
                if queries.iter().all(Query::is_given_up) {
                    continue;
                }
                for part in 0..LANES / (REGISTERS * S::F32_LANES) {
                    let sums = tile_of_sums(simd, term, tile, coordinates, part);
                    let target = Target {
                        frame: sweep.frame,
                        scalars,
                        groups,
                        first: index * LANES,
                    };
                    for (query, sums) in queries.iter_mut().zip(sums) {
                        for (r, sums) in sums.into_iter().enumerate() {
                            target.collect(simd, query, sums, part * REGISTERS + r);
                        }
                    }
                }
            }
        }
    }
}

/// The sums of a tile of queries with some registers of references.
#[inline(always)]
fn tile_of_sums<S: Simd, T: Term>(
    simd: S,
    term: T,
    tile: &[[f32; QUERIES]],
    coordinates: &[Row],
    part: usize,
) -> [[S::f32s; REGISTERS]; QUERIES] {
    let mut sums = [[simd.splat_f32s(0.0); REGISTERS]; QUERIES];
    for (queries, row) in tile.iter().zip(coordinates) {
        let row = &singles::<S>(row)[part * REGISTERS..][..REGISTERS];
        for (sums, &query) in sums.iter_mut().zip(queries) {
            let query = simd.splat_f32s(query);
            for (sum, &reference) in sums.iter_mut().zip(row) {
                *sum = term.add(simd, *sum, query, reference);
            }
        }
    }
    for sum in sums.as_flattened_mut() {
        *sum = term.finish(simd, *sum);
    }
    sums
}

/// The references of a block as the target of a tile.
struct Target<'a> {
    frame: &'a Frame,
    scalars: &'a [Row],
    groups: &'a [u32; LANES],
    /// The position of the block's first reference.
    first: usize,
}

impl Target<'_> {
    /// Keeps what is near among a register of references.
    #[inline(always)]
    fn collect<S: Simd>(&self, simd: S, query: &mut Query, sums: S::f32s, register: usize) {
        let row = |scalar: usize| singles::<S>(&self.scalars[scalar])[register];
        let slope = simd.splat_f32s(query.threshold.slope);
        let base = simd.splat_f32s(query.threshold.base);
        let threshold = simd.mul_add_e_f32s(slope, row(FACTOR), base);
        let threshold = simd.add_f32s(threshold, row(ALLOWANCE));
        let near = simd.less_than_f32s(sums, threshold);
        let groups = S::as_simd_u32s(self.groups).0[register];
        let own = simd.equal_u32s(groups, simd.splat_u32s(query.group));
        let near = simd.and_m32s(near, simd.not_m32s(own));
        if simd.first_true_m32s(near) == S::F32_LANES {
            return;
        }
        let mut values = [0.0f32; LANES];
        singles_mut::<S>(&mut values)[0] = sums;
        let first = register * S::F32_LANES;
        self.insert(query, &values, lanes::<S>(near), first);
    }

    /// Keeps what is nearest of some `lanes` of sums; the first of these is the block's `first`.
    #[inline(never)]
    fn insert(&self, query: &mut Query, sums: &[f32; LANES], mut lanes: u32, first: usize) {
        while lanes != 0 {
            let at = lanes.trailing_zeros() as usize;
            lanes &= lanes - 1;
            let lane = first + at;
            let [error, factor, half] = [ERROR, FACTOR, HALF].map(|s| self.scalars[s][lane]);
            let bound = self.frame.bound(sums[at], &query.view, error, factor, half);
            let key = (u64::from(bound.to_bits()) << 32) | (self.first + lane) as u64;
            query.insert(self.frame, key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    const COLUMNS: usize = 5;

    /// What a sweep of squares finds under one instruction set.
    fn found_with(
        run: impl FnOnce(Over<Squares>),
        frame: &Frame,
        (blocks, groups): (&Blocks, &[[u32; LANES]]),
        queries: &[(View, Wanted)],
    ) -> Vec<Found> {
        let coordinates = tiles(COLUMNS, queries);
        let mut found: Vec<Query> = queries
            .iter()
            .map(|(view, wanted)| Query::new(frame, view.scalars, wanted))
            .collect();
        let sweep = Sweep {
            frame,
            blocks,
            groups,
            coordinates: &coordinates,
            queries: &mut found,
            first: 1,
        };
        run(Over(sweep, Squares));
        found.into_iter().map(|query| query.finish(frame)).collect()
    }

    #[test]
    fn every_instruction_set_finds_the_same() {
        let mut random = Random(31);
        let mut rows = |n: usize| -> Vec<[f64; COLUMNS]> {
            (0..n)
                .map(|_| std::array::from_fn(|_| random.normal()))
                .collect()
        };
        let references = rows(77);
        let frame = Frame::squares(vec![0.0; COLUMNS], 10.0);
        let mut blocks = Blocks::new(&frame, 77, |i| Some((&references[i], 1.0))).unwrap();
        blocks.remove(50);
        let groups: Vec<[u32; LANES]> = (0..3)
            .map(|block| std::array::from_fn(|lane| ((block * LANES + lane) % 4) as u32))
            .collect();
        let points = rows(13);
        let wanted = |i: usize| Wanted {
            group: i as u32 % 4,
            capacity: 9,
            limit: if i < 7 {
                f32::INFINITY
            } else {
                frame.limit(2.0)
            },
            patience: 1000,
        };
        let queries: Vec<(View, Wanted)> = (0..13)
            .map(|i| (frame.view(&points[i], 1.0), wanted(i)))
            .collect();
        let expected: Vec<Vec<u32>> = (0..13)
            .map(|i| {
                let distance = |j: u32| {
                    let pairs = points[i].iter().zip(&references[j as usize]);
                    pairs.map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
                };
                let mut near: Vec<u32> = (0..77)
                    .filter(|&j| j != 50 && j as usize % 4 != i % 4)
                    .filter(|&j| i < 7 || distance(j) <= 2.0)
                    .collect();
                near.sort_by(|&a, &b| distance(a).total_cmp(&distance(b)));
                near.truncate(9);
                near
            })
            .collect();
        let check = |run: &mut dyn FnMut(Over<Squares>), name: &str| {
            let found = found_with(run, &frame, (&blocks, &groups), &queries);
            let positions = |found: &Found| found.keys.iter().map(|&key| key as u32).collect();
            let found: Vec<Vec<u32>> = found.iter().map(positions).collect();
            assert_eq!(found, expected, "{name}");
        };
        check(&mut |kernel| dispatch(kernel), "the widest");
        check(&mut |kernel| pulp::Scalar.vectorize(kernel), "none");
        #[cfg(target_arch = "x86_64")]
        if let Some(simd) = pulp::x86::V3::try_new() {
            check(&mut |kernel| Simd::vectorize(simd, kernel), "AVX2");
        }
    }
}
