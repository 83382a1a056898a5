//! Compares a device's observations with the centers in half precision, on tensor cores.
//!
//! The distance of an observation from its own center gives a threshold on sums of products. A
//! center is a candidate if its sum is below the threshold. Few are, and only candidates are
//! compared in double precision. `Frame::share_of_halves` derives the thresholds.

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaSlice, CudaStream, PushKernelArg};

use super::launch::{config, THREADS, THRESHOLD_LANES, WARP};
use super::lloyd::{Lloyd, BATCH_COORDINATES};
use super::observations::DeviceObservations;
use crate::arguments::arguments;
use crate::device::{unless_short, Device, DriverResult};
use crate::neighbours::halves::STEP;
use crate::neighbours::layout::SCALARS;
use crate::neighbours::products::{self, Collect};
use crate::neighbours::sweep::Sweep;
use gmhclust_core::error::Result;
use gmhclust_core::kmeans::frame::Frame;
use gmhclust_core::monitor::Monitor;

/// Largest number of observations of a batch. If it is larger, the candidates take more memory. If
/// it is smaller, multiprocessors are idle at the end of each batch.
const BATCH: usize = 1 << 18;

/// Largest number of candidates of an observation. If it is larger, candidates take more memory.
///
/// In the first iteration, which knows only the nearest of some centers, 1 in 5,000 observations of
/// cells has more candidates. In the second iteration, 1 in 1,000 observations has more than 16.
const ROOM: usize = 64;

arguments! {
    /// As in kmeans/launch.cuh.
    pub struct Candidates {
        pub observations: u64,
        pub centers: u64,
        pub numbers: u64,
        pub thresholds: u64,
        pub zeros: u64,
        pub counts: u64,
        pub found: u64,
        pub share: f64,
        pub tiny: f64,
        pub width: u32,
        pub room: u32,
        pub rows: u32,
    }
}

impl Candidates {
    /// The kernels' argument with sizes and the constants of bounds. All addresses are 0.
    pub fn new(frame: &Frame, room: usize) -> Self {
        Self {
            observations: 0,
            centers: 0,
            numbers: 0,
            thresholds: 0,
            zeros: 0,
            counts: 0,
            found: 0,
            share: frame.share_of_halves(),
            tiny: frame.tiny_of_halves(),
            width: frame.origin.len().next_multiple_of(STEP) as u32,
            room: room as u32,
            rows: 0,
        }
    }

    /// Distance between the rows of two consecutive centers, in `f32` values.
    pub fn step(&self) -> usize {
        self.width as usize / 2 + SCALARS
    }
}

/// Bytes of device memory for this number of observations and centers.
pub fn bytes(observations: usize, centers: usize, columns: usize) -> usize {
    let row = 2 * columns.next_multiple_of(STEP);
    observations * row
        + centers * (row + 4 * SCALARS + 4)
        + observations.min(BATCH) * 8 * (ROOM + 2)
}

/// Compares a device's share of the observations with the centers in half precision.
pub struct CandidateSearch {
    convert_centers: CudaFunction,
    find_thresholds: CudaFunction,
    collect: Collect,
    decide_candidates: CudaFunction,
    sizes: Candidates,
    memory: CandidateMemory,
}

/// Device memory: see `Candidates` in kmeans/launch.cuh.
struct CandidateMemory {
    observations: CudaSlice<u16>,
    centers: CudaSlice<f32>,
    numbers: CudaSlice<u32>,
    thresholds: CudaSlice<f32>,
    zeros: CudaSlice<f32>,
    counts: CudaSlice<u32>,
    found: CudaSlice<u64>,
}

impl CandidateMemory {
    fn new(stream: &Arc<CudaStream>, sizes: &Candidates, lloyd: &Lloyd) -> DriverResult<Self> {
        let (rows, centers) = (lloyd.assigned(), lloyd.clusters as usize);
        let batch = rows.clamp(1, BATCH);
        // SAFETY: the kernels write all of these before they read them.
        unsafe {
            Ok(Self {
                observations: stream.alloc(rows.max(1) * sizes.width as usize)?,
                centers: stream.alloc(centers * sizes.step())?,
                numbers: stream.alloc(centers)?,
                thresholds: stream.alloc(batch)?,
                zeros: stream.alloc(batch)?,
                counts: stream.alloc(batch)?,
                found: stream.alloc(batch * ROOM)?,
            })
        }
    }
}

impl CandidateSearch {
    /// A search for the observations of `lloyd`. Returns `None` if the device has no tensor cores
    /// or too little memory, or if the frame has no scale because all coordinates are 0.
    ///
    /// # Errors
    /// `Error::Device` when the device fails.
    pub fn new(at: &DeviceObservations, frame: &Frame, lloyd: &Lloyd) -> Result<Option<Self>> {
        let needed = bytes(
            lloyd.assigned(),
            lloyd.clusters as usize,
            frame.origin.len(),
        );
        if frame.scale == 0.0 || !suits(at.device, needed)? {
            return Ok(None);
        }
        let sizes = Candidates::new(frame, ROOM);
        let memory = CandidateMemory::new(&at.stream, &sizes, lloyd);
        // Others may have taken the memory since `suits`.
        let Some(memory) = unless_short(memory.map_err(|error| at.error(&error)))? else {
            return Ok(None);
        };
        let search = Self {
            convert_centers: at.kernel("convert_centers_to_halves")?,
            find_thresholds: at.kernel("find_thresholds")?,
            collect: Collect::of_sums(at.device, false, sizes.width as usize)?,
            decide_candidates: at.kernel("decide_candidates")?,
            sizes,
            memory,
        };
        let halves = lloyd.assigned() * sizes.width as usize;
        let convert = at.kernel("convert_observations_to_halves")?;
        let candidates = search.candidates(at);
        let converted = launch(at, &convert, lloyd, &candidates, halves.div_ceil(THREADS));
        converted.map_err(|error| at.error(&error))?;
        Ok(Some(search))
    }

