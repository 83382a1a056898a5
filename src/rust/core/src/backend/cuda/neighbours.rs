//! Nearest references on a CUDA device: it sweeps, in half or single precision, and the CPU decides
//! what is left. kernels/neighbours.cu says how.

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{
    CudaFunction, CudaSlice, CudaStream, DevicePtr, DeviceRepr, DriverError, LaunchConfig,
    PushKernelArg,
};
use rayon::prelude::*;

use super::device::Device;
use super::kernels::{self, Kernels};
use super::products::{self, Collect, Products};
use crate::backend::cpu::CpuNeighbours;
use crate::backend::neighbours::{Except, Nearest, Neighbours, Request, Space};
use crate::backend::single::{Frame, Kind, Precision, Scalars, Sums};
use crate::error::{Error, Result};
use crate::monitor::Monitor;

// As in neighbours.cu.
const TILE: usize = 128;
const THREADS: u32 = 256;
const NARROW_THREADS: u32 = 128;
const MOST_ROOM: usize = 4096;
const SCALARS: usize = 4;
const FACTOR: usize = 1;
const ALLOWANCE: usize = 3;
const WARP: u32 = 32;

/// Queries with more candidates than this are the CPU's.
const MOST_CANDIDATES: usize = MOST_ROOM / 4;

/// Pairs of coordinates that take a fraction of a second, in single and in half precision.
const BATCH_COORDINATES: usize = 1 << 41;
const BATCH_COORDINATES_OF_HALVES: usize = 1 << 44;

/// Sweeps for a batch: the host decides on what one has left while the device does the next.
const SWEEPS: usize = 8;

/// With fewer columns than this, what is near is too near for half precision.
const HALVES_FROM: usize = 8;

/// The share of queries that half precision may leave open before single precision is faster, as
/// it then does nearly all of the work a second time.
const OPEN_SHARE: f64 = 0.5;

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
    /// Collects in half precision.
    collect_by_halves: Option<Collect>,
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
    /// Coordinates unless in half precision, then scalars, each for all positions.
    values: CudaSlice<f32>,
    /// Coordinates in half precision, position after position.
    halves: Option<CudaSlice<u16>>,
}

/// What one precision needs on the device.
struct Screen {
    frame: Frame,
    functions: Functions,
    /// All points; for clusters those that are left.
    copy: Copy,
}

/// References and queries on a device, and on the host, too.
pub struct CudaNeighbours<'a> {
    device: Arc<Device>,
    stream: Arc<CudaStream>,
    /// The fastest first and the sharpest last; one for clusters.
    frames: Vec<Frame>,
    /// For the first of the frames; others follow when a sweep does not settle a query.
    screens: Vec<Screen>,
    /// The first of the screens that pays.
    level: usize,
    /// Decides, and does what the device is not made for.
    host: CpuNeighbours<'a>,
    /// Points that are no references.
    others: Range<u32>,
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

impl Screen {
    /// Of the references in an order that has nothing to do with theirs, then `others`.
    fn new(
        device: &Device,
        stream: &Arc<CudaStream>,
        frame: Frame,
        host: &CpuNeighbours,
        others: Range<u32>,
    ) -> Result<Self> {
        let module = module(frame.sums());
        let kernel = |name: &str| device.kernel(module, name);
        let collect_by_halves = match frame.precision() {
            Precision::Single => None,
            Precision::Half => Some(Collect::new(device, &frame)?),
        };
        let functions = Functions {
            scatter: kernel("scatter")?,
            gather: kernel("gather")?,
            collect: kernel("collect")?,
            collect_by_halves,
            narrow: kernel("narrow")?,
            pack: kernel("pack")?,
        };
        let copy = copy(device, stream, &functions.scatter, &frame, host, others)?;
        Ok(Self {
            frame,
            functions,
            copy,
        })
    }

    /// How many candidates a sweep is to keep of each query: more where bounds are wider.
    fn capacity(&self, request: &Request) -> usize {
        match self.frame.precision() {
            Precision::Single => CpuNeighbours::capacity(request),
            Precision::Half => request.wanted + request.wanted / 4 + 12,
        }
    }

