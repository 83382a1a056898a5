//! The device's memory for a tree, and the launches that make its merges.

use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::sys::CUresult;
use cudarc::driver::{CudaFunction, CudaSlice, CudaStream, DevicePtr, LaunchConfig, PushKernelArg};
use gmhclust_core::error::Result;
use gmhclust_core::mahalanobis::{BoundingBox, Distance, Problem};
use gmhclust_core::monitor::Monitor;
use gmhclust_core::Merge;

use super::arrays::{control, Arrays, Status, Tree, MOST_CLUSTERS, THREADS};
use super::start::Start;
use crate::device::{Device, DriverResult};
use crate::kernels::{self, Kernels};
use crate::mapped::MappedWords;
use crate::screen::Clusters;

/// Blocks for each multiprocessor that search at the start.
const SEARCHES: u32 = 4;

/// Time between two looks at the device's progress.
const POLL_INTERVAL: Duration = Duration::from_micros(100);

/// The modules by the most dimensions whose coordinates they keep in registers.
const FAMILIES: [(usize, &Kernels); 3] = [
    (16, &kernels::TREE_16),
    (32, &kernels::TREE_32),
    (64, &kernels::TREE_64),
];

/// Whether a device can grow the tree of a problem.
pub fn fits(problem: &Problem) -> bool {
    problem.options.distance == Distance::Centroid
        && problem.x.ncols() <= FAMILIES[FAMILIES.len() - 1].0
        && problem.clusters() <= MOST_CLUSTERS
}

/// The merges of a problem that fits ([`fits`]) in this box; `None` where the device cannot tell its
/// clusters apart in single precision.
///
/// # Errors
/// `Error::Interrupt` when `monitor` says stop, `Error::Memory` when the device has too little,
/// `Error::Device` when it fails.
pub fn grow(
    device: &Arc<Device>,
    problem: &Problem,
    bounding_box: &BoundingBox,
    monitor: &Monitor,
) -> Result<Option<Vec<Merge>>> {
    let p = problem.x.ncols();
    let (padded, module) = FAMILIES
        .into_iter()
        .find(|(most, _)| p <= *most)
        .expect("the problem fits");
    let start = Start::new(problem, bounding_box, padded, monitor)?;
    let failed = |error| device.error("growing a tree", &error);
    let mut growing = Growing::new(device, module, problem, start).map_err(failed)?;
    let status = growing.run(problem, monitor).map_err(failed)?;
    monitor.check()?;
    match status {
        Status::AllMerged => growing.merges().map(Some).map_err(failed),
        _ => Ok(None),
    }
}

/// A tree on the device.
struct Growing {
    device: Arc<Device>,
    stream: Arc<CudaStream>,
    grow: CudaFunction,
    search: CudaFunction,
    reshape_all: CudaFunction,
    enclose: CudaFunction,
    arrays: Arrays<CudaSlice<u8>>,
    tree: Tree,
    clusters: Clusters,
    start: Start,
    /// Addresses in `clusters` are of these, which live as long.
    _screen: [CudaSlice<u8>; 2],
    _slabs: CudaSlice<u64>,
    /// In the host's memory: merges done, and whether to stop.
    watch: MappedWords,
    /// Of a cooperative launch, one for each multiprocessor; and of others, some for each.
    blocks: u32,
}

