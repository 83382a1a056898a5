//! The references on a device. If not all references fit, the device has one chunk of them at a
//! time. While it sweeps a chunk, the host copies the next chunk to the other of two buffers.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaStream, DevicePtr};

use super::copier::{ChunkBuffer, Copier};
use super::memory_plan::MemoryPlan;
use super::rows::Rows;
use super::scatter::scatter;
use crate::device::{Device, DriverResult};
use gmhclust_core::error::{Error, Result};

/// Number of bytes of rows from which page-locking saves more time than it takes, if the rows are
/// copied once.
const LOCKED_FROM: usize = 1 << 26;

/// Whether references that are stored row by row can be replaced: the kernel indexes values with 32
/// bits.
pub fn are_replaceable(count: usize, row_len: usize) -> bool {
    u32::try_from(count * row_len).is_ok()
}

/// Consecutive references on the device.
pub struct Chunk {
    /// The positions of the references.
    pub range: Range<usize>,
    /// The device address that position 0 would have.
    pub address: u64,
    /// Distance between consecutive coordinates of a reference, in values.
    pub stride: usize,
    /// Distance between consecutive references, in values.
    pub step: usize,
}

/// The references on a device.
pub struct References {
    device: Arc<Device>,
    /// The stream of the sweeps.
    stream: Arc<CudaStream>,
    scatter: CudaFunction,
    count: usize,
    row_len: usize,
    row_major: bool,
    plan: MemoryPlan,
    /// One buffer if all references fit, otherwise two.
    buffers: Vec<Arc<ChunkBuffer>>,
    /// `None` once all references are on the device for good.
    copier: Option<Copier>,
    /// Number of turns for which the copy of the chunk has begun.
    copied: usize,
    /// Number of turns that have ended.
    swept: usize,
}

impl References {
    /// The first `count` rows as references, in at most `memory` bytes of the device. `scatter` is
    /// the kernel with this name. `whole` requires that all references fit at the same time.
    ///
    /// # Errors
    /// `Error::Memory` if `memory` is too small, `Error::Device` if the device fails.
    pub fn new(
        device: &Arc<Device>,
        stream: &Arc<CudaStream>,
        scatter: &CudaFunction,
        rows: &Arc<Rows>,
        count: usize,
        memory: usize,
        whole: bool,
    ) -> Result<Self> {
        debug_assert!(count > 0);
        let bytes = 4 * rows.row_len();
        let plan = MemoryPlan::new(count, bytes, memory)
            .filter(|plan| !whole || plan.chunk >= count)
            .ok_or_else(|| {
                Error::Memory(format!(
                    "a search among {count} points, {} bytes, needs more than the {memory} bytes \
                     that are free on {}",
                    count * bytes,
                    device.name()
                ))
            })?;
        if plan.chunk < count || count * bytes >= LOCKED_FROM {
            rows.lock(&device.context);
        }
        Self::open(device, stream, scatter, rows, count, plan)
            .map_err(|error| device.error("copying points", &error))
    }

    /// Allocates the buffers and begins to copy the first chunk. If all references fit, waits until
    /// they are copied.
    fn open(
        device: &Arc<Device>,
        stream: &Arc<CudaStream>,
        scatter: &CudaFunction,
        rows: &Arc<Rows>,
        count: usize,
        plan: MemoryPlan,
    ) -> DriverResult<Self> {
        let places: Vec<u32> = (0..plan.piece as u32).collect();
        let buffer = |_| ChunkBuffer::new(stream, plan.chunk * rows.row_len()).map(Arc::new);
        let mut references = Self {
            device: device.clone(),
            stream: stream.clone(),
            scatter: scatter.clone(),
            count,
            row_len: rows.row_len(),
            row_major: rows.row_major(),
            plan,
            buffers: (0..if plan.chunk < count { 2 } else { 1 })
                .map(buffer)
                .collect::<DriverResult<_>>()?,
            copier: Some(Copier::new(stream, scatter, rows, &places)?),
            copied: 0,
            swept: 0,
        };
        // Another stream uses the buffers, too. And `places` must live until it has been
        // transferred.
        stream.synchronize()?;
        references.copy()?;
        if references.chunks() == 1 {
            // Dropping the copier waits until all references are copied.
            references.copier = None;
        }
        Ok(references)
    }

