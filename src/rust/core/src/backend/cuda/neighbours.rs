//! Nearest references on a CUDA device: it sweeps, in single precision, and the CPU decides what is
//! left. kernels/neighbours.cu says how.

use std::sync::Arc;

use cudarc::driver::{
    CudaFunction, CudaSlice, CudaStream, DevicePtr, DeviceRepr, DriverError, LaunchConfig,
    PushKernelArg,
};
use rayon::prelude::*;

use super::device::Device;
use super::kernels::{self, Kernels};
use crate::backend::cpu::CpuNeighbours;
use crate::backend::neighbours::{Except, Nearest, Neighbours, Request, Space};
use crate::backend::single::{Frame, Kind, Scalars, Sums};
use crate::error::{Error, Result};
use crate::monitor::Monitor;

// As in neighbours.cu.
const TILE: usize = 128;
const THREADS: u32 = 256;
const NARROW_THREADS: u32 = 128;
const MOST_ROOM: usize = 4096;
const SCALARS: usize = 4;
const WARP: u32 = 32;

/// Queries with more candidates than this are the CPU's.
const MOST_CANDIDATES: usize = MOST_ROOM / 4;

/// Pairs of coordinates that take a fraction of a second.
const BATCH_COORDINATES: usize = 1 << 41;

/// Bytes of candidates at a time.
const BATCH_BYTES: usize = 1 << 31;

/// Requests with fewer pairs of coordinates than this are faster on the CPU.
pub const SMALLEST: usize = 1 << 26;

/// The group of queries that leave nobody out.
const NO_GROUP: u32 = u32::MAX;

/// As struct Sweep in neighbours.cu.
#[repr(C)]
#[derive(Clone, Copy)]
struct Sweep {
    shrink: f64,
    margin: f64,
    references: u64,
    groups: u64,
    queries: u64,
    query_groups: u64,
    slopes: u64,
    bases: u64,
    candidates: u64,
    floors: u64,
    counts: u64,
    kept: u64,
    stride: u64,
    query_stride: u64,
    columns: u32,
    query_count: u32,
    kind: u32,
    capacity: u32,
    room: u32,
    first: u32,
    last: u32,
}

// SAFETY: plain old data, laid out as in neighbours.cu.
unsafe impl DeviceRepr for Sweep {}

struct Functions {
    scatter: CudaFunction,
    gather: CudaFunction,
    collect: CudaFunction,
    narrow: CudaFunction,
    pack: CudaFunction,
}

/// Who is where on the device. References come first, in an order that has nothing to do with
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
    /// Coordinates, then scalars, each for all positions.
    values: CudaSlice<f32>,
}

/// References and queries on a device, and on the host, too.
pub struct CudaNeighbours<'a> {
    device: Arc<Device>,
    stream: Arc<CudaStream>,
    functions: Functions,
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

