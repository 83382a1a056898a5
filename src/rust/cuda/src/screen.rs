//! The screen on a CUDA device; kernels/screen.cu says what the kernels do.
//!
//! Changes are collected on the host and go over together with the next requests. A batch of
//! requests is two launches and no copy: the kernels read the requests from the host's memory and
//! write the answers there, and the host watches for the word that is written last. A small batch,
//! as most of them are, is one launch, with the requests among the kernel's arguments.

mod words;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use cudarc::driver::sys::CUresult;
use cudarc::driver::{
    CudaFunction, CudaSlice, CudaStream, DevicePtr, DriverError, LaunchConfig, PinnedHostSlice,
    PushKernelArg,
};

use crate::arguments::arguments;
use crate::device::Device;
use crate::kernels::{self, Kernels as Module};
use gmhclust_core::error::{Error, Result};
use gmhclust_core::mahalanobis::packed::packed_len;
use gmhclust_core::mahalanobis::screen::{
    ClusterFrame, ClusterView, MeanPrecision, Screen, ScreenAnswer, ScreenRequest,
};
use gmhclust_core::mahalanobis::Distance;
use gmhclust_core::roster::{Roster, GONE};
use words::{
    as_words, entry_factor, entry_scalar, entry_words, padded_len, Answer, Pending, Scalars,
    SmallBatch, Staging, COORDINATES, ENTRY_POSITION, GROUP, LOW, NO_SHAPE, SCALARS, SHAPE,
    SMALL_BATCH_WORDS,
};

// As in screen_launch.cuh.
const THREADS: u32 = 256;
const QUERIES_PER_BLOCK: u32 = 8;
const MOST_GROUPS: usize = 64;
const TILE: usize = THREADS as usize;
const BALL_SCALARS: usize = 2;

/// The most columns whose queries fit into a block's shared memory.
const MOST_DIMENSIONS: usize = 1_500;

/// Whether a device can have the screen of a frame: the kernels know means in single precision.
pub fn fits(frame: &ClusterFrame) -> bool {
    frame.dimensions() <= MOST_DIMENSIONS && frame.precision == MeanPrecision::Single
}

/// The kernels of a family keep the coordinates of up to so many dimensions in registers; those of
/// the last do not.
const FAMILIES: [(usize, &Module); 5] = [
    (16, &kernels::SCREEN_16),
    (32, &kernels::SCREEN_32),
    (40, &kernels::SCREEN_40),
    (64, &kernels::SCREEN_64),
    (MOST_DIMENSIONS, &kernels::SCREEN_0),
];

/// Most requests in one launch.
const MOST_REQUESTS: usize = 4096;

/// Room in an answer for what is found while the limit comes down: at least one cluster for every
/// warp that works at a time.
const ROOM: usize = 4096;

/// Requests in one launch while merging.
const BATCH: usize = 64;

/// Words of a staging buffer.
const STAGING: usize = 1 << 22;

/// Memory of the host that the device reads and writes.
const MAPPED: u32 = cudarc::driver::sys::CU_MEMHOSTALLOC_DEVICEMAP;

/// Looks at the answer between two questions to the driver.
const LOOKS_BETWEEN_QUERIES: u32 = 1 << 14;

/// Bytes of a slab of whitening factors.
const SLAB: usize = 1 << 26;

arguments! {
    /// As in screen_launch.cuh.
    struct Clusters {
        rows: u64,
        slabs: u64,
        capacity: u32,
        slab_shapes: u32,
        dimensions: u32,
        member_distances: u32,
        balls: u64,
        tiles: u32,
    }
}

struct Kernels {
    update: CudaFunction,
    enclose: CudaFunction,
    compact: CudaFunction,
    collect: Sweeper,
    change_and_collect: Sweeper,
}

/// A kernel that sweeps.
struct Sweeper {
    kernel: CudaFunction,
    /// How many of its blocks are on the device at a time.
    resident: u32,
    /// Bytes of shared memory that a block needs.
    shared: usize,
}

