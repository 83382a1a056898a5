//! Allocates a tree's device memory, and launches the kernels that make its merges.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::sys::{
    CUdevice_attribute as Attribute, CUfunction_attribute as FunctionAttribute, CUresult,
};
use cudarc::driver::{CudaFunction, CudaSlice, CudaStream, DevicePtr, LaunchConfig, PushKernelArg};
use gmhclust_core::error::Result;
use gmhclust_core::mahalanobis::{BoundingBox, Problem};
use gmhclust_core::monitor::Monitor;
use gmhclust_core::{Cpu, Merge};

use super::arrays::{
    control, to_merges, Placement, Status, Tree, TreeArrays, TreeLayout, TreeSizes,
    BLOCKS_PER_MERGING_BLOCK, FEW_COLUMNS, MOST_BLOCKS, MOST_CLUSTERS, MOST_OBSERVATIONS, THREADS,
};
use super::clusters::Clusters;
use super::start::{Contents, Start};
use crate::device::{Device, DriverResult};
use crate::distances::check_memory;
use crate::kernels::{self, Kernels};
use crate::mapped::Watch;
use crate::wait::{wait_for, WaitOnDrop, POLL_INTERVAL};

/// The modules by increasing largest number of columns. In a module for fewer columns, a matrix
/// takes fewer registers of a block, so it is factorized faster: on an H200, the module for 104
/// columns made the trees of 30,000 x 64 and x 100 1.18 and 1.11 times as fast as that for 208.
const MODULES_BY_COLUMNS: [(usize, &Kernels); 4] = [
    (FEW_COLUMNS, &kernels::TREE_16),
    (52, &kernels::TREE_52),
    (104, &kernels::TREE_104),
    (208, &kernels::TREE_208),
];
pub const MOST_COLUMNS: usize = MODULES_BY_COLUMNS[MODULES_BY_COLUMNS.len() - 1].0;

/// Number of positions whose neighbours one launch of the first search finds. If it is too large,
/// an interrupt is answered late.
const POSITIONS_PER_SEARCH: u32 = 1 << 16;
/// As [`POSITIONS_PER_SEARCH`], if all clusters are points.
const POINTS_PER_SEARCH: u32 = 1 << 17;

/// Share of active clusters, in tenths of the positions, at which the positions are compacted. Only
/// the time depends on it.
const LEFT_IN_TEN: u32 = 7;
/// Number of positions up to which they are never compacted. Only the time depends on it.
const FEW_POSITIONS: u32 = 2048;

/// Smallest number of blocks of a tree that is made alone. With fewer, the sequencer waits for the
/// workers. Only the time depends on it.
const FEWEST_BLOCKS: u32 = 12;
/// The same while other trees are made: if a sequencer waits, more trees use the GPU meanwhile. On
/// an H200, 20,000,000 observations in 2,000 apriori clusters, of which 344 were trees, took 18.4 s
/// with at least 12 blocks for each tree, 17.8 s with 8, 17.6 s with 6 and 18.5 s with 4.
const FEWEST_BLOCKS_BESIDE: u32 = 8;
/// A small tree has one block for this number of clusters. Only the time depends on it.
const CLUSTERS_A_BLOCK: usize = 128;
/// A small tree with full Mahalanobis distances has one block for this number of observations. Only
/// the time depends on it.
const OBSERVATIONS_A_BLOCK: usize = 1024;
/// While other trees are made, a tree gets at least one block for this number of clusters. Only the
/// time depends on it.
///
/// On an H200 with 132 multiprocessors, 100 trees of 10,000 clusters took 2.3 s with 12 blocks
/// each, 3.8 s with 44 and 8.9 s with 132. With the same numbers of blocks, 10 trees of 100,000
/// clusters took 5.8, 4.6 and 7.2 s.
const CLUSTERS_A_BLOCK_AT_LEAST: usize = 2500;

/// Number of trees that the CPU prepares while others are made. Only the time depends on it.
const PREPARED_TREES: usize = 2;

/// Time without a merge, over several launches, after which the GPU gives up the tree. The CPU
/// then makes all its merges.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether a device can make all merges of a problem.
pub fn fits(problem: &Problem) -> bool {
    problem.x.ncols() <= MOST_COLUMNS
        && problem.clusters() <= MOST_CLUSTERS
        && problem.members.len() <= MOST_OBSERVATIONS
}

