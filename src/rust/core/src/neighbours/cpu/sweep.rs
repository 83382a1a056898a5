//! Sweeps all references for a few queries, one register-blocked tile after the other.

use pulp::{Simd, WithSimd};

use super::reference_blocks::{LaneRow, ReferenceBlocks, ALLOWANCE, ERROR, FACTOR, HALF, LANES};
use super::sweep_terms::{
    AbsoluteProducts, Greatest, Magnitudes, Products, Quotients, Squares, SweepTerm,
};
use crate::neighbours::single::{RowFrame, RowSum, RowView, Scalars, Threshold};
use crate::simd::{dispatch, lanes, singles, singles_mut};

/// Number of queries per tile. With [`REGISTERS`], it gives enough independent sums to hide the
/// latency of additions, and few enough to stay in registers. Only the time depends on it.
pub const QUERIES_PER_TILE: usize = 6;

/// Number of registers of references per tile. Only the time depends on it.
const REGISTERS: usize = 2;

/// Largest number of keys for which a query allocates memory in advance; more memory is allocated
/// when needed.
const KEYS_IN_ADVANCE: usize = 1024;

/// The limits of the sweep for one query.
#[derive(Debug, Clone, Copy)]
pub struct SweepLimits {
    /// References of this group are excluded.
    pub group: u32,
    /// Number of candidates to keep.
    pub capacity: usize,
    /// References with a greater lower bound are not candidates. In view units.
    pub limit: f32,
    /// Number of references that pass the threshold without becoming candidates after which the
    /// sweep abandons the query. Each of these references takes far longer than a reference that
    /// the threshold excludes, so a sweep is slow if many references have the same bound.
    pub patience: usize,
}

/// A query of a sweep and its candidates so far.
pub struct SweepQuery {
    view: Scalars,
    group: u32,
    capacity: usize,
    /// The candidates so far, and references added since the last pruning. A key is the bits of the
    /// bound (bounds are ≥ 0, so their bits order them), then the position.
    keys: Vec<u64>,
    /// An upper bound on the keys of candidates.
    floor: u64,
    /// Whether references within the limit were dropped; their keys are at or above the floor.
    truncated: bool,
    threshold: Threshold,
    /// The remaining part of [`SweepLimits::patience`].
    patience: usize,
}

impl SweepQuery {
    fn new(frame: &RowFrame, view: Scalars, wanted: &SweepLimits) -> Self {
        let &SweepLimits {
            group,
            capacity,
            limit,
            patience,
        } = wanted;
        // The first key above all keys with this bound.
        let floor = (u64::from(limit.to_bits()) + 1) << 32;
        Self {
            threshold: frame.threshold(&view, limit),
            view,
            group,
            capacity,
            keys: Vec::with_capacity((2 * capacity).min(KEYS_IN_ADVANCE)),
            floor,
            truncated: false,
            patience,
        }
    }

    /// Whether the sweep abandoned the query, so that it has not visited all references.
    fn is_abandoned(&self) -> bool {
        self.patience == 0
    }

    /// Adds a reference that passed the threshold.
    #[inline(always)]
    fn insert(&mut self, frame: &RowFrame, key: u64) {
        if key >= self.floor {
            self.patience = self.patience.saturating_sub(1);
            if self.is_abandoned() {
                // No sum is below −∞.
                self.threshold.base = f32::NEG_INFINITY;
            }
            return;
        }
        self.keys.push(key);
        if self.keys.len() >= 2 * self.capacity {
            self.prune(frame);
        }
    }

    /// Keeps the `capacity` smallest keys, and lowers the threshold to the first dropped key.
    #[inline(never)]
    fn prune(&mut self, frame: &RowFrame) {
        if self.keys.len() <= self.capacity {
            return;
        }
        let (_, &mut first_dropped, _) = self.keys.select_nth_unstable(self.capacity);
        self.keys.truncate(self.capacity);
        self.floor = first_dropped;
        self.truncated = true;
        let limit = f32::from_bits((first_dropped >> 32) as u32);
        if !self.is_abandoned() {
            self.threshold = frame.threshold(&self.view, limit);
        }
    }