impl Sweeper {
    fn new(device: &Device, kernel: CudaFunction, shared: usize) -> Result<Self> {
        let failed = |error: DriverError| device.error("asking for its size", &error);
        let in_each = kernel.occupancy_max_active_blocks_per_multiprocessor(THREADS, shared, None);
        Ok(Self {
            resident: in_each.map_err(failed)? * device.multiprocessors().map_err(failed)?,
            kernel,
            shared,
        })
    }

    /// For so many queries about the positions before `end`.
    fn config(&self, end: usize, queries: usize) -> LaunchConfig {
        let blocks = (end as u32).div_ceil(THREADS).min(self.resident);
        let rows = (queries as u32).div_ceil(QUERIES_PER_BLOCK);
        config(blocks, rows, self.shared)
    }
}

/// Where on the device what is used for every batch lies. Asking for it there and then would have the
/// driver record an event each time.
#[derive(Default)]
struct Addresses {
    rows: u64,
    spare: u64,
    slabs: u64,
    balls: u64,
    copied: u64,
    counts: u64,
    minima: u64,
}

/// The live clusters on a CUDA device.
pub struct CudaScreen {
    device: Arc<Device>,
    stream: Arc<CudaStream>,
    kernels: Kernels,
    /// Coordinates of a query in shared memory.
    padded: usize,
    frame: ClusterFrame,
    roster: Roster,
    /// Below this many live clusters the CPU is faster.
    least: usize,
    capacity: usize,
    rows: CudaSlice<f32>,
    spare: CudaSlice<f32>,
    balls: CudaSlice<f32>,
    /// How many tiles have a ball.
    tiles: usize,
    slab_shapes: usize,
    slabs: Vec<CudaSlice<f32>>,
    slab_table: CudaSlice<u64>,
    /// By slot, the number of its shape.
    shapes: Vec<u32>,
    free_shapes: Vec<u32>,
    removed: Vec<u32>,
    added: Vec<u32>,
    /// For each of the factors the number of its shape.
    shaped: Vec<u32>,
    factors: Vec<f32>,
    requests: PinnedHostSlice<u32>,
    copied: CudaSlice<u32>,
    answer: PinnedHostSlice<u32>,
    ticket: u32,
    counts: CudaSlice<u32>,
    minima: CudaSlice<u32>,
    addresses: Addresses,
}

impl CudaScreen {
    /// Empty, for clusters in slots below `slots` of which at most `live` live; it is outgrown
    /// when fewer than `least` are left.
    ///
    /// # Errors
    /// `Error::Memory` when the device has too little, `Error::Device` when it fails.
    pub fn new(
        device: &Arc<Device>,
        slots: usize,
        live: usize,
        least: usize,
        frame: ClusterFrame,
    ) -> Result<Self> {
        let p = frame.dimensions();
        // Positions of clusters merged away are reused only when an eighth is empty.
        let capacity = (live + live / 7 + 256).next_multiple_of(TILE);
        let words = (p + SCALARS) * capacity;
        check_memory(device, 2 * 4 * words + 8 * 4 * STAGING, live, p)?;
        let family = FAMILIES.iter().find(|(most, _)| p <= *most);
        let &(most, module) = family
            .ok_or_else(|| Error::Device(format!("kernels for {p} dimensions are not there")))?;
        let padded = if most < MOST_DIMENSIONS { most } else { p };
        let kernel = |name: &str| device.kernel(module, name);
        let sweeper = |name: &str, shared: usize| Sweeper::new(device, kernel(name)?, shared);
        let kernels = Kernels {
            update: kernel("update")?,
            enclose: kernel("enclose")?,
            compact: kernel("compact")?,
            collect: sweeper("collect", shared_bytes(padded))?,
            change_and_collect: sweeper("change_and_collect", 4 * SMALL_BATCH_WORDS)?,
        };
        let infinite = vec![f32::INFINITY.to_bits(); MOST_REQUESTS * MOST_GROUPS];
        let allocate = || -> std::result::Result<Self, DriverError> {
            let context = &device.context;
            let stream = context.new_stream()?;
            // SAFETY: the host writes requests before the kernels read them, and the kernels an
            // answer before the host reads it.
            unsafe {
                Ok(Self {
                    device: device.clone(),
                    kernels,
                    padded,
                    frame,
                    roster: Roster::new(slots),
                    least,
                    capacity,
                    rows: stream.alloc_zeros(words)?,
                    spare: stream.alloc_zeros(words)?,
                    balls: stream.alloc_zeros((p + BALL_SCALARS) * (capacity / TILE))?,
                    tiles: 0,
                    slab_shapes: (SLAB / 4 / packed_len(p)).max(1),
                    slabs: Vec::new(),
                    slab_table: stream.alloc_zeros(1)?,
                    shapes: vec![NO_SHAPE; slots],
                    free_shapes: Vec::new(),
                    removed: Vec::new(),
                    added: Vec::new(),
                    shaped: Vec::new(),
                    factors: Vec::new(),
                    requests: context.alloc_pinned_with_flags(STAGING, MAPPED)?,
                    copied: stream.alloc_zeros(STAGING)?,
                    answer: zeroed(context.alloc_pinned_with_flags(STAGING, MAPPED)?)?,
                    ticket: 0,
                    counts: stream.alloc_zeros(MOST_REQUESTS + 1)?,
                    minima: stream.clone_htod(&infinite)?,
                    addresses: Addresses::default(),
                    stream,
                })
            }
        };
        let screen = allocate().and_then(|mut screen| {
            // What was cleared is so from here on, for all streams.
            screen.stream.synchronize()?;
            screen.find_addresses();
            Ok(screen)
        });
        screen.map_err(|error| device.error("making room for the clusters", &error))
    }