impl Growing {
    fn new(
        device: &Arc<Device>,
        module: &'static Kernels,
        problem: &Problem,
        start: Start,
    ) -> DriverResult<Self> {
        let stream = device.context.new_stream()?;
        let sizes = start.sizes;
        // SAFETY: the kernels read what was written: by `fill` below, or by themselves.
        let allocate = |&bytes: &usize| unsafe { stream.alloc::<u8>(bytes.max(1)) };
        let arrays = sizes.bytes().try_map(allocate)?;
        let [rows, factors] = sizes.screen_bytes();
        let screen = [allocate(&rows)?, allocate(&factors)?];
        let [rows, factors] = [0, 1].map(|i: usize| screen[i].device_ptr(&stream).0);
        let slabs = stream.clone_htod(&[factors])?;
        let watch = MappedWords::new(&device.context, 2)?;
        let addresses = arrays.map(|array| array.device_ptr(&stream).0);
        let tree = start.tree(problem, addresses, watch.as_ptr() as u64);
        let clusters = Clusters {
            rows,
            slabs: slabs.device_ptr(&stream).0,
            capacity: sizes.capacity as u32,
            slab_shapes: u32::MAX,
            dimensions: sizes.dimensions as u32,
            member_distances: 0,
            balls: 0,
            tiles: 0,
        };
        let grow = device.try_kernel(module, "grow")?;
        let search = device.try_kernel(module, "start")?;
        let reshape_all = device.try_kernel(module, "reshape_all")?;
        let enclose = device.try_kernel(module, "enclose")?;
        allow_shared(&grow, sizes.chain_bytes().max(sizes.job_bytes()))?;
        allow_shared(&search, sizes.job_bytes())?;
        allow_shared(&reshape_all, sizes.reshape_bytes())?;
        let mut growing = Self {
            device: device.clone(),
            blocks: device.multiprocessors()?,
            grow,
            search,
            reshape_all,
            enclose,
            arrays,
            tree,
            clusters,
            start,
            _screen: screen,
            _slabs: slabs,
            watch,
            stream,
        };
        growing.fill()?;
        Ok(growing)
    }

    /// Launches a kernel that takes the tree and the clusters.
    fn launch(&self, kernel: &CudaFunction, blocks: u32, shared: usize) -> DriverResult<()> {
        let config = LaunchConfig {
            grid_dim: (blocks, 1, 1),
            block_dim: (THREADS, 1, 1),
            shared_mem_bytes: shared as u32,
        };
        let mut launch = self.stream.launch_builder(kernel);
        launch.arg(&self.tree).arg(&self.clusters);
        // SAFETY: the arguments are as declared in tree.cu, and all they name lives in `self`.
        unsafe { launch.launch(config)? };
        Ok(())
    }

    /// Draws the balls around all clusters, and searches for the nearest clusters of each.
    fn search(&self) -> DriverResult<()> {
        let sizes = &self.start.sizes;
        let balls = (sizes.balls() as u32).div_ceil(THREADS / 32);
        self.launch(&self.enclose, balls, 0)?;
        self.launch(&self.search, self.blocks * SEARCHES, sizes.job_bytes())
    }

    /// Copies the state at the start to the device.
    fn fill(&mut self) -> DriverResult<()> {
        let (stream, start) = (self.stream.clone(), &self.start);
        let stream = &stream;
        let arrays = &mut self.arrays;
        put(stream, &mut arrays.center, &start.center)?;
        put(stream, &mut arrays.means, &start.means)?;
        put(stream, &mut arrays.sizes, &start.members)?;
        put(stream, &mut arrays.shapes, &start.shapes)?;
        put(stream, &mut arrays.ids, &start.ids)?;
        put(stream, &mut arrays.orders, &start.positions)?;
        put(stream, &mut arrays.positions, &start.positions)?;
        put(stream, &mut arrays.slots_at, &start.slots_at)?;
        put(stream, &mut arrays.scatters, &start.scatters)?;
        put(stream, &mut arrays.factors, &start.factors)?;
        put(stream, &mut arrays.control, &start.control)?;
        put(stream, &mut arrays.tuning, &start.tuning)?;
        put(stream, &mut self._screen[0], &start.rows)?;
        put(stream, &mut self._screen[1], &start.screen_factors)?;
        let orders: Vec<u32> = (0..start.sizes.capacity as u32).collect();
        put(stream, &mut arrays.orders_at, &orders)?;
        self.search()?;
        // The host's copies must outlive the copying.
        stream.synchronize()
    }

    /// Launches the kernel until the tree is complete, or it says why not.
    fn run(&mut self, problem: &Problem, monitor: &Monitor) -> DriverResult<Status> {
        let n = problem.clusters() as u64;
        let mut reported = 0;
        let mut report = |merges: u64| {
            // Each merge compares its union with all clusters that are left; so does each cluster
            // at the start.
            let done = merges * n;
            monitor.advance(done.saturating_sub(reported));
            reported = reported.max(done);
        };
        loop {
            self.grow()?;
            self.wait(monitor, &mut report)?;
            let state: Vec<u32> = self.control()?;
            report(u64::from(state[control::MERGES]));
            if std::env::var_os("GMHCLUST_TREE_COUNTS").is_some() {
                let tuning: Vec<f64> = bytemuck::pod_collect_to_vec(&self.stream.clone_dtoh(&self.arrays.tuning)?);
                eprintln!("{:?} {:?}", &state, tuning);
            }
            match Status::of(state[control::STATUS]) {
                Some(Status::TimeIsUp) if !monitor.stopped() => {}
                Some(Status::AllFullSize) => self.start_anew()?,
                Some(Status::Stuck) => {
                    return CUresult::CUDA_ERROR_LAUNCH_TIMEOUT.result().map(|()| Status::Stuck)
                }
                Some(status) => return Ok(status),
                None => return Ok(Status::GaveUp),
            }
        }
    }

