//! Launches of the kernel of agglomerate.cu for some problems, and their device memory.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::sys::{self, CUresult};
use cudarc::driver::{
    CudaFunction, CudaSlice, CudaStream, DevicePtr, DriverError, LaunchConfig, PushKernelArg,
};
use gmhclust_core::error::{Error, Result};
use gmhclust_core::mahalanobis::{agglomerate, Distance, Problem};
use gmhclust_core::monitor::Monitor;
use gmhclust_core::{Cpu, Merge};

use super::arrays::{
    balls, doubles, shared_bytes, singles, words, Arrays, Doubles, Partner, Singles, Task, Words,
    MOST_IN_REGISTERS, PARTNERS,
};
use super::fetched::{Fetched, CONVERTED_TOGETHER};
use super::tasks::{copy_observations, sorted_slots, tasks};
use super::variant::{equal_problems, Variant};
use crate::device::{Device, DriverResult};
use crate::mapped::Watch;
use crate::sender::Sender;
use crate::thresholds::GpuThresholds;
use crate::wait::{wait_for, WaitOnDrop};

/// What a device does before a launch, for errors.
const MAKING_ROOM: &str = "making room for apriori clusters";

/// Time between two polls of the device's progress. It is short compared with a launch, and long
/// compared with a poll.
const PROGRESS_INTERVAL: Duration = Duration::from_micros(200);

/// Largest number of chunks of the problems, each with a kernel of its own. If there are more, work
/// on different streams may share one of the 8 queues that a device has by default, and a copy then
/// waits for a kernel.
pub const MOST_CHUNKS: usize = 4;

/// Divides problems of these sizes into at most [`MOST_CHUNKS`] chunks of consecutive problems. A
/// chunk ends where the number of observations so far reaches a target. The first target is an
/// eighth of all observations, so that the device begins early, or `fewest` if that is more. Each
/// further target is the next doubling that is not reached yet.
pub fn chunks(sizes: &[usize], fewest: usize) -> Vec<Range<usize>> {
    let all: usize = sizes.iter().sum();
    let mut target = all.div_ceil(1 << (MOST_CHUNKS - 1)).max(fewest);
    let (mut chunks, mut start, mut before) = (Vec::new(), 0, 0);
    for (index, size) in sizes.iter().enumerate() {
        before += size;
        if before >= target || before == all {
            chunks.push(start..index + 1);
            start = index + 1;
        }
        while target <= before {
            target *= 2;
        }
    }
    chunks
}

/// The indices of the counters that the kernels of all chunks share.
pub const FAILED: usize = 0;
pub const MERGED: usize = 1;
/// Number of counters that the kernels of all chunks share. The other counters come after them.
pub const SHARED_COUNTERS: usize = 2;

/// Device memory for all chunks of a launch.
struct LaunchMemory {
    tasks: CudaSlice<Task>,
    x: CudaSlice<f64>,
    doubles: Doubles<CudaSlice<f64>>,
    singles: Singles<CudaSlice<f32>>,
    balls: CudaSlice<f32>,
    words: Words<CudaSlice<u32>>,
    partners: CudaSlice<Partner>,
    heights: CudaSlice<f64>,
    lower: CudaSlice<u32>,
    higher: CudaSlice<u32>,
    /// The counters of failed tasks and of merges done, and each chunk's counter of its next task.
    counters: CudaSlice<u32>,
    /// Two words in host memory: the number of merges done, written by the device, and whether to
    /// stop, written by the host.
    watch: Watch,
}

impl LaunchMemory {
    /// Memory for `tasks` tasks with `observations` observations in `p` dimensions.
    fn new(
        device: &Arc<Device>,
        stream: &Arc<CudaStream>,
        tasks: usize,
        observations: usize,
        p: usize,
        distance: Distance,
    ) -> DriverResult<Self> {
        // SAFETY: the kernel writes each array before it reads it; a chunk's elements of `x`, the
        // tasks and `slots_at` are copied over before its kernel. The kernel discards what it reads
        // behind the last observation of a chunk.
        unsafe {
            // An array that the kernel does not use has one element.
            let length = |per_observation: &usize| (per_observation * observations).max(1);
            let doubles = doubles(p, distance).try_map(|each| stream.alloc::<f64>(length(each)))?;
            let singles = singles(p, distance).try_map(|each| stream.alloc::<f32>(length(each)))?;
            let balls = stream.alloc(balls(p, observations, tasks, distance).max(1))?;
            let words = words(distance).try_map(|each| stream.alloc::<u32>(length(each)))?;
            let tasks = stream.alloc(tasks)?;
            let x = stream.alloc(observations * p + MOST_IN_REGISTERS)?;
            let partners = stream.alloc(PARTNERS * observations)?;
            let heights = stream.alloc_zeros(observations)?;
            let lower = stream.alloc_zeros(observations)?;
            let higher = stream.alloc_zeros(observations)?;
            let counters = stream.alloc_zeros(SHARED_COUNTERS + MOST_CHUNKS)?;
            let watch = Watch::new(device)?;
            Ok(Self {
                tasks,
                x,
                doubles,
                singles,
                balls,
                words,
                partners,
                heights,
                lower,
                higher,
                counters,
                watch,
            })
        }
    }

