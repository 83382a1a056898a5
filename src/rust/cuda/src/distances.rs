//! Distances on a CUDA device. The kernels are in kernels/distances.cu.
//!
//! The device computes the result in pieces. While it computes a piece, earlier pieces are copied
//! to pinned memory of the host, and from there to the result. So neither the device nor the host
//! has to hold the whole result twice.

#[cfg(test)]
mod decisions;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaSlice, CudaStream, DevicePtr, LaunchConfig, PushKernelArg};
use rayon::prelude::*;

use crate::arguments::arguments;
use crate::device::{Device, DriverResult};
use crate::kernels::{self, Kernels};
use crate::pinned::Pinned;
use gmhclust_core::distances::Pairs;
use gmhclust_core::error::{Error, Result};
use gmhclust_core::memory;
use gmhclust_core::metric::{Metric, Points, ZeroOverZero};
use gmhclust_core::monitor::Monitor;
use gmhclust_core::Cpu;

// distances/launch.cuh defines the same constants; a test compares them.

/// Threads of a block.
const THREADS: u32 = 256;
/// Rows of the distances that a block computes.
const ROWS: u32 = 128;
/// Columns of the distances that a block computes.
const COLUMNS: usize = 64;

/// Smallest number of distances of a piece, 16 MiB. If it is smaller, launches take longer than the
/// computation.
const LEAST_PIECE: usize = 1 << 21;

/// Number of pieces in progress at a time: the device computes one piece, another is being fetched,
/// and another is being copied.
const BUFFERS: usize = 3;

/// Number of distances that a thread copies at a time. It is small enough to share the work evenly.
const COPY_LEN: usize = 1 << 16;

