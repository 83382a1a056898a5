//! Sums over the members of a device's share of the clusters, which give the means to which centers
//! move, and the squares within clusters. A stable sort by cluster finds the members.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaSlice, CudaStream, PushKernelArg};

use super::launch::{config, DIGITS, DIGIT_BITS, SCAN_THREADS, SORTED, THREADS};
use super::observations::DeviceObservations;
use crate::arguments::arguments;
use crate::device::DriverResult;
use gmhclust_core::error::Result;
use gmhclust_core::kmeans::CLUSTERS;
use gmhclust_core::memory;

arguments! {
    /// As in kmeans/launch.cuh.
    pub struct Sort {
        pub clusters: u64,
        pub numbers: u64,
        pub sorted_clusters: u64,
        pub sorted_numbers: u64,
        pub counts: u64,
        pub rows: u32,
        pub blocks: u32,
        pub greatest: u32,
        pub shift: u32,
    }

    /// As in kmeans/launch.cuh.
    pub struct Members {
        pub x: u64,
        pub centers: u64,
        pub within: u64,
        pub sorted_clusters: u64,
        pub sorted_numbers: u64,
        pub starts: u64,
        pub rows: u32,
        pub columns: u32,
        pub clusters: u32,
        pub columns_each: u32,
    }
}

/// Number of blocks of `update` per multiprocessor: most of the blocks that can be active there.
const UPDATING_BLOCKS: usize = 4;

/// The addresses of sorted cluster numbers, and of the numbers of their observations.
pub type Sorted = [u64; 2];

/// The passes of a radix sort by cluster number. The device moves `moved` clusters. All other
/// clusters count as one more cluster. The first pass reads `clusters`. The passes write to the two
/// places of `to` in turn, the last pass to the first place.
pub fn passes(clusters: u64, rows: usize, moved: usize, counts: u64, to: [Sorted; 2]) -> Vec<Sort> {
    let bits = usize::BITS - moved.leading_zeros();
    let count = bits.div_ceil(DIGIT_BITS).max(1) as usize;
    let mut from = [clusters, 0];
    let pass = |number: usize| {
        let to = to[(count - 1 - number) % 2];
        let pass = Sort {
            clusters: from[0],
            numbers: from[1],
            sorted_clusters: to[0],
            sorted_numbers: to[1],
            counts,
            rows: rows as u32,
            blocks: rows.div_ceil(SORTED) as u32,
            greatest: moved as u32,
            shift: number as u32 * DIGIT_BITS,
        };
        from = to;
        pass
    };
    (0..count).map(pass).collect()
}

/// Number of columns of a center that a block of `update` moves, so that there are about this many
/// blocks. With fewer columns a block takes less time, but reads memory in smaller pieces.
pub fn columns_each(moved: usize, columns: usize, blocks: usize) -> usize {
    (moved * columns / blocks).clamp(1, columns.min(THREADS))
}

/// Updates a device's share of the centers.
pub struct Updater {
    count_digits: CudaFunction,
    scan_counts: CudaFunction,
    scatter: CudaFunction,
    find_starts: CudaFunction,
    update: CudaFunction,
    sum_squares: CudaFunction,
    /// The centers that this device moves.
    moved: Range<usize>,
    /// Number of columns of a center that a block moves.
    columns_each: usize,
    memory: UpdateMemory,
}

/// Device memory: see `Sort` and `Members` in kmeans/launch.cuh. A sort needs two places.
struct UpdateMemory {
    sorted: [[CudaSlice<u32>; 2]; 2],
    counts: CudaSlice<u32>,
    starts: CudaSlice<u32>,
    within: CudaSlice<f64>,
}

impl UpdateMemory {
    fn new(stream: &Arc<CudaStream>, n: usize, moved: usize) -> DriverResult<Self> {
        // SAFETY: the kernels write these arrays before they read them.
        let numbers = |count: usize| unsafe { stream.alloc::<u32>(count) };
        let place = || Ok([numbers(n)?, numbers(n)?]);
        Ok(Self {
            sorted: [place()?, place()?],
            counts: numbers(DIGITS * n.div_ceil(SORTED))?,
            starts: numbers(moved + 1)?,
            // SAFETY: as above.
            within: unsafe { stream.alloc::<f64>(moved.max(1))? },
        })
    }
}

impl Updater {
    pub fn new(observations: &DeviceObservations, moved: Range<usize>) -> Result<Self> {
        let failed = |error| observations.error(&error);
        let (n, p) = (observations.rows, observations.columns);
        let memory = UpdateMemory::new(&observations.stream, n, moved.len()).map_err(failed)?;
        let multiprocessors = observations.device.multiprocessors().map_err(failed)?;
        let blocks = UPDATING_BLOCKS * multiprocessors as usize;
        Ok(Self {
            count_digits: observations.kernel("count_digits")?,
            scan_counts: observations.kernel("scan_counts")?,
            scatter: observations.kernel("scatter")?,
            find_starts: observations.kernel("find_starts")?,
            update: observations.kernel("update")?,
            sum_squares: observations.kernel("sum_squares")?,
            columns_each: columns_each(moved.len(), p, blocks),
            moved,
            memory,
        })
    }