    /// The arguments of the kernel for all problems, with the first counter of next tasks.
    fn arrays(&self, stream: &Arc<CudaStream>, problems: &[&Problem<'_>]) -> Arrays {
        let options = problems[0].options;
        let counter = |number: usize| self.counters.device_ptr(stream).0 + 4 * number as u64;
        let watch = self.watch.as_ptr() as u64;
        Arrays {
            threshold: options.threshold,
            subthreshold: options.subthreshold as u32,
            normalize: u32::from(options.normalize),
            dimensions: problems[0].x.ncols() as u32,
            tasks: problems.len() as u32,
            task: self.tasks.device_ptr(stream).0,
            x: self.x.device_ptr(stream).0,
            partners: self.partners.device_ptr(stream).0,
            doubles: self.doubles.map(|array| array.device_ptr(stream).0),
            singles: self.singles.map(|array| array.device_ptr(stream).0),
            balls: self.balls.device_ptr(stream).0,
            words: self.words.map(|array| array.device_ptr(stream).0),
            heights: self.heights.device_ptr(stream).0,
            lower: self.lower.device_ptr(stream).0,
            higher: self.higher.device_ptr(stream).0,
            next_task: counter(SHARED_COUNTERS),
            failed_tasks: counter(FAILED),
            merged: counter(MERGED),
            progress: watch,
            stop: watch + 4,
        }
    }
}

/// Kernels that have begun for some problems, one for each chunk of the problems, and their device
/// memory.
pub struct Launch<'a> {
    device: Arc<Device>,
    /// The stream that the memory is allocated on.
    stream: Arc<CudaStream>,
    /// All have the same options and number of dimensions.
    problems: Vec<&'a Problem<'a>>,
    /// Kept until the kernels end: freeing its host memory would wait for them. Declared before
    /// `memory`, so that its copies to `memory` end before `memory` is freed.
    sender: Sender<f64>,
    memory: LaunchMemory,
    /// A stream for the kernel of each chunk.
    of_chunks: Vec<Arc<CudaStream>>,
    /// Declared after `memory`, so that the memory is free at the end.
    _end: WaitOnDrop,
}

impl<'a> Launch<'a> {
    /// Begins kernels for these problems, which must have the same options and number of
    /// dimensions. The threads of `cpu` copy their observations. The kernel of a chunk begins as
    /// soon as its observations are on the device. `thresholds` has the smallest first target of
    /// [`chunks`], and the largest number of problems per multiprocessor for large blocks.
    ///
    /// # Errors
    /// `Error::Interrupt` when `monitor` says stop, `Error::Memory` if the device has too little
    /// memory, `Error::Device` if it fails.
    pub fn begin(
        device: &Arc<Device>,
        problems: Vec<&'a Problem<'a>>,
        thresholds: &GpuThresholds,
        cpu: &Cpu,
        monitor: &Monitor,
    ) -> Result<Self> {
        let sizes: Vec<usize> = problems.iter().map(|problem| problem.clusters()).collect();
        let observations: usize = sizes.iter().sum();
        let p = problems[0].x.ncols();
        let distance = problems[0].options.distance;
        let multiprocessors = device.multiprocessors();
        let multiprocessors = multiprocessors.map_err(|error| device.error(MAKING_ROOM, &error))?;
        let most = thresholds.large_block_problems as f64 * f64::from(multiprocessors);
        let variant = Variant::new(p, distance, equal_problems(&sizes) > most);
        let kernel = device.kernel(variant.module, "agglomerate")?;
        let chunks = chunks(&sizes, thresholds.block_chunk_observations);
        let allocate = || {
            let stream = device.context.new_stream()?;
            let of_chunks = chunks.iter().map(|_| device.context.new_stream());
            let of_chunks = of_chunks.collect::<DriverResult<_>>()?;
            let mut memory =
                LaunchMemory::new(device, &stream, problems.len(), observations, p, distance)?;
            // The kernel may read MOST_IN_REGISTERS coordinates behind the last observation. It
            // discards them, but tools that look for reads of uninitialized memory report them.
            stream.memset_zeros(&mut memory.x.slice_mut(observations * p..))?;
            // Copies on other streams must not begin before the allocations of this stream.
            stream.synchronize()?;
            Ok((stream, of_chunks, memory))
        };
        let allocated: DriverResult<_> = allocate();
        let (stream, of_chunks, memory) =
            allocated.map_err(|error| device.error(MAKING_ROOM, &error))?;
        let mut launch = Self {
            device: device.clone(),
            _end: WaitOnDrop(stream.clone()),
            stream,
            problems,
            sender: Sender::new(device, observations * p, p, cpu)?,
            memory,
            of_chunks,
        };
        let mut first = 0;
        for (number, chunk) in chunks.into_iter().enumerate() {
            let end = first + sizes[chunk.clone()].iter().sum::<usize>();
            launch.send(chunk.clone(), first..end, cpu, monitor)?;
            let started = launch.start(&kernel, variant, number, &chunk);
            started.map_err(|error| launch.error(&error))?;
            first = end;
        }
        Ok(launch)
    }

