//! Observations in groups, for draws of many centers: a draw reads few of the groups.

use cudarc::driver::{CudaFunction, CudaSlice, LaunchConfig, PushKernelArg};

use super::codes::Codes;
use super::launch::{config, BINS, PIECE, THREADS, WARP, WEIGH_WARPS};
use super::observations::DeviceObservations;
use super::seeding::{Groups, Seeding};
use crate::device::DriverResult;
use gmhclust_core::error::Result;
use gmhclust_core::kmeans::CHUNK;

/// Number of blocks, for each multiprocessor, of a kernel that works on a list. About this number
/// of blocks can be active at a time.
const BLOCKS_EACH: u32 = 16;

/// Observations in groups, on a device.
pub struct GroupedObservations {
    kernels: GroupKernels,
    memory: GroupsMemory,
    codes: Option<Codes>,
    /// Number of groups; 0 before the first [`Self::sort`].
    groups: usize,
    multiprocessors: u32,
}

struct GroupKernels {
    find_greatest: CudaFunction,
    count_bins: CudaFunction,
    fill_bins: CudaFunction,
    open_groups: CudaFunction,
    /// The kernel that compares all observations of the pieces, or the kernel that compares their
    /// codes first.
    weigh_pieces: CudaFunction,
    sum_changed: CudaFunction,
    sum_parts: CudaFunction,
}

struct GroupsMemory {
    sorted: CudaSlice<u32>,
    squares: CudaSlice<f64>,
    greatest: CudaSlice<f64>,
    ends: CudaSlice<u32>,
    pieces: CudaSlice<u64>,
    of_pieces: CudaSlice<u32>,
    changed: CudaSlice<u32>,
    is_changed: CudaSlice<u32>,
    counts: CudaSlice<u32>,
}

/// Replaces the sizes of bins by their starts: an exclusive prefix sum.
pub fn to_starts(sizes: &mut [u32]) {
    let mut start = 0;
    for size in sizes {
        start += std::mem::replace(size, start);
    }
}

impl GroupedObservations {
    /// Memory for observations in at most `most` groups. Observations have codes if
    /// `may_have_codes` and the device has the memory.
    ///
    /// # Errors
    /// `Error::Device` when the device fails.
    pub fn new(
        observations: &DeviceObservations,
        most: usize,
        may_have_codes: bool,
    ) -> Result<Self> {
        let kernel = |name| observations.kernel(name);
        let mut kernels = GroupKernels {
            find_greatest: kernel("find_greatest")?,
            count_bins: kernel("count_bins")?,
            fill_bins: kernel("fill_bins")?,
            open_groups: kernel("open_groups")?,
            weigh_pieces: kernel("weigh_pieces")?,
            sum_changed: kernel("sum_changed")?,
            sum_parts: kernel("sum_parts")?,
        };
        let (stream, n) = (&observations.stream, observations.rows);
        let allocated = || -> DriverResult<_> {
            // SAFETY: `sort` writes both arrays before kernels read them.
            let (sorted, squares) = unsafe { (stream.alloc(n)?, stream.alloc(n)?) };
            // SAFETY: as above, and kernels read only the pieces and chunks that were listed.
            let (pieces, of_pieces, changed) = unsafe {
                (
                    stream.alloc(most + n.div_ceil(PIECE))?,
                    stream.alloc(most + n.div_ceil(PIECE))?,
                    stream.alloc(n.div_ceil(CHUNK))?,
                )
            };
            let memory = GroupsMemory {
                sorted,
                squares,
                pieces,
                of_pieces,
                changed,
                greatest: stream.alloc_zeros(most)?,
                ends: stream.alloc_zeros(most * BINS)?,
                is_changed: stream.alloc_zeros(n.div_ceil(CHUNK))?,
                counts: stream.alloc_zeros(2)?,
            };
            Ok((memory, observations.device.multiprocessors()?))
        };
        let (memory, multiprocessors) = allocated().map_err(|error| observations.error(&error))?;
        // Codes are optional, so the groups get their memory first.
        let mut codes = None;
        if may_have_codes {
            codes = Codes::new(observations, most)?;
        }
        if codes.is_some() {
            kernels.weigh_pieces = kernel("weigh_codes")?;
        }
        Ok(Self {
            kernels,
            memory,
            codes,
            groups: 0,
            multiprocessors,
        })
    }

