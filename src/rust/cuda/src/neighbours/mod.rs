//! Nearest references on CUDA devices: they sweep, in half or single precision, and the CPU decides
//! what is left. kernels/neighbours.cu says how, and kernels/products.cu for half precision.
//!
//! Half precision is many times faster, but its bounds are looser. A query that it leaves open is
//! swept for again, for more candidates; where many stay open, single precision takes over.
//!
//! Every device sweeps all references, in chunks where its memory does not hold them ([`references`]),
//! for batches of the queries, which are dealt out to the devices ([`deal`]). Where a device fails,
//! those that are left go on without it.

mod deal;
mod products;
mod references;
mod searcher;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use crate::device::Device;
use crate::join::join;
use deal::{deal, is_lost, lose, Lost, Worker};
use gmhclust_core::error::{Error, Result};
use gmhclust_core::memory;
use gmhclust_core::monitor::Monitor;
use gmhclust_core::neighbours::cpu::{Best, CpuNeighbours};
use gmhclust_core::neighbours::single::{Frame, Precision, Scalars};
use gmhclust_core::neighbours::{Except, Nearest, Neighbours, Request, Space, Take};
use references::Rows;
use searcher::{room, Searcher, MOST_ROOM, TILE};

/// Queries with more candidates than this are the CPU's.
const MOST_CANDIDATES: usize = MOST_ROOM / 4;

/// Pairs of coordinates that take a fraction of a second, in single and in half precision.
const BATCH_COORDINATES: usize = 1 << 41;
const BATCH_COORDINATES_OF_HALVES: usize = 1 << 43;

/// How many times as many candidates are kept of queries that half precision left open at first.
const MORE: usize = 8;

/// So many queries of a batch, and one in so many, can half precision leave to the CPU before single
/// precision is faster; and one in so many can be swept for again.
const FEW: usize = 64;
const SHARE_FOR_HOST: usize = 256;
const SHARE_AGAIN: usize = 4;

/// Queries at a time, at most.
const MOST_QUERIES: usize = 1 << 18;

/// Bytes of candidates at a time.
const BATCH_BYTES: usize = 1 << 31;

/// Batches for each device, at least, where there are queries enough: while it sweeps for one, the
/// host decides on another.
const BATCHES_FOR_EACH: usize = 4;

/// Scalars of a view, behind its coordinates. As in neighbours.cu.
const SCALARS: usize = 4;

/// Who is where on the devices. References come first, in an order that has nothing to do with
/// theirs: so each part of them is like every other.
#[derive(Default)]
pub struct Copy {
    /// By position.
    indices: Vec<u32>,
    /// By index.
    positions: Vec<u32>,
    /// How many positions are references'.
    references: usize,
    /// How many of them were merged away.
    gone: usize,
    /// By position.
    scalars: Vec<Scalars>,
}

/// What a sweep left of a batch of queries.
pub struct Swept {
    capacity: usize,
    room: usize,
    counts: Vec<u32>,
    floors: Vec<u64>,
    /// `capacity` for each query.
    keys: Vec<u64>,
}

/// What sweeps: a device, or what stands for one in tests.
pub trait Sweeper: Worker {
    /// Sweeps all references for some queries of a request and keeps so many candidates of each,
    /// given the groups of the references by position.
    ///
    /// # Errors
    /// As [`Neighbours::nearest`]; where a device fails, the error names it and the queries.
    fn sweep(
        &mut self,
        copy: &Copy,
        request: &Request,
        capacity: usize,
        groups: &[u32],
        batch: Range<usize>,
        monitor: &Monitor,
    ) -> Result<Swept>;

    /// Another that sweeps the same references, where there can be one.
    fn twin(&mut self) -> Result<Option<Self>>
    where
        Self: Sized;

    /// For how many queries at a time there is memory when so many candidates of each are kept.
    fn most_queries(&self, capacity: usize) -> usize;

    /// For how many queries at a time a sweep is worth its while.
    fn fewest_queries(&self) -> usize;

    /// Puts rows that have changed to their positions.
    fn update(&mut self, rows: &[f32], positions: &[u32]) -> Result<()>;

    /// Has these rows, all of them references, from now on.
    fn restart(&mut self, rows: &Arc<Rows>) -> Result<()>;
}

