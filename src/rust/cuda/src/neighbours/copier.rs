//! Copies of chunks of references to a device.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{
    result, CudaEvent, CudaFunction, CudaSlice, CudaStream, DevicePtr, PushKernelArg,
};

use super::rows::Rows;
use super::scatter::by_tiles;
use crate::device::DriverResult;

/// A buffer in device memory for one chunk at a time.
pub struct ChunkBuffer {
    /// The rows of the chunk: value by value (coordinates, then scalars), or row by row.
    pub values: CudaSlice<f32>,
    /// The event that the chunk was copied.
    pub copied: CudaEvent,
    /// The event that the chunk was swept. Then the buffer is free.
    pub swept: CudaEvent,
}

impl ChunkBuffer {
    /// A buffer for `len` values, which kernels on `stream` sweep.
    pub fn new(stream: &Arc<CudaStream>, len: usize) -> DriverResult<Self> {
        let context = stream.context();
        Ok(Self {
            // SAFETY: a sweep reads only values that were copied to the buffer.
            values: unsafe { stream.alloc(len) }?,
            copied: context.new_event(None)?,
            swept: context.new_event(None)?,
        })
    }
}

/// Copies rows to the device, on its own stream.
pub struct Copier {
    stream: Arc<CudaStream>,
    scatter: CudaFunction,
    rows: Arc<Rows>,
    /// Rows on the device, row by row as on the host, before `scatter` transposes them.
    piece: CudaSlice<f32>,
    /// The indices of the rows in the piece: 0, 1, …
    places: CudaSlice<u32>,
}

impl Copier {
    /// A copier of `places.len()` rows at a time. `places` must be the numbers from 0. Allocates on
    /// `stream`, which the caller must synchronize before the first copy and before dropping
    /// `places`.
    pub fn new(
        stream: &Arc<CudaStream>,
        scatter: &CudaFunction,
        rows: &Arc<Rows>,
        places: &[u32],
    ) -> DriverResult<Self> {
        Ok(Self {
            stream: stream.context().new_stream()?,
            scatter: scatter.clone(),
            rows: rows.clone(),
            // SAFETY: the kernel reads only values that were copied to the piece.
            piece: unsafe { stream.alloc(places.len() * rows.row_len()) }?,
            places: stream.clone_htod(places)?,
        })
    }

    /// Copies the rows of some positions to a buffer, and records the buffer's event `copied`.
    pub fn copy(&mut self, positions: Range<usize>, buffer: &ChunkBuffer) -> DriverResult<()> {
        let address = buffer.values.device_ptr(&self.stream).0;
        let at_a_time = self.places.len();
        for first in positions.clone().step_by(at_a_time) {
            let some = first..(first + at_a_time).min(positions.end);
            let before = first - positions.start;
            if self.rows.row_major() {
                self.stream.context().bind_to_thread()?;
                // SAFETY: the buffer has room for these rows from this address on, and the host's
                // rows live as long as `self`.
                unsafe {
                    let to = address + (4 * before * self.rows.row_len()) as u64;
                    let rows = self.rows.between(some);
                    result::memcpy_htod_async(to, rows, self.stream.cu_stream())?;
                }
                continue;
            }
            self.scatter_piece(some, address + 4 * before as u64, positions.len())?;
        }
        buffer.copied.record(&self.stream)
    }

    /// Copies some rows, value by value, to a device address. Consecutive values of a row are
    /// `stride` apart there.
    fn scatter_piece(
        &mut self,
        positions: Range<usize>,
        address: u64,
        stride: usize,
    ) -> DriverResult<()> {
        let count = positions.len() as u32;
        let row_len = self.rows.row_len() as u32;
        self.stream
            .memcpy_htod(self.rows.between(positions), &mut self.piece)?;
        // SAFETY: arguments as declared in neighbours.cu; the buffer has room for these rows from
        // this address on. The piece is overwritten on the same stream, after it was read.
        unsafe {
            self.stream
                .launch_builder(&self.scatter)
                .arg(&self.piece)
                .arg(&self.places)
                .arg(&count)
                .arg(&row_len)
                .arg(&address)
                .arg(&(stride as u64))
                .launch(by_tiles(count, row_len))?;
        }
        Ok(())
    }
}

impl Drop for Copier {
    /// Waits for the copies into the buffers.
    fn drop(&mut self) {
        // A device that failed has nothing in progress.
        let _ = self.stream.synchronize();
    }
}
