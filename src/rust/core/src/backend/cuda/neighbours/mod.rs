//! Nearest references on CUDA devices: they sweep, in single precision, and the CPU decides what is
//! left. kernels/neighbours.cu says how.
//!
//! Every device sweeps all references, in chunks where its memory does not hold them ([`references`]),
//! for batches of the queries, which are dealt out to the devices ([`deal`]).

mod deal;
mod references;
mod searcher;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use super::device::Device;
use super::join;
use crate::backend::cpu::CpuNeighbours;
use crate::backend::neighbours::{Except, Nearest, Neighbours, Request, Space, Take};
use crate::backend::single::{Frame, Scalars};
use crate::error::{Error, Result};
use crate::monitor::Monitor;
use deal::deal;
use references::Rows;
use searcher::{room, Searcher, MOST_ROOM, TILE};

/// Queries with more candidates than this are the CPU's.
const MOST_CANDIDATES: usize = MOST_ROOM / 4;

/// Pairs of coordinates that take a fraction of a second.
const BATCH_COORDINATES: usize = 1 << 41;

/// Queries at a time, at most.
const MOST_QUERIES: usize = 1 << 18;

/// Bytes of candidates at a time.
const BATCH_BYTES: usize = 1 << 31;

/// Batches for each device, at least, where there are queries enough: while it sweeps for one, the
/// host decides on another.
const BATCHES_FOR_EACH: usize = 4;

/// Scalars of a view, behind its coordinates. As in neighbours.cu.
const SCALARS: usize = 4;

/// Requests with fewer pairs of coordinates than this are faster on the CPU.
pub const SMALLEST: usize = 1 << 26;

/// Who is where on the devices. References come first, in an order that has nothing to do with
/// theirs: so each part of them is like every other.
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
pub trait Sweeper: Send {
    /// Sweeps all references for some queries of a request, given the groups of the references by
    /// position.
    ///
    /// # Errors
    /// As [`Neighbours::nearest`]; where a device fails, the error names it and the queries.
    fn sweep(
        &mut self,
        copy: &Copy,
        request: &Request,
        groups: &[u32],
        batch: Range<usize>,
        monitor: &Monitor,
    ) -> Result<Swept>;

    /// For how many queries at a time there is memory when so many candidates of each are kept.
    fn most_queries(&self, capacity: usize) -> usize;

    /// For how many queries at a time a sweep is worth its while.
    fn fewest_queries(&self) -> usize;

    /// Puts rows that have changed to their positions.
    fn update(&mut self, rows: &[f32], positions: &[u32]) -> Result<()>;

    /// Has these rows, all of them references, from now on.
    fn restart(&mut self, rows: &Arc<Rows>) -> Result<()>;
}

/// References and queries on devices, and on the host, too.
pub struct CudaNeighbours<'a, S = Searcher> {
    sweepers: Vec<S>,
    frame: Frame,
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
    /// `Error::Memory` when a device has too little, `Error::Device` when one fails.
    pub fn new(
        devices: &[Arc<Device>],
        space: Space<'a>,
        smallest: usize,
        memory: Option<usize>,
        monitor: &'a Monitor,
    ) -> Result<Option<Self>> {
        let (devices, whole) = match space {
            Space::Points { .. } => (devices, false),
            // Requests are small, and every merge would have to be told to every device.
            Space::Clusters(_) => (&devices[..1], true),
        };
        Self::on(space, smallest, monitor, |frame, rows, references| {
            // All at a time: copying and, at the first use, loading kernels takes a while.
            std::thread::scope(|scope| {
                let open = |device| {
                    scope.spawn(move || {
                        let mut one =
                            Searcher::new(device, frame, rows, references, memory, whole)?;
                        let twin = one.twin()?;
                        Ok([Some(one), twin].into_iter().flatten())
                    })
                };
                let threads: Vec<_> = devices.iter().map(open).collect();
                let opened: Result<Vec<_>> = threads.into_iter().map(join).collect();
                Ok(opened?.into_iter().flatten().collect())
            })
        })
    }
}

impl<'a, S: Sweeper> CudaNeighbours<'a, S> {
    /// As [`CudaNeighbours::new`], with sweepers that `make` makes of a frame, all rows, and how many
    /// of these are references.
    fn on(
        space: Space<'a>,
        smallest: usize,
        monitor: &'a Monitor,
        make: impl FnOnce(&Frame, &Arc<Rows>, usize) -> Result<Vec<S>>,
    ) -> Result<Option<Self>> {
        let others = match space {
            Space::Points { points, references } => references as u32..points.rows() as u32,
            Space::Clusters(_) => 0..0,
        };
        let host = CpuNeighbours::new(space, monitor);
        let Some(frame) = host.frame().cloned() else {
            return Ok(None);
        };
        let (copy, rows) = copy(&frame, &host, others);
        Ok(Some(Self {
            sweepers: make(&frame, &rows, copy.references)?,
            frame,
            host,
            copy,
            changed: Vec::new(),
            smallest,
            monitor,
        }))
    }

