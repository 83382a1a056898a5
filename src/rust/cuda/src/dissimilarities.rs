//! Linkage by rounds with the dissimilarities of all clusters on a CUDA device;
//! kernels/dissimilarities.cu says how.
//!
//! They stay in one piece of memory: what merges is computed in place, and then what is left moves
//! to the front of it.

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{
    CudaFunction, CudaSlice, CudaStream, DevicePtr, DeviceRepr, DriverError, LaunchConfig,
    PushKernelArg,
};
use rayon::prelude::*;

use crate::chain;
use crate::device::Device;
use crate::distances::{self, check_memory, pieces, CudaPoints};
use crate::sender::Sender;
use crate::stored::OnDevice;
use gmhclust_core::distances::{DistanceDevice, Pairs};
use gmhclust_core::error::Result;
use gmhclust_core::linkage::condensed::{self, pairs, position, row_start, Condensed};
use gmhclust_core::linkage::dissimilarities::{Contraction, Dissimilarities, Nearest, Neighbour};
use gmhclust_core::linkage::lance_williams::{Precision, Recurrence};
use gmhclust_core::linkage::Origin;
use gmhclust_core::metric::Points;
use gmhclust_core::monitor::Monitor;
use gmhclust_core::Cpu;
use gmhclust_core::Merge;

const THREADS: u32 = 256;
const WARP: u32 = 32;

/// Threads of a block that searches for nearest clusters.
const SEARCHERS: u32 = 1024;

/// Dissimilarities for which there is room beside all of them, at least: so many are made, moved or
/// sent over at a time.
const ROOM: usize = if cfg!(test) { 1 << 10 } else { 1 << 20 };

/// Dissimilarities sent over at a time, at most.
const SENT: usize = 1 << 20;

/// Distances that the host makes at a time, if it has to.
const MADE: usize = if cfg!(test) { 1 << 10 } else { 1 << 24 };

/// The room as a share of all dissimilarities.
const SHARE: usize = 16;

/// Fewer entries than this are looked up by one thread.
const PARALLEL_ENTRIES: usize = 1 << 12;

/// No slot, as in dissimilarities.cu.
const NONE: u32 = u32::MAX;

/// As struct Search in dissimilarities.cu.
#[repr(C)]
#[derive(Clone, Copy)]
struct Search {
    values: u64,
    wanted: u64,
    dissimilarities: u64,
    slots: u64,
    unusable: u64,
    clusters: u32,
    count: u32,
    each: u32,
    squared: u32,
}

// SAFETY: plain old data, laid out as in dissimilarities.cu.
unsafe impl DeviceRepr for Search {}

/// As struct Step in dissimilarities.cu.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Step {
    height: f64,
    sizes: [f64; 2],
    lower: u32,
    higher: u32,
    merged: [u32; 2],
}

// SAFETY: plain old data, laid out as in dissimilarities.cu.
unsafe impl DeviceRepr for Step {}

/// As struct Merging in dissimilarities.cu.
#[repr(C)]
#[derive(Clone, Copy)]
struct Merging {
    values: u64,
    steps: u64,
    sizes: u64,
    step_of: u64,
    clusters: u32,
    linkage: u32,
    squared: u32,
    first: u32,
    last: u32,
}

// SAFETY: plain old data, laid out as in dissimilarities.cu.
unsafe impl DeviceRepr for Merging {}

/// As struct Rest in dissimilarities.cu.
#[repr(C)]
#[derive(Clone, Copy)]
struct Rest {
    values: u64,
    live: u64,
    step_of: u64,
    out: u64,
    before: u32,
    clusters: u32,
    squared: u32,
    first: u32,
}

// SAFETY: plain old data, laid out as in dissimilarities.cu.
unsafe impl DeviceRepr for Rest {}

/// The dissimilarities of `n` observations on the device, for a linkage that merges in rounds; `distances`
/// makes those that the device cannot make. Chains of fewer clusters than `smallest_chain` are the
/// CPU's.
///
/// # Errors
/// As [`gmhclust_core::linkage::LinkageDevice::dissimilarities`].
pub fn dissimilarities<'a>(
    device: &'a Arc<Device>,
    origin: Origin<'a>,
    n: usize,
    recurrence: Recurrence,
    others: &(impl DistanceDevice + ?Sized),
    smallest_chain: usize,
    monitor: &Monitor,
) -> Result<Box<dyn Dissimilarities + 'a>> {
    Ok(match recurrence.precision {
        Precision::Double => {
            let mut matrix = filled::<f64>(device, origin, n, recurrence, others, monitor)?;
            matrix.smallest_chain = smallest_chain;
            Box::new(matrix)
        }
        Precision::Single => {
            let mut matrix = filled::<f32>(device, origin, n, recurrence, others, monitor)?;
            matrix.smallest_chain = smallest_chain;
            Box::new(matrix)
        }
    })
}