/// What a sweep left of a batch of queries.
struct Swept {
    capacity: usize,
    room: usize,
    counts: Vec<u32>,
    floors: Vec<u64>,
    /// `capacity` for each query.
    keys: Vec<u64>,
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
        let module = module(frame.sums());
        let kernel = |name: &str| device.kernel(module, name);
        let functions = Functions {
            scatter: kernel("scatter")?,
            gather: kernel("gather")?,
            collect: kernel("collect")?,
            narrow: kernel("narrow")?,
            pack: kernel("pack")?,
        };
        let failed = |error: DriverError| device.error("making room for points", &error);
        let stream = device.context.new_stream().map_err(failed)?;
        let copy = copy(device, &stream, &functions.scatter, &frame, &host, others)?;
        Ok(Some(Self {
            device: device.clone(),
            stream,
            functions,
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
            self.copy = copy(
                &self.device,
                &self.stream,
                &self.functions.scatter,
                &self.frame,
                &self.host,
                0..0,
            )?;
            return Ok(());
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
        scatter(
            &self.stream,
            &self.functions.scatter,
            &rows,
            &positions,
            &mut self.copy.values,
            stride,
        )
        .map_err(|error| self.device.error("copying clusters", &error))
    }

    /// Sweeps all references for some queries of a request.
    fn sweep(&self, request: &Request, batch: std::ops::Range<usize>) -> Result<Swept> {
        self.try_sweep(request, batch)
            .map_err(|error| self.device.error("a search for neighbours", &error))
    }

    fn try_sweep(
        &self,
        request: &Request,
        batch: std::ops::Range<usize>,
    ) -> std::result::Result<Swept, DriverError> {
        let stream = &self.stream;
        let copy = &self.copy;
        let columns = self.frame.columns();
        let queries = &request.queries[batch.clone()];
        let count = queries.len();
        let capacity = CpuNeighbours::capacity(request);
        let room = room(capacity);
        let positions: Vec<u32> = queries
            .iter()
            .map(|&index| copy.positions[index as usize])
            .collect();
        let group_of = |index: u32| match request.except {
            Except::Nobody => 0,
            Except::Itself => index,
            Except::Group(groups) => groups[index as usize],
        };
        let groups: Vec<u32> = copy.indices[..copy.references]
            .par_iter()
            .map(|&index| group_of(index))
            .collect();
        let query_groups: Vec<u32> = match request.except {
            Except::Nobody => vec![NO_GROUP; count],
            _ => queries.iter().map(|&index| group_of(index)).collect(),
        };
        let mut slopes = Vec::with_capacity(count);
        let mut bases = Vec::with_capacity(count);
        let mut floors = Vec::with_capacity(count);
        for (at, &position) in batch.zip(&positions) {
            let limit = self
                .frame
                .limit(request.limits.map_or(f64::INFINITY, |l| l[at]));
            let scalars = &copy.scalars[position as usize];
            let threshold = self.frame.threshold(scalars, limit);
            slopes.push(threshold.slope);
            bases.push(threshold.base);
            floors.push(first_beyond(limit));
        }

        let positions = stream.clone_htod(&positions)?;
        let groups = stream.clone_htod(&groups)?;
        let query_groups = stream.clone_htod(&query_groups)?;
        let slopes = stream.clone_htod(&slopes)?;
        let bases = stream.clone_htod(&bases)?;
        let floors = stream.clone_htod(&floors)?;
        let counts = stream.alloc_zeros::<u32>(count)?;
        let kept = stream.alloc_zeros::<u32>(count)?;
        let height = columns + SCALARS;
        // SAFETY: `gather` writes all of the first, and no more of the others is read than was
        // written.
        let (coordinates, candidates, packed) = unsafe {
            (
                stream.alloc::<f32>(count * height)?,
                stream.alloc::<u64>(count * room)?,
                stream.alloc::<u64>(count * capacity)?,
            )
        };
        let (shrink, margin) = self.frame.margins();
        let mut sweep = Sweep {
            shrink,
            margin,
            references: copy.values.device_ptr(stream).0,
            groups: groups.device_ptr(stream).0,
            queries: coordinates.device_ptr(stream).0,
            query_groups: query_groups.device_ptr(stream).0,
            slopes: slopes.device_ptr(stream).0,
            bases: bases.device_ptr(stream).0,
            candidates: candidates.device_ptr(stream).0,
            floors: floors.device_ptr(stream).0,
            counts: counts.device_ptr(stream).0,
            kept: kept.device_ptr(stream).0,
            stride: copy.indices.len() as u64,
            query_stride: count as u64,
            columns: columns as u32,
            query_count: count as u32,
            kind: match self.frame.kind() {
                Kind::Norm => 0,
                Kind::NormOfProducts => 1,
                Kind::Sum => 2,
                Kind::Angle => 3,
            },
            capacity: capacity as u32,
            room: room as u32,
            first: 0,
            last: 0,
        };
        // SAFETY: arguments as declared in neighbours.cu; all arrays have the sizes that `sweep`
        // says, and live until the stream is synchronized below.
        unsafe {
            stream
                .launch_builder(&self.functions.gather)
                .arg(&copy.values)
                .arg(&positions)
                .arg(&sweep.query_count)
                .arg(&sweep.columns)
                .arg(&sweep.stride)
                .arg(&coordinates)
                .arg(&sweep.query_stride)
                .launch(config(
                    (count as u32).div_ceil(THREADS),
                    height as u32,
                    THREADS,
                ))?;
            // The first part has room as a whole; of each further one, about `capacity` times its
            // share of those before will be nearer than the threshold.
            let share = ((room - capacity) / (2 * capacity)).max(1);
            let mut part = room;
            while (sweep.last as usize) < copy.references {
                sweep.first = sweep.last;
                sweep.last = (sweep.first as usize + part).min(copy.references) as u32;
                stream
                    .launch_builder(&self.functions.collect)
                    .arg(&sweep)
                    .launch(config(
                        (sweep.last - sweep.first).div_ceil(TILE as u32),
                        (count as u32).div_ceil(TILE as u32),
                        THREADS,
                    ))?;
                stream
                    .launch_builder(&self.functions.narrow)
                    .arg(&sweep)
                    .launch(LaunchConfig {
                        shared_mem_bytes: 8 * room.next_power_of_two() as u32,
                        ..config(count as u32, 1, NARROW_THREADS)
                    })?;
                part = share * sweep.last as usize;
            }
            stream
                .launch_builder(&self.functions.pack)
                .arg(&sweep)
                .arg(&packed)
                .launch(config(
                    (capacity as u32).div_ceil(WARP),
                    (count as u32).min(32_768),
                    WARP,
                ))?;
        }
        let swept = Swept {
            capacity,
            room,
            counts: stream.clone_dtoh(&counts)?,
            floors: stream.clone_dtoh(&floors)?,
            keys: stream.clone_dtoh(&packed)?,
        };
        stream.synchronize()?;
        Ok(swept)
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
                        .then(|| self.sweep(request, range))
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

/// The kernels for these sums.
fn module(sums: Sums) -> &'static Kernels {
    match sums {
        Sums::Squares => &kernels::NEIGHBOURS_SQUARES,
        Sums::Magnitudes => &kernels::NEIGHBOURS_MAGNITUDES,
        Sums::Greatest => &kernels::NEIGHBOURS_GREATEST,
        Sums::Quotients => &kernels::NEIGHBOURS_QUOTIENTS,
        Sums::Products => &kernels::NEIGHBOURS_PRODUCTS,
        Sums::AbsoluteProducts => &kernels::NEIGHBOURS_ABSOLUTE_PRODUCTS,
    }
}

/// Room for the candidates of a query of which `capacity` are kept.
fn room(capacity: usize) -> usize {
    (8 * capacity).next_power_of_two().clamp(TILE, MOST_ROOM)
}

/// The first key beyond all those with a bound of at most this limit.
fn first_beyond(limit: f32) -> u64 {
    (u64::from(limit.to_bits()) + 1) << 32
}

/// The references in an order that has nothing to do with theirs, then `others`, on the device.
fn copy(
    device: &Device,
    stream: &Arc<CudaStream>,
    kernel: &CudaFunction,
    frame: &Frame,
    host: &CpuNeighbours,
    others: std::ops::Range<u32>,
) -> Result<Copy> {
    let mut indices = host.references();
    shuffle(&mut indices);
    let references = indices.len();
    indices.extend(others);
    let count = indices.len();
    let height = frame.columns() + SCALARS;
    let bytes = 2 * 4 * count * height;
    let free = device.free_memory()?;
    if bytes > free {
        return Err(Error::Memory(format!(
            "{count} points in {} dimensions need {bytes} bytes on the device, which has {free} free",
            frame.columns()
        )));
    }
    let most = indices.iter().max().map_or(0, |&most| most as usize + 1);
    let mut positions = vec![0; most];
    for (position, &index) in indices.iter().enumerate() {
        positions[index as usize] = position as u32;
    }
    let (rows, scalars) = views(frame, host, &indices);
    let all: Vec<u32> = (0..count as u32).collect();
    // SAFETY: `scatter` writes all of it.
    let values = unsafe { stream.alloc::<f32>(count * height) }.and_then(|mut values| {
        scatter(stream, kernel, &rows, &all, &mut values, count)?;
        Ok(values)
    });
    Ok(Copy {
        indices,
        positions,
        references,
        gone: 0,
        scalars,
        values: values.map_err(|error| device.error("copying points", &error))?,
    })
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

/// Puts rows to positions of what lies coordinate after coordinate.
fn scatter(
    stream: &Arc<CudaStream>,
    kernel: &CudaFunction,
    rows: &[f32],
    positions: &[u32],
    values: &mut CudaSlice<f32>,
    stride: usize,
) -> std::result::Result<(), DriverError> {
    let count = positions.len() as u32;
    if count == 0 {
        return Ok(());
    }
    let height = (rows.len() / positions.len()) as u32;
    let rows = stream.clone_htod(rows)?;
    let positions = stream.clone_htod(positions)?;
    let config = LaunchConfig {
        grid_dim: (count.div_ceil(WARP), height.div_ceil(WARP), 1),
        block_dim: (WARP, 8, 1),
        shared_mem_bytes: 0,
    };
    // SAFETY: arguments as declared in neighbours.cu; positions are below the stride.
    unsafe {
        stream
            .launch_builder(kernel)
            .arg(&rows)
            .arg(&positions)
            .arg(&count)
            .arg(&height)
            .arg(values)
            .arg(&(stride as u64))
            .launch(config)?;
    }
    // The host's copies must outlive the copying.
    stream.synchronize()
}

fn config(blocks: u32, rows: u32, threads: u32) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (blocks.max(1), rows.max(1), 1),
        block_dim: (threads, 1, 1),
        shared_mem_bytes: 0,
    }
}
