//! Search among references in the CPU's memory.

use rayon::prelude::*;

use super::exact::{self, ExactQuery};
use super::frames::frames;
use super::open_query::{capacity, Answer, OpenQuery, Outcome};
use super::reference_blocks::{ReferenceBlocks, LANES};
use super::search_space::SearchSpace;
use super::sweep::{sweep, SweepAnswer, SweepLimits, QUERIES_PER_TILE};
use super::top_k::TopK;
use crate::active_positions::{ActivePositions, INACTIVE};
use crate::error::Result;
use crate::memory;
use crate::metric::DISTANCES_AT_ONCE;
use crate::monitor::Monitor;
use crate::neighbours::cluster_means::ClusterMeans;
use crate::neighbours::device::Neighbours;
use crate::neighbours::lists::NeighbourLists;
use crate::neighbours::request::{Exclusion, NeighbourRequest};
use crate::neighbours::single::{RowFrame, RowView};
use crate::neighbours::space::Space;

/// Number of single-precision coordinates of the queries of one sweep (256 KiB): with a block of
/// references, they stay in a core's private cache. Only the time depends on it.
const SWEEP_COORDINATES: usize = 1 << 16;

/// Largest number of queries of one sweep.
const SWEEP_QUERIES: usize = 32 * QUERIES_PER_TILE;

/// Number of pairs of coordinates of one sweep, between two checks of the monitor: about a second.
/// If larger, an interrupt is answered late.
const SWEEP_COORDINATE_PAIRS: usize = 1 << 32;

/// Number of pairs of coordinates of a request below which one thread is faster than several. Only
/// the time depends on it.
const MIN_PARALLEL_COORDINATE_PAIRS: usize = 1 << 18;

/// Largest number of queries for which exact distances take less time than making a screen. Only
/// the time depends on it.
const QUERIES_WITHOUT_A_SCREEN: usize = 16;

/// Number of pairs of coordinates per thread in a batch, which take a fraction of a second.
const BATCH_COORDINATE_PAIRS: usize = 1 << 31;

/// The second sweep of a query keeps this multiple of the first sweep's candidates. Only the time
/// depends on it.
const SECOND_CAPACITY: usize = 8;

/// A sweep abandons a query once this many times its capacity, plus 1 in `FUTILE_RATIO` of all
/// references, passed the threshold without becoming candidates. In a few columns, inserting these
/// references takes about as long as the rest of the sweep. Only the time depends on both.
const FUTILE_PER_CANDIDATE: usize = 4;
const FUTILE_RATIO: usize = 32;

/// The group of queries that exclude no reference, and of empty positions.
const NO_GROUP: u32 = u32::MAX;

/// The references in single precision.
struct BlockScreen {
    frame: RowFrame,
    blocks: ReferenceBlocks,
}

/// References and queries in memory. Searches run in the calling rayon pool.
pub struct CpuNeighbours<'a> {
    space: SearchSpace<'a>,
    /// The position of each reference in the screens, in the order of the indices.
    active: ActivePositions,
    /// The frames, the fastest first and the most precise last.
    frames: Vec<RowFrame>,
    /// The screens of the first frames; further screens are made when a sweep leaves queries open.
    screens: Vec<BlockScreen>,
    monitor: &'a Monitor,
}