/// The dissimilarities stored as `T`.
fn filled<T: OnDevice>(
    device: &Arc<Device>,
    origin: Origin,
    n: usize,
    recurrence: Recurrence,
    others: &(impl DistanceDevice + ?Sized),
    monitor: &Monitor,
) -> Result<CudaDissimilarities<T>> {
    let linkage = recurrence.linkage;
    let copied = match origin {
        Origin::Points(points) if distances::fits(points) => points.values().len(),
        _ => 0,
    };
    let what = format!("{} linkage of {n} observations needs", linkage.name());
    check_memory(device, &what, memory::<T>(n, copied))?;
    let cpu = others.cpu();
    let mut matrix = CudaDissimilarities::<T>::new(device, n, linkage.squares())?;
    match origin {
        Origin::Given(values) => {
            let mut sender = Sender::new(device, matrix.room.len().min(SENT))?;
            sender.send(&mut matrix.values, 0, values, cpu, monitor)?;
            sender.finish()?;
        }
        Origin::Points(points) if distances::fits(points) => {
            matrix.compute(points, cpu, monitor)?;
        }
        Origin::Points(points) => {
            let mut sender = Sender::new(device, matrix.room.len().min(SENT))?;
            let mut made = Vec::new();
            let all = Pairs::within(n);
            for columns in pieces(&all, MADE) {
                let first = row_start(n, columns.start);
                let part = all.part(columns);
                made.resize(part.count(), 0.0);
                others.distances(points, &part, &mut made, monitor)?;
                sender.send(&mut matrix.values, first, &made, cpu, monitor)?;
            }
            sender.finish()?;
        }
    }
    Ok(matrix)
}

/// Bytes on the device that linkage of `n` observations takes, of which so many coordinates are
/// there, too.
fn memory<T>(n: usize, coordinates: usize) -> usize {
    let search = Nearest::of_each(n) * (size_of::<f64>() + size_of::<u32>()) + size_of::<u32>();
    let contraction = size_of::<Step>() + size_of::<f64>() + 2 * size_of::<u32>();
    // All that two merged clusters know.
    let entries = 2 * Nearest::of_each(n) * (size_of::<u64>() + size_of::<f64>());
    pairs(n) * size_of::<T>()
        + (room(n) + coordinates) * size_of::<f64>()
        + n * (search + contraction + entries)
}

/// How many dissimilarities of `n` clusters are worked on at a time: at least a row, and some of
/// them.
fn room(n: usize) -> usize {
    (pairs(n) / SHARE).max(ROOM).min(pairs(n)).max(n)
}

struct Functions {
    narrow: CudaFunction,
    entries: CudaFunction,
    nearest: CudaFunction,
    open: CudaFunction,
    merge: CudaFunction,
    gather: CudaFunction,
}

/// The dissimilarities of all clusters on a device, stored as `T`.
struct CudaDissimilarities<T> {
    device: Arc<Device>,
    stream: Arc<CudaStream>,
    functions: Functions,
    /// Those of the clusters are in front.
    values: CudaSlice<T>,
    /// For some of them, as they are made or move.
    room: CudaSlice<f64>,
    clusters: usize,
    /// Whether the squares of what is stored are meant.
    squared: bool,
    /// Chains of fewer clusters are the CPU's.
    smallest_chain: usize,
}

impl<T: OnDevice> CudaDissimilarities<T> {
    /// Room for those of `n` clusters; their squares are meant where `squared`.
    fn new(device: &Arc<Device>, n: usize, squared: bool) -> Result<Self> {
        let kernel = |name: &str| device.kernel(T::KERNELS, name);
        let functions = Functions {
            narrow: kernel("narrow")?,
            entries: kernel("entries")?,
            nearest: kernel("nearest")?,
            open: kernel("open")?,
            merge: kernel("merge")?,
            gather: kernel("gather")?,
        };
        let make = || -> std::result::Result<_, DriverError> {
            let stream = device.context.new_stream()?;
            // SAFETY: both are written before they are read.
            let (values, room) =
                unsafe { (stream.alloc::<T>(pairs(n))?, stream.alloc::<f64>(room(n))?) };
            // Other streams write to it, too.
            stream.synchronize()?;
            Ok((stream, values, room))
        };
        let (stream, values, room) =
            make().map_err(|error| device.error("making room for dissimilarities", &error))?;
        Ok(Self {
            device: device.clone(),
            stream,
            functions,
            values,
            room,
            clusters: n,
            squared,
            smallest_chain: 0,
        })
    }