/// Makes the merges of a problem that [`fits`]. `bounding_box` is the bounding box of its
/// observations. A large tree gets about `share`, from 0 to 1, of the blocks that the device runs
/// at a time. The threads of `cpu` prepare the tree; the calling thread then waits for the device.
/// Returns `None` if the device has no cooperative launches or too little shared memory for a
/// block, if single precision cannot separate the clusters, or after [`PATIENCE`] without a merge.
/// The caller then makes the merges on the CPU.
///
/// # Errors
/// `Error::Interrupt` when `monitor` says stop, `Error::Memory` when the device has too little
/// memory, `Error::Device` when the device fails.
pub fn grow(
    device: &Arc<Device>,
    problem: &Problem,
    bounding_box: &BoundingBox,
    share: f64,
    cpu: &Cpu,
    monitor: &Monitor,
) -> Result<Option<Vec<Merge>>> {
    let failed = |error| device.error("growing a tree", &error);
    let mut families = MODULES_BY_COLUMNS
        .iter()
        .filter(|(most, _)| problem.x.ncols() <= *most);
    let (most_columns, kernels, room) = loop {
        let Some(&(most_columns, module)) = families.next() else {
            return Ok(None);
        };
        // Shared memory does not depend on the number of shapes.
        let sizes = TreeSizes::new(problem, most_columns, 0);
        if let Some((kernels, room)) = TreeKernels::fitting(device, module, &sizes)? {
            break (most_columns, kernels, room);
        }
        // The module of a wide tree is slower, but its blocks need less shared memory. Another one
        // for more columns does not need less.
        if sizes.is_wide() {
            return Ok(None);
        }
    };
    let start = cpu.install(|| Start::new(problem, bounding_box, most_columns, monitor));
    let (start, contents) = start?;
    let layout = start.sizes.layout();
    let (clusters, columns) = (problem.clusters(), problem.x.ncols());
    let what = format!("a tree of {clusters} clusters in {columns} columns needs");
    check_memory(device, &what, layout.bytes)?;
    let mut growing =
        Growing::new(device, kernels, room, problem, start, layout, share).map_err(failed)?;
    growing.fill(&contents, cpu).map_err(failed)?;
    drop(contents);
    let status = growing.run(problem, monitor).map_err(failed)?;
    monitor.check()?;
    match status {
        Status::AllMerged => growing.merges().map(Some).map_err(failed),
        _ => Ok(None),
    }
}

/// Number of blocks that make the merges of a tree, at most one per multiprocessor. A large tree
/// gets blocks on `share` of the multiprocessors. A small tree gets fewer blocks, so that several
/// trees can run at the same time. More blocks would not make small trees faster (measured).
fn blocks_for(sizes: &TreeSizes, multiprocessors: u32, share: f64) -> u32 {
    let by_clusters = sizes.clusters / CLUSTERS_A_BLOCK;
    let wanted = by_clusters.max(sizes.observations / OBSERVATIONS_A_BLOCK) as u32;
    let shared = (share * f64::from(multiprocessors)) as u32;
    let most = shared
        .max(least_blocks(sizes.clusters))
        .min(multiprocessors)
        .min(MOST_BLOCKS as u32);
    most.min(wanted.max(FEWEST_BLOCKS))
}

/// Smallest number of blocks of a tree of this number of clusters while other trees are made.
fn least_blocks(clusters: usize) -> u32 {
    FEWEST_BLOCKS_BESIDE.max((clusters / CLUSTERS_A_BLOCK_AT_LEAST) as u32)
}

/// Number of trees that a device should make at the same time, for trees of these numbers of
/// clusters. If all had the mean size, the blocks of all but [`PREPARED_TREES`] of them would fit
/// on the device together.
///
/// # Errors
/// `Error::Device` when the device fails.
pub fn trees_at_a_time(device: &Device, sizes: &[usize]) -> Result<usize> {
    let multiprocessors = device.multiprocessors();
    let multiprocessors =
        multiprocessors.map_err(|error| device.error("asking for its multiprocessors", &error))?;
    let mean = sizes.iter().sum::<usize>() / sizes.len().max(1);
    Ok((multiprocessors / least_blocks(mean)) as usize + PREPARED_TREES)
}

/// The kernels of a module.
struct TreeKernels {
    grow: CudaFunction,
    start: CudaFunction,
    start_with_points: CudaFunction,
    reshape_all: CudaFunction,
    gather_members: CudaFunction,
    find_moves: CudaFunction,
    move_all: CudaFunction,
    enclose: CudaFunction,
    enclose_again: CudaFunction,
}

