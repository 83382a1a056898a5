//! Assigns a device's observations to their nearest centers.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaSlice, CudaStream, PushKernelArg};

use super::launch::{config, NONE, ROWS, THREADS, TILE};
use super::observations::DeviceObservations;
use crate::arguments::arguments;
use crate::device::DriverResult;
use gmhclust_core::error::Result;
use gmhclust_core::kmeans::frame::Frame;
use gmhclust_core::kmeans::margin::{Margin, UNDERFLOW};
use gmhclust_core::monitor::Monitor;
use gmhclust_core::single_precision::TINY;

/// Number of pairs of coordinates of a launch, which takes a fraction of a second. If larger, an
/// interrupt is answered late.
const BATCH_COORDINATES: usize = 1 << 40;

/// Number of blocks of the kernel `decide` per multiprocessor: as many as fit there.
const DECIDING_BLOCKS: usize = 2;

arguments! {
    /// As in kmeans_launch.cuh.
    pub struct Lloyd {
        pub x: u64,
        pub centers: u64,
        pub cluster: u64,
        pub changed: u64,
        pub open: u64,
        pub open_count: u64,
        pub single_observations: u64,
        pub errors: u64,
        pub single_centers: u64,
        pub halves: u64,
        pub norms: u64,
        pub origin: u64,
        pub unit: f64,
        pub smallest: f64,
        pub share: f64,
        pub tiny: f64,
        pub rounding: f64,
        pub margin: f64,
        pub underflow: f64,
        pub rows: u32,
        pub columns: u32,
        pub clusters: u32,
        pub first: u32,
        pub last: u32,
        pub offset: u32,
    }
}

impl Lloyd {
    /// Sizes and the constants of bounds; all addresses are 0.
    pub fn new(frame: &Frame, n: usize, clusters: usize, assigned: &Range<usize>) -> Self {
        let columns = frame.origin.len();
        Self {
            x: 0,
            centers: 0,
            cluster: 0,
            changed: 0,
            open: 0,
            open_count: 0,
            single_observations: 0,
            errors: 0,
            single_centers: 0,
            halves: 0,
            norms: 0,
            origin: 0,
            unit: frame.unit,
            smallest: TINY,
            share: frame.share,
            tiny: frame.tiny(),
            rounding: frame.rounding(),
            margin: Margin::new(columns).0,
            underflow: UNDERFLOW,
            rows: n as u32,
            columns: columns as u32,
            clusters: clusters as u32,
            first: assigned.start as u32,
            last: assigned.end as u32,
            offset: 0,
        }
    }

    /// Number of the observations to assign.
    fn assigned(&self) -> usize {
        (self.last - self.first) as usize
    }

    /// Number of tiles of these observations.
    pub fn tiles(&self) -> usize {
        self.assigned().div_ceil(TILE)
    }

    /// Number of tiles of the centers.
    pub fn tiles_of_centers(&self) -> usize {
        (self.clusters as usize).div_ceil(TILE)
    }
}

/// The assignments of a device's share of the observations.
pub struct Assigner {
    convert_centers: CudaFunction,
    screen: CudaFunction,
    decide: CudaFunction,
    blocks_to_decide: usize,
    /// Sizes and constants, without addresses.
    sizes: Lloyd,
    memory: AssignmentMemory,
}

/// Device memory: see `Lloyd` in kmeans_launch.cuh.
struct AssignmentMemory {
    /// By observation, also of those that other devices assign: the number of its cluster, or
    /// [`NONE`].
    cluster: CudaSlice<u32>,
    changed: CudaSlice<u32>,
    open: CudaSlice<u32>,
    open_count: CudaSlice<u32>,
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
        let none = vec![NONE; sizes.rows as usize];
        let memory = Self {
            cluster: stream.clone_htod(&none)?,
            changed: stream.alloc_zeros(1)?,
            // SAFETY: as above.
            open: unsafe { stream.alloc::<u32>(rows)? },
            open_count: stream.alloc_zeros(1)?,
            // The last tile may have fewer rows.
            single_observations: stream.alloc_zeros(rows * p)?,
            errors: singles(rows)?,
            single_centers: singles(centers * p)?,
            halves: singles(centers)?,
            norms: singles(centers)?,
            origin: stream.clone_htod(&frame.origin)?,
        };
        // The host's copies must outlive the copying.
        stream.synchronize()?;
        Ok(memory)
    }
}

