//! The clusters of a screen in a device's memory, and the launches that change and sweep them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use cudarc::driver::sys::{self, CUresult};
use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, PushKernelArg};
use gmhclust_core::error::{Error, Result};
use gmhclust_core::mahalanobis::screen::{ClusterFrame, ClusterView};
use gmhclust_core::mahalanobis::Distance;

use super::changes::Changes;
use super::factors::Factors;
use super::kernels::{
    config, update_config, Clusters, ScreenKernels, BALL_SCALARS, MOST_GROUPS, QUERIES_PER_BLOCK,
    THREADS, TILE,
};
use super::wire::{
    as_words, padded_len, Answer, Pending, SmallBatch, Staging, COORDINATES, GROUP, SCALARS,
    SMALL_BATCH_WORDS,
};
use crate::device::{Device, DriverResult};
use crate::mapped::MappedWords;

/// Largest number of requests of a launch: the length of the device's arrays of counts and least
/// bounds.
pub const MOST_REQUESTS: usize = 4096;

/// Number of words (16 MiB) of each buffer for requests or answers.
pub const STAGING: usize = 1 << 22;

/// Number of polls of an answer between two queries of the driver, each of which takes longer than
/// a poll.
const POLLS_PER_QUERY: u32 = 1 << 14;

/// Device addresses of the arrays that every batch uses. Calling `device_ptr` for every launch
/// would make the driver record an event each time.
#[derive(Default)]
struct Addresses {
    rows: u64,
    spare: u64,
    balls: u64,
    copied: u64,
    counts: u64,
    minima: u64,
}

/// The live clusters in a device's memory.
pub struct DeviceClusters {
    device: Arc<Device>,
    stream: Arc<CudaStream>,
    kernels: ScreenKernels,
    dimensions: usize,
    /// The distance that the bounds bound.
    distance: Distance,
    /// Largest number of positions.
    capacity: usize,
    rows: CudaSlice<f32>,
    /// The target of the rows when gaps between them are closed.
    spare: CudaSlice<f32>,
    balls: CudaSlice<f32>,
    /// Number of tiles that have a ball.
    tiles: usize,
    factors: Factors,
    requests: MappedWords,
    /// The copy of the requests on the device.
    copied: CudaSlice<u32>,
    answer: MappedWords,
    /// The number of the last batch, which the device writes in front of a complete answer.
    ticket: u32,
    counts: CudaSlice<u32>,
    minima: CudaSlice<u32>,
    addresses: Addresses,
}

impl DeviceClusters {
    /// Allocates memory for at most `live` clusters in slots below `slots`.
    ///
    /// # Errors
    /// `Error::Memory` if the device has too little memory, `Error::Device` if it fails.
    pub fn new(
        device: &Arc<Device>,
        slots: usize,
        live: usize,
        frame: &ClusterFrame,
    ) -> Result<Self> {
        let p = frame.dimensions();
        // Positions of clusters that were merged away are reused only when an eighth of all
        // positions is empty.
        let capacity = (live + live / 7 + 256).next_multiple_of(TILE);
        let words = (p + SCALARS) * capacity;
        check_memory(device, 2 * 4 * words + 8 * 4 * STAGING, live, p)?;
        let kernels = ScreenKernels::new(device, p)?;
        let clusters = Self::allocate(device, kernels, slots, capacity, frame);
        clusters.map_err(|error| device.error("making room for the clusters", &error))
    }