    /// The same references for a second stream. Returns `None` unless the device holds all
    /// references. While one stream begins or ends a batch of queries, the other stream keeps the
    /// device busy. Both streams share the memory for queries evenly.
    pub fn share(&mut self, stream: &Arc<CudaStream>) -> Option<Self> {
        if self.copier.is_some() {
            return None;
        }
        self.plan.left /= 2;
        Some(Self {
            device: self.device.clone(),
            stream: stream.clone(),
            scatter: self.scatter.clone(),
            buffers: self.buffers.clone(),
            copier: None,
            ..*self
        })
    }

    /// Number of chunks, which is the number of turns in a sweep of all references.
    pub fn chunks(&self) -> usize {
        self.count.div_ceil(self.plan.chunk)
    }

    /// Bytes of the device's memory that queries may take.
    pub fn memory_for_queries(&self) -> usize {
        self.plan.left
    }

    /// All references as a chunk, if they fit in one chunk.
    pub fn whole(&self) -> Option<Chunk> {
        (self.chunks() == 1).then(|| self.chunk(0))
    }

    /// The chunk whose turn it is. Kernels launched after this call wait until the chunk was
    /// copied.
    pub fn begin_turn(&mut self) -> DriverResult<Chunk> {
        self.stream.wait(&self.buffer(self.swept).copied)?;
        Ok(self.chunk(self.swept))
    }

    /// Ends a turn after all sweeps of its chunk were launched, and begins to copy the next chunk.
    /// The host waits for a free buffer, so that it does not run far ahead of the device.
    pub fn end_turn(&mut self) -> DriverResult<()> {
        if self.chunks() > 1 {
            self.buffer(self.swept).swept.record(&self.stream)?;
            self.swept += 1;
        }
        self.copy()
    }

    /// The buffer of a turn's chunk.
    fn buffer(&self, turn: usize) -> &Arc<ChunkBuffer> {
        &self.buffers[turn % self.buffers.len()]
    }

    fn chunk(&self, turn: usize) -> Chunk {
        let range = self.range(turn);
        let address = self.buffer(turn).values.device_ptr(&self.stream).0;
        let (stride, step) = if self.row_major {
            (1, self.row_len)
        } else {
            (range.len(), 1)
        };
        Chunk {
            address: address.wrapping_sub((4 * step * range.start) as u64),
            stride,
            step,
            range,
        }
    }

    /// The positions of a turn's chunk.
    fn range(&self, turn: usize) -> Range<usize> {
        let first = turn % self.chunks() * self.plan.chunk;
        first..(first + self.plan.chunk).min(self.count)
    }

    /// Begins to copy the next chunk, as soon as its buffer is free.
    fn copy(&mut self) -> DriverResult<()> {
        let (range, buffer) = (self.range(self.copied), self.buffer(self.copied).clone());
        if let Some(copier) = &mut self.copier {
            buffer.swept.synchronize()?;
            copier.copy(range, &buffer)?;
            self.copied += 1;
        }
        Ok(())
    }

    /// Overwrites the rows at some positions. The device must hold all references. If they are
    /// stored row by row, they must pass [`are_replaceable`].
    pub fn replace(&mut self, rows: &[f32], positions: &[u32]) -> Result<()> {
        let values = &self.buffers[0].values;
        let address = values.device_ptr(&self.stream).0;
        let (places, stride) = if self.row_major {
            // Consecutive values of a row are neighbours, and rows begin at these places.
            let places = positions.iter().map(|&at| at * self.row_len as u32);
            (Cow::Owned(places.collect()), 1)
        } else {
            (Cow::Borrowed(positions), self.count)
        };
        scatter(&self.stream, &self.scatter, rows, &places, address, stride)
            .map_err(|error| self.device.error("copying clusters", &error))
    }
}

impl Drop for References {
    /// Waits for the sweeps of the buffers.
    fn drop(&mut self) {
        // A device that failed has nothing in progress.
        let _ = self.stream.synchronize();
    }
}
