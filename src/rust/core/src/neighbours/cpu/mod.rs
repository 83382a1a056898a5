//! Nearest references on the CPU: sweeps in single precision rule out most of them, and what is
//! left is decided.
//!
//! Where single precision cannot tell references apart, as in tight groups that are far from each
//! other, a sweep gives the query up early, and all of its distances are computed in double
//! precision. That takes a few times as long as a sweep, whatever the data.

mod best;
mod blocks;
mod exact;
mod place;
mod sweep;

pub use best::Best;

use rayon::prelude::*;

use super::centroids::Centroids;
use super::device::{NeighbourDevice, Neighbours};
use super::request::{Except, Nearest, Request};
use super::single::{Frame, View};
use super::space::Space;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::memory;
use crate::metric::TOGETHER;
use crate::monitor::Monitor;
use crate::roster::{Roster, GONE};
use blocks::{Blocks, LANES};
use place::Place;
use sweep::{sweep, Wanted, QUERIES};

/// Single-precision coordinates of the queries of one sweep: they and a block stay in cache.
const SWEEP_COORDINATES: usize = 1 << 16;

/// Queries of one sweep, at most.
const SWEEP_QUERIES: usize = 32 * QUERIES;

/// Pairs of coordinates of one sweep, after which the monitor is asked.
const SWEEP_PAIRS: usize = 1 << 32;

/// Requests with fewer pairs of coordinates than this are not worth dividing among threads.
const PARALLEL_COORDINATES: usize = 1 << 18;

/// Pairs of coordinates that take a fraction of a second.
const BATCH_COORDINATES: usize = 1 << 31;

/// How many candidates a sweep keeps beyond those that are wanted.
const SPARE: usize = 4;

/// How many times as many candidates the second sweep keeps.
const MORE: usize = 8;

/// One in so many references may come in vain before a sweep gives a query up. So many take about
/// as long as the rest of the sweep does in a few columns.
const SHARE_IN_VAIN: usize = 32;

/// The group of queries that leave nobody out, and of empty positions.
const NO_GROUP: u32 = u32::MAX;

/// The references in single precision.
struct Screen {
    frame: Frame,
    blocks: Blocks,
}

/// References and queries in memory, on the rayon pool that it is used in.
pub struct CpuNeighbours<'a> {
    place: Place<'a>,
    /// Who is where in the screens, in the order of the indices.
    roster: Roster,
    /// The fastest first and the sharpest last.
    frames: Vec<Frame>,
    /// For the first of the frames; others follow when a sweep does not settle a query.
    screens: Vec<Screen>,
    monitor: &'a Monitor,
}

/// A query that is not settled yet.
#[derive(Debug, Clone, Copy)]
struct Open {
    /// Its place in the request.
    at: usize,
    index: u32,
    /// No reference farther away is among the wanted.
    limit: f64,
    capacity: usize,
    /// Whether a sweep of the sharpest frame has given it up.
    given_up: bool,
}

impl Open {
    /// The `at`-th query of a request.
    fn new(request: &Request, at: usize) -> Self {
        Self {
            at,
            index: request.queries[at],
            limit: request.limits.map_or(f64::INFINITY, |limits| limits[at]),
            capacity: CpuNeighbours::capacity(request),
            given_up: false,
        }
    }
}

/// A query's place in the request, and the distances and indices of its nearest references.
type Answer = (usize, Vec<(f64, u32)>);

/// What is known of a query after a sweep.
enum Outcome {
    Settled(Answer),
    Open(Open),
}

impl NeighbourDevice for Cpu {
    fn references<'a>(
        &'a self,
        space: Space<'a>,
        monitor: &'a Monitor,
    ) -> Result<Box<dyn Neighbours + 'a>> {
        let references = self.install(|| CpuNeighbours::new(space, monitor))?;
        Ok(Box::new(references))
    }
}

impl<'a> CpuNeighbours<'a> {
    /// For the queries and references of `space`.
    ///
    /// # Errors
    /// `Error::Memory` where there is not enough.
    pub fn new(space: Space<'a>, monitor: &'a Monitor) -> Result<Self> {
        let place = match space {
            Space::Points { points, references } => Place::Points(points, references),
            Space::Clusters(x) => Place::Clusters(Centroids::new(x)?),
        };
        let mut roster = Roster::new(place.references());
        for index in 0..place.references() as u32 {
            roster.push(index);
        }
        Ok(Self {
            frames: place.frames(),
            screens: Vec::new(),
            place,
            roster,
            monitor,
        })
    }

    /// The first frame for sweeps; none for a metric that is not screened.
    pub fn frame(&self) -> Option<&Frame> {
        self.frames.first()
    }

    /// The indices of all references.
    pub fn references(&self) -> Vec<u32> {
        let slots = (0..self.roster.positions()).map(|position| self.roster.slot(position));
        slots.filter(|&slot| slot != GONE).collect()
    }