    fn allocate(
        device: &Arc<Device>,
        kernels: ScreenKernels,
        slots: usize,
        capacity: usize,
        frame: &ClusterFrame,
    ) -> DriverResult<Self> {
        let p = frame.dimensions();
        let context = &device.context;
        let stream = context.new_stream()?;
        let words = (p + SCALARS) * capacity;
        let infinite = vec![f32::INFINITY.to_bits(); MOST_REQUESTS * MOST_GROUPS];
        let mut clusters = Self {
            device: device.clone(),
            kernels,
            dimensions: p,
            distance: frame.distance(),
            capacity,
            rows: stream.alloc_zeros(words)?,
            spare: stream.alloc_zeros(words)?,
            balls: stream.alloc_zeros((p + BALL_SCALARS) * (capacity / TILE))?,
            tiles: 0,
            factors: Factors::new(&stream, slots, p)?,
            requests: MappedWords::new(context, STAGING)?,
            copied: stream.alloc_zeros(STAGING)?,
            answer: MappedWords::new(context, STAGING)?,
            ticket: 0,
            counts: stream.alloc_zeros(MOST_REQUESTS + 1)?,
            minima: stream.clone_htod(&infinite)?,
            addresses: Addresses::default(),
            stream,
        };
        // After this, all streams see the zeros.
        clusters.stream.synchronize()?;
        clusters.find_addresses();
        Ok(clusters)
    }

    fn find_addresses(&mut self) {
        let stream = &self.stream;
        self.addresses = Addresses {
            rows: self.rows.device_ptr(stream).0,
            spare: self.spare.device_ptr(stream).0,
            balls: self.balls.device_ptr(stream).0,
            copied: self.copied.device_ptr(stream).0,
            counts: self.counts.device_ptr(stream).0,
            minima: self.minima.device_ptr(stream).0,
        };
    }

    fn clusters(&self) -> Clusters {
        Clusters {
            rows: self.addresses.rows,
            slabs: self.factors.address(),
            capacity: self.capacity as u32,
            slab_shapes: self.factors.slab_shapes() as u32,
            dimensions: self.dimensions as u32,
            member_distances: u32::from(self.distance == Distance::FullMahalanobis),
            balls: self.addresses.balls,
            tiles: self.tiles as u32,
        }
    }

    /// Assigns memory to the whitening factor of the cluster in a slot; returns the factor's
    /// number.
    ///
    /// # Errors
    /// As [`DeviceClusters::new`].
    pub fn assign_factor(&mut self, slot: u32) -> Result<u32> {
        let shape = self.factors.assign(&self.stream, slot);
        shape.map_err(|error| {
            self.device
                .error("making room for the shapes of clusters", &error)
        })
    }

    /// Frees the memory of the whitening factor of the cluster in a slot, if it has one.
    pub fn release_factor(&mut self, slot: u32) {
        self.factors.release(slot);
    }

    /// Sends the changes and the requests, if there are any. Requests search clusters at positions
    /// below `positions`.
    ///
    /// # Errors
    /// `Error::Device` when the device fails.
    pub fn send(
        &mut self,
        changes: &mut Changes,
        views: &[&ClusterView],
        pending: &[Pending],
        positions: usize,
    ) -> Result<()> {
        self.try_send(changes, views, pending, positions)
            .map_err(|error| self.device.error("a sweep", &error))
    }

    fn try_send(
        &mut self,
        changes: &mut Changes,
        views: &[&ClusterView],
        pending: &[Pending],
        positions: usize,
    ) -> DriverResult<()> {
        let answer = self.answer.as_ptr() as u64;
        self.ticket = self.ticket.wrapping_add(1).max(1);
        let end = pending.iter().map(|request| request.end).max().unwrap_or(0);
        if self.is_small_batch(changes, views, positions) {
            return self.change_and_collect(changes, views, pending, end, answer);
        }
        let factors = self.update(changes, views, pending)?;
        self.enclose(positions / TILE)?;
        if pending.is_empty() {
            // The requests' memory is free once this returns.
            return self.stream.synchronize();
        }
        self.collect(pending.len(), end, factors, answer)
    }

    /// Whether the changes and requests fit into the arguments of a kernel.
    fn is_small_batch(&self, changes: &Changes, views: &[&ClusterView], positions: usize) -> bool {
        let shaped = views.iter().filter(|view| !view.whitening.is_empty());
        let queries = views.len() * (COORDINATES + self.kernels.padded)
            + shaped.count() * padded_len(self.dimensions);
        (1..=QUERIES_PER_BLOCK as usize).contains(&views.len())
            && positions / TILE == self.tiles
            && changes.len() + queries + GROUP <= SMALL_BATCH_WORDS
    }

