//! Assigns a device's observations to their nearest centers.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::result::memset_d8_async;
use cudarc::driver::{CudaFunction, CudaSlice, CudaStream, DevicePtrMut, PushKernelArg};

use super::candidates::CandidateSearch;
use super::launch::{config, NONE, ROWS, THREADS, TILE};
use super::lloyd::{Lloyd, BATCH_COORDINATES};
use super::near::{NearPolicy, NearSearch};
use super::observations::DeviceObservations;
use super::update::Members;
use crate::device::DriverResult;
use crate::policy;
use gmhclust_core::error::Result;
use gmhclust_core::kmeans::frame::Frame;
use gmhclust_core::monitor::Monitor;

/// Number of blocks of the kernel `decide` per multiprocessor, as many as are active at a time.
const DECIDING_BLOCKS: usize = 2;

/// 1 in this number of centers are compared with all observations before the first comparison in
/// half precision. If it is larger, the nearest of these centers is far, and many centers are
/// candidates. If it is smaller, the comparisons take long.
const FIRST_RATIO: u32 = 8;
/// Smallest number of centers for the comparison of [`FIRST_RATIO`].
const FIRST_CENTERS: u32 = 64;

/// How devices compare observations with centers before they compare in double precision.
#[derive(Debug, Clone, Copy)]
pub struct Comparison<'a> {
    /// The frame of the bounds in single and half precision.
    pub frame: &'a Frame,
    /// Whether devices with tensor cores compare in half precision first.
    pub in_halves: bool,
    pub near: NearPolicy,
}

/// The assignments of a device's share of the observations.
pub struct Assigner {
    convert_centers: CudaFunction,
    screen: CudaFunction,
    decide: CudaFunction,
    decide_few: CudaFunction,
    blocks_to_decide: usize,
    /// The kernels' argument with all sizes and constants. All addresses are 0.
    sizes: Lloyd,
    memory: AssignmentMemory,
    /// The comparisons with near centers, as long as they save time.
    near: Option<NearSearch>,
    /// The comparisons in half precision, as long as they save time.
    candidates: Option<CandidateSearch>,
    /// Whether all observations have a cluster.
    is_assigned: bool,
}

/// Device memory: see `Lloyd` in kmeans/launch.cuh.
struct AssignmentMemory {
    /// The number of the cluster of each observation, or [`NONE`]. Includes the observations that
    /// other devices assign.
    cluster: CudaSlice<u32>,
    /// Two words: whether an assignment has changed, and the number of open observations.
    flags: CudaSlice<u32>,
    open: CudaSlice<u32>,
    single_observations: CudaSlice<f32>,
    errors: CudaSlice<f32>,
    single_centers: CudaSlice<f32>,
    halves: CudaSlice<f32>,
    norms: CudaSlice<f32>,
    origin: CudaSlice<f64>,
}

impl AssignmentMemory {
    fn new(stream: &Arc<CudaStream>, frame: &Frame, sizes: &Lloyd) -> DriverResult<Self> {
        let p = sizes.columns as usize;
        let rows = sizes.tiles().max(1) * TILE;
        let centers = sizes.tiles_of_centers() * TILE;
        // SAFETY: the kernels write these before they read them.
        let singles = |count: usize| unsafe { stream.alloc::<f32>(count) };
        let memory = Self {
            cluster: nones(stream, sizes.rows as usize)?,
            flags: stream.alloc_zeros(2)?,
            // SAFETY: as above.
            open: unsafe { stream.alloc::<u32>(rows)? },
            // Kernels read whole tiles, and the last tile may have fewer rows.
            single_observations: stream.alloc_zeros(rows * p)?,
            errors: singles(rows)?,
            single_centers: singles(centers * p)?,
            halves: singles(centers)?,
            norms: singles(centers)?,
            origin: stream.clone_htod(&frame.origin)?,
        };
        // The copies in host memory must live until they have been transferred.
        stream.synchronize()?;
        Ok(memory)
    }
}

/// Device memory with `count` elements, all of them [`NONE`].
fn nones(stream: &Arc<CudaStream>, count: usize) -> DriverResult<CudaSlice<u32>> {
    // SAFETY: all elements are written below.
    let mut nones = unsafe { stream.alloc::<u32>(count)? };
    let bytes = count * size_of::<u32>();
    let address = nones.device_ptr_mut(stream).0;
    const _: () = assert!(NONE == u32::MAX, "all of its bytes are 255");
    // SAFETY: the memory has this size.
    unsafe { memset_d8_async(address, u8::MAX, bytes, stream.cu_stream())? };
    Ok(nones)
}