    pub fn have_codes(&self) -> bool {
        self.codes.is_some()
    }

    /// Sorts the observations by the nearest of the first `groups` centers.
    ///
    /// # Errors
    /// `Error::Device` when the device fails.
    pub fn sort(
        &mut self,
        observations: &DeviceObservations,
        seeding: &Seeding,
        groups: usize,
    ) -> Result<()> {
        let sorted = self.sort_on_device(observations, seeding, groups);
        sorted.map_err(|error| observations.error(&error))
    }

    fn sort_on_device(
        &mut self,
        observations: &DeviceObservations,
        seeding: &Seeding,
        groups: usize,
    ) -> DriverResult<()> {
        let stream = &observations.stream;
        stream.memset_zeros(&mut self.memory.greatest)?;
        stream.memset_zeros(&mut self.memory.ends)?;
        self.groups = groups;
        let arguments = (seeding, &self.arguments(observations));
        let each = config(seeding.rows.div_ceil(THREADS as u32), THREADS as u32);
        let kernels = &self.kernels;
        run(observations, &kernels.find_greatest, each, arguments)?;
        run(observations, &kernels.count_bins, each, arguments)?;
        let mut bins = self.memory.ends.slice_mut(..groups * BINS);
        let mut starts = stream.clone_dtoh(&bins)?;
        stream.synchronize()?;
        to_starts(&mut starts);
        let sent = stream.memcpy_htod(&starts, &mut bins);
        // The copy in host memory must live until it has been transferred.
        sent.and(stream.synchronize())?;
        run(observations, &kernels.fill_bins, each, arguments)?;
        run(observations, &kernels.sum_parts, parts(seeding), arguments)
    }

    /// Launches the kernels that update the weights of the observations after center `number` was
    /// drawn.
    pub fn weigh(
        &self,
        observations: &DeviceObservations,
        seeding: &Seeding,
        number: u32,
    ) -> DriverResult<()> {
        let kernels = &self.kernels;
        let arguments = (seeding, &self.arguments(observations));
        let groups = config(
            (self.groups as u32).div_ceil(THREADS as u32),
            THREADS as u32,
        );
        let lists = config(BLOCKS_EACH * self.multiprocessors, WEIGH_WARPS * WARP);
        for (kernel, size) in [
            (&kernels.open_groups, groups),
            (&kernels.weigh_pieces, lists),
        ] {
            let mut launch = observations.stream.launch_builder(kernel);
            launch.arg(arguments.0).arg(arguments.1).arg(&number);
            // SAFETY: as in `run`.
            unsafe { launch.launch(size)? };
        }
        run(observations, &kernels.sum_changed, lists, arguments)?;
        run(observations, &kernels.sum_parts, parts(seeding), arguments)
    }

    fn arguments(&self, observations: &DeviceObservations) -> Groups {
        let memory = &self.memory;
        let mut groups = Groups {
            sorted: observations.at(&memory.sorted),
            squares: observations.at(&memory.squares),
            greatest: observations.at(&memory.greatest),
            ends: observations.at(&memory.ends),
            pieces: observations.at(&memory.pieces),
            of_pieces: observations.at(&memory.of_pieces),
            changed: observations.at(&memory.changed),
            is_changed: observations.at(&memory.is_changed),
            counts: observations.at(&memory.counts),
            codes: 0,
            center_codes: 0,
            groups: self.groups as u32,
            quads: 0,
        };
        if let Some(codes) = &self.codes {
            codes.add_to(observations, &mut groups);
        }
        groups
    }
}

/// The launch configuration with a warp for each sum of sums.
fn parts(seeding: &Seeding) -> LaunchConfig {
    let parts = (seeding.rows as usize).div_ceil(CHUNK * CHUNK) as u32;
    config(parts.div_ceil(WEIGH_WARPS), WEIGH_WARPS * WARP)
}

/// Launches a kernel with two arguments.
fn run(
    observations: &DeviceObservations,
    kernel: &CudaFunction,
    size: LaunchConfig,
    (seeding, groups): (&Seeding, &Groups),
) -> DriverResult<()> {
    let mut launch = observations.stream.launch_builder(kernel);
    // SAFETY: arguments as declared in kmeans/draw.cuh; the arrays have the sizes that
    // `GroupedObservations::new` gave them, for at least this number of groups.
    unsafe { launch.arg(seeding).arg(groups).launch(size) }.map(|_| ())
}