    /// Waits for what is under way.
    fn wait(&self) -> Result<()> {
        self.stream
            .synchronize()
            .map_err(|error| self.device.error("linkage", &error))
    }

    fn address(&self) -> u64 {
        self.values.device_ptr(&self.stream).0
    }

    /// Fills in the distances of points that the device can make.
    fn compute(&mut self, points: &Points, cpu: &Cpu, monitor: &Monitor) -> Result<()> {
        let copy = CudaPoints::new(&self.device, &self.stream, points, cpu)?;
        let all = Pairs::within(self.clusters);
        monitor.expect(all.count() as u64);
        for columns in pieces(&all, self.room.len()) {
            monitor.check()?;
            let first = row_start(self.clusters, columns.start);
            let part = all.part(columns);
            self.compute_part(&copy, &part, first)
                .map_err(|error| self.device.error("computing distances", &error))?;
            self.wait()?;
            monitor.advance(part.count() as u64);
        }
        Ok(())
    }

    fn compute_part(
        &mut self,
        points: &CudaPoints,
        part: &Pairs,
        first: usize,
    ) -> std::result::Result<(), DriverError> {
        let stream = &self.stream;
        let out = self.address() + (first * size_of::<T>()) as u64;
        if size_of::<T>() == size_of::<f64>() {
            // SAFETY: there is room for all distances; the caller waits for the stream.
            return unsafe { points.start(stream, part, out) };
        }
        // SAFETY: the room is that of a piece; arguments as declared in dissimilarities.cu.
        unsafe {
            points.start(stream, part, self.room.device_ptr(stream).0)?;
            stream
                .launch_builder(&self.functions.narrow)
                .arg(&self.room)
                .arg(&out)
                .arg(&(part.count() as u64))
                .launch(blocks(part.count().div_ceil(THREADS as usize).min(1 << 20)))?;
        }
        Ok(())
    }