    fn finish(mut self, frame: &RowFrame) -> SweepAnswer {
        self.prune(frame);
        self.keys.sort_unstable();
        SweepAnswer {
            floor: self.truncated.then_some(self.floor),
            abandoned: self.is_abandoned(),
            keys: self.keys,
        }
    }
}

/// The result of a sweep for a query. A key is the bits of a lower bound in view units, then the
/// position.
#[derive(Debug)]
pub struct SweepAnswer {
    /// The candidates: the smallest keys of references within the limit, in increasing order.
    pub keys: Vec<u64>,
    /// A lower bound on the keys of all other references within the limit; `None` if there are no
    /// others.
    pub floor: Option<u64>,
    /// Whether the sweep abandoned the query, so that any other reference may be within the limit.
    pub abandoned: bool,
}

/// The candidates of some queries; `groups` are the groups of the positions. Begins at the block of
/// the position `first`. If the data are sorted, the nearest references are near this position, and
/// the earlier they come, the fewer other references pass the threshold.
pub fn sweep(
    frame: &RowFrame,
    blocks: &ReferenceBlocks,
    groups: &[[u32; LANES]],
    queries: &[(RowView, SweepLimits)],
    first: usize,
) -> Vec<SweepAnswer> {
    let coordinates = tiles(frame.columns(), queries);
    let mut found = queries
        .iter()
        .map(|(view, wanted)| SweepQuery::new(frame, view.scalars, wanted))
        .collect::<Vec<_>>();
    let sweep = RowSweep {
        frame,
        blocks,
        groups,
        coordinates: &coordinates,
        queries: &mut found,
        first: first / LANES,
    };
    match frame.sums() {
        RowSum::Squares => dispatch(SweepKernel(sweep, Squares)),
        RowSum::Magnitudes => dispatch(SweepKernel(sweep, Magnitudes)),
        RowSum::Greatest => dispatch(SweepKernel(sweep, Greatest)),
        RowSum::Quotients => dispatch(SweepKernel(sweep, Quotients)),
        RowSum::Products => dispatch(SweepKernel(sweep, Products)),
        RowSum::AbsoluteProducts => dispatch(SweepKernel(sweep, AbsoluteProducts)),
    }
    found.into_iter().map(|query| query.finish(frame)).collect()
}

/// The coordinates of queries, interleaved within a tile; the last query is repeated to fill the
/// last tile.
fn tiles(columns: usize, queries: &[(RowView, SweepLimits)]) -> Vec<[f32; QUERIES_PER_TILE]> {
    let mut coordinates = Vec::with_capacity(queries.len().div_ceil(QUERIES_PER_TILE) * columns);
    for tile in queries.chunks(QUERIES_PER_TILE) {
        let view = |q: usize| &tile[q.min(tile.len() - 1)].0.values;
        let interleaved = |k| std::array::from_fn(|q| view(q)[k]);
        coordinates.extend((0..columns).map(interleaved));
    }
    coordinates
}

/// A sweep of some queries, [`QUERIES_PER_TILE`] per tile, over all blocks.
struct RowSweep<'a> {
    frame: &'a RowFrame,
    blocks: &'a ReferenceBlocks,
    groups: &'a [[u32; LANES]],
    coordinates: &'a [[f32; QUERIES_PER_TILE]],
    queries: &'a mut [SweepQuery],
    /// The block to begin with.
    first: usize,
}

/// A kernel that sweeps with one kind of term.
struct SweepKernel<'a, T>(RowSweep<'a>, T);