    fn find_addresses(&mut self) {
        let stream = &self.stream;
        self.addresses = Addresses {
            rows: self.rows.device_ptr(stream).0,
            spare: self.spare.device_ptr(stream).0,
            slabs: self.slab_table.device_ptr(stream).0,
            balls: self.balls.device_ptr(stream).0,
            copied: self.copied.device_ptr(stream).0,
            counts: self.counts.device_ptr(stream).0,
            minima: self.minima.device_ptr(stream).0,
        };
    }

    fn clusters(&self) -> Clusters {
        Clusters {
            rows: self.addresses.rows,
            slabs: self.addresses.slabs,
            capacity: self.capacity as u32,
            slab_shapes: self.slab_shapes as u32,
            dimensions: self.frame.dimensions() as u32,
            member_distances: u32::from(self.frame.distance() == Distance::FullMahalanobis),
            balls: self.addresses.balls,
            tiles: self.tiles as u32,
        }
    }

    fn changes(&self) -> usize {
        self.removed.len() + self.added.len() + self.shaped.len() + self.factors.len()
    }

    /// A place for a whitening factor.
    fn new_shape(&mut self) -> Result<u32> {
        if let Some(shape) = self.free_shapes.pop() {
            return Ok(shape);
        }
        let words = self.slab_shapes * packed_len(self.frame.dimensions());
        let first = (self.slabs.len() * self.slab_shapes) as u32;
        let allocate = |screen: &mut Self| -> std::result::Result<(), DriverError> {
            // SAFETY: `update` writes a factor before a sweep reads it.
            let slab = unsafe { screen.stream.alloc(words) }?;
            screen.slabs.push(slab);
            let table: Vec<u64> = screen
                .slabs
                .iter()
                .map(|slab| slab.device_ptr(&screen.stream).0)
                .collect();
            screen.slab_table = screen.stream.clone_htod(&table)?;
            screen.find_addresses();
            // The table on the host must outlive the copy.
            screen.stream.synchronize()
        };
        allocate(self).map_err(|error| {
            self.device
                .error("making room for the shapes of clusters", &error)
        })?;
        self.free_shapes
            .extend((first..first + self.slab_shapes as u32).rev());
        Ok(self.free_shapes.pop().expect("a slab holds a shape"))
    }

    /// Sends the changes and the requests, if there are any.
    fn send(&mut self, views: &[&ClusterView], pending: &[Pending]) -> Result<()> {
        self.try_send(views, pending)
            .map_err(|error| self.device.error("a sweep", &error))
    }