/// The shared memory of the blocks that make merges.
#[derive(Debug, Clone, Copy)]
struct SharedMemory {
    bytes: usize,
    placement: Placement,
}

impl TreeKernels {
    fn new(device: &Device, module: &'static Kernels) -> Result<Self> {
        let kernel = |name| device.kernel(module, name);
        Ok(Self {
            grow: kernel("grow")?,
            start: kernel("start")?,
            start_with_points: kernel("start_with_points")?,
            reshape_all: kernel("reshape_all")?,
            gather_members: kernel("gather_members")?,
            find_moves: kernel("find_all_moves")?,
            move_all: kernel("move_all")?,
            enclose: kernel("enclose")?,
            enclose_again: kernel("enclose_again")?,
        })
    }

    /// Loads the kernels for a tree of these sizes, and determines the shared memory of their
    /// blocks. Each multiprocessor runs one block. Returns `None` if a block cannot have enough
    /// shared memory, or if the device has no cooperative launches.
    fn fitting(
        device: &Device,
        module: &'static Kernels,
        sizes: &TreeSizes,
    ) -> Result<Option<(Self, SharedMemory)>> {
        let failed = |error| device.error("preparing the kernels of a tree", &error);
        let cooperative = Attribute::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH;
        let cooperates = device.context.attribute(cooperative).map_err(failed)? != 0;
        let most = device.shared_memory().map_err(failed)?;
        let bytes = |placement| sizes.sequencer_bytes(placement).max(sizes.job_bytes());
        // The cheap checks come before the module is loaded, because a driver may have to compile
        // the module.
        let least = bytes(Placement::RecentRowsApart);
        if !cooperates || least > most {
            return Ok(None);
        }
        let kernels = Self::new(device, module)?;
        let fixed = FunctionAttribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
        let left = |kernel: &CudaFunction| -> DriverResult<usize> {
            Ok(most.saturating_sub(kernel.get_attribute(fixed)? as usize))
        };
        let most_left = left(&kernels.grow).map_err(failed)?;
        let mut placements = Placement::ALL.into_iter();
        let Some(placement) = placements.find(|&placement| bytes(placement) <= most_left) else {
            return Ok(None);
        };
        // The limit does not depend on this tree's sizes, since trees of other sizes may be
        // launched at the same time.
        for kernel in [&kernels.grow, &kernels.start, &kernels.reshape_all] {
            let limited = left(kernel).and_then(|left| allow_shared(kernel, left as i32));
            limited.map_err(failed)?;
        }
        let room = SharedMemory {
            bytes: bytes(placement),
            placement,
        };
        Ok(Some((kernels, room)))
    }
}

/// A tree on the device.
struct Growing {
    stream: Arc<CudaStream>,
    kernels: TreeKernels,
    room: SharedMemory,
    /// All memory on the device.
    memory: CudaSlice<u8>,
    layout: TreeLayout,
    tree: Tree,
    clusters: Clusters,
    start: Start,
    /// Number of positions in use, gaps included.
    positions: u32,
    /// Two words in host memory: the number of merges done, written by the device, and whether to
    /// stop, written by the host.
    watch: Watch,
    /// Number of blocks that make merges.
    blocks: u32,
    /// Declared after `memory`, so that the memory is free at the end.
    _end: WaitOnDrop,
}

impl Growing {
    fn new(
        device: &Arc<Device>,
        kernels: TreeKernels,
        room: SharedMemory,
        problem: &Problem,
        start: Start,
        layout: TreeLayout,
        share: f64,
    ) -> DriverResult<Self> {
        let stream = device.context.new_stream()?;
        let sizes = start.sizes;
        // SAFETY: the kernels read only memory that `fill` below or the kernels have written.
        let memory = unsafe { stream.alloc::<u8>(layout.bytes) }?;
        let address = memory.device_ptr(&stream).0;
        let at = |range: &Range<usize>| address + range.start as u64;
        let watch = Watch::new(device)?;
        let addresses = layout.arrays.map(at);
        let mut tree = start.tree(problem, addresses, watch.as_ptr() as u64);
        tree.placement = room.placement as u32;
        let clusters = start.clusters(layout.clusters.each_ref().map(at));
        Ok(Self {
            blocks: blocks_for(&sizes, device.multiprocessors()?, share),
            kernels,
            room,
            memory,
            layout,
            tree,
            clusters,
            positions: start.sizes.clusters as u32,
            start,
            watch,
            _end: WaitOnDrop(stream.clone()),
            stream,
        })
    }

