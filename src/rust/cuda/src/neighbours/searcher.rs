//! One device: its copy of the references and queries, and sweeps of them.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{
    sys, CudaFunction, CudaSlice, CudaStream, DevicePtr, DeviceRepr, DriverError, LaunchConfig,
    PushKernelArg,
};

use super::deal::Worker;
use super::products::Collect;
use super::references::{scatter, References, Rows};
use super::{first_beyond, group, numbers, Copy, Sweeper, Swept, SCALARS};
use crate::device::Device;
use crate::kernels::{self, Kernels};
use gmhclust_core::error::{Error, Result};
use gmhclust_core::monitor::Monitor;
use gmhclust_core::neighbours::single::{Frame, Kind, Precision, Sums};
use gmhclust_core::neighbours::{Except, Request};

// As in neighbours.cu.
pub const TILE: usize = 128;
const THREADS: u32 = 256;
const NARROW_THREADS: u32 = 128;
pub const MOST_ROOM: usize = 4096;
pub const WARP: u32 = 32;

/// Queries at a time from which on a chunk takes longer to sweep than to copy.
const QUERIES_FOR_A_COPY: usize = 1 << 14;

/// The group of queries that leave nobody out.
pub const NO_GROUP: u32 = u32::MAX;

/// As struct Sweep in sweep.cuh.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Sweep {
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
    step: u64,
    query_stride: u64,
    query_step: u64,
    columns: u32,
    pub query_count: u32,
    kind: u32,
    capacity: u32,
    room: u32,
    pub first: u32,
    pub last: u32,
}

// SAFETY: plain old data, laid out as in sweep.cuh.
unsafe impl DeviceRepr for Sweep {}

#[derive(Clone)]
struct Functions {
    scatter: CudaFunction,
    gather: CudaFunction,
    collect: CudaFunction,
    /// Collects in half precision.
    collect_by_halves: Option<Collect>,
    narrow: CudaFunction,
    pack: CudaFunction,
}

/// A device that sweeps references.
pub struct Searcher {
    device: Arc<Device>,
    stream: Arc<CudaStream>,
    functions: Functions,
    frame: Frame,
    references: References,
    /// Where queries come from that are not on the device.
    rows: Option<Arc<Rows>>,
    /// Bytes of the device's memory to use, at most; all where `None`.
    most_memory: Option<usize>,
    /// Whether all references must be there at a time.
    whole: bool,
}

impl Searcher {
    /// A device that sweeps the first of these rows, so many references, and takes at most so much
    /// of its memory for that. `whole` if the rows will be replaced.
    ///
    /// # Errors
    /// `Error::Memory` when the device has too little, `Error::Device` when it fails.
    pub fn new(
        device: &Arc<Device>,
        frame: &Frame,
        rows: &Arc<Rows>,
        references: usize,
        most_memory: Option<usize>,
        whole: bool,
    ) -> Result<Self> {
        let module = module(frame.sums());
        let kernel = |name: &str| device.kernel(module, name);
        let functions = Functions {
            scatter: kernel("scatter")?,
            gather: kernel("gather")?,
            collect: kernel("collect")?,
            collect_by_halves: match frame.precision() {
                Precision::Single => None,
                Precision::Half => Some(Collect::new(device, frame)?),
            },
            narrow: kernel("narrow")?,
            pack: kernel("pack")?,
        };
        let failed = |error: DriverError| device.error("making room for points", &error);
        let stream = device.context.new_stream().map_err(failed)?;
        let memory = memory(device, most_memory)?;
        let scatter = &functions.scatter;
        let all = References::new(device, &stream, scatter, rows, references, memory, whole)?;
        let has_queries = all.whole().is_some() && references == rows.count();
        Ok(Self {
            device: device.clone(),
            stream,
            functions,
            frame: frame.clone(),
            references: all,
            rows: (!has_queries).then(|| rows.clone()),
            most_memory,
            whole,
        })
    }
}

impl Worker for Searcher {
    fn device(&self) -> usize {
        self.device.index()
    }
}

impl Sweeper for Searcher {
    /// A second one on the same device, with the same references, where it has them all for good:
    /// while one brings queries or fetches candidates, the device sweeps for the other.
    fn twin(&mut self) -> Result<Option<Self>> {
        if self.whole {
            return Ok(None);
        }
        let failed = |error: DriverError| self.device.error("making room for points", &error);
        let stream = self.device.context.new_stream().map_err(failed)?;
        let Some(references) = self.references.twin(&stream) else {
            return Ok(None);
        };
        Ok(Some(Self {
            device: self.device.clone(),
            stream,
            functions: self.functions.clone(),
            frame: self.frame.clone(),
            references,
            rows: self.rows.clone(),
            ..*self
        }))
    }