    fn try_send(
        &mut self,
        views: &[&ClusterView],
        pending: &[Pending],
    ) -> std::result::Result<(), DriverError> {
        let answer = self.answer.as_ptr()? as u64;
        self.ticket = self.ticket.wrapping_add(1).max(1);
        let end = pending.iter().map(|request| request.end).max().unwrap_or(0);
        if self.is_small_batch(views) {
            return self.change_and_collect(views, pending, end, answer);
        }
        let factors = self.update(views, pending)?;
        self.enclose()?;
        if pending.is_empty() {
            // The requests' memory is free again when this returns.
            return self.stream.synchronize();
        }
        self.collect(pending.len(), end, factors, answer)
    }

    /// Words of an entry of `added`.
    fn entry_words(&self) -> usize {
        entry_words(self.frame.dimensions())
    }

    /// Whether the changes and these requests fit into a kernel's arguments.
    fn is_small_batch(&self, views: &[&ClusterView]) -> bool {
        let p = self.frame.dimensions();
        let shaped = views.iter().filter(|view| !view.whitening.is_empty());
        let queries = views.len() * (COORDINATES + self.padded) + shaped.count() * padded_len(p);
        let tiles = self.roster.positions() / TILE;
        (1..=QUERIES_PER_BLOCK as usize).contains(&views.len())
            && tiles == self.tiles
            && self.changes() + queries + GROUP <= SMALL_BATCH_WORDS
    }