    /// The configuration of a launch of `blocks` blocks with `shared` bytes of shared memory each.
    fn config(blocks: u32, shared: usize) -> LaunchConfig {
        LaunchConfig {
            grid_dim: (blocks, 1, 1),
            block_dim: (THREADS, 1, 1),
            shared_mem_bytes: shared as u32,
        }
    }

    /// Launches a kernel whose only arguments are the tree and its clusters.
    fn launch(&self, kernel: &CudaFunction, config: LaunchConfig) -> DriverResult<()> {
        // SAFETY: the arguments are as declared in tree.cu, and all memory that they point to lives
        // in `self`.
        unsafe {
            self.stream
                .launch_builder(kernel)
                .arg(&self.tree)
                .arg(&self.clusters)
                .launch(config)?;
        }
        Ok(())
    }

    /// Computes both levels of the ball tree: the balls around all clusters, and the balls around
    /// balls.
    fn enclose(&self) -> DriverResult<()> {
        let warps = THREADS / 32;
        let balls = self.tree.balls.div_ceil(warps);
        let regions = self.tree.balls.div_ceil(32).div_ceil(warps);
        self.launch(&self.kernels.enclose, Self::config(balls, 0))?;
        self.launch(&self.kernels.enclose_again, Self::config(regions, 0))
    }

    /// Removes gaps between positions if `merges`, the number of merges done, says that there are
    /// many. Then recomputes the ball tree.
    fn compact(&mut self, merges: u32) -> DriverResult<()> {
        let (used, left) = (self.positions, self.tree.clusters - merges);
        if merges < self.tree.merges_until {
            return Ok(());
        }
        // SAFETY: as in `launch`.
        unsafe {
            self.stream
                .launch_builder(&self.kernels.find_moves)
                .arg(&self.tree)
                .arg(&self.clusters)
                .arg(&used)
                .launch(Self::config(1, 0))?;
            self.stream
                .launch_builder(&self.kernels.move_all)
                .arg(&self.tree)
                .arg(&self.clusters)
                .arg(&used)
                .arg(&left)
                .launch(Self::config(used.div_ceil(THREADS), 0))?;
        }
        self.tree.use_spare(&mut self.clusters, left);
        self.positions = left;
        self.set_compaction_point();
        self.enclose()
    }

    /// Sets the number of merges at which launches end, so that the host compacts the positions.
    fn set_compaction_point(&mut self) {
        self.tree.merges_until = if self.positions > FEW_POSITIONS {
            self.tree.clusters - self.positions / 10 * LEFT_IN_TEN
        } else {
            u32::MAX
        };
    }

    /// Computes the ball tree, and searches for the nearest clusters of each cluster, until
    /// `monitor` says stop. `points` says that all clusters are points.
    fn search(&self, points: bool, monitor: &Monitor) -> DriverResult<()> {
        self.enclose()?;
        let launch = |first: u32, end: u32| {
            if points {
                let points = THREADS / 32 * self.start.sizes.points_a_warp() as u32;
                let blocks = (end - first).div_ceil(points);
                // SAFETY: as in `launch`.
                unsafe {
                    self.stream
                        .launch_builder(&self.kernels.start_with_points)
                        .arg(&self.tree)
                        .arg(&self.clusters)
                        .arg(&first)
                        .arg(&end)
                        .launch(Self::config(blocks, 0))?;
                }
            }
            let config = Self::config(
                BLOCKS_PER_MERGING_BLOCK as u32 * self.blocks,
                self.start.sizes.job_bytes(),
            );
            // SAFETY: as in `launch`.
            unsafe {
                self.stream
                    .launch_builder(&self.kernels.start)
                    .arg(&self.tree)
                    .arg(&self.clusters)
                    .arg(&first)
                    .arg(&end)
                    .arg(&u32::from(points))
                    .launch(config)
            }
        };
        let some = if points {
            POINTS_PER_SEARCH
        } else {
            POSITIONS_PER_SEARCH
        };
        for first in (0..self.positions).step_by(some as usize) {
            if monitor.stopped() {
                break;
            }
            launch(first, self.positions.min(first + some))?;
            wait_for(&self.stream)?;
        }
        Ok(())
    }