    /// Sorts the observations by cluster. `clusters` has their cluster numbers, relative to the
    /// first cluster of this share.
    pub fn sort(&self, at: &DeviceObservations, clusters: &CudaSlice<u32>) -> Result<()> {
        if self.moved.is_empty() {
            return Ok(());
        }
        let n = at.rows;
        let sorted = self.memory.sorted.each_ref();
        let sorted = sorted.map(|place| place.each_ref().map(|part| at.at(part)));
        let counts = at.at(&self.memory.counts);
        let launch = || -> DriverResult<()> {
            for pass in passes(at.at(clusters), n, self.moved.len(), counts, sorted) {
                for (kernel, blocks, threads) in [
                    (&self.count_digits, pass.blocks, THREADS),
                    (&self.scan_counts, 1, SCAN_THREADS),
                    (&self.scatter, pass.blocks, THREADS),
                ] {
                    let mut launch = at.stream.launch_builder(kernel);
                    // SAFETY: arguments as declared in kmeans/launch.cuh; all arrays have the sizes
                    // given there, and live as long as `self`. All later work on these arrays is on
                    // the same stream.
                    unsafe { launch.arg(&pass).launch(config(blocks, threads as u32))? };
                }
            }
            let blocks = (n as u32 + 1).div_ceil(THREADS as u32);
            // `find_starts` does not read the centers, so their address is 0.
            self.launch(at, &self.find_starts, &self.members(at, 0), blocks)
        };
        launch().map_err(|error| at.error(&error))
    }

    /// Moves the device's share of `centers` to the means of their members, by the last sort.
    pub fn update(&self, at: &DeviceObservations, centers: &CudaSlice<f64>) -> Result<()> {
        if self.moved.is_empty() {
            return Ok(());
        }
        let members = self.members(at, self.address(at, centers));
        let blocks = members.clusters * members.columns.div_ceil(members.columns_each);
        let launched = self.launch(at, &self.update, &members, blocks);
        launched.map_err(|error| at.error(&error))
    }

    /// The numbers of members of the clusters of this share, by the last sort.
    pub fn sizes(&self, at: &DeviceObservations) -> Result<Vec<usize>> {
        if self.moved.is_empty() {
            return Ok(Vec::new());
        }
        let mut starts = memory::filled(CLUSTERS, self.moved.len() + 1, 0)?;
        at.fetch(&self.memory.starts.as_view(), &mut starts)?;
        let sizes = starts.windows(2).map(|ends| (ends[1] - ends[0]) as usize);
        memory::collected(CLUSTERS, sizes)
    }

    /// By cluster of this share: the sum of squares of its members about its center, by the last
    /// sort.
    pub fn squares(&self, at: &DeviceObservations, centers: &CudaSlice<f64>) -> Result<Vec<f64>> {
        if self.moved.is_empty() {
            return Ok(Vec::new());
        }
        let members = self.members(at, self.address(at, centers));
        let launched = self.launch(at, &self.sum_squares, &members, members.clusters);
        launched.map_err(|error| at.error(&error))?;
        let mut squares = memory::filled(CLUSTERS, self.moved.len(), 0.0)?;
        at.fetch(&self.memory.within.as_view(), &mut squares)?;
        Ok(squares)
    }

    /// The address of the first center of this share.
    fn address(&self, at: &DeviceObservations, centers: &CudaSlice<f64>) -> u64 {
        let first = size_of::<f64>() * self.moved.start * at.columns;
        at.at(centers) + first as u64
    }

    /// The kernels' argument with the result of the last sort.
    pub fn members(&self, at: &DeviceObservations, centers: u64) -> Members {
        let [clusters, numbers] = self.memory.sorted[0].each_ref().map(|part| at.at(part));
        let (n, p) = (at.rows, at.columns);
        Members {
            x: at.at(&at.values),
            centers,
            within: at.at(&self.memory.within),
            sorted_clusters: clusters,
            sorted_numbers: numbers,
            starts: at.at(&self.memory.starts),
            rows: n as u32,
            columns: p as u32,
            clusters: self.moved.len() as u32,
            columns_each: self.columns_each as u32,
        }
    }

    fn launch(
        &self,
        at: &DeviceObservations,
        kernel: &CudaFunction,
        members: &Members,
        blocks: u32,
    ) -> DriverResult<()> {
        let mut launch = at.stream.launch_builder(kernel);
        // SAFETY: as in `sort`.
        unsafe { launch.arg(members).launch(config(blocks, THREADS as u32))? };
        Ok(())
    }
}