    /// Launches a batch that fits into the arguments of a kernel.
    fn change_and_collect(
        &mut self,
        changes: &mut Changes,
        views: &[&ClusterView],
        pending: &[Pending],
        end: usize,
        answer: u64,
    ) -> DriverResult<()> {
        let mut batch = SmallBatch {
            removed: changes.removed.len() as u32,
            added: changes.added_count() as u32,
            queries: pending.len() as u32,
            packed_at: 0,
            queries_at: 0,
            factors_at: 0,
            length: 0,
            unused: 0,
            words: [0; SMALL_BATCH_WORDS],
        };
        let mut staging = Staging {
            words: &mut batch.words,
            used: 0,
        };
        staging.put(&changes.removed);
        staging.put(&changes.added);
        batch.packed_at = staging.put(as_words(&changes.factors)) as u32;
        batch.queries_at = staging.put_queries(views, pending, self.kernels.padded) as u32;
        batch.factors_at = staging.put_factors(views) as u32;
        batch.length = staging.used as u32;
        changes.clear();
        let clusters = self.clusters();
        let sweep = &self.kernels.change_and_collect;
        // SAFETY: arguments as declared in screen.cu, in bounds as laid out there. The host's
        // memory is pinned, so that its address is valid on the device, and unchanged until the
        // answer is complete or the stream is synchronized.
        unsafe {
            self.stream
                .launch_builder(&sweep.kernel)
                .arg(&clusters)
                .arg(&batch)
                .arg(&self.addresses.minima)
                .arg(&self.addresses.counts)
                .arg(&answer)
                .arg(&self.ticket)
                .launch(sweep.config(end, pending.len()))?;
        }
        Ok(())
    }

    /// Launches the kernel that applies the changes and copies the requests. Returns the device
    /// address of the requests' whitening factors.
    fn update(
        &mut self,
        changes: &mut Changes,
        views: &[&ClusterView],
        pending: &[Pending],
    ) -> DriverResult<u64> {
        let mut staging = Staging {
            words: self.requests.as_mut_slice(),
            used: 0,
        };
        let removed_at = staging.put(&changes.removed);
        let added_at = staging.put(&changes.added);
        let shaped_at = staging.put(&changes.shaped);
        let factors_at = staging.put(as_words(&changes.factors));
        // The copy of the queries is aligned to groups of words, since its factors must be.
        staging.used = staging.used.next_multiple_of(GROUP);
        let queries_at = staging.put_queries(views, pending, self.dimensions);
        let factors_from = staging.put_factors(views) - queries_at;
        let used = staging.used;
        let words = (used - queries_at) as u32;
        let base = staging.words.as_ptr() as u64;
        let at = |word: usize| base + 4 * word as u64;
        let removed_count = changes.removed.len() as u32;
        let added_count = changes.added_count() as u32;
        let shaped_count = changes.shaped.len() as u32;
        changes.clear();
        let clusters = self.clusters();
        // SAFETY: as in `change_and_collect`.
        unsafe {
            self.stream
                .launch_builder(&self.kernels.update)
                .arg(&clusters)
                .arg(&at(removed_at))
                .arg(&removed_count)
                .arg(&at(added_at))
                .arg(&added_count)
                .arg(&at(shaped_at))
                .arg(&shaped_count)
                .arg(&at(factors_at))
                .arg(&at(queries_at))
                .arg(&words)
                .arg(&self.addresses.copied)
                .launch(update_config(used))?;
        }
        Ok(self.addresses.copied + 4 * factors_from as u64)
    }

    /// Launches the sweep for the requests that were copied.
    fn collect(&self, requests: usize, end: usize, factors: u64, answer: u64) -> DriverResult<()> {
        let clusters = self.clusters();
        let sweep = &self.kernels.collect;
        let count = requests as u32;
        // SAFETY: as in `change_and_collect`.
        unsafe {
            self.stream
                .launch_builder(&sweep.kernel)
                .arg(&clusters)
                .arg(&self.addresses.copied)
                .arg(&count)
                .arg(&factors)
                .arg(&self.addresses.minima)
                .arg(&self.addresses.counts)
                .arg(&answer)
                .arg(&self.ticket)
                .launch(sweep.config(end, requests))?;
        }
        Ok(())
    }