    /// Launches a small batch.
    fn change_and_collect(
        &mut self,
        views: &[&ClusterView],
        pending: &[Pending],
        end: usize,
        answer: u64,
    ) -> std::result::Result<(), DriverError> {
        let mut batch = SmallBatch {
            removed: self.removed.len() as u32,
            added: (self.added.len() / self.entry_words()) as u32,
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
        staging.put(&self.removed);
        staging.put(&self.added);
        batch.packed_at = staging.put(as_words(&self.factors)) as u32;
        batch.queries_at = staging.put_queries(views, pending, self.padded) as u32;
        batch.factors_at = staging.put_factors(views) as u32;
        batch.length = staging.used as u32;
        self.forget_changes();
        let clusters = self.clusters();
        let sweeper = &self.kernels.change_and_collect;
        // SAFETY: arguments as declared in screen.cu, in bounds as laid out there. The host's
        // memory is pinned, so that its address is good on the device, and stays as it is until
        // the answer is there or the stream is synchronized.
        unsafe {
            self.stream
                .launch_builder(&sweeper.kernel)
                .arg(&clusters)
                .arg(&batch)
                .arg(&self.addresses.minima)
                .arg(&self.addresses.counts)
                .arg(&answer)
                .arg(&self.ticket)
                .launch(sweeper.config(end, pending.len()))?;
        }
        Ok(())
    }

    /// Launches the changes, and the copying of the requests; where on the device the requests'
    /// whitening factors will be.
    fn update(
        &mut self,
        views: &[&ClusterView],
        pending: &[Pending],
    ) -> std::result::Result<u64, DriverError> {
        let p = self.frame.dimensions();
        let mut staging = Staging {
            words: self.requests.as_mut_slice()?,
            used: 0,
        };
        let removed_at = staging.put(&self.removed);
        let added_at = staging.put(&self.added);
        let shaped_at = staging.put(&self.shaped);
        let factors_at = staging.put(as_words(&self.factors));
        // A copy of the queries begins with whole groups, as its factors must.
        staging.used = staging.used.next_multiple_of(GROUP);
        let queries_at = staging.put_queries(views, pending, p);
        let factors_from = staging.put_factors(views) - queries_at;
        let words = (staging.used - queries_at) as u32;
        let base = staging.words.as_ptr() as u64;
        let at = |word: usize| base + 4 * word as u64;
        let (removed, added, shaped) = (at(removed_at), at(added_at), at(shaped_at));
        let (factors, queries) = (at(factors_at), at(queries_at));
        let blocks = (staging.used as u32).div_ceil(THREADS).min(1024);
        let removed_count = self.removed.len() as u32;
        let added_count = (self.added.len() / self.entry_words()) as u32;
        let shaped_count = self.shaped.len() as u32;
        self.forget_changes();
        let clusters = self.clusters();
        // SAFETY: as in `change_and_collect`.
        unsafe {
            self.stream
                .launch_builder(&self.kernels.update)
                .arg(&clusters)
                .arg(&removed)
                .arg(&removed_count)
                .arg(&added)
                .arg(&added_count)
                .arg(&shaped)
                .arg(&shaped_count)
                .arg(&factors)
                .arg(&queries)
                .arg(&words)
                .arg(&self.addresses.copied)
                .launch(config(blocks, 1, 0))?;
        }
        Ok(self.addresses.copied + 4 * factors_from as u64)
    }

    /// Launches the sweep for the requests that were copied.
    fn collect(
        &self,
        requests: usize,
        end: usize,
        factors: u64,
        answer: u64,
    ) -> std::result::Result<(), DriverError> {
        let clusters = self.clusters();
        let sweeper = &self.kernels.collect;
        let count = requests as u32;
        // SAFETY: as in `change_and_collect`.
        unsafe {
            self.stream
                .launch_builder(&sweeper.kernel)
                .arg(&clusters)
                .arg(&self.addresses.copied)
                .arg(&count)
                .arg(&factors)
                .arg(&self.addresses.minima)
                .arg(&self.addresses.counts)
                .arg(&answer)
                .arg(&self.ticket)
                .launch(sweeper.config(end, requests))?;
        }
        Ok(())
    }

    fn forget_changes(&mut self) {
        self.removed.clear();
        self.added.clear();
        self.shaped.clear();
        self.factors.clear();
    }

    /// Draws the balls around the tiles that have become full.
    fn enclose(&mut self) -> std::result::Result<(), DriverError> {
        let full = self.roster.positions() / TILE;
        let (first, count) = (self.tiles as u32, (full - self.tiles) as u32);
        if count == 0 {
            return Ok(());
        }
        let clusters = self.clusters();
        // SAFETY: arguments as declared in screen.cu; all clusters of these tiles have gone over.
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

    /// Waits for the answer that carries the present ticket.
    fn wait(&self) -> Result<()> {
        self.try_wait()
            .map_err(|error| self.device.error("a sweep", &error))
    }

    fn try_wait(&self) -> std::result::Result<(), DriverError> {
        // SAFETY: the first word of the answer, aligned and alive as long as `self`; the device
        // writes it, which is what an atomic load is for.
        let first = unsafe { AtomicU32::from_ptr(self.answer.as_ptr()?.cast_mut()) };
        loop {
            for _ in 0..LOOKS_BETWEEN_QUERIES {
                if first.load(Ordering::Acquire) == self.ticket {
                    return Ok(());
                }
                std::hint::spin_loop();
            }
            // A device that failed never answers: ask the driver now and then.
            // SAFETY: the stream lives as long as `self`.
            let state = unsafe { cudarc::driver::sys::cuStreamQuery(self.stream.cu_stream()) };
            match state {
                CUresult::CUDA_ERROR_NOT_READY => {}
                CUresult::CUDA_SUCCESS => return self.stream.synchronize(),
                failed => return failed.result(),
            }
        }
    }

    /// One launch for these requests; those whose answers found no room stay pending.
    fn launch(
        &mut self,
        requests: &[ScreenRequest<'_>],
        pending: Vec<Pending>,
        answers: &mut [Option<ScreenAnswer>],
        meanwhile: &mut Option<&mut dyn FnMut()>,
    ) -> Result<Vec<Pending>> {
        let view = |request: &Pending| requests[request.index].view;
        let views: Vec<&ClusterView> = pending.iter().map(view).collect();
        self.send(&views, &pending)?;
        // Clusters that are asked for are often pushed next.
        for view in views.iter().take(BATCH) {
            view.columns();
        }
        if let Some(work) = meanwhile.take() {
            work();
        }
        self.wait()?;
        let out = self
            .answer
            .as_slice()
            .map_err(|error| self.device.error("an answer", &error))?;
        let answer = Answer::new(out, pending.len());
        let mut again = Vec::new();
        let mut at = 0;
        for (i, mut pending) in pending.into_iter().enumerate() {
            let found = answer.found(i);
            let floor = answer.limit(i);
            let entries = answer.entries(at, found.min(pending.room));
            at += pending.room;
            let request = &requests[pending.index];
            if found <= pending.room {
                answers[pending.index] = Some(self.found(request, entries, floor));
                continue;
            }
            // Too many: as many as wanted are known to be below this limit.
            let mut bounds: Vec<u32> = entries.iter().map(|entry| entry[0]).collect();
            let wanted = (request.capacity + request.skip.len()).min(bounds.len()) - 1;
            let (_, &mut bound, _) = bounds.select_nth_unstable(wanted);
            let limit = f32::from_bits(bound + 1);
            if limit >= pending.limit {
                pending.room = (4 * pending.room).max(found).min(pending.end);
            }
            pending.limit = limit.min(floor);
            again.push(pending);
        }
        Ok(again)
    }

    fn found(&self, request: &ScreenRequest, entries: &[[u32; 2]], floor: f32) -> ScreenAnswer {
        let unit = self.frame.unit();
        let bound = |&[bound, position]: &[u32; 2]| {
            let slot = self.roster.slot(position as usize);
            let known = slot == GONE || request.skip.binary_search(&slot).is_ok();
            let bound = f32::from_bits(bound);
            (!known && bound < floor).then(|| (f64::from(bound) * unit, slot))
        };
        let mut bounds = Vec::with_capacity(entries.len());
        bounds.extend(entries.iter().filter_map(bound));
        ScreenAnswer {
            bounds,
            floor: f64::from(floor) * unit,
        }
    }
}

impl Screen for CudaScreen {
    fn push(&mut self, slot: u32, view: &ClusterView) -> Result<()> {
        let shape = if view.whitening.is_empty() {
            NO_SHAPE
        } else {
            self.new_shape()?
        };
        self.shapes[slot as usize] = shape;
        let position = self.roster.push(slot);
        self.added.push(position as u32);
        self.added.extend_from_slice(as_words(&view.mean));
        self.added
            .extend_from_slice(Scalars::new(view, shape).as_words());
        self.added.push(self.shaped.len() as u32);
        if shape != NO_SHAPE {
            self.shaped.push(shape);
            self.factors.extend_from_slice(view.columns());
        }
        if self.changes() > STAGING / 4 {
            self.send(&[], &[])?;
        }
        Ok(())
    }

    fn remove(&mut self, slot: u32) -> Result<()> {
        let shape = std::mem::replace(&mut self.shapes[slot as usize], NO_SHAPE);
        if shape != NO_SHAPE {
            self.free_shapes.push(shape);
        }
        let position = self.roster.remove(slot);
        if !self.withdraw(position as u32) {
            self.removed.push(position as u32);
        }
        if self.roster.is_sparse() {
            self.send(&[], &[])?;
            let from = self.roster.compact();
            self.compact(&from)
                .map_err(|error| self.device.error("closing gaps", &error))?;
        }
        Ok(())
    }

    fn roster(&self) -> &Roster {
        &self.roster
    }

    fn sweep(
        &mut self,
        requests: &[ScreenRequest<'_>],
        meanwhile: &mut dyn FnMut(),
    ) -> Result<Vec<ScreenAnswer>> {
        let mut answers: Vec<Option<ScreenAnswer>> = vec![None; requests.len()];
        let mut waiting: Vec<Pending> = requests
            .iter()
            .enumerate()
            .rev()
            .map(|(index, request)| {
                let wanted = request.capacity + request.skip.len();
                Pending {
                    index,
                    end: request.end,
                    limit: ((request.limit / self.frame.unit()) as f32).next_up(),
                    // With fewer groups than are wanted, too few would be found.
                    groups: if request.is_tight || wanted > MOST_GROUPS {
                        0
                    } else {
                        wanted
                    },
                    room: (ROOM + 8 * wanted).min(request.end.max(1)),
                }
            })
            .collect();
        let dimensions = self.frame.dimensions();
        let length = |pending: &Pending| {
            let shaped = !requests[pending.index].view.whitening.is_empty();
            COORDINATES + dimensions + if shaped { padded_len(dimensions) } else { 0 }
        };
        let mut meanwhile = Some(meanwhile);
        while !waiting.is_empty() {
            let (mut words, mut room, mut count) = (self.changes() + 2 * GROUP, 1, 0);
            for pending in waiting.iter().rev().take(MOST_REQUESTS) {
                words += length(pending);
                room += 2 + 2 * pending.room;
                if words > STAGING || room > STAGING {
                    break;
                }
                count += 1;
            }
            if count == 0 {
                return Err(Error::Memory(
                    "a sweep on the CUDA device found more than its answers have room for".into(),
                ));
            }
            let mut now = waiting.split_off(waiting.len() - count);
            now.reverse();
            let mut again = self.launch(requests, now, &mut answers, &mut meanwhile)?;
            waiting.append(&mut again);
        }
        Ok(answers
            .into_iter()
            .map(|answer| answer.expect("every request is answered"))
            .collect())
    }

    fn batch(&self) -> usize {
        BATCH
    }

    fn is_outgrown(&self, live: usize) -> bool {
        live < self.least
    }
}

impl CudaScreen {
    /// Makes nothing of a cluster that has not gone over yet: its shape's place may already be
    /// another's. Says whether there was one.
    fn withdraw(&mut self, position: u32) -> bool {
        let p = self.frame.dimensions();
        let length = self.entry_words();
        let mut pending = self.added.chunks_mut(length).rev();
        let Some(entry) = pending.find(|entry| entry[ENTRY_POSITION] == position) else {
            return false;
        };
        entry[entry_scalar(p, LOW)] = f32::NAN.to_bits();
        if entry[entry_scalar(p, SHAPE)] != NO_SHAPE {
            self.shaped[entry[entry_factor(p)] as usize] = NO_SHAPE;
        }
        entry[entry_scalar(p, SHAPE)] = NO_SHAPE;
        true
    }

    fn compact(&mut self, from: &[u32]) -> std::result::Result<(), DriverError> {
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

/// Shared memory of a block for its queries.
fn shared_bytes(padded: usize) -> usize {
    4 * (COORDINATES + padded) * QUERIES_PER_BLOCK as usize
}

fn config(blocks: u32, rows: u32, shared: usize) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (blocks.max(1), rows, 1),
        block_dim: (THREADS, 1, 1),
        shared_mem_bytes: shared as u32,
    }
}

fn zeroed(
    mut slice: PinnedHostSlice<u32>,
) -> std::result::Result<PinnedHostSlice<u32>, DriverError> {
    slice.as_mut_slice()?.fill(0);
    Ok(slice)
}

/// Refuses what would not fit on the device, saying what would.
fn check_memory(device: &Device, bytes: usize, live: usize, p: usize) -> Result<()> {
    let free = device.free_memory()?;
    if bytes <= free {
        return Ok(());
    }
    let fit = (free.saturating_sub(8 * 4 * STAGING)) / (2 * 4 * (p + SCALARS) * 8 / 7);
    Err(Error::Memory(format!(
        "`X` with {live} clusters in {p} dimensions needs {bytes} bytes on the device, which has \
         {free} free; about {fit} clusters would fit"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{check, constants};
    use gmhclust_core::mahalanobis::screen::checks::check_answers;

    #[test]
    fn clusters_are_laid_out_as_the_kernels_read_them() {
        let constants = constants![THREADS, QUERIES_PER_BLOCK, MOST_GROUPS, TILE, BALL_SCALARS];
        check("screen_launch.cuh", &[], &[Clusters::layout()], &constants);
    }

    #[test]
    #[ignore = "needs an NVIDIA GPU"]
    fn the_gpu_s_answers_are_what_they_promise_on_small_data() {
        let device = Device::shared(0).unwrap();
        check_answers(MeanPrecision::Single, |slots, frame| {
            Box::new(CudaScreen::new(&device, slots, slots, 0, frame).unwrap())
        });
    }
}
