//! k-means on CUDA devices, all of it in double precision; kernels/kmeans.cu says how.
//!
//! One device draws the centers to start from. In an iteration each device assigns its share of the
//! observations, and moves its share of the centers: a center is a sum of members in the order of
//! their numbers, whichever device adds them up. So every device has all observations, and the host
//! passes on assignments and centers.

#[cfg(test)]
mod decisions;
mod draw;
mod iterate;

use std::ops::Range;
use std::sync::Arc;
use std::thread;

use cudarc::driver::{
    CudaFunction, CudaSlice, CudaStream, CudaView, DevicePtr, DeviceRepr, DriverError, LaunchConfig,
};

use crate::device::{Device, DriverResult};
use crate::kernels;
use gmhclust_core::error::{Error, Result};
use gmhclust_core::kmeans::{Assigned, Start};
use gmhclust_core::matrix::{self, RowSlices};
use gmhclust_core::monitor::Monitor;
use gmhclust_core::observations::Observations;
use gmhclust_core::tasks::join;

// As in kmeans_launch.cuh.
const DRAW_THREADS: u32 = 1024;
const WARP: u32 = 32;
const WEIGH_WARPS: u32 = 4;
const THREADS: u32 = 256;
const ROWS: u32 = 128;
const SPAN: usize = 2048;
const NONE: u32 = u32::MAX;

/// The first devices, at most `most`, that have memory for this many centers of these observations.
///
/// # Errors
/// `Error::Device` when one fails.
pub fn fitting(
    devices: &[Arc<Device>],
    x: &Observations,
    centers: usize,
    most: usize,
) -> Result<Vec<Arc<Device>>> {
    let mut fitting = Vec::new();
    for device in devices {
        if fitting.len() < most && fits(device, x, centers)? {
            fitting.push(device.clone());
        }
    }
    Ok(fitting)
}

fn fits(device: &Device, x: &Observations, centers: usize) -> Result<bool> {
    if x.nrows() > i32::MAX as usize {
        return Ok(false);
    }
    let (rows, values) = (x.nrows() + SPAN, x.values().len());
    // The observations, the scalars of each while centers are drawn, centers and their sums.
    let bytes = 8 * values + 20 * rows + 2 * 8 * centers * (x.ncols() + 2);
    Ok(bytes + (bytes >> 4) <= device.free_memory()?)
}

/// As [`gmhclust_core::kmeans::KMeansDevice::iterate`], on at least one device, all of them
/// [`fitting`].
///
/// # Errors
/// As there.
pub fn kmeans(
    devices: &[Arc<Device>],
    x: &Observations,
    start: Start,
    iterations: usize,
    monitor: &Monitor,
) -> Result<Assigned> {
    // The first device draws while the others receive the observations.
    let prepared = on_each(devices.iter().enumerate(), |(number, device)| {
        let observations = DeviceObservations::new(device, x)?;
        let drawn = match start {
            Start::Draws(uniforms) if number == 0 => Some(observations.draw(uniforms, monitor)?),
            _ => None,
        };
        Ok((observations, drawn))
    })?;
    let (observations, mut drawn): (Vec<_>, Vec<_>) = prepared.into_iter().unzip();
    let centers = match (start, drawn[0].take()) {
        (_, Some(drawn)) => drawn,
        (Start::Centers(given), None) => matrix::stacked(&[given], x.ncols())?,
        (Start::Draws(_), None) => unreachable!("the first device has drawn"),
    };
    iterate::iterate(observations, centers, iterations, monitor)
}

/// Does some work with each item, of which each is for one device, in a thread of its own.
///
/// # Errors
/// The first error in the order of the items.
fn on_each<T: Send, R: Send>(
    items: impl ExactSizeIterator<Item = T>,
    work: impl Fn(T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    if items.len() == 1 {
        return items.map(work).collect();
    }
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = items.map(|item| scope.spawn(move || work(item))).collect();
        let done: Vec<Result<R>> = threads.into_iter().map(join).collect();
        done.into_iter().collect()
    })
}

/// The numbers below `count` in `shares` ranges of about one length, in increasing order.
fn shares(count: usize, shares: usize) -> impl ExactSizeIterator<Item = Range<usize>> {
    (0..shares).map(move |share| share * count / shares..(share + 1) * count / shares)
}

/// Observations on a device.
struct DeviceObservations<'a> {
    device: &'a Device,
    stream: Arc<CudaStream>,
    x: &'a Observations,
    values: CudaSlice<f64>,
}

impl<'a> DeviceObservations<'a> {
    fn new(device: &'a Device, x: &'a Observations) -> Result<Self> {
        let copied = || -> DriverResult<_> {
            let stream = device.context.new_stream()?;
            let values = stream.clone_htod(x.values())?;
            // The host's copy must outlive the copying.
            stream.synchronize()?;
            Ok((stream, values))
        };
        let (stream, values) =
            copied().map_err(|error| device.error("copying observations", &error))?;
        Ok(Self {
            device,
            stream,
            x,
            values,
        })
    }

    fn error(&self, error: &DriverError) -> Error {
        self.device.error("k-means", error)
    }

    fn kernel(&self, name: &str) -> Result<CudaFunction> {
        self.device.kernel(&kernels::KMEANS, name)
    }

    /// The address of a buffer on the device.
    fn at<T>(&self, buffer: &CudaSlice<T>) -> u64 {
        buffer.device_ptr(&self.stream).0
    }

    /// Copies values to the host.
    fn fetch<T: DeviceRepr>(&self, there: &CudaView<T>, here: &mut [T]) -> Result<()> {
        self.stream
            .memcpy_dtoh(there, here)
            .and_then(|()| self.stream.synchronize())
            .map_err(|error| self.error(&error))
    }
}

fn config(blocks: u32, threads: u32) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (blocks, 1, 1),
        block_dim: (threads, 1, 1),
        shared_mem_bytes: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::draw::Seeding;
    use super::iterate::Lloyd;
    use super::*;
    use crate::arguments::{check, constants};
    use gmhclust_core::kmeans::seed::CHUNK;

    #[test]
    fn arguments_are_laid_out_as_the_kernels_read_them() {
        let constants = constants![
            DRAW_THREADS,
            WARP,
            WEIGH_WARPS,
            THREADS,
            ROWS,
            SPAN,
            NONE,
            CHUNK
        ];
        let structs = [Seeding::layout(), Lloyd::layout()];
        check("kmeans_launch.cuh", &[], &structs, &constants);
    }

    #[test]
    fn shares_are_the_whole_and_of_about_one_length() {
        for (count, among) in [(0, 1), (1, 3), (10, 1), (10, 3), (1_000_003, 8)] {
            let shares: Vec<_> = shares(count, among).collect();
            assert_eq!(shares.len(), among);
            let numbers: Vec<usize> = shares.iter().cloned().flatten().collect();
            assert_eq!(numbers, Vec::from_iter(0..count));
            let lengths = shares.iter().map(Range::len);
            assert!(lengths.clone().max().unwrap() - lengths.min().unwrap() <= 1);
        }
    }

    #[test]
    fn work_is_done_for_each_item_and_the_first_error_counts() {
        for count in [1, 5] {
            let square = |i: usize| Ok(i * i);
            let squares = Vec::from_iter((0..count).map(|i| i * i));
            assert_eq!(on_each(0..count, square), Ok(squares));
            let fail = |i: usize| -> Result<()> { Err(Error::Device(i.to_string())) };
            assert_eq!(on_each(0..count, fail), Err(Error::Device("0".into())));
        }
    }
}
