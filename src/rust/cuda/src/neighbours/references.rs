//! The references on a device: all of them, or, where they do not fit, chunks of them that take
//! turns. While one chunk is swept, the next is copied to the other of two places.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{
    result, sys, CudaContext, CudaEvent, CudaFunction, CudaSlice, CudaStream, DevicePtr,
    DriverError, LaunchConfig, PushKernelArg,
};

use super::searcher::{TILE, WARP};
use crate::device::Device;
use gmhclust_core::error::{Error, Result};

/// Bytes that are copied at a time, at most.
const PIECE_BYTES: usize = 1 << 24;

/// Bytes of a chunk, at most: a fraction of a second's copying.
const CHUNK_BYTES: usize = 1 << 30;

/// What the driver returns.
type Outcome<T> = std::result::Result<T, DriverError>;

/// Bytes from which on locking the pages of rows that are copied once takes less time than it saves.
const LOCKED_FROM: usize = 1 << 26;

/// Views of all points in the host's memory, by position.
pub struct Rows {
    /// Coordinates and scalars, row after row.
    values: Vec<f32>,
    height: usize,
    /// Whether they lie so on devices, too; else number after number.
    by_row: bool,
    /// Who has locked the values' pages, if anybody.
    locked: Mutex<Option<Arc<CudaContext>>>,
}

impl Rows {
    /// Of `height` values each; `by_row` if they are to lie so on devices, too.
    pub fn new(values: Vec<f32>, height: usize, by_row: bool) -> Self {
        Self {
            values,
            height,
            by_row,
            locked: Mutex::new(None),
        }
    }

    /// Values of a row.
    pub fn height(&self) -> usize {
        self.height
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.values.len() / self.height
    }

    /// Some that follow each other.
    pub fn between(&self, positions: Range<usize>) -> &[f32] {
        &self.values[positions.start * self.height..positions.end * self.height]
    }

    /// The rows at some positions, one after the other.
    pub fn at(&self, positions: &[u32]) -> Cow<'_, [f32]> {
        let first = positions.first().map_or(0, |&first| first as usize);
        let follow = |(i, &position): (usize, &u32)| position as usize == first + i;
        if positions.iter().enumerate().all(follow) {
            return Cow::Borrowed(self.between(first..first + positions.len()));
        }
        let mut rows = Vec::with_capacity(positions.len() * self.height);
        for &position in positions {
            let position = position as usize;
            rows.extend_from_slice(self.between(position..position + 1));
        }
        Cow::Owned(rows)
    }

    /// Locks the pages, so that all devices reach them by themselves. Where the driver refuses that,
    /// copying takes longer.
    fn lock(&self, context: &Arc<CudaContext>) {
        let mut locked = self.locked.lock().unwrap_or_else(PoisonError::into_inner);
        if locked.is_some() || context.bind_to_thread().is_err() {
            return;
        }
        let flags = sys::CU_MEMHOSTREGISTER_PORTABLE;
        // SAFETY: the values stay where they are, and as they are, until `drop` unlocks them.
        let result = unsafe {
            sys::cuMemHostRegister_v2(
                self.values.as_ptr() as *mut _,
                size_of_val(&self.values[..]),
                flags,
            )
        };
        if result.result().is_ok() {
            *locked = Some(context.clone());
        }
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        let locked = self.locked.get_mut();
        if let Some(context) = locked.unwrap_or_else(PoisonError::into_inner) {
            if context.bind_to_thread().is_ok() {
                // SAFETY: locked above, and nobody copies any more: who does holds the rows. A
                // device that failed has nothing locked.
                let _ = unsafe { sys::cuMemHostUnregister(self.values.as_ptr() as *mut _) };
            }
        }
    }
}

/// How a device's memory is divided.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Plan {
    /// References in a chunk, at most; all of them where they fit.
    chunk: usize,
    /// Rows that are copied at a time.
    piece: usize,
    /// Bytes that are left for queries.
    left: usize,
}