arguments! {
    /// As in distances/launch.cuh.
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

/// The kernels' number for a convention on 0/0, as in forms.cuh.
pub fn code(convention: ZeroOverZero) -> u32 {
    match convention {
        ZeroOverZero::Omitted => 0,
        ZeroOverZero::Zero => 1,
        ZeroOverZero::One => 2,
    }
}

/// The kernel for these points, and its parameter. Returns `None` if there is no kernel: the CPU
/// computes Minkowski distances, and correlations of data with missing values.
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

/// Whether the device can compute the distances of these points.
pub fn fits(points: &Points) -> bool {
    kernel(points).is_some() && points.rows() < i32::MAX as usize
}

/// Writes the distances of `pairs` of points to `out`. The points must pass [`fits`]. The threads
/// of `cpu` copy the results.
///
/// # Errors
/// `Error::Interrupt` when the monitor says stop, `Error::Memory` if the device has too little
/// memory, `Error::Device` if it fails.
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
    for columns in pieces(pairs, piece_len(pairs)) {
        monitor.check()?;
        if under_way.len() == BUFFERS {
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

/// Divides the columns of `pairs` into pieces of at most `most` distances. A piece has at least one
/// column.
pub fn pieces(pairs: &Pairs, most: usize) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    let (mut first, mut count) = (0, 0);
    for j in 0..pairs.columns() {
        let more = pairs.column(j).rows.len();
        if count + more > most && first < j {
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

/// Largest number of distances of a piece.
fn piece_len(pairs: &Pairs) -> usize {
    LEAST_PIECE.max(COLUMNS * pairs.rows()).min(pairs.count())
}

/// Memory for a piece: on the device, and pinned on the host.
struct PieceBuffer {
    stream: Arc<CudaStream>,
    there: CudaSlice<f64>,
    here: Pinned<f64>,
}

/// A piece that the device is computing or sending.
struct Started {
    buffer: usize,
    count: usize,
}

/// Points on a device, and the kernel for their distances.
pub struct CudaPoints {
    kernel: CudaFunction,
    parameter: u32,
    /// The values, coordinate by coordinate.
    values: CudaSlice<f64>,
    address: u64,
    rows: usize,
    columns: usize,
}

impl CudaPoints {
    /// Copies points that pass [`fits`] to the device. The threads of `cpu` rearrange them.
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
        let copy = || -> DriverResult<CudaSlice<f64>> {
            let values = stream.clone_htod(&by_coordinate)?;
            // Other streams read the points, too. And the copy in host memory must live until it
            // has been transferred.
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

    /// Launches the kernel that writes the distances of `pairs` of the points to `out`.
    ///
    /// # Safety
    /// `out` is the address of device memory with room for the distances. This memory and `self`
    /// live until the stream is done.
    pub unsafe fn start(
        &self,
        stream: &Arc<CudaStream>,
        pairs: &Pairs,
        out: u64,
    ) -> DriverResult<()> {
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
        // SAFETY: the argument is as declared in distances.cu; its arrays live, and have room for
        // the distances, as the caller guarantees.
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
    buffers: Vec<PieceBuffer>,
    next: usize,
    cpu: &'a Cpu,
}

impl<'a> Work<'a> {
    fn new(device: &Arc<Device>, points: &Points, pairs: &'a Pairs, cpu: &'a Cpu) -> Result<Self> {
        let len = piece_len(pairs);
        check_memory(
            device,
            "distances of these observations need",
            8 * (points.values().len() + BUFFERS * len),
        )?;
        let make = || -> DriverResult<Vec<PieceBuffer>> {
            let buffer = |_| -> DriverResult<PieceBuffer> {
                let stream = device.context.new_stream()?;
                // SAFETY: a kernel writes the device's buffer before it is copied.
                let there = unsafe { stream.alloc(len)? };
                let here = Pinned::new(&device.context, len)?;
                Ok(PieceBuffer {
                    stream,
                    there,
                    here,
                })
            };
            (0..BUFFERS).map(buffer).collect()
        };
        let buffers = make().map_err(|error| device.error("making room for distances", &error))?;
        Ok(Self {
            device: device.clone(),
            points: CudaPoints::new(device, &buffers[0].stream, points, cpu)?,
            pairs,
            buffers,
            next: 0,
            cpu,
        })
    }

    /// Starts the computation of a piece.
    fn start(&mut self, columns: Range<usize>) -> Result<Started> {
        let buffer = self.next;
        self.next = (self.next + 1) % self.buffers.len();
        let pairs = self.pairs.part(columns);
        self.try_start(&pairs, buffer)
            .map_err(|error| self.device.error("computing distances", &error))?;
        Ok(Started {
            buffer,
            count: pairs.count(),
        })
    }

    fn try_start(&mut self, pairs: &Pairs, buffer: usize) -> DriverResult<()> {
        let PieceBuffer {
            stream,
            there,
            here,
        } = &mut self.buffers[buffer];
        // SAFETY: the buffer has room for the distances of a piece, and lives as long as `self`.
        unsafe {
            self.points
                .start(stream, pairs, there.device_ptr(stream).0)?;
        }
        stream.memcpy_dtoh(&there.slice(..pairs.count()), &mut here[..])
    }

    /// Waits for a piece and copies it to the start of `out`. Returns the rest of `out`.
    fn finish<'b>(
        &mut self,
        started: Started,
        out: &'b mut [f64],
        monitor: &Monitor,
    ) -> Result<&'b mut [f64]> {
        let buffer = &self.buffers[started.buffer];
        let fetched = buffer.stream.synchronize();
        fetched.map_err(|error| self.device.error("fetching distances", &error))?;
        let here = &buffer.here[..];
        let (part, rest) = out.split_at_mut(started.count);
        self.cpu.install(|| {
            part.par_chunks_mut(COPY_LEN)
                .zip(here.par_chunks(COPY_LEN))
                .for_each(|(to, from)| to.copy_from_slice(&from[..to.len()]));
        });
        monitor.advance(started.count as u64);
        Ok(rest)
    }
}

impl Drop for Work<'_> {
    /// Waits for the kernels and copies that use the buffers.
    fn drop(&mut self) {
        for buffer in &self.buffers {
            // A device that failed has nothing in progress.
            let _ = buffer.stream.synchronize();
        }
    }
}

/// Whether the form CanberraInRange of forms.cuh can compute the distances: the metric is
/// Canberra with 0/0 as 0 or omitted, and each coordinate is 0 or has a magnitude from 2^-500 to
/// 2^500, so that quotients cannot overflow.
fn in_range(points: &Points) -> bool {
    let largest = 2f64.powi(500);
    let fits = |value: &f64| {
        let magnitude = value.abs();
        magnitude == 0.0 || (magnitude >= 1.0 / largest && magnitude <= largest)
    };
    matches!(
        points.metric(),
        Metric::Canberra(ZeroOverZero::Omitted | ZeroOverZero::Zero)
    ) && points.values().par_iter().all(fits)
}

/// The points' values, coordinate by coordinate.
fn by_coordinate(points: &Points) -> Result<Vec<f64>> {
    let (rows, columns) = (points.rows(), points.columns());
    let mut values = memory::zeros(memory::COPY_OF_OBSERVATIONS, rows * columns)?;
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

/// Checks that the device has `bytes` bytes of free memory. `what` starts the error message and
/// contains its verb, as in "the distances need".
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
        let constants = constants![THREADS, ROWS, COLUMNS];
        check("distances/launch.cuh", &[], &[Piece::layout()], &constants);
        let conventions = [
            ("OMIT", code(ZeroOverZero::Omitted).into()),
            ("ZERO", code(ZeroOverZero::Zero).into()),
            ("ONE", code(ZeroOverZero::One).into()),
        ];
        check("forms.cuh", &[], &[], &conventions);
    }
}
