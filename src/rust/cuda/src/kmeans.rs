//! k-means on CUDA devices. The kernels are in kernels/kmeans.cu.
//!
//! One device draws the initial centers. If there are many centers, it puts observations in groups
//! (`groups`). If there are many observations, it compares their codes first (`codes`).
//!
//! In an iteration, each device assigns its share of the observations, and updates its share of the
//! centers. A center is a sum over members in the order of their numbers, whichever device computes
//! it. So every device has all observations, and the host exchanges assignments and centers between
//! devices.

mod assign;
#[cfg(test)]
mod candidate_decisions;
mod candidates;
#[cfg(test)]
mod code_decisions;
mod codes;
#[cfg(test)]
mod decisions;
mod draw;
mod groups;
mod iterate;
mod launch;
mod lloyd;
mod near;
mod observations;
mod seeding;
mod update;

use std::sync::Arc;

use self::assign::Comparison;
pub use self::codes::CodePolicy;
use self::draw::Draws;
use self::iterate::FirstCenters;
use self::launch::{BINS, SORTED, TILE};
pub use self::near::NearPolicy;
use self::observations::DeviceObservations;
use crate::device::Device;
use crate::sharing::on_each;
use gmhclust_core::error::Result;
use gmhclust_core::kmeans::frame::Frame;
use gmhclust_core::kmeans::{Assigned, Start};
use gmhclust_core::lazy_rows::LazyRows;
use gmhclust_core::matrix;
use gmhclust_core::monitor::Monitor;
use gmhclust_core::Cpu;

/// The first devices, at most `most`, with enough memory for these observations and this number of
/// centers.
///
/// # Errors
/// `Error::Device` if a device fails.
pub fn fitting(
    devices: &[Arc<Device>],
    x: &LazyRows,
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

fn fits(device: &Device, x: &LazyRows, centers: usize) -> Result<bool> {
    if x.nrows() > i32::MAX as usize {
        return Ok(false);
    }
    // An iteration needs the observations and centers in double and in single precision, the
    // scalars of each observation, and the numbers that a sort has for each observation. Draws need
    // less for each observation, and bins for each center. If memory for half precision is missing,
    // k-means does without half precision.
    let (rows, centers) = (x.nrows() + TILE.max(SORTED), centers + TILE);
    let bytes = rows * (12 * x.ncols() + 32) + centers * (20 * x.ncols() + 4 * BINS + 56);
    device.has_memory(bytes)
}

/// The devices and threads that k-means runs on, and its thresholds.
#[derive(Clone, Copy)]
pub struct CudaKMeans<'a> {
    /// One or more devices, which must be [`fitting`].
    pub devices: &'a [Arc<Device>],
    /// Whether devices with tensor cores compare in half precision first.
    pub in_halves: bool,
    /// Number of centers from which draws use groups of observations.
    pub grouped_from: usize,
    /// The sizes from which observations have codes.
    pub coded: CodePolicy,
    /// The sizes from which observations are compared only with the centers near their own.
    pub near: NearPolicy,
    /// The threads that copy the observations.
    pub cpu: &'a Cpu,
}

/// As [`gmhclust_core::kmeans::KMeansDevice::iterate`].
///
/// # Errors
/// As [`gmhclust_core::kmeans::KMeansDevice::iterate`].
pub fn kmeans(
    on: CudaKMeans,
    x: &LazyRows,
    start: Start,
    iterations: usize,
    monitor: &Monitor,
) -> Result<Assigned> {
    let CudaKMeans { devices, cpu, .. } = on;
    // The first device draws while the others receive the observations.
    let prepared = on_each(devices.iter().enumerate(), |(number, device)| {
        let observations = DeviceObservations::new(device, x, cpu, monitor)?;
        // Before any draw: squares that overflow have no order.
        let frame = Frame::of(x, &start, cpu)?;
        let drawn = match start {
            Start::Draws(uniforms) if number == 0 => {
                let draws = Draws {
                    uniforms,
                    grouped_from: on.grouped_from,
                    coded: on.coded,
                };
                Some(observations.draw(draws, monitor)?)
            }
            _ => None,
        };
        Ok((observations, (frame, drawn)))
    })?;
    let (observations, mut others): (Vec<_>, Vec<_>) = prepared.into_iter().unzip();
    let (frame, drawn) = others.swap_remove(0);
    let first = match (start, drawn) {
        (_, Some(drawn)) => drawn,
        (Start::Centers(given), None) => FirstCenters {
            centers: matrix::stacked(&[given], x.ncols())?,
            nearest: None,
        },
        (Start::Draws(_), None) => unreachable!("the first device has drawn"),
    };
    let comparison = Comparison {
        frame: &frame,
        in_halves: on.in_halves,
        near: on.near,
    };
    iterate::iterate(observations, comparison, first, iterations, monitor)
}

#[cfg(test)]
mod tests {
    use super::candidates::Candidates;
    use super::launch::*;
    use super::lloyd::Lloyd;
    use super::near::Near;
    use super::seeding::{Groups, Seeding};
    use super::update::{Members, Sort};
    use crate::arguments::{check, constants};
    use gmhclust_core::kmeans::CHUNK;

    #[test]
    fn arguments_are_laid_out_as_the_kernels_read_them() {
        let constants = constants![
            DRAW_THREADS,
            WARP,
            WEIGH_WARPS,
            BINS,
            PIECE,
            QUAD,
            CODED_COLUMNS,
            THREADS,
            TILE,
            ROWS,
            THRESHOLD_LANES,
            DIGIT_BITS,
            DIGITS,
            SORTED,
            SCAN_THREADS,
            NEAR_THREADS,
            NEAR_BINS,
            NEAR_COLUMNS,
            NONE,
            CHUNK
        ];
        let structs = [
            Seeding::layout(),
            Groups::layout(),
            Lloyd::layout(),
            Near::layout(),
            Candidates::layout(),
            Sort::layout(),
            Members::layout(),
        ];
        check("kmeans/launch.cuh", &[], &structs, &constants);
    }
}