    /// A query or reference, and its size.
    pub fn row(&self, index: u32) -> (&[f64], f64) {
        self.place.row(index as usize)
    }

    /// How many candidates a sweep is to keep of each query.
    pub fn capacity(request: &Request) -> usize {
        request.wanted + request.wanted / 8 + SPARE
    }

    /// The answer for the `at`-th query, in `best`, from what a sweep elsewhere has found: lower
    /// bounds and indices, in increasing order, and a bound under all others within the limit, if
    /// any. Where that does not settle it, a limit: nothing beyond is in the answer.
    pub fn decide(
        &self,
        request: &Request,
        at: usize,
        found: impl Iterator<Item = (f64, u32)>,
        floor: Option<f64>,
        best: &mut Best,
    ) -> std::result::Result<(), f64> {
        let open = Open::new(request, at);
        // Whichever index is first among equal bounds.
        let floor = floor.map(|bound| (bound, 0));
        self.settle(request, &open, found, floor, best)
            .map_err(|open| open.limit)
    }

    /// Makes the screen for the `level`-th frame, or for the last one; its number.
    fn screen(&mut self, level: usize) -> Result<usize> {
        let level = level.min(self.frames.len() - 1);
        while self.screens.len() <= level {
            let frame = self.frames[self.screens.len()].clone();
            let row = |position: usize| match self.roster.slot(position) {
                GONE => None,
                index => Some(self.place.row(index as usize)),
            };
            let blocks = Blocks::new(&frame, self.roster.positions(), row)?;
            self.screens.push(Screen { frame, blocks });
        }
        Ok(level)
    }

    /// The groups of all positions.
    fn groups(&self, except: Except) -> Vec<[u32; LANES]> {
        let mut groups = vec![[NO_GROUP; LANES]; self.roster.positions().div_ceil(LANES)];
        for position in 0..self.roster.positions() {
            let index = self.roster.slot(position);
            groups[position / LANES][position % LANES] = match except {
                _ if index == GONE => NO_GROUP,
                Except::Nobody => 0,
                Except::Itself => index,
                Except::Group(groups) => groups[index as usize],
            };
        }
        groups
    }

    /// Decides among the references that a sweep found: lower bounds and indices, in increasing
    /// order, and where all others begin. The answer is in `best`, unless the query is still open.
    fn settle(
        &self,
        request: &Request,
        open: &Open,
        mut found: impl Iterator<Item = (f64, u32)>,
        floor: Option<(f64, u32)>,
        best: &mut Best,
    ) -> std::result::Result<(), Open> {
        best.restart(request.wanted, open.limit);
        let mut more = true;
        while more {
            let mut some = [0; TOGETHER];
            let mut count = 0;
            while more && count < TOGETHER {
                match found.next() {
                    Some((bound, reference)) if !best.is_before(bound, reference) => {
                        some[count] = reference;
                        count += 1;
                    }
                    _ => more = false,
                }
            }
            let some = &some[..count];
            let distances = self.place.distances(open.index as usize, some);
            for (&reference, distance) in some.iter().zip(distances) {
                best.insert(distance, reference);
            }
        }
        // No reference that was left out can come before the last of the best.
        if floor.is_none_or(|(bound, reference)| best.is_before(bound, reference)) {
            return Ok(());
        }
        Err(Open {
            limit: best.limit(),
            capacity: MORE * open.capacity,
            ..*open
        })
    }

    /// What a key stands for: a lower bound in data units and the reference's index.
    fn name(&self, frame: &Frame, key: u64) -> (f64, u32) {
        let bound = frame.in_data_units(f32::from_bits((key >> 32) as u32));
        (bound, self.roster.slot(key as u32 as usize))
    }