impl Assigner {
    /// An assigner of the observations in `assigned` to these centers.
    pub fn new(
        observations: &DeviceObservations,
        comparison: Comparison,
        centers: &CudaSlice<f64>,
        assigned: &Range<usize>,
    ) -> Result<Self> {
        let Comparison {
            frame,
            in_halves,
            near,
        } = comparison;
        let (n, p) = (observations.rows, observations.columns);
        let sizes = Lloyd::new(frame, n, centers.len() / p, assigned);
        let allocate = || -> DriverResult<_> {
            let memory = AssignmentMemory::new(&observations.stream, frame, &sizes)?;
            Ok((memory, observations.device.multiprocessors()?))
        };
        let allocated = allocate().map_err(|error| observations.error(&error))?;
        let (memory, multiprocessors) = allocated;
        let mut assigner = Self {
            convert_centers: observations.kernel("convert_centers")?,
            screen: observations.kernel("screen")?,
            decide: observations.kernel("decide")?,
            decide_few: observations.kernel("decide_few")?,
            blocks_to_decide: DECIDING_BLOCKS * multiprocessors as usize,
            sizes,
            memory,
            near: None,
            candidates: None,
            is_assigned: false,
        };
        let convert = observations.kernel("convert_observations")?;
        if !assigned.is_empty() {
            let lloyd = assigner.lloyd(observations, centers);
            let launched = assigner.launch(observations, &convert, &lloyd, sizes.tiles(), TILE);
            launched.map_err(|error| observations.error(&error))?;
            if in_halves {
                assigner.candidates = CandidateSearch::new(observations, frame, &lloyd)?;
            }
        }
        if assigned.len() == n {
            assigner.near = NearSearch::new(observations, centers.len() / p, near)?;
        }
        Ok(assigner)
    }

    /// Whether observations may be compared with the centers near their own.
    pub fn compares_near(&self) -> bool {
        self.near.is_some()
    }

    /// Sets the clusters of all observations before the first assignment.
    pub fn start_at(&mut self, clusters: CudaSlice<u32>) {
        self.memory.cluster = clusters;
    }

    /// The number of the cluster of each observation.
    pub fn cluster(&self) -> &CudaSlice<u32> {
        &self.memory.cluster
    }

    fn lloyd(&self, observations: &DeviceObservations, centers: &CudaSlice<f64>) -> Lloyd {
        let (at, memory) = (observations, &self.memory);
        Lloyd {
            x: at.at(&at.values),
            centers: at.at(centers),
            cluster: at.at(&memory.cluster),
            changed: at.at(&memory.flags),
            open: at.at(&memory.open),
            open_count: at.at(&memory.flags) + size_of::<u32>() as u64,
            single_observations: at.at(&memory.single_observations),
            errors: at.at(&memory.errors),
            single_centers: at.at(&memory.single_centers),
            halves: at.at(&memory.halves),
            norms: at.at(&memory.norms),
            origin: at.at(&memory.origin),
            ..self.sizes
        }
    }

    fn launch(
        &self,
        observations: &DeviceObservations,
        kernel: &CudaFunction,
        lloyd: &Lloyd,
        blocks: usize,
        threads: usize,
    ) -> DriverResult<()> {
        let mut launch = observations.stream.launch_builder(kernel);
        let config = config(blocks as u32, threads as u32);
        // SAFETY: arguments as declared in kmeans/launch.cuh; all arrays have the sizes given by
        // `lloyd`, and live as long as `self` and the observations, whose later work on them is on
        // the same stream.
        unsafe { launch.arg(lloyd).launch(config)? };
        Ok(())
    }

    /// Assigns the observations to these centers. Returns whether any assignment has changed. The
    /// first assignment counts as a change. `sorted` has the observations sorted by their present
    /// clusters, if they are sorted.
    ///
    /// # Errors
    /// `Error::Interrupt` when the monitor says stop; `Error::Device` when the device fails.
    pub fn assign(
        &mut self,
        observations: &DeviceObservations,
        centers: &CudaSlice<f64>,
        sorted: Option<&Members>,
        monitor: &Monitor,
    ) -> Result<bool> {
        let failed = |error| observations.error(&error);
        let lloyd = self.lloyd(observations, centers);
        let zeroed = observations.stream.memset_zeros(&mut self.memory.flags);
        zeroed.map_err(failed)?;
        let assigned = match sorted {
            Some(sorted) => self.assign_to_near(observations, &lloyd, sorted)?,
            None => false,
        };
        if !assigned && !self.assign_by_candidates(observations, &lloyd, monitor)? {
            self.assign_by_screen(observations, &lloyd, monitor)?;
        }
        let is_first = !std::mem::replace(&mut self.is_assigned, true);
        let mut flags = [0; 2];
        observations.fetch(&self.memory.flags.as_view(), &mut flags)?;
        Ok(flags[0] != 0 || is_first)
    }