impl Plan {
    /// For so many references of so many bytes each; `None` where the memory does not suffice.
    fn new(references: usize, bytes: usize, memory: usize) -> Option<Self> {
        let piece = (PIECE_BYTES.min(memory / 16) / bytes).clamp(1, references.max(1));
        // Rows with their numbers, and the references' groups.
        let others = piece * (bytes + 4) + 4 * references;
        let plan = |chunk: usize, places: usize| {
            let left = memory.checked_sub(others + places * chunk * bytes)?;
            Some(Self { chunk, piece, left })
        };
        if references * bytes <= memory / 4 * 3 {
            return plan(references, 1);
        }
        // Every batch of queries has all chunks copied once, so many queries at a time are worth
        // more than large chunks.
        let most = CHUNK_BYTES.min(memory / 8) / bytes / TILE * TILE;
        if most == 0 {
            return None;
        }
        let chunks = references.div_ceil(most);
        plan(references.div_ceil(chunks).next_multiple_of(TILE), 2)
    }
}

/// References on the device.
pub struct Chunk {
    /// Where they are, by position.
    pub range: Range<usize>,
    /// The address that position 0 would have.
    pub address: u64,
    /// Numbers from one coordinate to the next.
    pub stride: usize,
    /// Numbers from one reference to the next.
    pub step: usize,
}

/// Where a chunk has its turn.
struct Place {
    /// Coordinates, then scalars, each for all of the chunk; or row after row.
    values: CudaSlice<f32>,
    /// That the chunk was copied.
    copied: CudaEvent,
    /// That it was swept, and the place is free.
    swept: CudaEvent,
}

/// What copies rows to the device.
struct Copier {
    stream: Arc<CudaStream>,
    scatter: CudaFunction,
    rows: Arc<Rows>,
    /// Rows that were copied, as the host has them, and their numbers.
    piece: CudaSlice<f32>,
    numbers: CudaSlice<u32>,
}

impl Copier {
    /// Copies the rows of some positions to a place, and records that there.
    fn copy(&mut self, positions: Range<usize>, place: &Place) -> Outcome<()> {
        let address = place.values.device_ptr(&self.stream).0;
        let height = self.rows.height() as u32;
        let at_a_time = self.numbers.len();
        for first in positions.clone().step_by(at_a_time) {
            let some = first..(first + at_a_time).min(positions.end);
            let count = some.len() as u32;
            let before = first - positions.start;
            if self.rows.by_row {
                self.stream.context().bind_to_thread()?;
                // SAFETY: the place has room for these rows from here on, and the host's rows live
                // as long as this does.
                unsafe {
                    let to = address + (4 * before * self.rows.height()) as u64;
                    let rows = self.rows.between(some);
                    result::memcpy_htod_async(to, rows, self.stream.cu_stream())?;
                }
                continue;
            }
            self.stream
                .memcpy_htod(self.rows.between(some), &mut self.piece)?;
            // SAFETY: arguments as declared in neighbours.cu; the place has room for these rows from
            // here on. The piece is overwritten in this same stream, after it was read.
            unsafe {
                self.stream
                    .launch_builder(&self.scatter)
                    .arg(&self.piece)
                    .arg(&self.numbers)
                    .arg(&count)
                    .arg(&height)
                    .arg(&(address + 4 * before as u64))
                    .arg(&(positions.len() as u64))
                    .launch(by_tiles(count, height))?;
            }
        }
        place.copied.record(&self.stream)
    }
}

impl Drop for Copier {
    /// What is being copied must not be freed.
    fn drop(&mut self) {
        // A device that failed has nothing under way.
        let _ = self.stream.synchronize();
    }
}