    /// Settles queries by all of their distances.
    fn exhaust(&self, request: &Request, open: &[Open]) -> Result<Vec<Answer>> {
        let at_a_time = open.len().div_ceil(4 * rayon::current_num_threads());
        let settled = open
            .par_chunks(at_a_time.clamp(1, exact::QUERIES))
            .map(|some| {
                let query = |open: &Open| {
                    let mut best = Best::default();
                    best.restart(request.wanted, open.limit);
                    exact::Query {
                        index: open.index,
                        best,
                    }
                };
                let mut queries: Vec<exact::Query> = some.iter().map(query).collect();
                exact::search(
                    &self.place,
                    &self.roster,
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

    /// One sweep for some of the queries, with a screen that is there.
    fn sweep(
        &self,
        screen: &Screen,
        request: &Request,
        groups: &[[u32; LANES]],
        some: &[Open],
    ) -> Result<Vec<Outcome>> {
        self.monitor.check()?;
        let frame = &screen.frame;
        let queries: Vec<(View, Wanted)> = some
            .iter()
            .map(|open| {
                let (row, size) = self.place.row(open.index as usize);
                let wanted = Wanted {
                    group: match request.except {
                        Except::Nobody => NO_GROUP,
                        Except::Itself => open.index,
                        Except::Group(groups) => groups[open.index as usize],
                    },
                    capacity: open.capacity,
                    limit: frame.limit(open.limit),
                    patience: 4 * open.capacity + self.roster.positions() / SHARE_IN_VAIN,
                };
                (frame.view(row, size), wanted)
            })
            .collect();
        let first = some[0].index as usize;
        let first = match self.place {
            Place::Points(_, references) if first >= references => 0,
            _ => self.roster.position(first as u32),
        };
        let found = sweep(frame, &screen.blocks, groups, &queries, first);
        let mut best = Best::default();
        some.iter()
            .zip(&found)
            .map(|(open, found)| {
                // Where rows are long, candidates take long as well.
                self.monitor.check()?;
                let name = |&key: &u64| self.name(frame, key);
                let floor = found.floor.as_ref().map(name);
                let keys = found.keys.iter().map(name);
                let outcome = match self.settle(request, open, keys, floor, &mut best) {
                    Ok(()) if found.given_up => Outcome::Open(Open {
                        limit: best.limit(),
                        given_up: true,
                        ..*open
                    }),
                    Err(open) => Outcome::Open(Open {
                        given_up: found.given_up,
                        ..open
                    }),
                    Ok(()) => Outcome::Settled((open.at, best.sorted().to_vec())),
                };
                Ok(outcome)
            })
            .collect()
    }
}

impl Neighbours for CpuNeighbours<'_> {
    fn nearest(&mut self, request: &Request<'_>) -> Result<Nearest> {
        let mut open: Vec<Open> = (0..request.queries.len())
            .map(|at| Open::new(request, at))
            .collect();
        let mut settled = memory::filled("the neighbours need", open.len(), Vec::new())?;
        let groups = self.groups(request.except);
        // What no sweep settles.
        let mut rest = Vec::new();
        let last = self.frames.len().max(2);
        for level in 0..last {
            if self.frames.is_empty() || open.is_empty() {
                break;
            }
            let number = self.screen(level)?;
            let this = &*self;
            let screen = &this.screens[number];
            let columns = screen.frame.columns();
            let threads = rayon::current_num_threads();
            let at_a_time = (open.len().div_ceil(4 * threads))
                .min(SWEEP_COORDINATES / columns)
                .min(SWEEP_PAIRS / (screen.blocks.positions() * columns))
                .clamp(QUERIES, SWEEP_QUERIES)
                .next_multiple_of(QUERIES);
            let sweep = |some: &[Open]| this.sweep(screen, request, &groups, some);
            let pairs = open.len() * screen.blocks.positions();
            let outcomes: Vec<Vec<Outcome>> = if pairs * columns < PARALLEL_COORDINATES {
                open.chunks(at_a_time).map(sweep).collect::<Result<_>>()?
            } else {
                open.par_chunks(at_a_time)
                    .map(sweep)
                    .collect::<Result<_>>()?
            };
            open.clear();
            for outcome in outcomes.into_iter().flatten() {
                match outcome {
                    Outcome::Settled((at, found)) => settled[at] = found,
                    Outcome::Open(still) if still.given_up && number + 1 == self.frames.len() => {
                        rest.push(still);
                    }
                    Outcome::Open(still) => open.push(still),
                }
            }
        }
        rest.extend(open);
        for (at, found) in self.exhaust(request, &rest)? {
            settled[at] = found;
        }
        let found = settled.iter().map(Vec::len).sum();
        let mut nearest = Nearest::with_room(settled.len(), found)?;
        settled.iter().for_each(|found| nearest.push(found));
        Ok(nearest)
    }

    fn distances(&mut self, pairs: &[(u32, u32)]) -> Result<Vec<f64>> {
        let place = &self.place;
        let distance = |&(i, j): &(u32, u32)| place.distance(i as usize, j as usize);
        if pairs.len() * place.columns() < PARALLEL_COORDINATES {
            return Ok(pairs.iter().map(distance).collect());
        }
        Ok(pairs.par_iter().map(distance).collect())
    }

    fn merge(&mut self, lower: u32, higher: u32) -> Result<()> {
        let Place::Clusters(centroids) = &mut self.place else {
            unreachable!("only clusters are merged");
        };
        centroids.merge(lower as usize, higher as usize);
        let stays = self.roster.position(lower);
        let goes = self.roster.remove(higher);
        let (row, size) = (
            centroids.row(lower as usize),
            centroids.size(lower as usize),
        );
        for screen in &mut self.screens {
            screen.blocks.replace(&screen.frame, stays, row, size);
            screen.blocks.remove(goes);
        }
        if self.roster.is_sparse() {
            let kept = self.roster.compact();
            for screen in &mut self.screens {
                screen.blocks.compact(&kept);
            }
        }
        Ok(())
    }

    fn batch(&self) -> usize {
        let pair = self.place.columns() * self.place.references();
        (BATCH_COORDINATES / pair).max(SWEEP_QUERIES) * rayon::current_num_threads()
    }
}