impl<'a> CpuNeighbours<'a> {
    /// A search for the queries and references of `space`. Takes O(n·p) time and memory for n rows
    /// of p columns.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn new(space: Space<'a>, monitor: &'a Monitor) -> Result<Self> {
        let space = match space {
            Space::Points { points, references } => SearchSpace::Points(points, references),
            Space::Clusters {
                points,
                sizes,
                linkage,
            } => SearchSpace::Clusters(ClusterMeans::new(points, sizes, linkage)?),
        };
        let mut active = ActivePositions::new(space.references());
        for index in 0..space.references() as u32 {
            active.push(index);
        }
        Ok(Self {
            frames: frames(&space),
            screens: Vec::new(),
            space,
            active,
            monitor,
        })
    }

    /// The frames for sweeps, the fastest first and the most precise last; empty for a metric that
    /// is not screened.
    pub fn frames(&self) -> &[RowFrame] {
        &self.frames
    }

    /// The indices of all references.
    pub fn references(&self) -> Vec<u32> {
        let slots = (0..self.active.positions()).map(|position| self.active.slot(position));
        slots.filter(|&slot| slot != INACTIVE).collect()
    }

    /// The row of a query or reference, and its size.
    pub fn row(&self, index: u32) -> (&[f64], f64) {
        self.space.row(index as usize)
    }

    /// Drops the screens, so that merges need not update them.
    pub fn drop_screens(&mut self) {
        self.screens.clear();
    }

    /// Number of candidates that a sweep keeps of each query.
    pub fn capacity(request: &NeighbourRequest) -> usize {
        capacity(request)
    }

    /// Settles the `at`-th query from the candidates of another device's sweep: lower bounds and
    /// indices, in increasing order, and a lower bound on all other references within the limit, if
    /// any. Writes the answer to `best`.
    ///
    /// # Errors
    /// A search radius that contains the answer, if the candidates do not settle the query.
    pub fn decide(
        &self,
        request: &NeighbourRequest,
        at: usize,
        candidates: impl Iterator<Item = (f64, u32)>,
        floor: Option<f64>,
        best: &mut TopK,
    ) -> std::result::Result<(), f64> {
        let open = OpenQuery::new(request, at);
        // The bound may belong to any index, so take the lowest.
        let floor = floor.map(|bound| (bound, 0));
        self.settle(request, &open, candidates, floor, best)
            .map_err(|open| open.limit)
    }

    /// Makes the screen of the `level`-th frame, or of the last frame if there are fewer; returns
    /// its number.
    fn screen(&mut self, level: usize) -> Result<usize> {
        let level = level.min(self.frames.len() - 1);
        while self.screens.len() <= level {
            let frame = self.frames[self.screens.len()].clone();
            let row = |position: usize| match self.active.slot(position) {
                INACTIVE => None,
                index => Some(self.space.row(index as usize)),
            };
            let blocks = ReferenceBlocks::new(&frame, self.active.positions(), row)?;
            self.screens.push(BlockScreen { frame, blocks });
        }
        Ok(level)
    }

    /// The groups of all positions.
    fn groups(&self, exclusion: Exclusion) -> Vec<[u32; LANES]> {
        let mut groups = vec![[NO_GROUP; LANES]; self.active.positions().div_ceil(LANES)];
        for position in 0..self.active.positions() {
            let index = self.active.slot(position);
            groups[position / LANES][position % LANES] = match exclusion {
                _ if index == INACTIVE => NO_GROUP,
                Exclusion::Nothing => 0,
                Exclusion::Itself => index,
                Exclusion::Group(groups) => groups[index as usize],
            };
        }
        groups
    }

    /// Settles a query by the exact distances of its candidates: lower bounds and indices, in
    /// increasing order. `floor` is a bound and an index that no other reference comes before.
    /// Writes the answer to `best`.
    ///
    /// # Errors
    /// The query for the next sweep, if the candidates do not settle it.
    fn settle(
        &self,
        request: &NeighbourRequest,
        open: &OpenQuery,
        mut candidates: impl Iterator<Item = (f64, u32)>,
        floor: Option<(f64, u32)>,
        best: &mut TopK,
    ) -> std::result::Result<(), OpenQuery> {
        best.restart(request.wanted, open.limit);
        let mut more = true;
        while more {
            let mut some = [0; DISTANCES_AT_ONCE];
            let mut count = 0;
            while more && count < DISTANCES_AT_ONCE {
                match candidates.next() {
                    Some((bound, reference)) if !best.is_before(bound, reference) => {
                        some[count] = reference;
                        count += 1;
                    }
                    _ => more = false,
                }
            }
            let some = &some[..count];
            let distances = self.space.distances(open.index as usize, some);
            for (&reference, distance) in some.iter().zip(distances) {
                best.insert(distance, reference);
            }
        }
        // No reference outside the candidates can come before the last of the best.
        if floor.is_none_or(|(bound, reference)| best.is_before(bound, reference)) {
            return Ok(());
        }
        Err(OpenQuery {
            limit: best.limit(),
            capacity: SECOND_CAPACITY * open.capacity,
            ..*open
        })
    }

    /// The lower bound in data units and the reference's index that a key encodes.
    fn decoded(&self, frame: &RowFrame, key: u64) -> (f64, u32) {
        let bound = frame.in_data_units(f32::from_bits((key >> 32) as u32));
        (bound, self.active.slot(key as u32 as usize))
    }

    /// Settles queries by their exact distances to all references.
    fn search_exhaustively(
        &self,
        request: &NeighbourRequest,
        open: &[OpenQuery],
    ) -> Result<Vec<Answer>> {
        let at_a_time = open.len().div_ceil(4 * rayon::current_num_threads());
        let settled = open
            .par_chunks(at_a_time.clamp(1, exact::QUERIES_PER_PASS))
            .map(|some| {
                let query = |open: &OpenQuery| {
                    let mut best = TopK::default();
                    best.restart(request.wanted, open.limit);
                    ExactQuery {
                        index: open.index,
                        best,
                    }
                };
                let mut queries: Vec<ExactQuery> = some.iter().map(query).collect();
                exact::search(
                    &self.space,
                    &self.active,
                    request,
                    &mut queries,
                    self.monitor,
                )?;
                let found = queries.iter_mut().map(|query| query.best.sorted().to_vec());
                Ok(some.iter().map(|open| open.at).zip(found).collect())
            })
            .collect::<Result<Vec<Vec<_>>>>()?;
        Ok(settled.into_iter().flatten().collect())
    }

    /// The view of a query, and the limits of its sweep.
    fn swept_query(
        &self,
        frame: &RowFrame,
        exclusion: Exclusion,
        open: &OpenQuery,
    ) -> (RowView, SweepLimits) {
        let (row, size) = self.space.row(open.index as usize);
        let wanted = SweepLimits {
            group: match exclusion {
                Exclusion::Nothing => NO_GROUP,
                Exclusion::Itself => open.index,
                Exclusion::Group(groups) => groups[open.index as usize],
            },
            capacity: open.capacity,
            limit: frame.limit(open.limit),
            patience: FUTILE_PER_CANDIDATE * open.capacity + self.active.positions() / FUTILE_RATIO,
        };
        (frame.view(row, size), wanted)
    }

    /// Sweeps a screen for some of the queries, and settles the queries whose candidates suffice.
    fn sweep(
        &self,
        screen: &BlockScreen,
        request: &NeighbourRequest,
        groups: &[[u32; LANES]],
        some: &[OpenQuery],
    ) -> Result<Vec<Outcome>> {
        self.monitor.check()?;
        let frame = &screen.frame;
        let queries: Vec<(RowView, SweepLimits)> = some
            .iter()
            .map(|open| self.swept_query(frame, request.exclusion, open))
            .collect();
        let first = some[0].index as usize;
        let first = match self.space {
            SearchSpace::Points(_, references) if first >= references => 0,
            _ => self.active.position(first as u32),
        };
        let answers = sweep(frame, &screen.blocks, groups, &queries, first);
        let mut best = TopK::default();
        some.iter()
            .zip(&answers)
            .map(|(open, answer)| {
                // Exact distances of candidates take long if rows are long.
                self.monitor.check()?;
                Ok(self.outcome(frame, request, open, answer, &mut best))
            })
            .collect()
    }

    /// The state of a query after a sweep.
    fn outcome(
        &self,
        frame: &RowFrame,
        request: &NeighbourRequest,
        open: &OpenQuery,
        answer: &SweepAnswer,
        best: &mut TopK,
    ) -> Outcome {
        let decoded = |&key: &u64| self.decoded(frame, key);
        let floor = answer.floor.as_ref().map(decoded);
        let candidates = answer.keys.iter().map(decoded);
        match self.settle(request, open, candidates, floor, best) {
            Ok(()) if answer.abandoned => Outcome::Open(OpenQuery {
                limit: best.limit(),
                abandoned: true,
                ..*open
            }),
            Err(open) => Outcome::Open(OpenQuery {
                abandoned: answer.abandoned,
                ..open
            }),
            Ok(()) => Outcome::Settled((open.at, best.sorted().to_vec())),
        }
    }

    /// Sweeps a screen for all open queries, on all threads if that is faster.
    fn sweep_all(
        &self,
        screen: &BlockScreen,
        request: &NeighbourRequest,
        groups: &[[u32; LANES]],
        open: &[OpenQuery],
    ) -> Result<Vec<Vec<Outcome>>> {
        let columns = screen.frame.columns();
        let at_a_time = (open.len().div_ceil(4 * rayon::current_num_threads()))
            .min(SWEEP_COORDINATES / columns)
            .min(SWEEP_COORDINATE_PAIRS / (screen.blocks.positions() * columns))
            .clamp(QUERIES_PER_TILE, SWEEP_QUERIES)
            .next_multiple_of(QUERIES_PER_TILE);
        let sweep = |some: &[OpenQuery]| self.sweep(screen, request, groups, some);
        let pairs = open.len() * screen.blocks.positions();
        if pairs * columns < MIN_PARALLEL_COORDINATE_PAIRS {
            open.chunks(at_a_time).map(sweep).collect()
        } else {
            open.par_chunks(at_a_time).map(sweep).collect()
        }
    }
}