/// Makes the sweepers of a device, given its number, a frame, all rows, and how many of these are
/// references.
type Make<'a, S> = dyn Fn(usize, &Frame, &Arc<Rows>, usize) -> Result<Vec<S>> + Send + Sync + 'a;

/// References and queries on devices, and on the host, too.
pub struct CudaNeighbours<'a, S = Searcher> {
    make: Box<Make<'a, S>>,
    /// The numbers of the devices that there were.
    devices: Vec<usize>,
    /// Those that failed.
    lost: Vec<Lost>,
    /// Of the others; none where all failed.
    sweepers: Vec<S>,
    /// Sweeps again for queries that half precision leaves open.
    again: Option<S>,
    /// The faster first and the sharper last; the first is that of the sweepers.
    frames: Vec<Frame>,
    /// Points that are no references.
    others: Range<u32>,
    /// Decides, and does what the devices are not made for.
    host: CpuNeighbours<'a>,
    /// All points; for clusters those that are left.
    copy: Copy,
    /// Indices of clusters that have changed since they were copied.
    changed: Vec<u32>,
    /// Requests with fewer pairs of coordinates are the host's.
    smallest: usize,
    monitor: &'a Monitor,
}

impl<'a> CudaNeighbours<'a> {
    /// For the queries and references of `space`; `None` for a metric that is not screened.
    /// Requests with fewer pairs of coordinates than `smallest` are the CPU's. Of each device at
    /// most `memory` bytes are used, if that is not `None`. Clusters take one device only.
    ///
    /// # Errors
    /// `Error::Memory` when a device has too little, `Error::Device` when all fail.
    pub fn new(
        devices: &[Arc<Device>],
        space: Space<'a>,
        smallest: usize,
        memory: Option<usize>,
        monitor: &'a Monitor,
    ) -> Result<Option<Self>> {
        // Who does not answer will not be used.
        let halves = |device: &Arc<Device>| products::suits(device).unwrap_or(true);
        let halves = devices.iter().all(halves);
        let (devices, whole) = match space {
            Space::Points { .. } => (devices.to_vec(), false),
            // Requests are small, and every merge would have to be told to every device.
            Space::Clusters(_) => (devices[..1].to_vec(), true),
        };
        let numbers = devices.iter().map(|device| device.index()).collect();
        let make = move |number, frame: &Frame, rows: &Arc<Rows>, references| {
            let device = devices.iter().find(|device| device.index() == number);
            let device = device.expect("is one of the numbers");
            let open = || {
                let mut one = Searcher::new(device, frame, rows, references, memory, whole)?;
                let twin = one.twin()?;
                Ok([Some(one), twin].into_iter().flatten().collect())
            };
            open().inspect_err(|error| device.forget_on_failure(error))
        };
        Self::on(space, smallest, halves, monitor, numbers, Box::new(make))
    }
}

impl<'a, S: Sweeper> CudaNeighbours<'a, S> {
    /// As [`CudaNeighbours::new`], on devices of these numbers, with sweepers that `make` makes;
    /// `halves` if they can sweep in half precision.
    fn on(
        space: Space<'a>,
        smallest: usize,
        halves: bool,
        monitor: &'a Monitor,
        devices: Vec<usize>,
        make: Box<Make<'a, S>>,
    ) -> Result<Option<Self>> {
        let others = match space {
            Space::Points { points, references } => references as u32..points.rows() as u32,
            Space::Clusters(_) => 0..0,
        };
        let host = CpuNeighbours::new(space, monitor)?;
        let Some(frame) = host.frame().cloned() else {
            return Ok(None);
        };
        let halves = halves
            && matches!(space, Space::Points { .. })
            && frame.columns() >= products::FEWEST_COLUMNS;
        let in_halves = halves.then(|| frame.in_halves()).flatten();
        let mut neighbours = Self {
            make,
            devices,
            lost: Vec::new(),
            sweepers: Vec::new(),
            again: None,
            frames: in_halves.into_iter().chain([frame]).collect(),
            others,
            host,
            copy: Copy::default(),
            changed: Vec::new(),
            smallest,
            monitor,
        };
        neighbours.open()?;
        Ok(Some(neighbours))
    }

