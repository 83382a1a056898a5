//! Small problems on a CUDA device, a block each; kernels/agglomerate.cu says how.

#[cfg(test)]
mod decisions;

use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::sys::CUresult;
use cudarc::driver::{
    CudaSlice, CudaStream, DevicePtr, DriverError, LaunchConfig, PinnedHostSlice, PushKernelArg,
};
use rayon::prelude::*;

use crate::arguments::{arguments, named_values};
use crate::device::Device;
use crate::kernels::{self, Kernels};
use gmhclust_core::distinct::Distinct;
use gmhclust_core::error::{Error, Result};
use gmhclust_core::mahalanobis::packed::packed_len;
use gmhclust_core::mahalanobis::{agglomerate, distance, Distance, Problem, UnionRule};
use gmhclust_core::monitor::Monitor;
use gmhclust_core::Cpu;
use gmhclust_core::Merge;

// As in agglomerate_launch.cuh.
const THREADS: u32 = 128;
const MOMENTS: usize = 4;
const SHAPE_SCALARS: usize = 4;
const BAND: usize = 4;
const MOST_DIMENSIONS: usize = 64;

/// With more observations, a block takes longer than the rest of the device may wait for it.
const MOST_OBSERVATIONS: usize = 8_192;

/// How often to look at the device's progress.
const LOOK: Duration = Duration::from_micros(200);

/// The share of the free memory to use.
const MEMORY_SHARE: f64 = 0.9;

arguments! {
    /// As in agglomerate_launch.cuh.
    struct Task {
        diagonal: f64,
        first: u64,
        observations: u32,
        log2_terms: u32,
    }

    /// As in agglomerate_launch.cuh; the pointers are addresses on the device.
    struct Arrays {
        threshold: f64,
        subthreshold: u32,
        normalize: u32,
        dimensions: u32,
        tasks: u32,
        task: u64,
        x: u64,
        doubles: Doubles<u64>,
        words: Words<u64>,
        heights: u64,
        lower: u64,
        higher: u64,
        next_task: u64,
        failed_tasks: u64,
        merged: u64,
        progress: u64,
        stop: u64,
    }
}

named_values! {
    /// The arrays of doubles that a block works in, in struct Arrays.
    struct Doubles {
        means,
        scatters,
        factors,
        partner_distances,
        bounds,
        to_owner,
        member_sums,
        moments,
        shape_scalars,
    }
}

named_values! {
    /// The arrays of words that a block works in, in struct Arrays: a word for each observation.
    struct Words {
        slots,
        sizes,
        births,
        shapes,
        partners,
        partner_births,
        member_starts,
        free_shapes,
        slot_births,
        slot_positions,
        members,
        next_members,
        member_slots,
        next_member_slots,
        candidates,
    }
}

/// The lengths of all arrays of words, for each observation.
const WORDS: Words<usize> = Words {
    slots: 1,
    sizes: 1,
    births: 1,
    shapes: 1,
    partners: 1,
    partner_births: 1,
    member_starts: 1,
    free_shapes: 1,
    slot_births: 1,
    slot_positions: 1,
    members: 1,
    next_members: 1,
    member_slots: 1,
    next_member_slots: 1,
    candidates: 1,
};

/// A merge's lower and higher slot.
const SLOTS_OF_MERGE: usize = 2;

/// Whether a block can do this problem.
pub fn fits(problem: &Problem) -> bool {
    problem.union == UnionRule::Shape
        && problem.clusters() == problem.members.len()
        && problem.clusters() <= MOST_OBSERVATIONS
        && problem.x.columns() <= MOST_DIMENSIONS
}

/// Whether equal observations would keep a block busy with little else: whenever one of a set of them
/// is merged, all others of the set look for another partner. The CPU merges them without a search.
///
/// # Errors
/// As [`Distinct::new`].
pub fn is_tied(problem: &Problem, monitor: &Monitor) -> Result<bool> {
    let row = |member: u32| problem.x.row(problem.members[member as usize] as usize);
    let distinct = Distinct::of_rows(problem.members.len(), row, monitor)?;
    let searches: usize = distinct.sets().map(|set| set.len() * set.len() / 2).sum();
    Ok(searches > problem.clusters())
}

