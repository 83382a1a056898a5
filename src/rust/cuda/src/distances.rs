//! Distances on a CUDA device; kernels/distances.cu says how.
//!
//! The result is made in pieces. While one is computed, those before it are on their way to the
//! host, or from the memory that the device reaches to where they belong; so neither has to have
//! room for all of it twice.

#[cfg(test)]
mod decisions;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{
    CudaFunction, CudaSlice, CudaStream, DevicePtr, DriverError, LaunchConfig, PinnedHostSlice,
    PushKernelArg,
};
use rayon::prelude::*;

use crate::arguments::arguments;
use crate::device::Device;
use crate::kernels::{self, Kernels};
use gmhclust_core::distances::Pairs;
use gmhclust_core::error::{Error, Result};
use gmhclust_core::memory;
use gmhclust_core::metric::{Metric, Points, ZeroOverZero};
use gmhclust_core::monitor::Monitor;
use gmhclust_core::Cpu;

// As in distances_launch.cuh.
const THREADS: u32 = 256;
const ROWS: u32 = 128;
const COLUMNS: usize = 64;

/// Distances in a piece, at least.
const PIECE: usize = 1 << 21;

/// Pieces under way at a time.
const ABREAST: usize = 3;

/// Distances that a thread copies at a time.
const COPY: usize = 1 << 16;

arguments! {
    /// As in distances_launch.cuh.
    struct Piece {
        points: u64,
        out: u64,
        stride: u64,
        rows: u32,
        columns: u32,
        first: u32,
        last: u32,
        triangle: u32,
        parameter: u32,
    }
}

/// How the kernels call it.
fn code(convention: ZeroOverZero) -> u32 {
    match convention {
        ZeroOverZero::Omitted => 0,
        ZeroOverZero::Zero => 1,
        ZeroOverZero::One => 2,
    }
}

/// The kernel for these points, and its parameter; `None` where there is none: powers, and
/// correlations where values are missing, are the CPU's.
fn kernel(points: &Points) -> Option<(&'static Kernels, u32)> {
    match (*points.metric(), points.has_missing()) {
        (Metric::Euclidean, false) => Some((&kernels::DISTANCES_EUCLIDEAN, 0)),
        (Metric::Euclidean, true) => Some((&kernels::DISTANCES_EUCLIDEAN_HOLES, 0)),
        (Metric::Manhattan, false) => Some((&kernels::DISTANCES_MANHATTAN, 0)),
        (Metric::Manhattan, true) => Some((&kernels::DISTANCES_MANHATTAN_HOLES, 0)),
        (Metric::Maximum, false) => Some((&kernels::DISTANCES_MAXIMUM, 0)),
        (Metric::Maximum, true) => Some((&kernels::DISTANCES_MAXIMUM_HOLES, 0)),
        (Metric::Canberra(convention), _) => Some((&kernels::DISTANCES_CANBERRA, code(convention))),
        (Metric::Binary, _) => Some((&kernels::DISTANCES_BINARY, 0)),
        (
            Metric::Pearson { absolute }
            | Metric::Spearman { absolute }
            | Metric::Cosine { absolute },
            false,
        ) => Some((&kernels::DISTANCES_ANGLE, u32::from(absolute))),
        _ => None,
    }
}

/// Whether the device can make distances of these points.
pub fn fits(points: &Points) -> bool {
    kernel(points).is_some() && points.rows() < i32::MAX as usize
}

/// Writes the distances of `pairs` of points that [`fits`] into `out`; `cpu` does the copying.
///
/// # Errors
/// `Error::Interrupt` when the monitor says stop, `Error::Memory` when the device has too little,
/// `Error::Device` when it fails.
pub fn distances(
    device: &Arc<Device>,
    points: &Points,
    pairs: &Pairs,
    out: &mut [f64],
    cpu: &Cpu,
    monitor: &Monitor,
) -> Result<()> {
    monitor.expect(pairs.count() as u64);
    let mut rest = out;
    let mut work = Work::new(device, points, pairs, cpu)?;
    let mut under_way = VecDeque::new();
    for columns in pieces(pairs, room(pairs)) {
        monitor.check()?;
        if under_way.len() == ABREAST {
            rest = work.finish(under_way.pop_front().expect("is not empty"), rest, monitor)?;
        }
        let piece = work.start(columns)?;
        under_way.push_back(piece);
    }
    for piece in under_way {
        monitor.check()?;
        rest = work.finish(piece, rest, monitor)?;
    }
    Ok(())
}