    /// Makes the sweepers for the first frame, once those before have given their memory back.
    fn open(&mut self) -> Result<()> {
        self.sweepers.clear();
        self.again = None;
        let frame = &self.frames[0];
        let (copy, rows) = copy(frame, &self.host, self.others.clone())?;
        self.copy = copy;
        let (make, rows, references) = (&self.make, &rows, self.copy.references);
        let is_left = |number: &&usize| !is_lost(&self.lost, **number);
        let left: Vec<usize> = self.devices.iter().filter(is_left).copied().collect();
        // All at a time: copying and, at the first use, loading kernels takes a while.
        let opened: Vec<Result<Vec<S>>> = std::thread::scope(|scope| {
            let open = |&number| scope.spawn(move || make(number, frame, rows, references));
            let threads: Vec<_> = left.iter().map(open).collect();
            threads.into_iter().map(join).collect()
        });
        let before = self.lost.len();
        for (device, opened) in left.into_iter().zip(opened) {
            match opened {
                Err(error @ Error::Device(_)) => lose(&mut self.lost, device, error),
                opened => self.sweepers.extend(opened?),
            }
        }
        self.go_on_without(before)
    }

    /// Retires the sweepers of lost devices, of which there were so many before.
    ///
    /// # Errors
    /// That of the last device where none is left.
    fn go_on_without(&mut self, before: usize) -> Result<()> {
        let Self { lost, sweepers, .. } = self;
        let is_left = |sweeper: &S| !is_lost(lost, sweeper.device());
        sweepers.retain(is_left);
        self.again = self.again.take().filter(is_left);
        let Some(first) = sweepers.first_mut() else {
            let last = lost.last().expect("there were devices");
            return Err(last.error.clone());
        };
        for lost in &lost[before..] {
            let error = &lost.error;
            let message = format!("{error}; the other devices did its part of the work");
            self.monitor.warn(message);
        }
        if self.again.is_none() && self.frames[0].precision() == Precision::Half {
            // A device that fails here will fail again where it matters.
            self.again = first.twin().unwrap_or_default();
        }
        Ok(())
    }

    /// Copies what has changed.
    fn update(&mut self) -> Result<()> {
        let left = self.copy.references - self.copy.gone;
        if 10 * left < 9 * self.copy.references {
            self.changed.clear();
            let (copy, rows) = copy(&self.frames[0], &self.host, 0..0)?;
            self.copy = copy;
            return self
                .sweepers
                .iter_mut()
                .try_for_each(|sweeper| sweeper.restart(&rows));
        }
        let mut changed = std::mem::take(&mut self.changed);
        changed.sort_unstable();
        changed.dedup();
        let positions: Vec<u32> = changed
            .iter()
            .map(|&index| self.copy.positions[index as usize])
            .collect();
        let (rows, scalars) = views(&self.frames[0], &self.host, &changed)?;
        for (&position, &scalars) in positions.iter().zip(&scalars) {
            self.copy.scalars[position as usize] = scalars;
        }
        self.sweepers
            .iter_mut()
            .try_for_each(|sweeper| sweeper.update(&rows, &positions))
    }

    /// Queries that a device sweeps for at a time, keeping so many candidates of each, if there are
    /// enough of them.
    fn at_a_time(&self, capacity: usize) -> usize {
        let most = self.sweepers.iter().map(|s| s.most_queries(capacity)).min();
        let frame = &self.frames[0];
        let coordinates = match frame.precision() {
            Precision::Single => BATCH_COORDINATES,
            Precision::Half => BATCH_COORDINATES_OF_HALVES,
        };
        (coordinates / (frame.columns() * self.copy.references))
            .clamp(self.fewest(), MOST_QUERIES)
            .min(BATCH_BYTES / (8 * room(capacity)))
            .min(most.unwrap_or(usize::MAX))
    }

    /// Queries at a time with which all devices are kept busy.
    fn fewest(&self) -> usize {
        let fewest = self.sweepers.iter().map(|s| s.fewest_queries()).max();
        fewest.unwrap_or(TILE)
    }

    /// Divides so many queries into batches.
    fn batches(&self, count: usize, capacity: usize) -> Result<Vec<Range<usize>>> {
        let most = self.at_a_time(capacity);
        if most == 0 {
            return Err(Error::Memory(format!(
                "the device's memory does not suffice for {capacity} candidates of a row"
            )));
        }
        let devices = self.sweepers.len();
        let size = count
            .div_ceil(BATCHES_FOR_EACH * devices)
            .max(self.fewest().min(count.div_ceil(devices)))
            .next_multiple_of(TILE)
            .min(most);
        let starts = (0..count).step_by(size);
        Ok(starts
            .map(|start| start..(start + size).min(count))
            .collect())
    }