/// The kernel for these dimensions: in registers up to 32 of them.
fn module(p: usize, distance: Distance) -> &'static Kernels {
    match (p, distance) {
        (0..=16, Distance::Centroid) => &kernels::AGGLOMERATE_QUICK_16,
        (17..=24, Distance::Centroid) => &kernels::AGGLOMERATE_QUICK_24,
        (25..=32, Distance::Centroid) => &kernels::AGGLOMERATE_QUICK_32,
        (_, Distance::Centroid) => &kernels::AGGLOMERATE_QUICK_0,
        (0..=16, Distance::FullMahalanobis) => &kernels::AGGLOMERATE_FULL_16,
        (17..=24, Distance::FullMahalanobis) => &kernels::AGGLOMERATE_FULL_24,
        (25..=32, Distance::FullMahalanobis) => &kernels::AGGLOMERATE_FULL_32,
        (_, Distance::FullMahalanobis) => &kernels::AGGLOMERATE_FULL_0,
    }
}

/// The lengths of the arrays of doubles, for each observation; there are at most half as many shapes.
fn doubles(p: usize) -> Doubles<usize> {
    let by_shape = |length: usize| length.div_ceil(2);
    Doubles {
        means: p,
        scatters: by_shape(packed_len(p)),
        factors: by_shape(banded_len(p)),
        partner_distances: 1,
        bounds: 1,
        to_owner: 1,
        member_sums: 2,
        moments: MOMENTS,
        shape_scalars: by_shape(SHAPE_SCALARS),
    }
}

/// Doubles of a whitening factor in bands.
fn banded_len(p: usize) -> usize {
    let bands = p.div_ceil(BAND);
    BAND * BAND * bands * (bands + 1) / 2
}

fn bytes_per_observation(p: usize) -> usize {
    let doubles = doubles(p).values().sum::<usize>() + p + 1;
    let words = WORDS.values().sum::<usize>() + SLOTS_OF_MERGE;
    8 * doubles + 4 * words
}

