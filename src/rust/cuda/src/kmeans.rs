//! k-means on CUDA devices, entirely in double precision; the kernels are in kernels/kmeans.cu.
//!
//! One device draws the initial centers. In an iteration, each device assigns its share of the
//! observations, and updates its share of the centers. A center is a sum over members in the order
//! of their numbers, whichever device computes it. So every device has all observations, and the
//! host exchanges assignments and centers between devices.

#[cfg(test)]
mod decisions;
mod draw;
mod iterate;
mod launch;
mod observations;
mod sharing;

use std::sync::Arc;

use self::launch::SPAN;
use self::observations::DeviceObservations;
use self::sharing::on_each;
use crate::device::Device;
use gmhclust_core::error::Result;
use gmhclust_core::kmeans::{Assigned, Start};
use gmhclust_core::matrix::{self, RowSlices};
use gmhclust_core::monitor::Monitor;
use gmhclust_core::observations::Observations;

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
    let (rows, values) = (x.nrows() + SPAN, x.values().len());
    // The observations, the scalars of each observation while centers are drawn, the centers and
    // their sums.
    let bytes = 8 * values + 20 * rows + 2 * 8 * centers * (x.ncols() + 2);
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

#[cfg(test)]
mod tests {
    use super::draw::Seeding;
    use super::iterate::Lloyd;
    use super::launch::*;
    use crate::arguments::{check, constants};
    use gmhclust_core::kmeans::CHUNK;

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
}