    /// The kernels' argument, without the number of observations of a batch.
    fn candidates(&self, at: &DeviceObservations) -> Candidates {
        let memory = &self.memory;
        Candidates {
            observations: at.at(&memory.observations),
            centers: at.at(&memory.centers),
            numbers: at.at(&memory.numbers),
            thresholds: at.at(&memory.thresholds),
            zeros: at.at(&memory.zeros),
            counts: at.at(&memory.counts),
            found: at.at(&memory.found),
            ..self.sizes
        }
    }

    /// Assigns the observations of `lloyd` to their nearest centers, given their present clusters.
    /// Adds observations with too many candidates to the open observations. Does not wait for the
    /// end of the last batches.
    ///
    /// # Errors
    /// `Error::Interrupt` when the monitor says stop; `Error::Device` when the device fails.
    pub fn assign(&self, at: &DeviceObservations, lloyd: &Lloyd, monitor: &Monitor) -> Result<()> {
        let centers = lloyd.clusters as usize * lloyd.columns as usize;
        let batches = (BATCH_COORDINATES / (centers * BATCH)).max(1);
        let failed = |error| at.error(&error);
        let candidates = self.candidates(at);
        let rows = lloyd.assigned();
        let warps = THREADS / WARP as usize;
        let blocks = (lloyd.clusters as usize).div_ceil(warps);
        launch(at, &self.convert_centers, lloyd, &candidates, blocks).map_err(failed)?;
        for (number, first) in (0..rows).step_by(BATCH).enumerate() {
            if number % batches == batches - 1 {
                at.stream.synchronize().map_err(failed)?;
            }
            monitor.check()?;
            let count = BATCH.min(rows - first);
            let lloyd = Lloyd {
                offset: first as u32,
                ..*lloyd
            };
            let candidates = Candidates {
                rows: count as u32,
                ..candidates
            };
            self.assign_batch(at, &lloyd, &candidates).map_err(failed)?;
        }
        Ok(())
    }

    fn assign_batch(
        &self,
        at: &DeviceObservations,
        lloyd: &Lloyd,
        candidates: &Candidates,
    ) -> DriverResult<()> {
        let rows = candidates.rows as usize;
        let blocks = (rows * THRESHOLD_LANES).div_ceil(THREADS);
        launch(at, &self.find_thresholds, lloyd, candidates, blocks)?;
        // SAFETY: all arrays have the sizes given by the sweep, and live as long as `self` and the
        // observations. All later work on these arrays is on the same stream.
        unsafe {
            let sweep = sweep(lloyd, candidates);
            self.collect.launch(&at.stream, &sweep)?;
        }
        let blocks = rows.div_ceil(THREADS);
        launch(at, &self.decide_candidates, lloyd, candidates, blocks)
    }
}

/// The argument of `collect` for a batch. The centers are the references. Each center is a group of
/// its own, so that an observation excludes its own center.
pub fn sweep(lloyd: &Lloyd, candidates: &Candidates) -> Sweep {
    let (width, step) = (candidates.width, candidates.step() as u64);
    let first = u64::from(lloyd.first) + u64::from(lloyd.offset);
    Sweep {
        shrink: 0.0,
        margin: 0.0,
        references: candidates.centers,
        groups: candidates.numbers,
        queries: candidates.observations + 2 * u64::from(lloyd.offset) * u64::from(width),
        query_groups: lloyd.cluster + 4 * first,
        // Slopes are 0, so their factors may be any number.
        slopes: candidates.zeros,
        bases: candidates.thresholds,
        candidates: candidates.found,
        floors: 0,
        counts: candidates.counts,
        kept: 0,
        stride: 1,
        step,
        query_stride: 0,
        query_step: u64::from(width / 2),
        columns: width / 2,
        query_count: candidates.rows,
        kind: 0,
        capacity: 0,
        room: candidates.room,
        first: 0,
        last: lloyd.clusters,
    }
}

/// Whether a device has tensor cores for half precision, and `bytes` of free memory.
fn suits(device: &Device, bytes: usize) -> Result<bool> {
    Ok(products::suits(device)? && device.has_memory(bytes)?)
}

fn launch(
    at: &DeviceObservations,
    kernel: &CudaFunction,
    lloyd: &Lloyd,
    candidates: &Candidates,
    blocks: usize,
) -> DriverResult<()> {
    if blocks == 0 {
        return Ok(());
    }
    let mut launch = at.stream.launch_builder(kernel);
    let config = config(blocks as u32, THREADS as u32);
    // SAFETY: arguments as declared in kmeans/launch.cuh; all arrays have the sizes given there,
    // and live as long as the search and the observations. All later work on these arrays is on the
    // same stream.
    unsafe { launch.arg(lloyd).arg(candidates).launch(config)? };
    Ok(())
}