    /// Computes the balls of the tiles that have become full; now the first `full` tiles are full.
    fn enclose(&mut self, full: usize) -> DriverResult<()> {
        let (first, count) = (self.tiles as u32, (full - self.tiles) as u32);
        if count == 0 {
            return Ok(());
        }
        let clusters = self.clusters();
        // SAFETY: arguments as declared in screen.cu; all clusters of these tiles were sent.
        unsafe {
            self.stream
                .launch_builder(&self.kernels.enclose)
                .arg(&clusters)
                .arg(&first)
                .launch(config(count, 1, 0))?;
        }
        self.tiles = full;
        Ok(())
    }

    /// Waits for the answer to the last batch of requests.
    ///
    /// # Errors
    /// `Error::Device` when the device fails.
    pub fn wait(&self) -> Result<()> {
        self.try_wait()
            .map_err(|error| self.device.error("a sweep", &error))
    }

    fn try_wait(&self) -> DriverResult<()> {
        // SAFETY: the first word of the answer, aligned and alive as long as `self`; the device
        // writes it, which is what an atomic load is for.
        let first = unsafe { AtomicU32::from_ptr(self.answer.as_ptr()) };
        loop {
            for _ in 0..POLLS_PER_QUERY {
                if first.load(Ordering::Acquire) == self.ticket {
                    return Ok(());
                }
                std::hint::spin_loop();
            }
            // A device that failed never answers: query the driver now and then. SAFETY: the stream
            // lives as long as `self`.
            let state = unsafe { sys::cuStreamQuery(self.stream.cu_stream()) };
            match state {
                CUresult::CUDA_ERROR_NOT_READY => {}
                CUresult::CUDA_SUCCESS => return self.stream.synchronize(),
                failed => return failed.result(),
            }
        }
    }

    /// The answer to the last batch of requests, once [`DeviceClusters::wait`] has returned.
    pub fn answer(&self, requests: usize) -> Answer<'_> {
        Answer::new(self.answer.as_slice(), requests)
    }

    /// Moves the clusters at positions `from` to positions 0, 1, …
    ///
    /// # Errors
    /// `Error::Device` when the device fails.
    pub fn compact(&mut self, from: &[u32]) -> Result<()> {
        self.try_compact(from)
            .map_err(|error| self.device.error("closing gaps", &error))
    }

    fn try_compact(&mut self, from: &[u32]) -> DriverResult<()> {
        let count = from.len() as u32;
        let positions = self.stream.clone_htod(from)?;
        let clusters = self.clusters();
        // SAFETY: arguments as declared in screen.cu; `from` holds positions below the capacity.
        unsafe {
            self.stream
                .launch_builder(&self.kernels.compact)
                .arg(&clusters)
                .arg(&self.addresses.spare)
                .arg(&positions)
                .arg(&count)
                .launch(config(count.div_ceil(THREADS), 1, 0))?;
        }
        std::mem::swap(&mut self.rows, &mut self.spare);
        self.find_addresses();
        self.tiles = 0;
        // `from` must outlive its copy.
        self.stream.synchronize()
    }
}

/// Checks that the clusters fit into the free memory of the device. The error names the number of
/// clusters that would fit.
fn check_memory(device: &Device, bytes: usize, live: usize, p: usize) -> Result<()> {
    let free = device.free_memory()?;
    if bytes <= free {
        return Ok(());
    }
    let fit = (free.saturating_sub(8 * 4 * STAGING)) / (2 * 4 * (p + SCALARS) * 8 / 7);
    Err(Error::Memory(format!(
        "`x` with {live} clusters in {p} dimensions needs {bytes} bytes on the device, which has \
         {free} free; about {fit} clusters would fit"
    )))
}
