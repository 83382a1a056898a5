//! Nearest references on a CUDA device: it sweeps, in single precision, and the CPU decides what is
//! left. kernels/neighbours.cu says how.

mod searcher;

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use super::device::Device;
use crate::backend::cpu::CpuNeighbours;
use crate::backend::neighbours::{Nearest, Neighbours, Request, Space};
use crate::backend::single::{Frame, Scalars};
use crate::error::Result;
use crate::monitor::Monitor;
use searcher::{first_beyond, room, Searcher, Swept, MOST_ROOM, SCALARS, TILE};

/// Queries with more candidates than this are the CPU's.
const MOST_CANDIDATES: usize = MOST_ROOM / 4;

/// Pairs of coordinates that take a fraction of a second.
const BATCH_COORDINATES: usize = 1 << 41;

/// Bytes of candidates at a time.
const BATCH_BYTES: usize = 1 << 31;

/// Requests with fewer pairs of coordinates than this are faster on the CPU.
pub const SMALLEST: usize = 1 << 26;

/// Who is where on a device. References come first, in an order that has nothing to do with
/// theirs: so each part of them is like every other.
struct Copy {
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

/// References and queries on a device, and on the host, too.
pub struct CudaNeighbours<'a> {
    searcher: Searcher,
    frame: Frame,
    /// Decides, and does what the device is not made for.
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
    /// Requests with fewer pairs of coordinates than `smallest` are the CPU's.
    ///
    /// # Errors
    /// `Error::Memory` when the device has too little, `Error::Device` when it fails.
    pub fn new(
        device: &Arc<Device>,
        space: Space<'a>,
        smallest: usize,
        monitor: &'a Monitor,
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
            searcher: Searcher::new(device, &frame, &rows)?,
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
            return self.searcher.replace(&rows);
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
        let stride = self.copy.indices.len();
        self.searcher.update(&rows, &positions, stride)
    }

    /// The answer for the `at`-th query of a request, the `i`-th of those swept; `None` where that
    /// does not settle it.
    fn settle(
        &self,
        request: &Request,
        at: usize,
        i: usize,
        swept: &Swept,
    ) -> Option<Vec<(f64, u32)>> {
        let count = swept.counts[i] as usize;
        if count > swept.room {
            return None;
        }
        let bound = |key: u64| self.frame.in_data_units(f32::from_bits((key >> 32) as u32));
        let keys = &swept.keys[i * swept.capacity..][..count.min(swept.capacity)];
        let name = |&key: &u64| (bound(key), self.copy.indices[key as u32 as usize]);
        let mut found: Vec<(f64, u32)> = keys.iter().map(name).collect();
        // Among equal bounds the order was that of positions.
        found.sort_unstable_by_key(|&(bound, index)| (bound.to_bits(), index));
        let limit = request.limits.map_or(f64::INFINITY, |limits| limits[at]);
        let beyond = first_beyond(self.frame.limit(limit));
        let floor = (swept.floors[i] != beyond).then(|| bound(swept.floors[i]));
        self.host.decide(request, at, found.into_iter(), floor)
    }
}

impl Neighbours for CudaNeighbours<'_> {
    fn nearest(&mut self, request: &Request<'_>) -> Result<Nearest> {
        let count = request.queries.len();
        let pairs = count * (self.copy.references - self.copy.gone);
        let capacity = CpuNeighbours::capacity(request);
        if capacity > MOST_CANDIDATES || pairs * self.frame.columns() < self.smallest {
            return self.host.nearest(request);
        }
        self.update()?;
        let mut settled: Vec<Option<Vec<(f64, u32)>>> = Vec::with_capacity(count);
        let batch = self.batch().min(BATCH_BYTES / (8 * room(capacity)));
        // The device sweeps for some queries while the host decides on those before.
        let mut swept: Option<Swept> = None;
        for start in (0..count + batch).step_by(batch) {
            self.monitor.check()?;
            let range = start.min(count)..(start + batch).min(count);
            let before = start.saturating_sub(batch)..start.min(count);
            let (next, answers) = rayon::join(
                || {
                    (!range.is_empty())
                        .then(|| self.searcher.sweep(&self.copy, request, range))
                        .transpose()
                },
                || {
                    let settle = |(i, at)| self.settle(request, at, i, swept.as_ref()?);
                    let answers = before.into_par_iter().enumerate().map(settle);
                    answers.collect::<Vec<_>>()
                },
            );
            settled.extend(answers);
            swept = next?;
        }
        // What the sweeps did not settle.
        let open: Vec<usize> = (0..count).filter(|&at| settled[at].is_none()).collect();
        if !open.is_empty() {
            let queries: Vec<u32> = open.iter().map(|&at| request.queries[at]).collect();
            let limits: Option<Vec<f64>> = request
                .limits
                .map(|limits| open.iter().map(|&at| limits[at]).collect());
            let rest = self.host.nearest(&Request {
                queries: &queries,
                limits: limits.as_deref(),
                ..*request
            })?;
            for (&at, found) in open.iter().zip(rest.iter()) {
                settled[at] = Some(found.to_vec());
            }
        }
        let mut nearest = Nearest::default();
        for found in settled {
            nearest.push(&found.expect("every query is settled"));
        }
        Ok(nearest)
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
        let query = self.frame.columns() * self.copy.references;
        (BATCH_COORDINATES / query).clamp(8 * TILE, 1 << 18)
    }
}

/// The references in an order that has nothing to do with theirs, then `others`; and the views of
/// them all, as [`views`] has them.
fn copy(frame: &Frame, host: &CpuNeighbours, others: Range<u32>) -> (Copy, Vec<f32>) {
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
    (copy, rows)
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