    /// Answers a request, batch after batch; false where half precision leaves too many queries
    /// open, and the answers that are missing are better asked for in single precision.
    fn deal_out(&mut self, request: &Request<'_>, take: &mut Take<'_>) -> Result<bool> {
        let capacity = capacity(&self.frames[0], request);
        let batches = self.batches(request.queries.len(), capacity)?;
        let groups: Vec<u32> = self.copy.indices[..self.copy.references]
            .par_iter()
            .map(|&index| group(request.except, index))
            .collect();
        let Self {
            lost,
            sweepers,
            again,
            frames,
            host,
            copy,
            monitor,
            ..
        } = self;
        let before = lost.len();
        let frame = &frames[0];
        let sharper = frames.len() > 1;
        let mut leaves_many = false;
        let mut failed = None;
        let dealt = deal(
            sweepers,
            &batches,
            lost,
            |sweeper, batch| sweeper.sweep(copy, request, capacity, &groups, batch, monitor),
            |batch, swept| {
                monitor.check()?;
                let first = settle(host, frame, copy, request, batch.clone(), &swept);
                let queries = &request.queries[batch.clone()];
                let mut open = Open::default();
                for (at, limit) in first.open() {
                    open.push(at, queries[at], limit);
                }
                // What is settled later, by the query's place in the batch.
                let mut later = BTreeMap::new();
                leaves_many = sharper && open.len() > FEW + batch.len() / SHARE_AGAIN;
                let more = (MORE * capacity).min(MOST_CANDIDATES);
                let most = match again {
                    Some(again) if !leaves_many && failed.is_none() => again.most_queries(more),
                    _ => 0,
                };
                if let (Some(again), 1..) = (&mut *again, most) {
                    let request = open.request(request);
                    let most = most.min(BATCH_BYTES / (8 * room(more)));
                    let mut still = Open::default();
                    for start in (0..open.len()).step_by(most) {
                        let some = start..(start + most).min(open.len());
                        let swept =
                            again.sweep(copy, &request, more, &groups, some.clone(), monitor);
                        let swept = match swept {
                            Err(error @ Error::Device(_)) => {
                                let device = again.device();
                                failed = Some(Lost { device, error });
                                // The host has these, too.
                                for i in start..open.len() {
                                    still.push(open.at[i], open.queries[i], open.limits[i]);
                                }
                                break;
                            }
                            swept => swept?,
                        };
                        let second = settle(host, frame, copy, &request, some.clone(), &swept);
                        for (i, &at) in open.at[some].iter().enumerate() {
                            match second.limit(i) {
                                Some(limit) => still.push(at, queries[at], limit),
                                None => drop(later.insert(at, second.of(i).to_vec())),
                            }
                        }
                    }
                    open = still;
                }
                leaves_many |= sharper && open.len() > FEW + batch.len() / SHARE_FOR_HOST;
                if leaves_many {
                    // Ends it.
                    return Err(Error::Interrupt);
                }
                if open.len() > 0 {
                    let rest = host.nearest(&open.request(request))?;
                    for (&at, found) in open.at.iter().zip(rest.iter()) {
                        later.insert(at, found.to_vec());
                    }
                }
                let settled = |at: usize| later.get(&at).map_or(first.of(at), |found| found);
                take(&Nearest::of_all(batch.len(), settled))
            },
        );
        let settled = match dealt {
            Err(_) if leaves_many => false,
            dealt => dealt.map(|()| true)?,
        };
        if let Some(Lost { device, error }) = failed {
            lose(lost, device, error);
        }
        self.go_on_without(before)?;
        Ok(settled)
    }
}

/// Queries of a batch that are not settled yet.
#[derive(Default)]
struct Open {
    /// Their places in the batch.
    at: Vec<usize>,
    queries: Vec<u32>,
    /// Nothing beyond is in the answer.
    limits: Vec<f64>,
}

impl Open {
    fn push(&mut self, at: usize, query: u32, limit: f64) {
        self.at.push(at);
        self.queries.push(query);
        self.limits.push(limit);
    }

    /// How many.
    fn len(&self) -> usize {
        self.at.len()
    }

    /// What is left to answer of a request.
    fn request<'a>(&'a self, request: &Request<'a>) -> Request<'a> {
        Request {
            queries: &self.queries,
            limits: Some(&self.limits),
            ..*request
        }
    }
}