    /// Launches the blocks that make merges together.
    fn grow(&mut self) -> DriverResult<()> {
        let stream = &self.stream;
        stream.memset_zeros(&mut self.arrays.control.slice_mut(..4 * control::STATE_STARTS))?;
        stream.memset_zeros(&mut self.arrays.posted)?;
        stream.memset_zeros(&mut self.arrays.done)?;
        // Their next chunk is beyond the last one.
        let closed = vec![i32::MAX; self.arrays.sweeps.len() / size_of::<i32>()];
        put(stream, &mut self.arrays.sweeps, &closed)?;
        let sizes = &self.start.sizes;
        let config = LaunchConfig {
            grid_dim: (self.blocks, 1, 1),
            block_dim: (THREADS, 1, 1),
            shared_mem_bytes: sizes.chain_bytes().max(sizes.job_bytes()) as u32,
        };
        // SAFETY: as in `launch`.
        unsafe {
            stream
                .launch_builder(&self.grow)
                .arg(&self.tree)
                .arg(&self.clusters)
                .launch_cooperative(config)?;
        }
        Ok(())
    }

    /// Waits for the end of a launch. Meanwhile reports progress to the monitor, and an interrupt to
    /// the device.
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
                // SAFETY: the memory is the host's, and lives in `self`.
                unsafe { watch.add(1).write_volatile(1) };
            }
            // SAFETY: as above.
            report(u64::from(unsafe { watch.read_volatile() }));
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// The words of the state.
    fn control(&self) -> DriverResult<Vec<u32>> {
        let bytes = self.stream.clone_dtoh(&self.arrays.control)?;
        self.stream.synchronize()?;
        Ok(bytemuck::pod_collect_to_vec(&bytes))
    }

    /// Gives all clusters shapes that are full-size.
    fn start_anew(&mut self) -> DriverResult<()> {
        self.tree.all_full_size = 1;
        let shared = self.start.sizes.reshape_bytes();
        self.launch(&self.reshape_all, self.blocks, shared)?;
        self.search()
    }

    fn merges(&mut self) -> DriverResult<Vec<Merge>> {
        let stream = &self.stream;
        let heights = stream.clone_dtoh(&self.arrays.heights)?;
        let lower = stream.clone_dtoh(&self.arrays.lower)?;
        let higher = stream.clone_dtoh(&self.arrays.higher)?;
        stream.synchronize()?;
        let heights: Vec<f64> = bytemuck::pod_collect_to_vec(&heights);
        let lower: Vec<u32> = bytemuck::pod_collect_to_vec(&lower);
        let higher: Vec<u32> = bytemuck::pod_collect_to_vec(&higher);
        let pairs = lower.into_iter().zip(higher);
        let merge = |((lower, higher), height)| Merge {
            lower,
            higher,
            height,
        };
        let count = self.start.sizes.clusters - 1;
        Ok(pairs.zip(heights).take(count).map(merge).collect())
    }
}

/// Lets a kernel have more shared memory than by default.
fn allow_shared(kernel: &CudaFunction, bytes: usize) -> DriverResult<()> {
    kernel.set_attribute(
        cudarc::driver::sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
        bytes as i32,
    )
}

/// Copies values to the front of an array.
fn put<T: bytemuck::Pod>(
    stream: &Arc<CudaStream>,
    array: &mut CudaSlice<u8>,
    values: &[T],
) -> DriverResult<()> {
    if values.is_empty() {
        return Ok(());
    }
    let bytes: &[u8] = bytemuck::cast_slice(values);
    stream.memcpy_htod(bytes, &mut array.slice_mut(..bytes.len()))
}