impl Neighbours for CpuNeighbours<'_> {
    fn nearest(&mut self, request: &NeighbourRequest<'_>) -> Result<NeighbourLists> {
        let mut open: Vec<OpenQuery> = (0..request.queries.len())
            .map(|at| OpenQuery::new(request, at))
            .collect();
        let mut settled = memory::filled("the neighbours need", open.len(), Vec::new())?;
        let groups = self.groups(request.exclusion);
        // Queries that no sweep settles.
        let mut rest = Vec::new();
        let last = self.frames.len().max(2);
        let is_worthwhile = !self.screens.is_empty() || open.len() > QUERIES_WITHOUT_A_SCREEN;
        for level in 0..last {
            if self.frames.is_empty() || open.is_empty() || !is_worthwhile {
                break;
            }
            let number = self.screen(level)?;
            let outcomes = self.sweep_all(&self.screens[number], request, &groups, &open)?;
            open.clear();
            for outcome in outcomes.into_iter().flatten() {
                match outcome {
                    Outcome::Settled((at, found)) => settled[at] = found,
                    Outcome::Open(still) if still.abandoned && number + 1 == self.frames.len() => {
                        rest.push(still);
                    }
                    Outcome::Open(still) => open.push(still),
                }
            }
        }
        rest.extend(open);
        for (at, found) in self.search_exhaustively(request, &rest)? {
            settled[at] = found;
        }
        let found = settled.iter().map(Vec::len).sum();
        let mut nearest = NeighbourLists::with_room(settled.len(), found)?;
        settled.iter().for_each(|found| nearest.push(found));
        Ok(nearest)
    }

    fn distances(&self, query: u32, references: &[u32], distances: &mut [f64]) {
        let parts = distances.chunks_mut(DISTANCES_AT_ONCE);
        for (to, references) in parts.zip(references.chunks(DISTANCES_AT_ONCE)) {
            let some = self.space.distances(query as usize, references);
            to.copy_from_slice(&some[..to.len()]);
        }
    }

    fn clusters(&self) -> &ClusterMeans {
        match &self.space {
            SearchSpace::Clusters(clusters) => clusters,
            SearchSpace::Points(..) => panic!("these are points"),
        }
    }

    fn merge(&mut self, pairs: &[(u32, u32)]) -> Result<()> {
        let SearchSpace::Clusters(clusters) = &mut self.space else {
            unreachable!("only clusters are merged");
        };
        clusters.merge(pairs);
        for &(lower, higher) in pairs {
            let stays = self.active.position(lower);
            let goes = self.active.remove(higher);
            let slot = lower as usize;
            for screen in &mut self.screens {
                let (row, size) = (clusters.row(slot), clusters.size(slot));
                screen.blocks.replace(&screen.frame, stays, row, size);
                screen.blocks.remove(goes);
            }
        }
        if self.active.is_sparse() {
            let kept = self.active.compact();
            for screen in &mut self.screens {
                screen.blocks.compact(&kept);
            }
        }
        Ok(())
    }

    fn batch(&self) -> usize {
        let pair = self.space.columns() * self.space.references();
        (BATCH_COORDINATE_PAIRS / pair).max(SWEEP_QUERIES) * rayon::current_num_threads()
    }
}