    /// Waits for the end of the kernels. Returns the merges of each problem, which the threads of
    /// `cpu` copy.
    ///
    /// # Errors
    /// `Error::Interrupt` when `monitor` says stop, `Error::Device` when the device fails.
    pub fn merges(mut self, cpu: &Cpu, monitor: &Monitor) -> Result<Vec<Vec<Merge>>> {
        self.watch(monitor).map_err(|error| self.error(&error))?;
        monitor.check()?;
        let fetched = self.fetch()?;
        let problems = std::mem::take(&mut self.problems);
        // Other problems may need the device's memory while the threads of `cpu` are busy.
        drop(self);
        Ok(cpu.install(|| fetched.into_merges(&problems, CONVERTED_TOGETHER)))
    }

    fn error(&self, error: &DriverError) -> Error {
        self.device.error("clustering apriori clusters", error)
    }

    /// Sends a chunk of the problems, whose observations are at `places`, to the device: their
    /// observations, their tasks, and the order in which the clusters are in the screens at the
    /// start.
    fn send(
        &mut self,
        chunk: Range<usize>,
        places: Range<usize>,
        cpu: &Cpu,
        monitor: &Monitor,
    ) -> Result<()> {
        let problems = &self.problems[chunk.clone()];
        let (p, distance) = (problems[0].x.ncols(), problems[0].options.distance);
        let tasks = cpu.install(|| tasks(problems, places.start));
        let copy = |at, rows: &mut [f64]| {
            copy_observations(problems, &tasks, places.start + at / p, rows);
        };
        let values = places.start * p..places.end * p;
        let x = &mut self.memory.x;
        self.sender.send_made(x, values, copy, cpu, monitor)?;
        let slots = match distance {
            Distance::Centroid => cpu.install(|| sorted_slots(problems)),
            Distance::FullMahalanobis => Vec::new(),
        };
        let stream = &self.stream;
        let send_rest = || {
            stream.memcpy_htod(&tasks, &mut self.memory.tasks.slice_mut(chunk))?;
            if !slots.is_empty() {
                let slots_at = &mut self.memory.words.slots_at;
                stream.memcpy_htod(&slots, &mut slots_at.slice_mut(places))?;
            }
            stream.synchronize()
        };
        send_rest().map_err(|error| self.error(&error))
    }

    /// Starts the kernel for chunk `number` of the problems, which has been sent.
    fn start(
        &self,
        kernel: &CudaFunction,
        variant: Variant,
        number: usize,
        chunk: &Range<usize>,
    ) -> DriverResult<()> {
        let p = self.problems[0].x.ncols();
        let distance = self.problems[0].options.distance;
        let Variant {
            threads, registers, ..
        } = variant;
        let shared = shared_bytes(p, registers, threads, distance);
        let mut arrays = self.memory.arrays(&self.stream, &self.problems);
        arrays.take_chunk(chunk, number, distance);
        let resident =
            kernel.occupancy_max_active_blocks_per_multiprocessor(threads, shared, None)?;
        let blocks = resident * self.device.multiprocessors()?;
        let config = LaunchConfig {
            grid_dim: (blocks.clamp(1, chunk.len() as u32), 1, 1),
            block_dim: (threads, 1, 1),
            shared_mem_bytes: shared as u32,
        };
        // SAFETY: the argument is as declared in agglomerate.cu, and all memory that it points to
        // lives in `self`, which waits for the kernel before it is dropped.
        unsafe {
            let stream = &self.of_chunks[number];
            stream.launch_builder(kernel).arg(&arrays).launch(config)?;
        }
        Ok(())
    }