    /// How many queries at a time keep the device busy for a fraction of a second.
    fn batch(&self) -> usize {
        let coordinates = match self.frame.precision() {
            Precision::Single => BATCH_COORDINATES,
            Precision::Half => BATCH_COORDINATES_OF_HALVES,
        };
        let query = self.frame.columns() * self.copy.references;
        (coordinates / query).clamp(8 * TILE, 1 << 18)
    }
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
        let failed = |error: DriverError| device.error("making room for points", &error);
        let stream = device.context.new_stream().map_err(failed)?;
        let by_halves = matches!(space, Space::Points { .. })
            && frame.columns() >= HALVES_FROM
            && device.multiplies_halves().map_err(failed)?;
        let in_halves = by_halves.then(|| frame.in_halves()).flatten();
        let mut neighbours = Self {
            device: device.clone(),
            stream,
            frames: in_halves.into_iter().chain([frame]).collect(),
            screens: Vec::new(),
            level: 0,
            host,
            others,
            changed: Vec::new(),
            smallest,
            monitor,
        };
        neighbours.make_screen(0)?;
        Ok(Some(neighbours))
    }

    /// Makes the screens for the frames up to this one.
    fn make_screen(&mut self, level: usize) -> Result<()> {
        while self.screens.len() <= level {
            let frame = self.frames[self.screens.len()].clone();
            let others = self.others.clone();
            let screen = Screen::new(&self.device, &self.stream, frame, &self.host, others)?;
            self.screens.push(screen);
        }
        Ok(())
    }

    /// Copies which clusters have changed.
    fn update(&mut self) -> Result<()> {
        let Screen {
            frame,
            functions,
            copy: old,
        } = &mut self.screens[0];
        let left = old.references - old.gone;
        if 10 * left < 9 * old.references {
            self.changed.clear();
            *old = copy(
                &self.device,
                &self.stream,
                &functions.scatter,
                frame,
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
            .map(|&index| old.positions[index as usize])
            .collect();
        let (rows, scalars) = views(frame, &self.host, &changed);
        for (&position, &scalars) in positions.iter().zip(&scalars) {
            old.scalars[position as usize] = scalars;
        }
        let stride = old.indices.len();
        scatter(
            &self.stream,
            &functions.scatter,
            &rows,
            &positions,
            &mut old.values,
            stride,
        )
        .map_err(|error| self.device.error("copying clusters", &error))
    }

    /// Sweeps all references for some queries of a request.
    fn sweep(
        &self,
        screen: &Screen,
        request: &Request,
        groups: &CudaSlice<u32>,
        batch: Range<usize>,
    ) -> Result<Swept> {
        self.try_sweep(screen, request, groups, batch)
            .map_err(|error| self.device.error("a search for neighbours", &error))
    }

    fn try_sweep(
        &self,
        screen: &Screen,
        request: &Request,
        groups: &CudaSlice<u32>,
        batch: Range<usize>,
    ) -> std::result::Result<Swept, DriverError> {
        let stream = &self.stream;
        let Screen {
            frame,
            functions,
            copy,
        } = screen;
        // Coordinates that lie before the scalars.
        let columns = match copy.halves {
            Some(_) => 0,
            None => frame.columns(),
        };
        let queries = &request.queries[batch.clone()];
        let count = queries.len();
        let capacity = screen.capacity(request);
        let room = room(capacity);
        let positions: Vec<u32> = queries
            .iter()
            .map(|&index| copy.positions[index as usize])
            .collect();
        let query_groups: Vec<u32> = match request.except {
            Except::Nobody => vec![NO_GROUP; count],
            except => queries.iter().map(|&i| group_of(except, i)).collect(),
        };
        let mut slopes = Vec::with_capacity(count);
        let mut bases = Vec::with_capacity(count);
        let mut floors = Vec::with_capacity(count);
        for (at, &position) in batch.zip(&positions) {
            let limit = frame.limit(request.limits.map_or(f64::INFINITY, |l| l[at]));
            let scalars = &copy.scalars[position as usize];
            let threshold = frame.threshold(scalars, limit);
            slopes.push(threshold.slope);
            bases.push(threshold.base);
            floors.push(first_beyond(limit));
        }

        let positions = stream.clone_htod(&positions)?;
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
        let (shrink, margin) = frame.margins();
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
            kind: match frame.kind() {
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
        let scalars = |scalar: usize| sweep.references + (4 * scalar * copy.indices.len()) as u64;
        let mut products = copy.halves.as_ref().map(|halves| Products {
            references: halves.device_ptr(stream).0,
            queries: halves.device_ptr(stream).0,
            positions: positions.device_ptr(stream).0,
            factor: scalars(FACTOR),
            allowances: scalars(ALLOWANCE),
            groups: sweep.groups,
            query_groups: sweep.query_groups,
            slopes: sweep.slopes,
            bases: sweep.bases,
            candidates: sweep.candidates,
            counts: sweep.counts,
            width: products::width(frame) as u32,
            query_count: count as u32,
            room: room as u32,
            first: 0,
            last: 0,
            tiles: 1,
        });
        // SAFETY: arguments as declared in neighbours.cu and products.cu; all arrays have the sizes
        // that `sweep` and `products` say, and live until the stream is synchronized below.
        unsafe {
            stream
                .launch_builder(&functions.gather)
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
            // The first part has room as a whole. Each further one is as large as all before, so
            // that about `capacity` of it will be nearer than the threshold.
            let mut part = (2 * capacity).next_multiple_of(2 * TILE).min(room);
            while (sweep.last as usize) < copy.references {
                sweep.first = sweep.last;
                sweep.last = (sweep.first as usize + part).min(copy.references) as u32;
                if let (Some(collect), Some(products)) =
                    (&functions.collect_by_halves, &mut products)
                {
                    products.first = sweep.first;
                    products.last = sweep.last;
                    collect.launch(stream, products)?;
                } else {
                    stream
                        .launch_builder(&functions.collect)
                        .arg(&sweep)
                        .launch(config(
                            (sweep.last - sweep.first).div_ceil(TILE as u32),
                            (count as u32).div_ceil(TILE as u32),
                            THREADS,
                        ))?;
                }
                stream
                    .launch_builder(&functions.narrow)
                    .arg(&sweep)
                    .launch(LaunchConfig {
                        shared_mem_bytes: 8 * room.next_power_of_two() as u32,
                        ..config(count as u32, 1, NARROW_THREADS)
                    })?;
                part = sweep.last as usize;
            }
            stream
                .launch_builder(&functions.pack)
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

    /// The answer for the `at`-th query of a request, the `i`-th of those swept; a limit to it where
    /// that does not settle it.
    fn settle(
        &self,
        screen: &Screen,
        request: &Request,
        at: usize,
        i: usize,
        swept: &Swept,
    ) -> std::result::Result<Vec<(f64, u32)>, f64> {
        let Screen { frame, copy, .. } = screen;
        let count = swept.counts[i] as usize;
        let limit = request.limits.map_or(f64::INFINITY, |limits| limits[at]);
        if count > swept.room {
            return Err(limit);
        }
        let bound = |key: u64| frame.in_data_units(f32::from_bits((key >> 32) as u32));
        let keys = &swept.keys[i * swept.capacity..][..count.min(swept.capacity)];
        let name = |&key: &u64| (bound(key), copy.indices[key as u32 as usize]);
        let mut found: Vec<(f64, u32)> = keys.iter().map(name).collect();
        // Among equal bounds the order was that of positions.
        found.sort_unstable_by_key(|&(bound, index)| (bound.to_bits(), index));
        let beyond = first_beyond(frame.limit(limit));
        let floor = (swept.floors[i] != beyond).then(|| bound(swept.floors[i]));
        self.host.decide(request, at, found.into_iter(), floor)
    }

    /// Answers for all queries of a request with one of the screens, as [`CudaNeighbours::settle`].
    fn screen(
        &self,
        screen: &Screen,
        request: &Request,
    ) -> Result<Vec<std::result::Result<Vec<(f64, u32)>, f64>>> {
        let count = request.queries.len();
        let copy = &screen.copy;
        let groups: Vec<u32> = copy.indices[..copy.references]
            .par_iter()
            .map(|&index| group_of(request.except, index))
            .collect();
        let groups = self.stream.clone_htod(&groups);
        let groups = groups.map_err(|error| self.device.error("copying groups", &error))?;
        let batch = (screen.batch() / SWEEPS)
            .max(8 * TILE)
            .min(BATCH_BYTES / (8 * room(screen.capacity(request))));
        let mut settled = Vec::with_capacity(count);
        // The device sweeps for some queries while the host decides on those before.
        let mut swept: Option<Swept> = None;
        for start in (0..count + batch).step_by(batch) {
            self.monitor.check()?;
            let range = start.min(count)..(start + batch).min(count);
            let before = start.saturating_sub(batch)..start.min(count);
            let (next, answers) = rayon::join(
                || {
                    (!range.is_empty())
                        .then(|| self.sweep(screen, request, &groups, range))
                        .transpose()
                },
                || {
                    let Some(swept) = &swept else {
                        return Vec::new();
                    };
                    let settle = |(i, at)| self.settle(screen, request, at, i, swept);
                    before.into_par_iter().enumerate().map(settle).collect()
                },
            );
            settled.extend(answers);
            swept = next?;
        }
        Ok(settled)
    }
}

impl Neighbours for CudaNeighbours<'_> {
    fn nearest(&mut self, request: &Request<'_>) -> Result<Nearest> {
        let count = request.queries.len();
        let copy = &self.screens[0].copy;
        let pairs = count * (copy.references - copy.gone);
        if pairs * self.frames[0].columns() < self.smallest {
            return self.host.nearest(request);
        }
        self.update()?;
        let mut settled = vec![Vec::new(); count];
        let mut open = Open {
            at: (0..count).collect(),
            queries: request.queries.to_vec(),
            limits: match request.limits {
                Some(limits) => limits.to_vec(),
                None => vec![f64::INFINITY; count],
            },
        };
        for level in self.level..self.frames.len() {
            if open.at.is_empty() {
                break;
            }
            self.make_screen(level)?;
            let screen = &self.screens[level];
            if screen.capacity(request) > MOST_CANDIDATES {
                continue;
            }
            let answers = self.screen(screen, &open.request(request))?;
            let asked = std::mem::take(&mut open);
            for ((&at, &query), answer) in asked.at.iter().zip(&asked.queries).zip(answers) {
                match answer {
                    Ok(found) => settled[at] = found,
                    Err(limit) => open.push(at, query, limit),
                }
            }
            let share = open.at.len() as f64 / asked.at.len() as f64;
            if share > OPEN_SHARE && level + 1 < self.frames.len() {
                self.level = level + 1;
            }
        }
        if !open.at.is_empty() {
            let rest = self.host.nearest(&open.request(request))?;
            for (&at, found) in open.at.iter().zip(rest.iter()) {
                settled[at] = found.to_vec();
            }
        }
        let mut nearest = Nearest::default();
        settled.iter().for_each(|found| nearest.push(found));
        Ok(nearest)
    }

    fn distances(&mut self, pairs: &[(u32, u32)]) -> Result<Vec<f64>> {
        self.host.distances(pairs)
    }

    fn merge(&mut self, lower: u32, higher: u32) -> Result<()> {
        self.host.merge(lower, higher)?;
        self.screens[0].copy.gone += 1;
        self.changed.extend([lower, higher]);
        Ok(())
    }

    fn batch(&self) -> usize {
        self.screens[self.level].batch()
    }
}

/// Queries of a request that are not settled yet.
#[derive(Default)]
struct Open {
    /// Their places in the request.
    at: Vec<usize>,
    queries: Vec<u32>,
    limits: Vec<f64>,
}

impl Open {
    fn push(&mut self, at: usize, query: u32, limit: f64) {
        self.at.push(at);
        self.queries.push(query);
        self.limits.push(limit);
    }

    /// What is left of the request.
    fn request<'a>(&'a self, request: &Request<'a>) -> Request<'a> {
        Request {
            queries: &self.queries,
            limits: Some(&self.limits),
            ..*request
        }
    }
}

/// Whom queries of the same group leave out.
fn group_of(except: Except, index: u32) -> u32 {
    match except {
        Except::Nobody => 0,
        Except::Itself => index,
        Except::Group(groups) => groups[index as usize],
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
    // The rows and their copy, which is in another order.
    let bytes = match frame.precision() {
        Precision::Single => 2 * 4 * count * (frame.columns() + SCALARS),
        Precision::Half => count * (2 * products::width(frame) + 2 * 4 * SCALARS),
    };
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
    let failed = |error: DriverError| device.error("copying points", &error);
    let (rows, halves, scalars) = match frame.precision() {
        Precision::Single => {
            let (rows, scalars) = views(frame, host, &indices);
            (rows, None, scalars)
        }
        Precision::Half => {
            let (halves, scalars) = products::views(frame, host, &indices);
            let copy = products::copy(stream, &halves).map_err(failed)?;
            let rows = scalars.iter().flat_map(numbers).collect();
            (rows, Some(copy), scalars)
        }
    };
    let all: Vec<u32> = (0..count as u32).collect();
    // SAFETY: `scatter` writes all of it.
    let values = unsafe { stream.alloc::<f32>(rows.len()) }.and_then(|mut values| {
        scatter(stream, kernel, &rows, &all, &mut values, count)?;
        Ok(values)
    });
    Ok(Copy {
        indices,
        positions,
        references,
        gone: 0,
        scalars,
        values: values.map_err(failed)?,
        halves,
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
            view[columns..].copy_from_slice(&numbers(&scalars));
            scalars
        })
        .collect();
    (rows, scalars)
}

/// In the order of enum Scalar in neighbours.cu.
fn numbers(scalars: &Scalars) -> [f32; SCALARS] {
    [
        scalars.error,
        scalars.factor,
        scalars.half,
        scalars.allowance,
    ]
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