    fn most_queries(&self, capacity: usize) -> usize {
        let room = room(capacity);
        let height = numbers(&self.frame) + SCALARS;
        // Coordinates as they come and as they are swept, candidates as they are found and as they
        // go, and what else is allocated in `try_sweep`.
        let bytes = 8 * height + 8 * (room + capacity) + 36;
        self.references.left() / bytes
    }

    fn fewest_queries(&self) -> usize {
        if self.references.chunks() > 1 {
            QUERIES_FOR_A_COPY
        } else {
            8 * TILE
        }
    }

    fn sweep(
        &mut self,
        copy: &Copy,
        request: &Request,
        capacity: usize,
        groups: &[u32],
        batch: Range<usize>,
        monitor: &Monitor,
    ) -> Result<Swept> {
        let queries = &request.queries[batch.clone()];
        let swept = self.try_sweep(copy, request, capacity, groups, batch, monitor);
        let swept = swept.map_err(|stopped| match stopped {
            Stopped::Asked => Error::Interrupt,
            Stopped::Failed(error) => {
                let what = format!("neighbours of {}", in_words(queries, copy.references));
                self.device.error(&what, &error)
            }
        });
        swept.inspect_err(|error| self.device.forget_on_failure(error))
    }

    fn update(&mut self, rows: &[f32], positions: &[u32]) -> Result<()> {
        self.references.replace(rows, positions)
    }

    fn restart(&mut self, rows: &Arc<Rows>) -> Result<()> {
        let (device, frame) = (self.device.clone(), self.frame.clone());
        *self = Self::new(
            &device,
            &frame,
            rows,
            rows.count(),
            self.most_memory,
            self.whole,
        )?;
        Ok(())
    }
}

/// Why a sweep came to no end.
enum Stopped {
    Asked,
    Failed(DriverError),
}

impl From<DriverError> for Stopped {
    fn from(error: DriverError) -> Self {
        Self::Failed(error)
    }
}