    /// Clears arrays on the device, and copies the state before the first merge to it.
    fn fill(&mut self, contents: &Contents<'_>, cpu: &Cpu) -> DriverResult<()> {
        let Self {
            stream,
            memory,
            layout,
            ..
        } = self;
        let arrays = &layout.arrays;
        let cleared = [
            &arrays.jobs,
            // The kernels read all entries of the candidate arrays, including unused entries.
            &arrays.candidate_values,
            &arrays.candidate_slots,
            &arrays.candidate_ids,
            // The kernels also read members that a changing cluster does not have yet, and the
            // members of a union for which there is no room.
            &arrays.members,
            &arrays.counts,
            &arrays.sizes,
            &arrays.shapes,
            &arrays.member_starts,
            &arrays.floor_values,
            &arrays.floor_ties,
            &arrays.rows,
        ];
        for range in cleared {
            clear(stream, memory, range)?;
        }
        contents.copy(arrays, &layout.clusters, cpu, |range, bytes| {
            put(stream, memory, range, bytes)
        })
    }

    /// Makes merges until the tree is complete, in arrays that are filled. Returns `AllMerged`, or
    /// why the device could not complete the tree.
    fn run(&mut self, problem: &Problem, monitor: &Monitor) -> DriverResult<Status> {
        let n = problem.clusters() as u64;
        let mut reported = 0;
        let mut report = |merges: u64| {
            // One merge counts as a comparison of its union with `n` clusters.
            let done = merges * n;
            monitor.advance(done.saturating_sub(reported));
            reported = reported.max(done);
        };
        self.search(self.start.are_points(), monitor)?;
        self.set_compaction_point();
        let (mut merges, mut since) = (0, Instant::now());
        while !monitor.stopped() {
            self.grow()?;
            self.wait(monitor, &mut report)?;
            let state: Vec<u32> = self.control()?;
            report(u64::from(state[control::MERGES]));
            if state[control::MERGES] > merges {
                (merges, since) = (state[control::MERGES], Instant::now());
                self.tree.use_usual_pace(&self.start.sizes);
            } else {
                // The next union takes longer than a launch, or needs all the room for members. So
                // the next launch prepares only this union, and may take longer.
                self.tree.milliseconds = self.tree.milliseconds.saturating_mul(2);
                self.tree.batch = 1;
            }
            let status = Status::of(state[control::STATUS]).unwrap_or(Status::GaveUp);
            match status {
                Status::TimeIsUp | Status::ManyGone | Status::NoRoom => {
                    if since.elapsed() > PATIENCE {
                        return Ok(Status::GaveUp);
                    }
                    if status == Status::NoRoom {
                        self.gather_members()?;
                    }
                    self.compact(state[control::MERGES])?;
                }
                Status::AllFullSize => self.start_anew(monitor)?,
                status => return Ok(status),
            }
        }
        Ok(Status::Stopped)
    }

    /// Launches the kernel that makes merges, with an empty work queue.
    fn grow(&mut self) -> DriverResult<()> {
        let stream = &self.stream;
        let arrays = &self.layout.arrays;
        let of_launch = words(&arrays.control, 0..control::STATE_STARTS);
        for range in [&of_launch, &arrays.posted, &arrays.done] {
            clear(stream, &mut self.memory, range)?;
        }
        // Marks all shared work as closed: its next chunk is beyond the last one.
        let closed = vec![i32::MAX; arrays.shared_work.len() / size_of::<i32>()];
        let closed = bytemuck::cast_slice(&closed);
        put(stream, &mut self.memory, &arrays.shared_work, closed)?;
        let config = Self::config(self.blocks, self.room.bytes);
        // SAFETY: as in `launch`.
        unsafe {
            stream
                .launch_builder(&self.kernels.grow)
                .arg(&self.tree)
                .arg(&self.clusters)
                .launch_cooperative(config)?;
        }
        Ok(())
    }