    /// Compares the observations with the centers near their own, in double precision. Returns
    /// `false` if there are too many near centers, or if too many observations stay open.
    fn assign_to_near(
        &mut self,
        observations: &DeviceObservations,
        lloyd: &Lloyd,
        sorted: &Members,
    ) -> Result<bool> {
        let Some(near) = &mut self.near else {
            return Ok(false);
        };
        if !near.assign(observations, lloyd, sorted)? {
            // Drawn centers are farther from their members than means are.
            if self.is_assigned {
                self.near = None;
            }
            return Ok(false);
        }
        self.decide_open(observations, lloyd)
    }

    /// Compares the observations with the centers in half precision, and open observations in
    /// double precision. Returns `false` if too many observations stay open.
    fn assign_by_candidates(
        &mut self,
        observations: &DeviceObservations,
        lloyd: &Lloyd,
        monitor: &Monitor,
    ) -> Result<bool> {
        if self.candidates.is_none() {
            return Ok(false);
        }
        if !self.is_assigned {
            // The distance to the nearest of some centers gives a first threshold.
            let some = (lloyd.clusters / FIRST_RATIO).max(FIRST_CENTERS);
            if some >= lloyd.clusters {
                return Ok(false);
            }
            let some = Lloyd {
                clusters: some,
                ..*lloyd
            };
            self.assign_by_screen(observations, &some, monitor)?;
        }
        let failed = |error| observations.error(&error);
        let stream = &observations.stream;
        let mut open_count = self.memory.flags.slice_mut(1..2);
        stream.memset_zeros(&mut open_count).map_err(failed)?;
        if let Some(search) = &self.candidates {
            search.assign(observations, lloyd, monitor)?;
        }
        let decided = self.decide_open(observations, lloyd)?;
        // In the first iteration, the observations may be open because the first thresholds are
        // high.
        if !decided && self.is_assigned {
            self.candidates = None;
        }
        Ok(decided)
    }

    /// Compares the open observations with all centers in double precision. Returns `false` if
    /// there are too many open observations.
    fn decide_open(&self, observations: &DeviceObservations, lloyd: &Lloyd) -> Result<bool> {
        let mut open = [0];
        observations.fetch(&self.memory.flags.slice(1..2), &mut open)?;
        let open = open[0] as usize;
        if open > lloyd.assigned() / policy::KMEANS_OPEN_RATIO {
            return Ok(false);
        }
        if open > 0 {
            let (kernel, blocks) = if open <= policy::KMEANS_FEW_OPEN {
                (&self.decide_few, open)
            } else {
                (&self.decide, open.div_ceil(ROWS).min(self.blocks_to_decide))
            };
            let decided = self.launch(observations, kernel, lloyd, blocks, THREADS);
            decided.map_err(|error| observations.error(&error))?;
        }
        Ok(true)
    }

    /// Compares the observations with the centers in single precision, and open observations in
    /// double precision.
    fn assign_by_screen(
        &mut self,
        observations: &DeviceObservations,
        lloyd: &Lloyd,
        monitor: &Monitor,
    ) -> Result<()> {
        let failed = |error| observations.error(&error);
        let stream = &observations.stream;
        let of_centers = lloyd.tiles_of_centers();
        let convert = &self.convert_centers;
        let converted = self.launch(observations, convert, lloyd, of_centers, TILE);
        converted.map_err(failed)?;
        let at_a_time = lloyd.clusters as usize * lloyd.columns as usize * TILE;
        let at_a_time = (BATCH_COORDINATES / at_a_time).clamp(1 << 7, i32::MAX as usize / TILE);
        for tile in (0..lloyd.tiles()).step_by(at_a_time) {
            monitor.check()?;
            let tiles = at_a_time.min(lloyd.tiles() - tile);
            let part = Lloyd {
                offset: (tile * TILE) as u32,
                ..*lloyd
            };
            let blocks = (tiles * TILE).div_ceil(ROWS);
            let blocks = blocks.min(self.blocks_to_decide);
            let mut open_count = self.memory.flags.slice_mut(1..2);
            stream
                .memset_zeros(&mut open_count)
                .and_then(|()| self.launch(observations, &self.screen, &part, tiles, THREADS))
                .and_then(|()| self.launch(observations, &self.decide, &part, blocks, THREADS))
                .and_then(|()| stream.synchronize())
                .map_err(failed)?;
        }
        Ok(())
    }
}
