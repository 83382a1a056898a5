//! Rounds of merges on a device.

use std::sync::Arc;

use cudarc::driver::sys::CUdevice_attribute;
use cudarc::driver::{CudaSlice, CudaStream, DevicePtr};
use gmhclust_core::error::{Error, Result};
use gmhclust_core::magnitude::largest_on_threads;
use gmhclust_core::neighbours::{MeanLinkage, RemainingClusters};
use gmhclust_core::{Cpu, Merge, Monitor};

use super::launch::{most_results, Clusters, Counts, MeanLinkageKernels, LINKING};
use super::margins::Margins;
use crate::device::{unless_short, Device, DriverResult};
use crate::neighbours::usable_memory;
use crate::sender::Sender;

/// Number of pairs of coordinates that a device compares in a fraction of a second in double
/// precision, if this is as fast there as single precision.
const OPEN_COORDINATES: u64 = 1 << 39;

/// Number of rounds between two reads of the counts. With more, the last rounds do nothing; with
/// fewer, the device waits for the host.
const ROUNDS_AT_A_TIME: u32 = 8;

/// Ward's linkage of means whose largest coordinate is smaller is left to searches: squares of
/// distances could underflow in double precision, but not the scaled ones in single precision.
const LEAST_COORDINATE: f64 = 1e-130;

/// Bytes that each cluster takes besides its mean.
const BYTES_PER_CLUSTER: usize = 100;

/// All merges of some clusters, in any order in which parts come before their unions. The threads
/// of `cpu` copy the means. Uses at most `memory` bytes of the device, if given.
///
/// Returns `None` if searches with bounds take less time, if the device has too little memory, or
/// if clusters tie and the merges may differ from the CPU's.
///
/// # Errors
/// `Error::Interrupt` when `monitor` says stop, `Error::Device` if the device fails.
pub fn merges(
    device: &Arc<Device>,
    clusters: &RemainingClusters<'_>,
    memory: Option<usize>,
    cpu: &Cpu,
    monitor: &Monitor,
) -> Result<Option<Vec<Merge>>> {
    // The searches before may have all memory that the limit allows.
    if clusters.nearest.is_some() && memory.is_some() {
        return Ok(None);
    }
    let bytes = 12 * clusters.means.len() + BYTES_PER_CLUSTER * clusters.count();
    if bytes > usable_memory(device, memory)? {
        return Ok(None);
    }
    let largest = cpu.install(|| largest_on_threads(clusters.means));
    if clusters.linkage == MeanLinkage::Ward && largest < LEAST_COORDINATE {
        return Ok(None);
    }
    let margins = Margins::new(clusters.columns, largest, clusters.linkage);
    let mut progress = Progress::new(monitor);
    let made = unless_short(in_rounds(device, clusters, margins, &mut progress, cpu));
    let made = made?.flatten();
    if made.is_none() {
        progress.start_again();
    }
    Ok(made)
}

/// As [`merges`], without its limits.
fn in_rounds(
    device: &Arc<Device>,
    remaining: &RemainingClusters<'_>,
    margins: Margins,
    progress: &mut Progress<'_>,
    cpu: &Cpu,
) -> Result<Option<Vec<Merge>>> {
    let failed = |error| device.error(LINKING, &error);
    let kernels = MeanLinkageKernels::new(device)?;
    let memory = LinkageMemory::new(device, remaining, kernels.blocks);
    let mut memory = memory.map_err(|error| device.error("making room for clusters", &error))?;
    let mut sender = Sender::new(device, remaining.means.len(), 1, cpu)?;
    sender.send(&mut memory.means, 0, remaining.means, cpu, progress.monitor)?;
    let (n, columns) = (remaining.count(), remaining.columns);
    let most_open = most_open(device, columns).map_err(failed)?;
    let options = Clusters::new(columns, remaining.linkage, margins, most_open);
    let clusters = memory.clusters(options);
    let searches = if remaining.nearest.is_some() { 0 } else { n };
    // SAFETY: `memory` has the arrays of `clusters`, and waits for the stream before it is dropped.
    unsafe { kernels.begin(&memory.stream, &clusters, n as u32, searches > 0) }.map_err(failed)?;
    let (mut round, mut expected) = (0, 0);
    loop {
        let counts = memory.fetch_counts().map_err(failed)?;
        if counts.should_end(n) {
            memory.free().map_err(failed)?;
            return Ok(None);
        }
        let merges = counts.merges as usize;
        progress.reach(searches + merges);
        if merges + 1 == n {
            return memory.fetch_merges(merges).map(Some).map_err(failed);
        }
        if merges < expected {
            let message = format!("{}: {LINKING}: a round had no merge", device.name());
            return Err(Error::Device(message));
        }
        progress.monitor.check()?;
        for _ in 0..ROUNDS_AT_A_TIME {
            round += 1;
            // SAFETY: as above.
            unsafe { kernels.round(&memory.stream, &clusters, round) }.map_err(failed)?;
        }
        // A round without a merge is followed by one with a merge.
        expected = merges + ROUNDS_AT_A_TIME as usize / 2;
    }
}

/// Largest number of pairs of clusters that a search compares in double precision.
fn most_open(device: &Device, columns: usize) -> DriverResult<u64> {
    // On a device with this ratio, such a search takes a fraction of a second.
    let ratio = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO;
    let ratio = device.context.attribute(ratio)?.max(1) as u64;
    Ok(OPEN_COORDINATES / ratio / columns.max(1) as u64)
}