    /// The nearest clusters of the `wanted` ones, and the first position in a row of these of what
    /// cannot be computed with.
    fn search(&self, wanted: &[u32]) -> std::result::Result<(Nearest, Option<usize>), DriverError> {
        let each = Nearest::of_each(self.clusters);
        if wanted.is_empty() {
            return Ok((Nearest::new(Vec::new(), each), None));
        }
        let stream = &self.stream;
        let count = wanted.len();
        let wanted = stream.clone_htod(wanted)?;
        let unusable = stream.clone_htod(&[u64::MAX])?;
        // SAFETY: `nearest` writes all of both.
        let (dissimilarities, slots) = unsafe {
            (
                stream.alloc::<f64>(count * each)?,
                stream.alloc::<u32>(count * each)?,
            )
        };
        let search = Search {
            values: self.address(),
            wanted: wanted.device_ptr(stream).0,
            dissimilarities: dissimilarities.device_ptr(stream).0,
            slots: slots.device_ptr(stream).0,
            unusable: unusable.device_ptr(stream).0,
            clusters: self.clusters as u32,
            count: count as u32,
            each: each as u32,
            squared: u32::from(self.squared),
        };
        let config = LaunchConfig {
            grid_dim: ((count as u32).div_ceil(SEARCHERS / WARP), 1, 1),
            block_dim: (SEARCHERS, 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: the argument is as declared in dissimilarities.cu; what it names has the sizes
        // that it says, and lives until the stream is synchronized below.
        unsafe {
            stream
                .launch_builder(&self.functions.nearest)
                .arg(&search)
                .launch(config)?;
        }
        let dissimilarities = stream.clone_dtoh(&dissimilarities)?;
        let slots = stream.clone_dtoh(&slots)?;
        let unusable = stream.clone_dtoh(&unusable)?;
        stream.synchronize()?;
        let neighbour = |(&dissimilarity, &slot)| Neighbour {
            dissimilarity,
            slot,
        };
        let neighbours = dissimilarities.par_iter().zip(&slots).map(neighbour);
        let unusable = (unusable[0] != u64::MAX).then_some(unusable[0] as usize);
        Ok((Nearest::new(neighbours.collect(), each), unusable))
    }

    /// Says what cannot be computed with at this position.
    fn refuse(&self, position: usize) -> Result<()> {
        let n = self.clusters;
        let after = |&slot: &usize| row_start(n, slot) > position;
        let slot = (1..n).find(after).unwrap_or(n) - 1;
        let row = self
            .values
            .slice(row_start(n, slot)..row_start(n, slot + 1));
        let row = self.stream.clone_dtoh(&row).and_then(|row| {
            self.stream.synchronize()?;
            Ok(row)
        });
        let row = row.map_err(|error| self.device.error("fetching dissimilarities", &error))?;
        let meant = |value: &T| match value.load() {
            value if self.squared => value * value,
            value => value,
        };
        condensed::check::<T>(&row.iter().map(meant).collect::<Vec<f64>>(), slot)
    }

    /// Has clusters merge, in place, and moves what is left to the front.
    fn contract_in_place(
        &mut self,
        contraction: &Contraction,
        plan: &Plan,
        monitor: &Monitor,
    ) -> Result<()> {
        let failed = |error: DriverError| self.device.error("merging clusters", &error);
        let stream = &self.stream;
        let copy = || -> std::result::Result<_, DriverError> {
            // There may be none. SAFETY: what is read of it is written first.
            let mut steps = unsafe { stream.alloc::<Step>(plan.steps.len().max(1))? };
            stream.memcpy_htod(&plan.steps, &mut steps)?;
            Ok((
                steps,
                stream.clone_htod(contraction.sizes)?,
                stream.clone_htod(&plan.live)?,
                stream.alloc_zeros::<u32>(self.clusters)?,
            ))
        };
        let (steps, sizes, live, step_of) = copy().map_err(failed)?;
        for batch in &plan.batches {
            monitor.check()?;
            let merging = Merging {
                values: self.address(),
                steps: steps.device_ptr(stream).0,
                sizes: sizes.device_ptr(stream).0,
                step_of: step_of.device_ptr(stream).0,
                clusters: self.clusters as u32,
                linkage: contraction.recurrence.linkage as u32,
                squared: u32::from(self.squared),
                first: batch.start as u32,
                last: batch.end as u32,
            };
            let chunks = (self.clusters as u32).div_ceil(THREADS);
            // SAFETY: arguments as declared in dissimilarities.cu; what they name has the sizes that
            // they say, and lives until the stream is synchronized below.
            let launched = unsafe {
                stream
                    .launch_builder(&self.functions.open)
                    .arg(&merging)
                    .launch(blocks(batch.len().div_ceil(THREADS as usize)))
                    .and_then(|_| {
                        stream
                            .launch_builder(&self.functions.merge)
                            .arg(&merging)
                            .arg(&chunks)
                            .launch(blocks(batch.len() * chunks as usize))
                    })
            };
            launched.map_err(failed)?;
        }
        let left = plan.live.len();
        // Each part goes to where nothing is that later parts are made of.
        for rows in pieces(&Pairs::within(left), self.room.len()) {
            monitor.check()?;
            let rest = Rest {
                values: self.values.device_ptr(stream).0,
                live: live.device_ptr(stream).0,
                step_of: step_of.device_ptr(stream).0,
                out: self.room.device_ptr(stream).0,
                before: self.clusters as u32,
                clusters: left as u32,
                squared: u32::from(self.squared),
                first: rows.start as u32,
            };
            let range = row_start(left, rows.start)..row_start(left, rows.end);
            // SAFETY: as above; there is room for the rows, also as what may be half as large.
            let moved = unsafe {
                stream
                    .launch_builder(&self.functions.gather)
                    .arg(&rest)
                    .launch(blocks(rows.len()))
                    .and_then(|_| {
                        let made = self.room.transmute::<T>(range.len());
                        let made = made.expect("there is room for them");
                        stream.memcpy_dtod(&made, &mut self.values.slice_mut(range))
                    })
            };
            moved.map_err(|error| self.device.error("merging clusters", &error))?;
        }
        self.wait()?;
        self.clusters = left;
        self.squared = false;
        Ok(())
    }
}

impl<T: OnDevice> Dissimilarities for CudaDissimilarities<T> {
    fn nearest(&mut self, monitor: &Monitor) -> Result<Nearest> {
        monitor.check()?;
        let all: Vec<u32> = (0..self.clusters as u32).collect();
        let (nearest, unusable) = self
            .search(&all)
            .map_err(|error| self.device.error("a search for nearest clusters", &error))?;
        if let Some(position) = unusable {
            self.refuse(position)?;
        }
        monitor.advance(pairs(self.clusters) as u64);
        Ok(nearest)
    }

    fn entries(&self, pairs: &[(u32, u32)]) -> Result<Vec<f64>> {
        if pairs.is_empty() {
            return Ok(Vec::new());
        }
        let n = self.clusters;
        let at = |&(i, j): &(u32, u32)| position(n, i as usize, j as usize) as u64;
        let positions = pairs.par_iter().with_min_len(PARALLEL_ENTRIES).map(at);
        let positions: Vec<u64> = positions.collect();
        let stream = &self.stream;
        let look_up = || -> std::result::Result<Vec<f64>, DriverError> {
            let positions = stream.clone_htod(&positions)?;
            // SAFETY: `entries` writes all of it.
            let found = unsafe { stream.alloc::<f64>(pairs.len())? };
            // SAFETY: arguments as declared in dissimilarities.cu, which live until the stream is
            // synchronized below; all positions are below the number of pairs.
            unsafe {
                stream
                    .launch_builder(&self.functions.entries)
                    .arg(&self.values)
                    .arg(&positions)
                    .arg(&found)
                    .arg(&(pairs.len() as u32))
                    .arg(&u32::from(self.squared))
                    .launch(blocks(pairs.len().div_ceil(THREADS as usize)))?;
            }
            let found = stream.clone_dtoh(&found)?;
            stream.synchronize()?;
            Ok(found)
        };
        look_up().map_err(|error| self.device.error("looking up dissimilarities", &error))
    }

    fn contract(
        &mut self,
        contraction: &Contraction,
        wanted: &[u32],
        monitor: &Monitor,
    ) -> Result<Nearest> {
        let plan = Plan::new(contraction);
        let done = self.contract_in_place(contraction, &plan, monitor);
        if done.is_err() {
            // What is under way must not outlive what it works on.
            let _ = self.stream.synchronize();
        }
        done?;
        let (nearest, _) = self
            .search(wanted)
            .map_err(|error| self.device.error("a search for nearest clusters", &error))?;
        Ok(nearest)
    }

    fn chain(
        &mut self,
        recurrence: Recurrence,
        sizes: &[f64],
        monitor: &Monitor,
    ) -> Result<Vec<Merge>> {
        if self.clusters >= self.smallest_chain {
            let (device, stream) = (&self.device, &self.stream);
            let kernel = device.kernel(T::KERNELS, "chain")?;
            let values = self.address();
            // SAFETY: these are the dissimilarities of all clusters, stored as `T`.
            return unsafe {
                chain::merges(device, stream, &kernel, values, recurrence, sizes, monitor)
            };
        }
        let mut here = Condensed::<T>::reusing(Vec::new(), self.clusters)?;
        let there = self.values.slice(..pairs(self.clusters));
        self.stream
            .memcpy_dtoh(&there, here.values_mut())
            .map_err(|error| self.device.error("fetching dissimilarities", &error))?;
        self.wait()?;
        gmhclust_core::linkage::chain::merges(recurrence, sizes.to_vec(), &mut here, monitor)
    }
}

/// What is to be done for a contraction.
struct Plan {
    steps: Vec<Step>,
    /// The steps, divided into batches: those of one have no slot in common.
    batches: Vec<Range<usize>>,
    /// The slots that are left.
    live: Vec<u32>,
}

impl Plan {
    fn new(contraction: &Contraction) -> Self {
        let n = contraction.sizes.len();
        let mut batches = Vec::new();
        let mut steps = Vec::with_capacity(contraction.fusions.len());
        let mut first = 0;
        // By slot: the last step that it had part in.
        let mut last = vec![NONE; n];
        let mut is_gone = vec![false; n];
        for (at, fusion) in contraction.fusions.iter().enumerate() {
            let slots = [fusion.lower, fusion.higher];
            let before = slots.map(|slot| last[slot as usize]);
            if before
                .iter()
                .any(|&step| step != NONE && step as usize >= first)
            {
                batches.push(first..at);
                first = at;
            }
            steps.push(Step {
                height: fusion.union.height,
                sizes: fusion.union.sizes,
                lower: fusion.lower,
                higher: fusion.higher,
                merged: before.map(|step| u32::from(step != NONE)),
            });
            for slot in slots {
                last[slot as usize] = at as u32;
            }
            is_gone[fusion.higher as usize] = true;
        }
        if first < steps.len() {
            batches.push(first..steps.len());
        }
        let live = |&slot: &u32| !is_gone[slot as usize];
        Self {
            steps,
            batches,
            live: (0..n as u32).filter(live).collect(),
        }
    }
}

/// So many blocks of threads.
fn blocks(count: usize) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (count.max(1) as u32, 1, 1),
        block_dim: (THREADS, 1, 1),
        shared_mem_bytes: 0,
    }
}
