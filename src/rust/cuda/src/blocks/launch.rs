//! A launch of the kernel of agglomerate.cu, and its device memory.

use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::sys::{self, CUresult};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaSlice, CudaStream, DevicePtr, DriverError, LaunchConfig,
    PushKernelArg,
};
use gmhclust_core::error::{Error, Result};
use gmhclust_core::mahalanobis::{agglomerate, Distance, Problem};
use gmhclust_core::monitor::Monitor;
use gmhclust_core::{Cpu, Merge};

use super::arrays::{
    balls, doubles, shared_bytes, singles, words, Arrays, Doubles, Partner, Singles, Task, Words,
    MOST_IN_REGISTERS, PARTNERS, THREADS,
};
use super::tasks::{copy_observations, sorted_slots, tasks};
use crate::device::{Device, DriverResult};
use crate::kernels::{self, Kernels};
use crate::mapped::MappedWords;
use crate::sender::Sender;

/// Time between two polls of the device's progress. It is short compared with a launch, and long
/// compared with a poll.
const POLL_INTERVAL: Duration = Duration::from_micros(200);

/// The number of dimensions that the kernel for `p` dimensions keeps in registers. It is at least
/// `p`, or 0 for a kernel that keeps no dimensions in registers.
fn in_registers(p: usize) -> usize {
    match p {
        0..=16 => 16,
        17..=24 => 24,
        25..=MOST_IN_REGISTERS => MOST_IN_REGISTERS,
        _ => 0,
    }
}

/// The module that keeps this number of dimensions in registers.
fn module(registers: usize, distance: Distance) -> &'static Kernels {
    match (registers, distance) {
        (16, Distance::Centroid) => &kernels::AGGLOMERATE_CENTROID_16,
        (24, Distance::Centroid) => &kernels::AGGLOMERATE_CENTROID_24,
        (32, Distance::Centroid) => &kernels::AGGLOMERATE_CENTROID_32,
        (_, Distance::Centroid) => &kernels::AGGLOMERATE_CENTROID_0,
        (16, Distance::FullMahalanobis) => &kernels::AGGLOMERATE_FULL_MAHALANOBIS_16,
        (24, Distance::FullMahalanobis) => &kernels::AGGLOMERATE_FULL_MAHALANOBIS_24,
        (32, Distance::FullMahalanobis) => &kernels::AGGLOMERATE_FULL_MAHALANOBIS_32,
        (_, Distance::FullMahalanobis) => &kernels::AGGLOMERATE_FULL_MAHALANOBIS_0,
    }
}

/// Device memory for a launch.
struct Memory {
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
    /// Three counters: the next task, the failed tasks and the merges done.
    counters: CudaSlice<u32>,
    /// Two words in host memory: the number of merges done, written by the device, and whether to
    /// stop, written by the host.
    watch: MappedWords,
}

impl Memory {
    /// Memory for `tasks` tasks with `observations` observations in `p` dimensions.
    fn new(
        context: &Arc<CudaContext>,
        stream: &Arc<CudaStream>,
        tasks: usize,
        observations: usize,
        p: usize,
        distance: Distance,
    ) -> DriverResult<Self> {
        // SAFETY: the kernel writes each array before it reads it; `x`, the tasks and `slots_at`
        // are copied over before the launch.
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
            let counters = stream.alloc_zeros(3)?;
            let watch = MappedWords::new(context, 2)?;
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

    /// The arguments of the kernel.
    fn arrays(&self, stream: &Arc<CudaStream>, problems: &[&Problem<'_>]) -> DriverResult<Arrays> {
        let options = problems[0].options;
        let counter = |number: u64| self.counters.device_ptr(stream).0 + 4 * number;
        let watch = self.watch.as_ptr() as u64;
        Ok(Arrays {
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
            next_task: counter(0),
            failed_tasks: counter(1),
            merged: counter(2),
            progress: watch,
            stop: watch + 4,
        })
    }
}

/// A launch that has begun, and its device memory.
pub struct Launch<'a> {
    device: Arc<Device>,
    stream: Arc<CudaStream>,
    /// All have the same options and number of dimensions.
    problems: Vec<&'a Problem<'a>>,
    tasks: Vec<Task>,
    memory: Memory,
}

impl<'a> Launch<'a> {
    /// Begins a launch for these problems, which must have the same options and number of
    /// dimensions. The threads of `cpu` copy their observations.
    ///
    /// # Errors
    /// `Error::Interrupt` when `monitor` says stop, `Error::Memory` if the device has too little
    /// memory, `Error::Device` if it fails.
    pub fn begin(
        device: &Arc<Device>,
        problems: Vec<&'a Problem<'a>>,
        cpu: &Cpu,
        monitor: &Monitor,
    ) -> Result<Self> {
        let observations: usize = problems.iter().map(|p| p.clusters()).sum();
        let p = problems[0].x.ncols();
        let distance = problems[0].options.distance;
        let module = module(in_registers(p), distance);
        let tasks = cpu.install(|| tasks(&problems));
        let allocate = || {
            let stream = device.context.new_stream()?;
            let memory = Memory::new(
                &device.context,
                &stream,
                problems.len(),
                observations,
                p,
                distance,
            )?;
            // Copies on other streams must not begin before the allocations of this stream.
            stream.synchronize()?;
            Ok((stream, memory))
        };
        let allocated: DriverResult<_> = allocate();
        let (stream, memory) =
            allocated.map_err(|error| device.error("making room for apriori clusters", &error))?;
        let mut launch = Self {
            device: device.clone(),
            stream,
            problems,
            tasks,
            memory,
        };
        launch.send(observations, cpu, monitor)?;
        if distance == Distance::Centroid {
            let sent = launch.send_slots(cpu);
            sent.map_err(|error| launch.error(&error))?;
        }
        let kernel = launch.device.kernel(module, "agglomerate")?;
        let started = launch.start(&kernel, observations);
        started.map_err(|error| launch.error(&error))?;
        Ok(launch)
    }