/// The columns of `pairs`, divided into pieces of at most `room` distances, or one column.
pub fn pieces(pairs: &Pairs, room: usize) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    let (mut first, mut count) = (0, 0);
    for j in 0..pairs.columns() {
        let more = pairs.column(j).rows.len();
        if count + more > room && first < j {
            pieces.push(first..j);
            (first, count) = (j, 0);
        }
        count += more;
    }
    if first < pairs.columns() {
        pieces.push(first..pairs.columns());
    }
    pieces
}

/// Most distances in a piece.
fn room(pairs: &Pairs) -> usize {
    PIECE.max(COLUMNS * pairs.rows()).min(pairs.count())
}

/// A place for a piece: on the device, and on the host where the device reaches it.
struct Place {
    stream: Arc<CudaStream>,
    there: CudaSlice<f64>,
    here: PinnedHostSlice<f64>,
}

/// A piece on its way.
struct Started {
    place: usize,
    count: usize,
}

/// Points on a device, and the kernel for their distances.
pub struct CudaPoints {
    kernel: CudaFunction,
    parameter: u32,
    /// Coordinate after coordinate.
    values: CudaSlice<f64>,
    address: u64,
    rows: usize,
    columns: usize,
}

impl CudaPoints {
    /// Copies points that [`fits`]; `cpu` rearranges them.
    ///
    /// # Errors
    /// As [`distances`].
    pub fn new(
        device: &Device,
        stream: &Arc<CudaStream>,
        points: &Points,
        cpu: &Cpu,
    ) -> Result<Self> {
        let (mut kernels, parameter) = kernel(points).expect("the points fit");
        if cpu.install(|| in_range(points)) {
            kernels = &kernels::DISTANCES_CANBERRA_IN_RANGE;
        }
        let kernel = device.kernel(kernels, "distances")?;
        let by_coordinate = cpu.install(|| by_coordinate(points))?;
        let copy = || -> std::result::Result<CudaSlice<f64>, DriverError> {
            let values = stream.clone_htod(&by_coordinate)?;
            // Other streams read the points, too; and the host's copy must outlive the copying.
            stream.synchronize()?;
            Ok(values)
        };
        let values = copy().map_err(|error| device.error("copying points", &error))?;
        let address = values.device_ptr(stream).0;
        Ok(Self {
            kernel,
            parameter,
            address,
            values,
            rows: points.rows(),
            columns: points.columns(),
        })
    }

    /// Starts the computation of the distances of `pairs` of the points; they go to `out`.
    ///
    /// # Safety
    /// `out` is the address of memory of the device with room for them, which lives until the
    /// stream is done, as `self` does.
    pub unsafe fn start(
        &self,
        stream: &Arc<CudaStream>,
        pairs: &Pairs,
        out: u64,
    ) -> std::result::Result<(), DriverError> {
        debug_assert_eq!(self.values.len(), self.rows * self.columns);
        let first = pairs.first_column();
        let piece = Piece {
            points: self.address,
            out,
            stride: self.rows as u64,
            rows: pairs.rows() as u32,
            columns: self.columns as u32,
            first: first as u32,
            last: (first + pairs.columns()) as u32,
            triangle: u32::from(pairs.is_triangle()),
            parameter: self.parameter,
        };
        let config = LaunchConfig {
            grid_dim: (
                piece.rows.div_ceil(ROWS).max(1),
                pairs.columns().div_ceil(COLUMNS) as u32,
                1,
            ),
            block_dim: (THREADS, 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: the argument is as declared in distances.cu; what it names lives, as the caller
        // says, and there is room for the distances.
        unsafe {
            stream
                .launch_builder(&self.kernel)
                .arg(&piece)
                .launch(config)?;
        }
        Ok(())
    }
}

struct Work<'a> {
    device: Arc<Device>,
    points: CudaPoints,
    pairs: &'a Pairs,
    places: Vec<Place>,
    next: usize,
    cpu: &'a Cpu,
}

impl<'a> Work<'a> {
    fn new(device: &Arc<Device>, points: &Points, pairs: &'a Pairs, cpu: &'a Cpu) -> Result<Self> {
        let room = room(pairs);
        check_memory(
            device,
            "distances of these observations need",
            8 * (points.values().len() + ABREAST * room),
        )?;
        let make = || -> std::result::Result<Vec<Place>, DriverError> {
            let place = |_| -> std::result::Result<Place, DriverError> {
                let stream = device.context.new_stream()?;
                // SAFETY: a kernel writes what is copied, and what is copied is read, no more.
                let (there, here) =
                    unsafe { (stream.alloc(room)?, device.context.alloc_pinned(room)?) };
                Ok(Place {
                    stream,
                    there,
                    here,
                })
            };
            (0..ABREAST).map(place).collect()
        };
        let places = make().map_err(|error| device.error("making room for distances", &error))?;
        Ok(Self {
            device: device.clone(),
            points: CudaPoints::new(device, &places[0].stream, points, cpu)?,
            pairs,
            places,
            next: 0,
            cpu,
        })
    }