impl Searcher {
    /// Sweeps all references for some queries of a request.
    fn try_sweep(
        &mut self,
        copy: &Copy,
        request: &Request,
        capacity: usize,
        groups: &[u32],
        batch: Range<usize>,
        monitor: &Monitor,
    ) -> std::result::Result<Swept, Stopped> {
        let stream = &self.stream;
        let columns = numbers(&self.frame);
        let queries = &request.queries[batch.clone()];
        let count = queries.len();
        let room = room(capacity);
        let positions: Vec<u32> = queries
            .iter()
            .map(|&index| copy.positions[index as usize])
            .collect();
        let query_groups: Vec<u32> = match request.except {
            Except::Nobody => vec![NO_GROUP; count],
            except => queries.iter().map(|&query| group(except, query)).collect(),
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

        let groups = stream.clone_htod(groups)?;
        let query_groups = stream.clone_htod(&query_groups)?;
        let slopes = stream.clone_htod(&slopes)?;
        let bases = stream.clone_htod(&bases)?;
        let floors = stream.clone_htod(&floors)?;
        let counts = stream.alloc_zeros::<u32>(count)?;
        let kept = stream.alloc_zeros::<u32>(count)?;
        let height = columns + SCALARS;
        // SAFETY: all of the first is written, and no more of the others is read than was written.
        let (mut coordinates, candidates, packed) = unsafe {
            (
                stream.alloc::<f32>(count * height)?,
                stream.alloc::<u64>(count * room)?,
                stream.alloc::<u64>(count * capacity)?,
            )
        };
        let (query_stride, query_step) = self.place(&positions, &mut coordinates)?;
        let (shrink, margin) = self.frame.margins();
        let mut sweep = Sweep {
            shrink,
            margin,
            references: 0,
            groups: groups.device_ptr(stream).0,
            queries: coordinates.device_ptr(stream).0,
            query_groups: query_groups.device_ptr(stream).0,
            slopes: slopes.device_ptr(stream).0,
            bases: bases.device_ptr(stream).0,
            candidates: candidates.device_ptr(stream).0,
            floors: floors.device_ptr(stream).0,
            counts: counts.device_ptr(stream).0,
            kept: kept.device_ptr(stream).0,
            stride: 0,
            step: 0,
            query_stride,
            query_step,
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
        // The first part has room as a whole. Each further one is as large as all before, so that
        // about `capacity` of it will be nearer than the threshold.
        let first_part = (2 * capacity).next_multiple_of(2 * TILE).min(room);
        let mut before = 0;
        for _ in 0..self.references.chunks() {
            if monitor.stopped() {
                return Err(Stopped::Asked);
            }
            let chunk = self.references.turn()?;
            sweep.references = chunk.address;
            sweep.stride = chunk.stride as u64;
            sweep.step = chunk.step as u64;
            sweep.last = chunk.range.start as u32;
            while (sweep.last as usize) < chunk.range.end {
                let part = if before == 0 { first_part } else { before };
                sweep.first = sweep.last;
                sweep.last = (sweep.first as usize + part).min(chunk.range.end) as u32;
                before += (sweep.last - sweep.first) as usize;
                // SAFETY: arguments as declared in neighbours.cu; all arrays have the sizes that
                // `sweep` says, and live until the stream is synchronized below or in `drop`.
                unsafe {
                    if let Some(collect) = &self.functions.collect_by_halves {
                        collect.launch(stream, &sweep)?;
                    } else {
                        stream
                            .launch_builder(&self.functions.collect)
                            .arg(&sweep)
                            .launch(config(
                                (sweep.last - sweep.first).div_ceil(TILE as u32),
                                (count as u32).div_ceil(TILE as u32),
                                THREADS,
                            ))?;
                    }
                    stream
                        .launch_builder(&self.functions.narrow)
                        .arg(&sweep)
                        .launch(LaunchConfig {
                            shared_mem_bytes: 8 * room.next_power_of_two() as u32,
                            ..config(count as u32, 1, NARROW_THREADS)
                        })?;
                }
            }
            self.references.done()?;
        }
        // SAFETY: as above.
        unsafe {
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
        // Sleeps, so that the host's threads can decide meanwhile; the copies below would have it spin.
        let through = stream.record_event(Some(sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC))?;
        through.synchronize()?;
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

    /// Puts queries, by their positions, side by side; how far apart the numbers of a query are, and
    /// the same number of two queries.
    fn place(
        &self,
        positions: &[u32],
        coordinates: &mut CudaSlice<f32>,
    ) -> std::result::Result<(u64, u64), DriverError> {
        let stream = &self.stream;
        let (count, height) = (positions.len() as u32, numbers(&self.frame) + SCALARS);
        let (stride, step) = match self.frame.precision() {
            Precision::Single => (positions.len() as u64, 1),
            Precision::Half => (1, height as u64),
        };
        if let Some(rows) = &self.rows {
            let rows = rows.at(positions);
            if self.frame.precision() == Precision::Half {
                stream.memcpy_htod(&rows[..], coordinates)?;
                // The host's copy must outlive the copying.
                stream.synchronize()?;
                return Ok((stride, step));
            }
            let side_by_side: Vec<u32> = (0..count).collect();
            let address = coordinates.device_ptr(stream).0;
            let kernel = &self.functions.scatter;
            scatter(
                stream,
                kernel,
                &rows,
                &side_by_side,
                address,
                positions.len(),
            )?;
            return Ok((stride, step));
        }
        let all = self.references.whole().expect("queries are references");
        let on_device = stream.clone_htod(positions)?;
        // SAFETY: arguments as declared in neighbours.cu; there is room for the queries.
        unsafe {
            stream
                .launch_builder(&self.functions.gather)
                .arg(&all.address)
                .arg(&on_device)
                .arg(&count)
                .arg(&(height as u32))
                .arg(&(all.stride as u64))
                .arg(&(all.step as u64))
                .arg(&*coordinates)
                .arg(&stride)
                .arg(&step)
                .launch(config(count.div_ceil(THREADS), height as u32, THREADS))?;
        }
        Ok((stride, step))
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

/// Bytes of a device's memory that a search may take: most of what is free, but at most so many.
fn memory(device: &Device, most: Option<usize>) -> Result<usize> {
    let free = device.free_memory()? / 16 * 15;
    Ok(most.map_or(free, |most| most.min(free)))
}

/// Queries by their rows' numbers, from 1; those that are no references are in rows of their own.
fn in_words(queries: &[u32], references: usize) -> String {
    let of_query = queries.iter().all(|&query| query as usize >= references);
    let first = if of_query { references as u32 } else { 0 };
    let (Some(least), Some(greatest)) = (queries.iter().min(), queries.iter().max()) else {
        return "no row".into();
    };
    let (least, greatest) = (least - first + 1, greatest - first + 1);
    let whose = if of_query { " of `query`" } else { "" };
    match queries.len() {
        1 => format!("row {least}{whose}"),
        count if count as u32 == greatest - least + 1 => {
            format!("rows {least} to {greatest}{whose}")
        }
        count => format!("{count} rows from {least} to {greatest}{whose}"),
    }
}

fn config(blocks: u32, rows: u32, threads: u32) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (blocks.max(1), rows.max(1), 1),
        block_dim: (threads, 1, 1),
        shared_mem_bytes: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_named_as_the_user_counts_them() {
        assert_eq!(in_words(&[0, 1, 2], 100), "rows 1 to 3");
        assert_eq!(in_words(&[7], 100), "row 8");
        assert_eq!(in_words(&[9, 3, 4], 100), "3 rows from 4 to 10");
        assert_eq!(in_words(&[100, 101], 100), "rows 1 to 2 of `query`");
        assert_eq!(in_words(&[], 100), "no row");
    }
}