    /// Waits for the end of the kernel. Returns the merges of each problem.
    ///
    /// # Errors
    /// `Error::Interrupt` when `monitor` says stop, `Error::Device` when the device fails.
    pub fn merges(mut self, monitor: &Monitor) -> Result<Vec<Vec<Merge>>> {
        let ended = self.watch(monitor).and(self.stream.synchronize());
        ended.map_err(|error| self.error(&error))?;
        monitor.check()?;
        self.fetch()
    }

    fn error(&self, error: &DriverError) -> Error {
        self.device.error("clustering apriori clusters", error)
    }

    /// Sends the observations to the device. This function frees its host memory before the kernel
    /// starts, because freeing it later would wait for the end of the kernel.
    fn send(&mut self, observations: usize, cpu: &Cpu, monitor: &Monitor) -> Result<()> {
        let p = self.problems[0].x.ncols();
        let mut sender = Sender::of_many(&self.device, observations * p)?;
        let (problems, tasks) = (&self.problems, &self.tasks);
        let copy = |at, rows: &mut [f64]| copy_observations(problems, tasks, at / p, rows);
        let places = 0..observations * p;
        sender.send_made(&mut self.memory.x, places, p, copy, cpu, monitor)?;
        sender.finish()
    }

    /// Sends the order in which the clusters are in the screens at the start.
    fn send_slots(&mut self, cpu: &Cpu) -> DriverResult<()> {
        let slots = cpu.install(|| sorted_slots(&self.problems));
        let slots_at = &mut self.memory.words.slots_at;
        self.stream.memcpy_htod(&slots, slots_at)?;
        self.stream.synchronize()
    }

    fn start(&mut self, kernel: &CudaFunction, observations: usize) -> DriverResult<()> {
        let p = self.problems[0].x.ncols();
        let distance = self.problems[0].options.distance;
        let shared = shared_bytes(p, in_registers(p), distance);
        let (stream, memory) = (&self.stream, &mut self.memory);
        stream.memcpy_htod(&self.tasks, &mut memory.tasks)?;
        // The kernel may read MOST_IN_REGISTERS coordinates behind the last observation.
        let mut behind = memory.x.slice_mut(observations * p..);
        stream.memset_zeros(&mut behind)?;
        let arrays = memory.arrays(stream, &self.problems)?;
        let resident =
            kernel.occupancy_max_active_blocks_per_multiprocessor(THREADS, shared, None)?;
        let blocks = resident * self.device.multiprocessors()?;
        let config = LaunchConfig {
            grid_dim: (blocks.clamp(1, self.tasks.len() as u32), 1, 1),
            block_dim: (THREADS, 1, 1),
            shared_mem_bytes: shared as u32,
        };
        // SAFETY: the argument is as declared in agglomerate.cu, and all memory that it points to
        // lives in `self`, which waits for the kernel before it is dropped.
        unsafe {
            stream.launch_builder(kernel).arg(&arrays).launch(config)?;
        }
        Ok(())
    }

    /// Waits for the end of the kernel. Meanwhile reports progress to the monitor, and tells the
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
            // SAFETY: the stream lives as long as `self`.
            let state = unsafe { sys::cuStreamQuery(self.stream.cu_stream()) };
            match state {
                CUresult::CUDA_ERROR_NOT_READY => std::thread::sleep(POLL_INTERVAL),
                CUresult::CUDA_SUCCESS => {
                    monitor.advance(work - reported);
                    return Ok(());
                }
                failed => return failed.result(),
            }
        }
    }

    fn fetch(&self) -> Result<Vec<Vec<Merge>>> {
        let fetch = || -> DriverResult<_> {
            Ok((
                self.stream.clone_dtoh(&self.memory.lower)?,
                self.stream.clone_dtoh(&self.memory.higher)?,
                self.stream.clone_dtoh(&self.memory.heights)?,
                self.stream.clone_dtoh(&self.memory.counters)?,
            ))
        };
        let (lower, higher, heights, counters) =
            fetch().map_err(|error| self.device.error("fetching merges", &error))?;
        if counters[1] > 0 {
            return Err(Error::Device(format!(
                "{} of {} apriori clusters could not be clustered on the device",
                counters[1],
                self.problems.len()
            )));
        }
        let mut first = 0;
        Ok(self
            .problems
            .iter()
            .map(|problem| {
                let merge = |at: usize| Merge {
                    lower: lower[at],
                    higher: higher[at],
                    height: heights[at],
                };
                let merges = (first..first + problem.clusters() - 1).map(merge).collect();
                first += problem.clusters();
                merges
            })
            .collect())
    }
}

impl Drop for Launch<'_> {
    /// Stops the kernel and waits for its end, since it works in this memory.
    fn drop(&mut self) {
        // SAFETY: an aligned word, alive as long as `self`; the device reads it, hence volatile.
        unsafe { self.memory.watch.as_ptr().add(1).write_volatile(1) };
        // A device that failed has nothing in progress.
        let _ = self.stream.synchronize();
    }
}