    /// Starts the computation of a piece.
    fn start(&mut self, columns: Range<usize>) -> Result<Started> {
        let place = self.next;
        self.next = (self.next + 1) % self.places.len();
        let pairs = self.pairs.part(columns);
        self.try_start(&pairs, place)
            .map_err(|error| self.device.error("computing distances", &error))?;
        Ok(Started {
            place,
            count: pairs.count(),
        })
    }

    fn try_start(&mut self, pairs: &Pairs, place: usize) -> std::result::Result<(), DriverError> {
        let Place {
            stream,
            there,
            here,
        } = &mut self.places[place];
        // SAFETY: the place has room for the distances of a piece, and lives as long as `self`.
        unsafe {
            self.points
                .start(stream, pairs, there.device_ptr(stream).0)?;
        }
        stream.memcpy_dtoh(&there.slice(..pairs.count()), here)
    }

    /// Waits for a piece and puts it at the start of `out`; returns the rest of that.
    fn finish<'b>(
        &mut self,
        started: Started,
        out: &'b mut [f64],
        monitor: &Monitor,
    ) -> Result<&'b mut [f64]> {
        let place = &self.places[started.place];
        let here = place
            .stream
            .synchronize()
            .and_then(|()| place.here.as_slice())
            .map_err(|error| self.device.error("fetching distances", &error))?;
        let (part, rest) = out.split_at_mut(started.count);
        self.cpu.install(|| {
            part.par_chunks_mut(COPY)
                .zip(here.par_chunks(COPY))
                .for_each(|(to, from)| to.copy_from_slice(&from[..to.len()]));
        });
        monitor.advance(started.count as u64);
        Ok(rest)
    }
}

impl Drop for Work<'_> {
    /// What a kernel or a copy is still at must not be freed.
    fn drop(&mut self) {
        for place in &self.places {
            // A device that failed has nothing under way.
            let _ = place.stream.synchronize();
        }
    }
}

/// Whether the metric is one of Canberra's, but not that with 0/0 as 1, and coordinates are 0 or of
/// magnitudes whose quotients need no tests on the way: CanberraInRange in distances.cu.
fn in_range(points: &Points) -> bool {
    let reach = 2f64.powi(500);
    let fits = |value: &f64| {
        let magnitude = value.abs();
        magnitude == 0.0 || (magnitude >= 1.0 / reach && magnitude <= reach)
    };
    matches!(
        points.metric(),
        Metric::Canberra(ZeroOverZero::Omitted | ZeroOverZero::Zero)
    ) && points.values().par_iter().all(fits)
}

/// The points' values, coordinate after coordinate.
fn by_coordinate(points: &Points) -> Result<Vec<f64>> {
    let (rows, columns) = (points.rows(), points.columns());
    let mut values = memory::zeros(memory::OBSERVATIONS, rows * columns)?;
    values
        .par_chunks_mut(rows.max(1))
        .enumerate()
        .for_each(|(k, coordinate)| {
            for (i, value) in coordinate.iter_mut().enumerate() {
                *value = points.row(i)[k];
            }
        });
    Ok(values)
}

/// Refuses what would not fit on the device; `what` needs so many bytes, in words.
pub fn check_memory(device: &Device, what: &str, bytes: usize) -> Result<()> {
    let free = device.free_memory()?;
    if bytes <= free {
        return Ok(());
    }
    Err(Error::Memory(format!(
        "{what} {bytes} bytes on the device, which has {free} free"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{check, constants};

    #[test]
    fn arguments_are_laid_out_as_the_kernels_read_them() {
        let mut constants = constants![THREADS, ROWS, COLUMNS].to_vec();
        constants.extend([
            ("OMIT", code(ZeroOverZero::Omitted).into()),
            ("ZERO", code(ZeroOverZero::Zero).into()),
            ("ONE", code(ZeroOverZero::One).into()),
        ]);
        check("distances_launch.cuh", &[], &[Piece::layout()], &constants);
    }
}
