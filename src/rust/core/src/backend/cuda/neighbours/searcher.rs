//! One device: its copy of the references and queries, and sweeps of them.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{
    CudaFunction, CudaSlice, CudaStream, DevicePtr, DeviceRepr, DriverError, LaunchConfig,
    PushKernelArg,
};
use rayon::prelude::*;

use super::super::device::Device;
use super::super::kernels::{self, Kernels};
use super::Copy;
use crate::backend::cpu::CpuNeighbours;
use crate::backend::neighbours::{Except, Request};
use crate::backend::single::{Frame, Kind, Sums};
use crate::error::{Error, Result};

// As in neighbours.cu.
pub const TILE: usize = 128;
const THREADS: u32 = 256;
const NARROW_THREADS: u32 = 128;
pub const MOST_ROOM: usize = 4096;
pub const SCALARS: usize = 4;
const WARP: u32 = 32;

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

/// A device with a copy of all references and queries.
pub struct Searcher {
    device: Arc<Device>,
    stream: Arc<CudaStream>,
    functions: Functions,
    frame: Frame,
    /// Coordinates, then scalars, each for all positions.
    values: CudaSlice<f32>,
}

/// What a sweep left of a batch of queries.
pub struct Swept {
    pub capacity: usize,
    pub room: usize,
    pub counts: Vec<u32>,
    pub floors: Vec<u64>,
    /// `capacity` for each query.
    pub keys: Vec<u64>,
}

impl Searcher {
    /// With a copy of all rows: coordinates and scalars, row after row, by position.
    ///
    /// # Errors
    /// `Error::Memory` when the device has too little, `Error::Device` when it fails.
    pub fn new(device: &Arc<Device>, frame: &Frame, rows: &[f32]) -> Result<Self> {
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
        let values = copied(device, &stream, &functions.scatter, frame, rows)?;
        Ok(Self {
            device: device.clone(),
            stream,
            functions,
            frame: frame.clone(),
            values,
        })
    }

    /// Has a copy of these rows from now on.
    pub fn replace(&mut self, rows: &[f32]) -> Result<()> {
        let scatter = &self.functions.scatter;
        self.values = copied(&self.device, &self.stream, scatter, &self.frame, rows)?;
        Ok(())
    }

    /// Puts changed rows where they belong, of so many positions.
    pub fn update(&mut self, rows: &[f32], positions: &[u32], stride: usize) -> Result<()> {
        let kernel = &self.functions.scatter;
        scatter(
            &self.stream,
            kernel,
            rows,
            positions,
            &mut self.values,
            stride,
        )
        .map_err(|error| self.device.error("copying clusters", &error))
    }

    /// Sweeps all references for some queries of a request.
    pub fn sweep(&self, copy: &Copy, request: &Request, batch: Range<usize>) -> Result<Swept> {
        self.try_sweep(copy, request, batch)
            .map_err(|error| self.device.error("a search for neighbours", &error))
    }

    fn try_sweep(
        &self,
        copy: &Copy,
        request: &Request,
        batch: Range<usize>,
    ) -> std::result::Result<Swept, DriverError> {
        let stream = &self.stream;
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
            references: self.values.device_ptr(stream).0,
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
                .arg(&self.values)
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
pub fn room(capacity: usize) -> usize {
    (8 * capacity).next_power_of_two().clamp(TILE, MOST_ROOM)
}

/// The first key beyond all those with a bound of at most this limit.
pub fn first_beyond(limit: f32) -> u64 {
    (u64::from(limit.to_bits()) + 1) << 32
}

/// Rows, as [`Searcher::new`] has them, coordinate after coordinate on a device.
fn copied(
    device: &Device,
    stream: &Arc<CudaStream>,
    kernel: &CudaFunction,
    frame: &Frame,
    rows: &[f32],
) -> Result<CudaSlice<f32>> {
    let columns = frame.columns();
    let count = rows.len() / (columns + SCALARS);
    let bytes = 2 * size_of_val(rows);
    let free = device.free_memory()?;
    if bytes > free {
        return Err(Error::Memory(format!(
            "{count} points in {columns} dimensions need {bytes} bytes on the device, which has \
             {free} free"
        )));
    }
    let all: Vec<u32> = (0..count as u32).collect();
    // SAFETY: `scatter` writes all of it.
    let values = unsafe { stream.alloc::<f32>(rows.len()) }.and_then(|mut values| {
        scatter(stream, kernel, rows, &all, &mut values, count)?;
        Ok(values)
    });
    values.map_err(|error| device.error("copying points", &error))
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