/// The merges of each of these problems, all of which fit ([`fits`]) and have the same options;
/// `cpu` gathers their observations.
///
/// # Errors
/// `Error::Interrupt` when `monitor` says stop, `Error::Memory` when the device has too little for
/// even one of them, `Error::Device` when it fails.
pub fn agglomerate(
    device: &Arc<Device>,
    problems: &[&Problem<'_>],
    cpu: &Cpu,
    monitor: &Monitor,
) -> Result<Vec<Vec<Merge>>> {
    for problem in problems {
        monitor.expect(agglomerate::work(problem));
    }
    let mut merges = vec![Vec::new(); problems.len()];
    // The largest first, so that none of them is last.
    let mut order: Vec<usize> = (0..problems.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(problems[i].clusters()));
    let mut rest = &order[..];
    while !rest.is_empty() {
        let count = as_many_as_fit(device, problems, rest)?;
        let (now, later) = rest.split_at(count);
        let batch: Vec<&Problem> = now.iter().map(|&i| problems[i]).collect();
        let (tasks, x) = cpu.install(|| gather(&batch));
        let found = Launch::new(device, &batch)?.run(&batch, &tasks, &x, monitor)?;
        for (&i, found) in now.iter().zip(found) {
            merges[i] = found;
        }
        rest = later;
    }
    Ok(merges)
}

/// How many of these problems the device has memory for at a time.
fn as_many_as_fit(device: &Device, problems: &[&Problem<'_>], order: &[usize]) -> Result<usize> {
    let free = device.free_memory()?;
    let bytes = bytes_per_observation(problems[order[0]].x.columns());
    let room = (free as f64 * MEMORY_SHARE) as usize / bytes;
    let mut observations = 0;
    let fitting = order.iter().take_while(|&&i| {
        observations += problems[i].clusters();
        observations <= room
    });
    match fitting.count() {
        0 => Err(Error::Memory(format!(
            "an apriori cluster of {} observations needs {} bytes on the device, which has {free} \
             free",
            problems[order[0]].clusters(),
            bytes * problems[order[0]].clusters(),
        ))),
        count => Ok(count),
    }
}

/// One launch: all that is on the device for it.
struct Launch {
    device: Arc<Device>,
    stream: Arc<CudaStream>,
    arrays: Arrays,
    shared: usize,
    tasks: CudaSlice<Task>,
    x: CudaSlice<f64>,
    #[allow(dead_code)] // named by address in `arrays`
    doubles: Doubles<CudaSlice<f64>>,
    #[allow(dead_code)]
    words: Words<CudaSlice<u32>>,
    heights: CudaSlice<f64>,
    lower: CudaSlice<u32>,
    higher: CudaSlice<u32>,
    /// Next task, failed tasks, merges done.
    counters: CudaSlice<u32>,
    /// In the host's memory: merges done, and whether to stop.
    watch: PinnedHostSlice<u32>,
}

impl Launch {
    fn new(device: &Arc<Device>, problems: &[&Problem<'_>]) -> Result<Self> {
        let observations: usize = problems.iter().map(|p| p.clusters()).sum();
        let options = problems[0].options;
        let p = problems[0].x.columns();
        let make = || -> std::result::Result<Self, DriverError> {
            let stream = device.context.new_stream()?;
            // SAFETY: the kernel writes each array before it reads it; `x` and the tasks are
            // copied over before the launch.
            unsafe {
                let doubles =
                    doubles(p).try_map(|length| stream.alloc::<f64>(length * observations))?;
                let words = WORDS.try_map(|length| stream.alloc::<u32>(length * observations))?;
                let tasks = stream.alloc(problems.len())?;
                let x = stream.alloc(observations * p)?;
                let heights = stream.alloc_zeros(observations)?;
                let lower = stream.alloc_zeros(observations)?;
                let higher = stream.alloc_zeros(observations)?;
                let counters = stream.alloc_zeros(3)?;
                let flags = cudarc::driver::sys::CU_MEMHOSTALLOC_DEVICEMAP;
                let mut watch = device.context.alloc_pinned_with_flags(2, flags)?;
                watch.as_mut_slice()?.fill(0);
                let address = |counter: u64| counters.device_ptr(&stream).0 + 4 * counter;
                let seen = watch.as_ptr()? as u64;
                let arrays = Arrays {
                    threshold: options.threshold,
                    subthreshold: options.subthreshold as u32,
                    normalize: u32::from(options.normalize),
                    dimensions: p as u32,
                    tasks: problems.len() as u32,
                    task: tasks.device_ptr(&stream).0,
                    x: x.device_ptr(&stream).0,
                    doubles: doubles.map(|array| array.device_ptr(&stream).0),
                    words: words.map(|array| array.device_ptr(&stream).0),
                    heights: heights.device_ptr(&stream).0,
                    lower: lower.device_ptr(&stream).0,
                    higher: higher.device_ptr(&stream).0,
                    next_task: address(0),
                    failed_tasks: address(1),
                    merged: address(2),
                    progress: seen,
                    stop: seen + 4,
                };
                Ok(Self {
                    device: device.clone(),
                    arrays,
                    shared: 8
                        * (banded_len(p) + packed_len(p) + 2 * p + 2 * p * (THREADS / 32) as usize),
                    tasks,
                    x,
                    doubles,
                    words,
                    heights,
                    lower,
                    higher,
                    counters,
                    watch,
                    stream,
                })
            }
        };
        make().map_err(|error| device.error("making room for apriori clusters", &error))
    }

    fn run(
        mut self,
        problems: &[&Problem<'_>],
        tasks: &[Task],
        x: &[f64],
        monitor: &Monitor,
    ) -> Result<Vec<Vec<Merge>>> {
        let ended = self
            .start(problems, tasks, x)
            .and_then(|()| self.watch(problems, monitor));
        // What was copied over must outlive the copy, and what is on the device the kernel.
        let ended = ended.and(self.stream.synchronize());
        ended.map_err(|error| self.device.error("clustering apriori clusters", &error))?;
        monitor.check()?;
        self.merges(problems)
    }

    fn start(
        &mut self,
        problems: &[&Problem<'_>],
        tasks: &[Task],
        x: &[f64],
    ) -> std::result::Result<(), DriverError> {
        let p = problems[0].x.columns();
        let module = module(p, problems[0].options.distance);
        let kernel = self.device.try_kernel(module, "agglomerate")?;
        self.stream.memcpy_htod(tasks, &mut self.tasks)?;
        self.stream.memcpy_htod(x, &mut self.x)?;
        let resident =
            kernel.occupancy_max_active_blocks_per_multiprocessor(THREADS, self.shared, None)?;
        let blocks = resident * self.device.multiprocessors()?;
        let config = LaunchConfig {
            grid_dim: (blocks.clamp(1, tasks.len() as u32), 1, 1),
            block_dim: (THREADS, 1, 1),
            shared_mem_bytes: self.shared as u32,
        };
        // SAFETY: the argument is as declared in agglomerate.cu, and all it names lives in `self`.
        unsafe {
            self.stream
                .launch_builder(&kernel)
                .arg(&self.arrays)
                .launch(config)?;
        }
        Ok(())
    }

    /// Waits for the end, tells the monitor of the progress and the device of a wish to stop.
    fn watch(
        &mut self,
        problems: &[&Problem<'_>],
        monitor: &Monitor,
    ) -> std::result::Result<(), DriverError> {
        let work: u64 = problems.iter().map(|p| agglomerate::work(p)).sum();
        let merges: u64 = problems.iter().map(|p| p.clusters() as u64 - 1).sum();
        let watch = self.watch.as_ptr()?.cast_mut();
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
            let state = unsafe { cudarc::driver::sys::cuStreamQuery(self.stream.cu_stream()) };
            match state {
                CUresult::CUDA_ERROR_NOT_READY => std::thread::sleep(LOOK),
                CUresult::CUDA_SUCCESS => {
                    monitor.advance(work - reported);
                    return Ok(());
                }
                failed => return failed.result(),
            }
        }
    }

    fn merges(&self, problems: &[&Problem<'_>]) -> Result<Vec<Vec<Merge>>> {
        let fetch = || -> std::result::Result<_, DriverError> {
            Ok((
                self.stream.clone_dtoh(&self.lower)?,
                self.stream.clone_dtoh(&self.higher)?,
                self.stream.clone_dtoh(&self.heights)?,
                self.stream.clone_dtoh(&self.counters)?,
            ))
        };
        let (lower, higher, heights, counters) =
            fetch().map_err(|error| self.device.error("fetching merges", &error))?;
        if counters[1] > 0 {
            return Err(Error::Device(format!(
                "{} of {} apriori clusters could not be clustered on the device",
                counters[1],
                problems.len()
            )));
        }
        let mut first = 0;
        Ok(problems
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

/// The tasks, and their observations one after the other.
fn gather(problems: &[&Problem<'_>]) -> (Vec<Task>, Vec<f64>) {
    let p = problems[0].x.columns();
    let mut first = 0;
    let firsts: Vec<u64> = problems
        .iter()
        .map(|problem| {
            let at = first;
            first += problem.clusters() as u64;
            at
        })
        .collect();
    let tasks = problems
        .par_iter()
        .zip(&firsts)
        .map(|(problem, &first)| Task {
            diagonal: problem.bounding_box().diagonal(),
            first,
            observations: problem.clusters() as u32,
            log2_terms: distance::log2_ceil(problem.members.len()),
        })
        .collect();
    let mut x = vec![0.0; first as usize * p];
    let mut rest = &mut x[..];
    let mut parts = Vec::with_capacity(problems.len());
    for problem in problems {
        let (part, others) = rest.split_at_mut(problem.clusters() * p);
        parts.push(part);
        rest = others;
    }
    problems.par_iter().zip(parts).for_each(|(problem, part)| {
        for (&member, row) in problem.members.iter().zip(part.chunks_mut(p)) {
            row.copy_from_slice(problem.x.row(member as usize));
        }
    });
    (tasks, x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{check, constants};
    use gmhclust_core::mahalanobis::{Options, Subthreshold};
    use gmhclust_core::matrix::Matrix;

    #[test]
    fn arguments_are_laid_out_as_the_kernel_reads_them() {
        let mut constants =
            constants![THREADS, MOMENTS, SHAPE_SCALARS, BAND, MOST_DIMENSIONS].to_vec();
        constants.extend([
            ("MAHAL", (Subthreshold::Mahal as u32).into()),
            ("MAHAL0", (Subthreshold::Mahal0 as u32).into()),
            ("EUCLID", (Subthreshold::Euclid as u32).into()),
            ("EUCLID_MAHAL", (Subthreshold::EuclidMahal as u32).into()),
        ]);
        let arrays = Arrays::layout()
            .with_fields_of("doubles", &Doubles::<u64>::fields())
            .with_fields_of("words", &Words::<u64>::fields());
        check(
            "agglomerate_launch.cuh",
            &[],
            &[Task::layout(), arrays],
            &constants,
        );
    }

    #[test]
    fn pairs_of_equal_observations_suit_a_block_and_large_sets_do_not() {
        let options = Options {
            threshold: 5.0,
            subthreshold: Subthreshold::Mahal,
            distance: Distance::Centroid,
            normalize: false,
            apriori_intra: true,
        };
        let is_tied_with_sets_of = |size: usize| {
            let values = (0..60).map(|i| (i / size) as f64).collect();
            let x = Matrix::from_row_major(values, 60, 1).unwrap();
            let problem = Problem::of_observations(&x, (0..60).collect(), options);
            is_tied(&problem, &Monitor::default()).unwrap()
        };
        assert!(!is_tied_with_sets_of(1));
        assert!(!is_tied_with_sets_of(2));
        assert!(is_tied_with_sets_of(6));
    }
}