/// Progress in units of clusters of the first search, and of merges.
struct Progress<'a> {
    monitor: &'a Monitor,
    reported: u64,
}

impl<'a> Progress<'a> {
    fn new(monitor: &'a Monitor) -> Self {
        Self {
            monitor,
            reported: 0,
        }
    }

    /// Reports that this number of units is done.
    fn reach(&mut self, done: usize) {
        self.monitor.advance(done as u64 - self.reported);
        self.reported = done as u64;
    }

    /// Announces the reported units again, because other code repeats their work.
    fn start_again(self) {
        self.monitor.expect(self.reported);
    }
}

/// Device memory for all clusters: see `Clusters` in mean_linkage/launch.cuh.
struct LinkageMemory {
    stream: Arc<CudaStream>,
    means: CudaSlice<f64>,
    sizes: CudaSlice<f64>,
    half_variances: CudaSlice<f64>,
    single_means: CudaSlice<f32>,
    distances: CudaSlice<f64>,
    nearest: CudaSlice<u32>,
    merged_in: CudaSlice<u32>,
    live_after_even: CudaSlice<u32>,
    live_after_odd: CudaSlice<u32>,
    changed: CudaSlice<u32>,
    open: CudaSlice<u32>,
    least: CudaSlice<f64>,
    second: CudaSlice<f64>,
    least_slots: CudaSlice<u32>,
    heights: CudaSlice<f64>,
    lower: CudaSlice<u32>,
    higher: CudaSlice<u32>,
    counts: CudaSlice<Counts>,
}

impl LinkageMemory {
    /// Memory for some clusters, with all their data but the means.
    fn new(device: &Device, clusters: &RemainingClusters<'_>, blocks: u32) -> DriverResult<Self> {
        let n = clusters.count();
        let stream = device.context.new_stream()?;
        let slots: Vec<u32> = (0..n as u32).collect();
        let results = most_results(n, blocks);
        // SAFETY: the kernels write each array before they read it; the host writes the means.
        let mut memory = unsafe {
            Self {
                means: stream.alloc(clusters.means.len())?,
                sizes: stream.clone_htod(clusters.sizes)?,
                half_variances: stream.clone_htod(clusters.half_variances)?,
                single_means: stream.alloc(clusters.means.len())?,
                distances: stream.alloc(n)?,
                nearest: stream.alloc(n)?,
                merged_in: stream.alloc_zeros(n)?,
                live_after_even: stream.clone_htod(&slots)?,
                live_after_odd: stream.alloc(n)?,
                changed: stream.clone_htod(&slots)?,
                open: stream.alloc(n)?,
                least: stream.alloc(results)?,
                second: stream.alloc(results)?,
                least_slots: stream.alloc(results)?,
                heights: stream.alloc(n)?,
                lower: stream.alloc(n)?,
                higher: stream.alloc(n)?,
                counts: stream.clone_htod(&[Counts::new(n)])?,
                stream,
            }
        };
        if let Some((distances, nearest)) = clusters.nearest {
            let stream = &memory.stream;
            stream.memcpy_htod(distances, &mut memory.distances)?;
            stream.memcpy_htod(nearest, &mut memory.nearest)?;
        }
        // Other streams copy the means. And the copies in host memory must live until they have
        // been transferred.
        memory.stream.synchronize()?;
        Ok(memory)
    }

    /// The arguments of the kernels, with these options.
    fn clusters(&self, options: Clusters) -> Clusters {
        let doubles = |array: &CudaSlice<f64>| array.device_ptr(&self.stream).0;
        let words = |array: &CudaSlice<u32>| array.device_ptr(&self.stream).0;
        Clusters {
            means: doubles(&self.means),
            sizes: doubles(&self.sizes),
            variances: doubles(&self.half_variances),
            single_means: self.single_means.device_ptr(&self.stream).0,
            distances: doubles(&self.distances),
            nearest: words(&self.nearest),
            merged_in: words(&self.merged_in),
            live_after_even: words(&self.live_after_even),
            live_after_odd: words(&self.live_after_odd),
            changed: words(&self.changed),
            open: words(&self.open),
            least: doubles(&self.least),
            second: doubles(&self.second),
            least_slots: words(&self.least_slots),
            heights: doubles(&self.heights),
            lower: words(&self.lower),
            higher: words(&self.higher),
            counts: self.counts.device_ptr(&self.stream).0,
            ..options
        }
    }

    /// Waits for the rounds that have begun.
    fn fetch_counts(&self) -> DriverResult<Counts> {
        Ok(self.stream.clone_dtoh(&self.counts)?[0])
    }

    fn fetch_merges(&self, count: usize) -> DriverResult<Vec<Merge>> {
        let heights = self.stream.clone_dtoh(&self.heights)?;
        let lower = self.stream.clone_dtoh(&self.lower)?;
        let higher = self.stream.clone_dtoh(&self.higher)?;
        let merges = lower.into_iter().zip(higher).zip(heights);
        let merge = |((lower, higher), height)| Merge {
            lower,
            higher,
            height,
        };
        Ok(merges.take(count).map(merge).collect())
    }

    /// Frees the memory at once, so that other work can take it.
    fn free(self) -> DriverResult<()> {
        let stream = self.stream.clone();
        drop(self);
        stream.synchronize()
    }
}

impl Drop for LinkageMemory {
    /// Waits for the kernels, since they work in this memory.
    fn drop(&mut self) {
        // A device that failed has nothing in progress.
        let _ = self.stream.synchronize();
    }
}