impl<T: SweepTerm> WithSimd for SweepKernel<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let SweepKernel(sweep, term) = self;
        let columns = sweep.frame.columns();
        let blocks = || sweep.blocks.iter().zip(sweep.groups).enumerate();
        let in_turn = blocks().skip(sweep.first).chain(blocks().take(sweep.first));
        for (index, (block, groups)) in in_turn {
            let (coordinates, scalars) = block.split_at(columns);
            let tiles = sweep.coordinates.chunks_exact(columns);
            for (queries, tile) in sweep.queries.chunks_mut(QUERIES_PER_TILE).zip(tiles) {
                if queries.iter().all(SweepQuery::is_abandoned) {
                    continue;
                }
                for part in 0..LANES / (REGISTERS * S::F32_LANES) {
                    let sums = tile_of_sums(simd, term, tile, coordinates, part);
                    let target = TileTarget {
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
fn tile_of_sums<S: Simd, T: SweepTerm>(
    simd: S,
    term: T,
    tile: &[[f32; QUERIES_PER_TILE]],
    coordinates: &[LaneRow],
    part: usize,
) -> [[S::f32s; REGISTERS]; QUERIES_PER_TILE] {
    let mut sums = [[simd.splat_f32s(0.0); REGISTERS]; QUERIES_PER_TILE];
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

/// The references of a block that a tile of queries is compared with.
struct TileTarget<'a> {
    frame: &'a RowFrame,
    scalars: &'a [LaneRow],
    groups: &'a [u32; LANES],
    /// The position of the block's first reference.
    first: usize,
}

impl TileTarget<'_> {
    /// Keeps the references of a register whose sums are below the threshold.
    #[inline(always)]
    fn collect<S: Simd>(&self, simd: S, query: &mut SweepQuery, sums: S::f32s, register: usize) {
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

    /// Keeps the references in some `lanes` of `sums`, whose first lane is the block's `first`.
    #[inline(never)]
    fn insert(&self, query: &mut SweepQuery, sums: &[f32; LANES], mut lanes: u32, first: usize) {
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

    /// The result of a sweep of squares with one instruction set.
    fn found_with(
        run: impl FnOnce(SweepKernel<Squares>),
        frame: &RowFrame,
        (blocks, groups): (&ReferenceBlocks, &[[u32; LANES]]),
        queries: &[(RowView, SweepLimits)],
    ) -> Vec<SweepAnswer> {
        let coordinates = tiles(COLUMNS, queries);
        let mut found: Vec<SweepQuery> = queries
            .iter()
            .map(|(view, wanted)| SweepQuery::new(frame, view.scalars, wanted))
            .collect();
        let sweep = RowSweep {
            frame,
            blocks,
            groups,
            coordinates: &coordinates,
            queries: &mut found,
            first: 1,
        };
        run(SweepKernel(sweep, Squares));
        found.into_iter().map(|query| query.finish(frame)).collect()
    }

    #[test]
    fn every_instruction_set_finds_the_same() {
        let mut random = Random::of(31);
        let mut rows = |n: usize| -> Vec<[f64; COLUMNS]> {
            (0..n)
                .map(|_| std::array::from_fn(|_| random.normal()))
                .collect()
        };
        let references = rows(77);
        let frame = RowFrame::squares(vec![0.0; COLUMNS], 10.0);
        let mut blocks = ReferenceBlocks::new(&frame, 77, |i| Some((&references[i], 1.0))).unwrap();
        blocks.remove(50);
        let groups: Vec<[u32; LANES]> = (0..3)
            .map(|block| std::array::from_fn(|lane| ((block * LANES + lane) % 4) as u32))
            .collect();
        let points = rows(13);
        let wanted = |i: usize| SweepLimits {
            group: i as u32 % 4,
            capacity: 9,
            limit: if i < 7 {
                f32::INFINITY
            } else {
                frame.limit(2.0)
            },
            patience: 1000,
        };
        let queries: Vec<(RowView, SweepLimits)> = (0..13)
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
        let check = |run: &mut dyn FnMut(SweepKernel<Squares>), name: &str| {
            let found = found_with(run, &frame, (&blocks, &groups), &queries);
            let positions =
                |found: &SweepAnswer| found.keys.iter().map(|&key| key as u32).collect();
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