    /// Waits for the end of the kernels. Meanwhile reports progress to the monitor, and tells the
    /// device when the monitor says stop.
    fn watch(&mut self, monitor: &Monitor) -> DriverResult<()> {
        let sizes = || self.problems.iter().map(|problem| problem.clusters());
        let work: u64 = sizes().map(agglomerate::work).sum();
        let merges: u64 = sizes().map(|size| size as u64 - 1).sum();
        let watch = self.memory.watch.as_ptr();
        let mut reported = 0;
        loop {
            // SAFETY: two aligned words, alive as long as `self`; the device writes the first and
            // reads the second while this thread does the opposite, hence volatile.
            let done = unsafe {
                if monitor.stopped() {
                    watch.add(1).write_volatile(1);
                }
                watch.read_volatile()
            };
            let share = (work as f64 * (f64::from(done) / merges as f64).min(1.0)) as u64;
            monitor.advance(share.saturating_sub(reported));
            reported = reported.max(share);
            if self.have_ended()? {
                monitor.advance(work - reported);
                return Ok(());
            }
            std::thread::sleep(PROGRESS_INTERVAL);
        }
    }

    /// Whether the kernels of all chunks have ended.
    fn have_ended(&self) -> DriverResult<bool> {
        for stream in &self.of_chunks {
            // SAFETY: the stream lives as long as `self`.
            match unsafe { sys::cuStreamQuery(stream.cu_stream()) } {
                CUresult::CUDA_ERROR_NOT_READY => return Ok(false),
                ended => ended.result()?,
            }
        }
        Ok(true)
    }

    /// Copies the merges to the host.
    fn fetch(&self) -> Result<Fetched> {
        let fetch = || -> DriverResult<_> {
            let fetched = Fetched {
                lower: self.stream.clone_dtoh(&self.memory.lower)?,
                higher: self.stream.clone_dtoh(&self.memory.higher)?,
                heights: self.stream.clone_dtoh(&self.memory.heights)?,
            };
            Ok((fetched, self.stream.clone_dtoh(&self.memory.counters)?))
        };
        let fetched = fetch();
        let (fetched, counters) =
            fetched.map_err(|error| self.device.error("fetching merges", &error))?;
        if counters[FAILED] > 0 {
            return Err(Error::Device(format!(
                "{} of {} apriori clusters could not be clustered on the device",
                counters[FAILED],
                self.problems.len()
            )));
        }
        Ok(fetched)
    }
}

impl Drop for Launch<'_> {
    /// Stops the kernels and waits for their end, since they work in this memory.
    fn drop(&mut self) {
        // SAFETY: an aligned word, alive as long as `self`; the device reads it, hence volatile.
        unsafe { self.memory.watch.as_ptr().add(1).write_volatile(1) };
        let streams = || self.of_chunks.iter().chain([&self.stream]);
        let waited = streams().map(|stream| wait_for(stream));
        if waited.fold(Ok(()), DriverResult::and).is_ok() {
            self.memory.watch.give_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_all_problems_and_grow() {
        let ends = |sizes: &[usize], fewest| -> Vec<usize> {
            let chunks = chunks(sizes, fewest);
            chunks.iter().map(|chunk| chunk.end).collect()
        };
        assert_eq!(ends(&[5], 1), [1]);
        assert_eq!(ends(&[1; 16], 1), [2, 4, 8, 16]);
        assert_eq!(ends(&[1; 16], 5), [5, 10, 16]);
        assert_eq!(ends(&[1; 16], 20), [16]);
        // A problem that is larger than the first chunks together.
        assert_eq!(ends(&[9, 1, 1, 1, 1, 1, 1, 1], 1), [1, 8]);
        for count in 1..100 {
            let sizes: Vec<usize> = (1..=count).rev().collect();
            let chunks = chunks(&sizes, 1);
            assert!(chunks.len() <= MOST_CHUNKS);
            let indices: Vec<usize> = chunks.into_iter().flatten().collect();
            assert_eq!(indices, Vec::from_iter(0..count));
        }
    }
}