/// How many candidates a sweep is to keep of each query: more where bounds are looser.
fn capacity(frame: &Frame, request: &Request) -> usize {
    match frame.precision() {
        Precision::Single => CpuNeighbours::capacity(request),
        Precision::Half => request.wanted + request.wanted / 4 + 12,
    }
}

/// Queries that are settled by a thread at a time: so many that it rarely allocates.
const SETTLED_TOGETHER: usize = 1 << 7;

/// What sweeps have settled of a batch's queries, some after the others.
struct Settled(Vec<SettledSome>);

#[derive(Default)]
struct SettledSome {
    /// Nothing where a query is open.
    nearest: Nearest,
    /// Where a query is open, its limit: nothing beyond is in the answer.
    limits: Vec<Option<f64>>,
}

impl Settled {
    /// What was found for the `i`-th query.
    fn of(&self, i: usize) -> &[(f64, u32)] {
        let some = &self.0[i / SETTLED_TOGETHER];
        some.nearest.of(i % SETTLED_TOGETHER)
    }

    /// The limit of the `i`-th query, if it is open.
    fn limit(&self, i: usize) -> Option<f64> {
        self.0[i / SETTLED_TOGETHER].limits[i % SETTLED_TOGETHER]
    }

    /// The open ones, and their limits.
    fn open(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        let limits = self.0.iter().flat_map(|some| &some.limits);
        let limits = limits.enumerate();
        limits.filter_map(|(i, limit)| Some((i, (*limit)?)))
    }
}

/// Settles a batch of a request's queries, as far as what a sweep left of them allows.
fn settle(
    host: &CpuNeighbours,
    frame: &Frame,
    copy: &Copy,
    request: &Request,
    batch: Range<usize>,
    swept: &Swept,
) -> Settled {
    let settle = |start: usize| {
        let mut some = SettledSome::default();
        let mut best = Best::default();
        let mut found = Vec::new();
        for i in start..(start + SETTLED_TOGETHER).min(batch.len()) {
            let at = batch.start + i;
            let floor = swept.candidates(i, frame, copy, request, at, &mut found);
            let decided = floor.and_then(|floor| {
                host.decide(request, at, found.iter().copied(), floor, &mut best)
            });
            match decided {
                Ok(()) => some.nearest.push(best.sorted()),
                Err(_) => some.nearest.push(&[]),
            }
            some.limits.push(decided.err());
        }
        some
    };
    let starts = (0..batch.len().div_ceil(SETTLED_TOGETHER)).into_par_iter();
    let parts = starts.map(|part| settle(part * SETTLED_TOGETHER));
    Settled(parts.collect())
}

impl Swept {
    /// The candidates of the `i`-th query that was swept, the `at`-th of the request: lower bounds and
    /// indices, in increasing order, into `found`; and a bound under all others within the limit, if
    /// any. Where they were too many to keep, the limit.
    fn candidates(
        &self,
        i: usize,
        frame: &Frame,
        copy: &Copy,
        request: &Request,
        at: usize,
        found: &mut Vec<(f64, u32)>,
    ) -> std::result::Result<Option<f64>, f64> {
        let count = self.counts[i] as usize;
        let limit = request.limits.map_or(f64::INFINITY, |limits| limits[at]);
        if count > self.room {
            return Err(limit);
        }
        let bound = |key: u64| frame.in_data_units(f32::from_bits((key >> 32) as u32));
        let keys = &self.keys[i * self.capacity..][..count.min(self.capacity)];
        let name = |&key: &u64| (bound(key), copy.indices[key as u32 as usize]);
        found.clear();
        found.extend(keys.iter().map(name));
        // Among equal bounds the order was that of positions.
        found.sort_unstable_by_key(|&(bound, index)| (bound.to_bits(), index));
        let beyond = first_beyond(frame.limit(limit));
        Ok((self.floors[i] != beyond).then(|| bound(self.floors[i])))
    }
}