    /// Copies what has changed.
    fn update(&mut self) -> Result<()> {
        let left = self.copy.references - self.copy.gone;
        if 10 * left < 9 * self.copy.references {
            self.changed.clear();
            let (copy, rows) = copy(&self.frame, &self.host, 0..0);
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
        let (rows, scalars) = views(&self.frame, &self.host, &changed);
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
        let query = self.frame.columns() * self.copy.references;
        (BATCH_COORDINATES / query)
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
}

/// The answer for the `at`-th query of a request, the `i`-th of those swept; `None` where that does
/// not settle it.
fn settle(
    host: &CpuNeighbours,
    frame: &Frame,
    copy: &Copy,
    request: &Request,
    at: usize,
    swept: &Swept,
    i: usize,
) -> Option<Vec<(f64, u32)>> {
    let count = swept.counts[i] as usize;
    if count > swept.room {
        return None;
    }
    let bound = |key: u64| frame.in_data_units(f32::from_bits((key >> 32) as u32));
    let keys = &swept.keys[i * swept.capacity..][..count.min(swept.capacity)];
    let name = |&key: &u64| (bound(key), copy.indices[key as u32 as usize]);
    let mut found: Vec<(f64, u32)> = keys.iter().map(name).collect();
    // Among equal bounds the order was that of positions.
    found.sort_unstable_by_key(|&(bound, index)| (bound.to_bits(), index));
    let limit = request.limits.map_or(f64::INFINITY, |limits| limits[at]);
    let beyond = first_beyond(frame.limit(limit));
    let floor = (swept.floors[i] != beyond).then(|| bound(swept.floors[i]));
    host.decide(request, at, found.into_iter(), floor)
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
        let pairs = count * (self.copy.references - self.copy.gone);
        let capacity = CpuNeighbours::capacity(request);
        if capacity > MOST_CANDIDATES || pairs * self.frame.columns() < self.smallest {
            return self.host.nearest_in_blocks(request, take);
        }
        self.update()?;
        let batches = self.batches(count, capacity)?;
        let groups: Vec<u32> = self.copy.indices[..self.copy.references]
            .par_iter()
            .map(|&index| group(request.except, index))
            .collect();
        let Self {
            sweepers,
            frame,
            host,
            copy,
            monitor,
            ..
        } = self;
        deal(
            sweepers,
            &batches,
            |sweeper, batch| sweeper.sweep(copy, request, &groups, batch, monitor),
            |batch, swept| {
                monitor.check()?;
                let settle = |(i, at)| settle(host, frame, copy, request, at, &swept, i);
                let mut settled: Vec<Option<Vec<(f64, u32)>>> = batch
                    .clone()
                    .into_par_iter()
                    .enumerate()
                    .map(settle)
                    .collect();
                // What the sweeps did not settle.
                let is_open = |&at: &usize| settled[at - batch.start].is_none();
                let open: Vec<usize> = batch.clone().filter(is_open).collect();
                if !open.is_empty() {
                    let queries: Vec<u32> = open.iter().map(|&at| request.queries[at]).collect();
                    let limits: Option<Vec<f64>> = request
                        .limits
                        .map(|limits| open.iter().map(|&at| limits[at]).collect());
                    let rest = host.nearest(&Request {
                        queries: &queries,
                        limits: limits.as_deref(),
                        ..*request
                    })?;
                    for (&at, found) in open.iter().zip(rest.iter()) {
                        settled[at - batch.start] = Some(found.to_vec());
                    }
                }
                let mut nearest = Nearest::default();
                for found in settled {
                    nearest.push(&found.expect("every query is settled"));
                }
                take(&nearest)
            },
        )
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
fn copy(frame: &Frame, host: &CpuNeighbours, others: Range<u32>) -> (Copy, Arc<Rows>) {
    let mut indices = host.references();
    shuffle(&mut indices);
    let references = indices.len();
    indices.extend(others);
    let most = indices.iter().max().map_or(0, |&most| most as usize + 1);
    let mut positions = vec![0; most];
    for (position, &index) in indices.iter().enumerate() {
        positions[index as usize] = position as u32;
    }
    let (rows, scalars) = views(frame, host, &indices);
    let copy = Copy {
        indices,
        positions,
        references,
        gone: 0,
        scalars,
    };
    (copy, Arc::new(Rows::new(rows, frame.columns() + SCALARS)))
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

/// Coordinates and scalars of some rows, row after row, and the scalars again. A cluster that was
/// merged away is where nothing finds it.
fn views(frame: &Frame, host: &CpuNeighbours, indices: &[u32]) -> (Vec<f32>, Vec<Scalars>) {
    let columns = frame.columns();
    let height = columns + SCALARS;
    let mut rows = vec![0.0f32; indices.len() * height];
    let scalars = rows
        .par_chunks_mut(height)
        .zip(indices)
        .map(|(view, &index)| {
            let (row, size) = host.row(index);
            if size == 0.0 {
                view[columns..].fill(f32::NAN);
                return Scalars::default();
            }
            let scalars = frame.write(row, size, |k, value| view[k] = value);
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
    (rows, scalars)
}