/// The references on a device.
pub struct References {
    device: Arc<Device>,
    /// Where they are swept.
    stream: Arc<CudaStream>,
    scatter: CudaFunction,
    count: usize,
    height: usize,
    by_row: bool,
    plan: Plan,
    /// One where all fit, or two.
    places: Vec<Arc<Place>>,
    /// None where all are there.
    copier: Option<Copier>,
    /// Turns for which a chunk was copied, and those that are over.
    copied: usize,
    swept: usize,
}

impl References {
    /// The first `count` of the rows, in at most `memory` bytes of the device; `scatter` is the
    /// kernel of that name.
    ///
    /// # Errors
    /// `Error::Memory` where that does not suffice, or, `whole`, not for all of them at a time;
    /// `Error::Device` when the device fails.
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
        let bytes = 4 * rows.height();
        let plan = Plan::new(count, bytes, memory)
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
        let make = || -> Outcome<Self> {
            let place = || -> Outcome<Arc<Place>> {
                Ok(Arc::new(Place {
                    // SAFETY: what is swept of it was copied there.
                    values: unsafe { stream.alloc(plan.chunk * rows.height()) }?,
                    copied: device.context.new_event(None)?,
                    swept: device.context.new_event(None)?,
                }))
            };
            let numbers: Vec<u32> = (0..plan.piece as u32).collect();
            let mut references = Self {
                device: device.clone(),
                stream: stream.clone(),
                scatter: scatter.clone(),
                count,
                height: rows.height(),
                by_row: rows.by_row,
                plan,
                places: (0..if plan.chunk < count { 2 } else { 1 })
                    .map(|_| place())
                    .collect::<Outcome<_>>()?,
                copier: Some(Copier {
                    stream: device.context.new_stream()?,
                    scatter: scatter.clone(),
                    rows: rows.clone(),
                    // SAFETY: no more of it is read than was copied there.
                    piece: unsafe { stream.alloc(plan.piece * rows.height()) }?,
                    numbers: stream.clone_htod(&numbers)?,
                }),
                copied: 0,
                swept: 0,
            };
            // Another stream uses all this, too; and the host's numbers must outlive the copying.
            stream.synchronize()?;
            references.copy()?;
            if references.chunks() == 1 {
                // Waits until all is there.
                references.copier = None;
            }
            Ok(references)
        };
        make().map_err(|error| device.error("copying points", &error))
    }

    /// The same references for another stream, where all are there: who sweeps for one batch of
    /// queries keeps the device busy while another is about to begin or end.
    pub fn twin(&mut self, stream: &Arc<CudaStream>) -> Option<Self> {
        if self.copier.is_some() {
            return None;
        }
        self.plan.left /= 2;
        Some(Self {
            device: self.device.clone(),
            stream: stream.clone(),
            scatter: self.scatter.clone(),
            places: self.places.clone(),
            copier: None,
            ..*self
        })
    }

    /// How many chunks there are: the turns of a sweep of all references.
    pub fn chunks(&self) -> usize {
        self.count.div_ceil(self.plan.chunk)
    }

    /// Bytes of the device's memory that queries may take.
    pub fn left(&self) -> usize {
        self.plan.left
    }

    /// All references, where they are one chunk.
    pub fn whole(&self) -> Option<Chunk> {
        (self.chunks() == 1).then(|| self.chunk(0))
    }

    /// The chunk whose turn it is: what is launched from now on waits for it.
    pub fn turn(&mut self) -> Outcome<Chunk> {
        self.stream.wait(&self.place(self.swept).copied)?;
        Ok(self.chunk(self.swept))
    }

    /// Ends a turn, once all sweeps of the chunk are launched. Meanwhile the next is copied; the
    /// host waits until there is a place for it, so that it is not far ahead of the device.
    pub fn done(&mut self) -> Outcome<()> {
        if self.chunks() > 1 {
            self.place(self.swept).swept.record(&self.stream)?;
            self.swept += 1;
        }
        self.copy()
    }

    /// Where a turn's chunk lies.
    fn place(&self, turn: usize) -> &Arc<Place> {
        &self.places[turn % self.places.len()]
    }

    fn chunk(&self, turn: usize) -> Chunk {
        let range = self.range(turn);
        let address = self.place(turn).values.device_ptr(&self.stream).0;
        let (stride, step) = match self.by_row {
            true => (1, self.height),
            false => (range.len(), 1),
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

    /// Begins to copy the next chunk, as soon as its place is free.
    fn copy(&mut self) -> Outcome<()> {
        let (range, place) = (self.range(self.copied), self.place(self.copied).clone());
        if let Some(copier) = &mut self.copier {
            place.swept.synchronize()?;
            copier.copy(range, &place)?;
            self.copied += 1;
        }
        Ok(())
    }

    /// Puts rows to positions, where all references are there, number after number.
    pub fn replace(&mut self, rows: &[f32], positions: &[u32]) -> Result<()> {
        debug_assert!(!self.by_row);
        let values = &self.places[0].values;
        let address = values.device_ptr(&self.stream).0;
        scatter(
            &self.stream,
            &self.scatter,
            rows,
            positions,
            address,
            self.count,
        )
        .map_err(|error| self.device.error("copying clusters", &error))
    }
}

impl Drop for References {
    /// What a sweep is still at must not be freed.
    fn drop(&mut self) {
        // A device that failed has nothing under way.
        let _ = self.stream.synchronize();
    }
}

/// Puts rows to positions of what lies coordinate after coordinate at an address.
pub fn scatter(
    stream: &Arc<CudaStream>,
    kernel: &CudaFunction,
    rows: &[f32],
    positions: &[u32],
    address: u64,
    stride: usize,
) -> Outcome<()> {
    let count = positions.len() as u32;
    if count == 0 {
        return Ok(());
    }
    let height = (rows.len() / positions.len()) as u32;
    let rows = stream.clone_htod(rows)?;
    let positions = stream.clone_htod(positions)?;
    // SAFETY: arguments as declared in neighbours.cu; positions are below the stride.
    unsafe {
        stream
            .launch_builder(kernel)
            .arg(&rows)
            .arg(&positions)
            .arg(&count)
            .arg(&height)
            .arg(&address)
            .arg(&(stride as u64))
            .launch(by_tiles(count, height))?;
    }
    // The host's copies must outlive the copying.
    stream.synchronize()
}

/// For the kernel `scatter`.
fn by_tiles(count: u32, height: u32) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (count.div_ceil(WARP), height.div_ceil(WARP), 1),
        block_dim: (WARP, 8, 1),
        shared_mem_bytes: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_that_fit_are_one_chunk_and_others_are_many() {
        let bytes = 4 * 299;
        for (references, memory) in [
            (384_126, 144usize << 30),
            (384_126, 700 << 20),
            (384_126, 192 << 20),
            (384_126, 16 << 20),
            (1000, 2 << 20),
            (1, 1 << 20),
        ] {
            let plan = Plan::new(references, bytes, memory).unwrap();
            let chunks = references.div_ceil(plan.chunk);
            let places = if chunks > 1 { 2 } else { 1 };
            assert_eq!(chunks > 1, references * bytes > memory / 4 * 3);
            assert!(chunks == 1 || plan.chunk.is_multiple_of(TILE));
            assert!(plan.chunk * bytes <= CHUNK_BYTES || chunks == 1);
            let used = places * plan.chunk * bytes + plan.piece * (bytes + 4) + 4 * references;
            assert_eq!(used + plan.left, memory);
            assert!(plan.left >= memory / 8, "{plan:?} of {memory}");
        }
        let chunks =
            |memory| 384_126usize.div_ceil(Plan::new(384_126, bytes, memory).unwrap().chunk);
        assert!(chunks(192 << 20) >= 8);
        assert_eq!(Plan::new(384_126, bytes, 1 << 20), None);
    }
}
