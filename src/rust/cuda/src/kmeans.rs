//! k-means on CUDA devices; the kernels are in kernels/kmeans.cu.
//!
//! One device draws the initial centers. In an iteration, each device assigns its share of the
//! observations, and updates its share of the centers. A center is a sum over members in the order
//! of their numbers, whichever device computes it. So every device has all observations, and the
//! host exchanges assignments and centers between devices.

mod assign;
#[cfg(test)]
mod decisions;
mod draw;
mod iterate;
mod launch;
mod observations;
mod sharing;
mod update;

use std::sync::Arc;

use self::launch::{SORTED, TILE};
use self::observations::DeviceObservations;
use self::sharing::on_each;
use crate::device::Device;
use gmhclust_core::error::Result;
use gmhclust_core::kmeans::frame::Frame;
use gmhclust_core::kmeans::{Assigned, Start};
use gmhclust_core::matrix;
use gmhclust_core::monitor::Monitor;
use gmhclust_core::observations::Observations;
use gmhclust_core::Cpu;

/// The first devices, at most `most`, that have memory for these observations and this number of
/// centers.
///
/// # Errors
/// `Error::Device` if a device fails.
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
    // The observations and centers, in double and in single precision, and of each observation its
    // scalars, and its numbers in a sort.
    let (rows, centers) = (x.nrows() + TILE.max(SORTED), centers + TILE);
    let bytes = rows * (12 * x.ncols() + 32) + centers * (20 * x.ncols() + 32);
    Ok(bytes + (bytes >> 4) <= device.free_memory()?)
}

/// As [`gmhclust_core::kmeans::KMeansDevice::iterate`], on one or more devices, which must be
/// [`fitting`].
///
/// # Errors
/// As [`gmhclust_core::kmeans::KMeansDevice::iterate`].
pub fn kmeans(
    devices: &[Arc<Device>],
    x: &Observations,
    start: Start,
    iterations: usize,
    frame: &Frame,
    cpu: &Cpu,
    monitor: &Monitor,
) -> Result<Assigned> {
    // The first device draws while the others receive the observations.
    let prepared = on_each(devices.iter().enumerate(), |(number, device)| {
        let observations = DeviceObservations::new(device, x, cpu, monitor)?;
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
    iterate::iterate(observations, frame, centers, iterations, monitor)
}

#[cfg(test)]
mod tests {
    use super::assign::Lloyd;
    use super::draw::Seeding;
    use super::launch::*;
    use super::update::{Members, Sort};
    use crate::arguments::{check, constants};
    use gmhclust_core::kmeans::CHUNK;

    #[test]
    fn arguments_are_laid_out_as_the_kernels_read_them() {
        let constants = constants![
            DRAW_THREADS,
            WARP,
            WEIGH_WARPS,
            THREADS,
            TILE,
            ROWS,
            DIGIT_BITS,
            DIGITS,
            SORTED,
            SCAN_THREADS,
            NONE,
            CHUNK
        ];
        let structs = [
            Seeding::layout(),
            Lloyd::layout(),
            Sort::layout(),
            Members::layout(),
        ];
        check("kmeans_launch.cuh", &[], &structs, &constants);
    }
}