impl Assigner {
    /// For the observations in `assigned`, and these centers.
    pub fn new(
        observations: &DeviceObservations,
        frame: &Frame,
        centers: &CudaSlice<f64>,
        assigned: &Range<usize>,
    ) -> Result<Self> {
        let (n, p) = observations.x.dim();
        let sizes = Lloyd::new(frame, n, centers.len() / p, assigned);
        let allocate = || -> DriverResult<_> {
            let memory = AssignmentMemory::new(&observations.stream, frame, &sizes)?;
            Ok((memory, observations.device.multiprocessors()?))
        };
        let allocated = allocate().map_err(|error| observations.error(&error))?;
        let (memory, multiprocessors) = allocated;
        let assigner = Self {
            convert_centers: observations.kernel("convert_centers")?,
            screen: observations.kernel("screen")?,
            decide: observations.kernel("decide")?,
            blocks_to_decide: DECIDING_BLOCKS * multiprocessors as usize,
            sizes,
            memory,
        };
        let convert = observations.kernel("convert_observations")?;
        if !assigned.is_empty() {
            let lloyd = assigner.lloyd(observations, centers);
            let launched = assigner.launch(observations, &convert, &lloyd, sizes.tiles(), TILE);
            launched.map_err(|error| observations.error(&error))?;
        }
        Ok(assigner)
    }

    /// By observation, the number of its cluster.
    pub fn cluster(&self) -> &CudaSlice<u32> {
        &self.memory.cluster
    }

    fn lloyd(&self, observations: &DeviceObservations, centers: &CudaSlice<f64>) -> Lloyd {
        let (at, memory) = (observations, &self.memory);
        Lloyd {
            x: at.at(&at.values),
            centers: at.at(centers),
            cluster: at.at(&memory.cluster),
            changed: at.at(&memory.changed),
            open: at.at(&memory.open),
            open_count: at.at(&memory.open_count),
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
        // SAFETY: arguments as declared in kmeans_launch.cuh; all arrays have the sizes given by
        // `lloyd`, and live as long as `self` and the observations, whose later work on them is on
        // the same stream.
        unsafe { launch.arg(lloyd).launch(config)? };
        Ok(())
    }

    /// Assigns the observations to these centers; returns whether any assignment has changed.
    pub fn assign(
        &mut self,
        observations: &DeviceObservations,
        centers: &CudaSlice<f64>,
        monitor: &Monitor,
    ) -> Result<bool> {
        let failed = |error| observations.error(&error);
        let lloyd = self.lloyd(observations, centers);
        let stream = &observations.stream;
        let zeroed = stream.memset_zeros(&mut self.memory.changed);
        zeroed.map_err(failed)?;
        let tiles_of_centers = lloyd.tiles_of_centers();
        let converted = self.launch(
            observations,
            &self.convert_centers,
            &lloyd,
            tiles_of_centers,
            TILE,
        );
        converted.map_err(failed)?;
        let at_a_time = BATCH_COORDINATES / (centers.len() * TILE);
        let at_a_time = at_a_time.clamp(1 << 7, i32::MAX as usize / TILE);
        for tile in (0..lloyd.tiles()).step_by(at_a_time) {
            monitor.check()?;
            let tiles = at_a_time.min(lloyd.tiles() - tile);
            let part = Lloyd {
                offset: (tile * TILE) as u32,
                ..lloyd
            };
            let blocks = (tiles * TILE).div_ceil(ROWS);
            let blocks = blocks.min(self.blocks_to_decide);
            stream
                .memset_zeros(&mut self.memory.open_count)
                .and_then(|()| self.launch(observations, &self.screen, &part, tiles, THREADS))
                .and_then(|()| self.launch(observations, &self.decide, &part, blocks, THREADS))
                .and_then(|()| stream.synchronize())
                .map_err(failed)?;
        }
        let mut changed = [0];
        observations.fetch(&self.memory.changed.as_view(), &mut changed)?;
        Ok(changed != [0])
    }
}