impl<S: Sweeper> Neighbours for CudaNeighbours<'_, S> {
    fn nearest(&mut self, request: &Request<'_>) -> Result<Nearest> {
        let mut all = Nearest::default();
        self.nearest_in_blocks(request, &mut |nearest| {
            nearest.iter().for_each(|found| all.push(found));
            Ok(())
        })?;
        Ok(all)
    }

    fn nearest_in_blocks(&mut self, request: &Request<'_>, take: &mut Take<'_>) -> Result<()> {
        let count = request.queries.len();
        if count == 0 {
            return Ok(());
        }
        let pairs = count * (self.copy.references - self.copy.gone);
        if pairs * self.frames[0].columns() < self.smallest {
            return self.host.nearest_in_blocks(request, take);
        }
        self.update()?;
        let mut done = 0;
        loop {
            let rest = request.part(done..count);
            if capacity(&self.frames[0], request) <= MOST_CANDIDATES {
                let settled = self.deal_out(&rest, &mut |nearest| {
                    done += nearest.len();
                    take(nearest)
                })?;
                if settled {
                    return Ok(());
                }
            } else if self.frames.len() == 1 {
                return self.host.nearest_in_blocks(&rest, take);
            }
            // Half precision is not enough.
            self.frames.remove(0);
            self.open()?;
        }
    }

    fn distances(&mut self, pairs: &[(u32, u32)]) -> Result<Vec<f64>> {
        self.host.distances(pairs)
    }

    fn merge(&mut self, lower: u32, higher: u32) -> Result<()> {
        self.host.merge(lower, higher)?;
        self.copy.gone += 1;
        self.changed.extend([lower, higher]);
        Ok(())
    }

    fn batch(&self) -> usize {
        self.at_a_time(1).max(1) * self.sweepers.len()
    }
}

/// The first key beyond all those with a bound of at most this limit.
fn first_beyond(limit: f32) -> u64 {
    (u64::from(limit.to_bits()) + 1) << 32
}

/// The group of a reference, and of a query that is one.
fn group(except: Except, index: u32) -> u32 {
    match except {
        Except::Nobody => 0,
        Except::Itself => index,
        Except::Group(groups) => groups[index as usize],
    }
}

/// The references in an order that has nothing to do with theirs, then `others`; and the views of
/// them all.
fn copy(frame: &Frame, host: &CpuNeighbours, others: Range<u32>) -> Result<(Copy, Arc<Rows>)> {
    let mut indices = host.references();
    shuffle(&mut indices);
    let references = indices.len();
    indices.extend(others);
    let most = indices.iter().max().map_or(0, |&most| most as usize + 1);
    let mut positions = vec![0; most];
    for (position, &index) in indices.iter().enumerate() {
        positions[index as usize] = position as u32;
    }
    let (rows, scalars) = views(frame, host, &indices)?;
    let copy = Copy {
        indices,
        positions,
        references,
        gone: 0,
        scalars,
    };
    let by_row = frame.precision() == Precision::Half;
    let rows = Rows::new(rows, numbers(frame) + SCALARS, by_row);
    Ok((copy, Arc::new(rows)))
}

/// Mixes by a fixed sequence of random numbers.
fn shuffle(indices: &mut [u32]) {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    for i in (1..indices.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        indices.swap(i, (state % (i as u64 + 1)) as usize);
    }
}

/// Numbers before the scalars of a view: the coordinates, or two of them each.
fn numbers(frame: &Frame) -> usize {
    match frame.precision() {
        Precision::Single => frame.columns(),
        Precision::Half => products::numbers(frame),
    }
}

/// Coordinates and scalars of some rows, row after row, and the scalars again. A cluster that was
/// merged away is where nothing finds it.
fn views(frame: &Frame, host: &CpuNeighbours, indices: &[u32]) -> Result<(Vec<f32>, Vec<Scalars>)> {
    let columns = numbers(frame);
    let height = columns + SCALARS;
    let mut rows = memory::zeros::<f32>(memory::OBSERVATIONS, indices.len() * height)?;
    let scalars = rows
        .par_chunks_mut(height)
        .zip(indices)
        .map(|(view, &index)| {
            let (row, size) = host.row(index);
            if size == 0.0 {
                view[columns..].fill(f32::NAN);
                return Scalars::default();
            }
            let scalars = match frame.precision() {
                Precision::Single => frame.write(row, size, |k, value| view[k] = value),
                Precision::Half => products::write(frame, row, size, view),
            };
            let numbers = [
                scalars.error,
                scalars.factor,
                scalars.half,
                scalars.allowance,
            ];
            view[columns..].copy_from_slice(&numbers);
            scalars
        })
        .collect();
    Ok((rows, scalars))
}