    /// Waits for the end of a launch. Meanwhile reports progress to the monitor, and tells the
    /// device when the monitor says stop.
    fn wait(&mut self, monitor: &Monitor, report: &mut impl FnMut(u64)) -> DriverResult<()> {
        let watch = self.watch.as_ptr();
        loop {
            // SAFETY: the stream is alive.
            let state = unsafe { cudarc::driver::sys::cuStreamQuery(self.stream.cu_stream()) };
            match state {
                CUresult::CUDA_SUCCESS => return Ok(()),
                CUresult::CUDA_ERROR_NOT_READY => {}
                error => return error.result(),
            }
            if monitor.stopped() {
                // SAFETY: the words are in host memory that lives as long as `self`.
                unsafe { watch.add(1).write_volatile(1) };
            }
            // SAFETY: as above.
            report(u64::from(unsafe { watch.read_volatile() }));
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Fetches the words of the control state.
    fn control(&self) -> DriverResult<Vec<u32>> {
        let control = self.layout.arrays.control.clone();
        let bytes = self.stream.clone_dtoh(&self.memory.slice(control))?;
        wait_for(&self.stream)?;
        Ok(bytemuck::pod_collect_to_vec(&bytes))
    }

    /// Makes room for the members of unions: gathers the members of active clusters, and drops all
    /// other members.
    fn gather_members(&mut self) -> DriverResult<()> {
        let used = control::MEMBERS_USED..control::MEMBERS_USED + 1;
        let used = words(&self.layout.arrays.control, used);
        clear(&self.stream, &mut self.memory, &used)?;
        // SAFETY: as in `launch`.
        unsafe {
            self.stream
                .launch_builder(&self.kernels.gather_members)
                .arg(&self.tree)
                .launch(Self::config(
                    BLOCKS_PER_MERGING_BLOCK as u32 * self.blocks,
                    0,
                ))?;
        }
        let TreeArrays {
            members,
            spare_members,
            ..
        } = self.layout.arrays.clone();
        let (mut before, spare) = self.memory.split_at_mut(spare_members.start);
        let gathered = spare.slice(..spare_members.len());
        let mut to = before.slice_mut(front(&members, spare_members.len()));
        self.stream.memcpy_dtod(&gathered, &mut to)
    }

    /// Recomputes the shapes of all clusters once all are full-size, and searches for the nearest
    /// clusters of each cluster again.
    fn start_anew(&mut self, monitor: &Monitor) -> DriverResult<()> {
        self.tree.all_full_size = 1;
        let config = Self::config(
            BLOCKS_PER_MERGING_BLOCK as u32 * self.blocks,
            self.start.sizes.reshape_bytes(),
        );
        self.launch(&self.kernels.reshape_all, config)?;
        self.search(false, monitor)
    }

    /// Fetches the merges of the complete tree.
    fn merges(&mut self) -> DriverResult<Vec<Merge>> {
        let stream = &self.stream;
        let count = self.start.sizes.clusters - 1;
        let TreeArrays {
            heights,
            lower,
            higher,
            ..
        } = &self.layout.arrays;
        let get = |array, bytes| stream.clone_dtoh(&self.memory.slice(front(array, bytes * count)));
        let heights = get(heights, 8)?;
        let lower = get(lower, 4)?;
        let higher = get(higher, 4)?;
        wait_for(stream)?;
        Ok(to_merges(&heights, &lower, &higher))
    }
}

impl Drop for Growing {
    /// Waits for the kernels, which use `watch` and the memory.
    fn drop(&mut self) {
        if wait_for(&self.stream).is_ok() {
            self.watch.give_back();
        }
    }
}

/// Sets the most bytes of dynamic shared memory that a block of a kernel may have.
fn allow_shared(kernel: &CudaFunction, bytes: i32) -> DriverResult<()> {
    kernel.set_attribute(
        FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
        bytes,
    )
}

/// The byte range of the first `bytes` bytes of an array.
fn front(array: &Range<usize>, bytes: usize) -> Range<usize> {
    array.start..array.start + bytes
}

/// The byte range of some words of an array.
fn words(array: &Range<usize>, words: Range<usize>) -> Range<usize> {
    array.start + 4 * words.start..array.start + 4 * words.end
}

/// Fills an array with zeros.
fn clear(
    stream: &Arc<CudaStream>,
    memory: &mut CudaSlice<u8>,
    array: &Range<usize>,
) -> DriverResult<()> {
    if array.is_empty() {
        return Ok(());
    }
    stream.memset_zeros(&mut memory.slice_mut(array.clone()))
}

/// Copies bytes to the front of an array. Waits for the copy, since the caller may free the bytes.
fn put(
    stream: &Arc<CudaStream>,
    memory: &mut CudaSlice<u8>,
    array: &Range<usize>,
    bytes: &[u8],
) -> DriverResult<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    stream.memcpy_htod(bytes, &mut memory.slice_mut(front(array, bytes.len())))?;
    wait_for(stream)
}
