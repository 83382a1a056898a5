//! The dissimilarities of all clusters on a device.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, PushKernelArg};
use gmhclust_core::distances::Pairs;
use gmhclust_core::error::Result;
use gmhclust_core::linkage::condensed::{self, pairs, position, row_start, CondensedMatrix};
use gmhclust_core::linkage::dissimilarities::{
    Contraction, Dissimilarities, NearestClusters, Neighbour,
};
use gmhclust_core::linkage::lance_williams::Recurrence;
use gmhclust_core::metric::Points;
use gmhclust_core::monitor::Monitor;
use gmhclust_core::{Cpu, Merge};
use rayon::prelude::*;

use super::launch::{
    blocks, search_config, DissimilarityKernels, Merging, Rest, Search, Step, THREADS,
};
use super::memory::buffer_len;
use super::plan::Plan;
use crate::chain;
use crate::device::{Device, DriverResult};
use crate::distances::{pieces, CudaPoints};
use crate::stored::OnDevice;

/// Number of entries below which one thread computes their positions faster than several threads.
/// Only the time depends on it.
const MIN_ENTRIES_PER_TASK: usize = 1 << 12;

/// The dissimilarities of all clusters on a device, stored as `T`.
pub struct CudaDissimilarities<T> {
    device: Arc<Device>,
    stream: Arc<CudaStream>,
    kernels: DissimilarityKernels,
    /// The dissimilarities. Those of active clusters come first.
    values: CudaSlice<T>,
    /// A buffer for dissimilarities that are being computed or moved.
    buffer: CudaSlice<f64>,
    clusters: usize,
    /// Whether dissimilarities are the squares of the stored values.
    squared: bool,
    /// The CPU makes chains of fewer clusters than this number.
    chain_clusters: usize,
}

impl<T: OnDevice> CudaDissimilarities<T> {
    /// Allocates memory for the dissimilarities of `n` clusters. If `squared`, the dissimilarities
    /// are the squares of the stored values.
    ///
    /// # Errors
    /// `Error::Memory` if the device has too little memory, `Error::Device` if it fails.
    pub fn new(device: &Arc<Device>, n: usize, squared: bool) -> Result<Self> {
        let kernels = DissimilarityKernels::new(device, T::KERNELS)?;
        let make = || -> DriverResult<_> {
            let stream = device.context.new_stream()?;
            // SAFETY: both arrays are written before they are read.
            let (values, buffer) = unsafe {
                (
                    stream.alloc::<T>(pairs(n))?,
                    stream.alloc::<f64>(buffer_len(n))?,
                )
            };
            // Other streams write to this memory, too.
            stream.synchronize()?;
            Ok((stream, values, buffer))
        };
        let (stream, values, buffer) =
            make().map_err(|error| device.error("making room for dissimilarities", &error))?;
        Ok(Self {
            device: device.clone(),
            stream,
            kernels,
            values,
            buffer,
            clusters: n,
            squared,
            chain_clusters: 0,
        })
    }

    /// Makes the CPU take chains of fewer than `clusters` clusters.
    pub fn set_chain_clusters(&mut self, clusters: usize) {
        self.chain_clusters = clusters;
    }

    /// The stored values of all dissimilarities.
    pub fn values_mut(&mut self) -> &mut CudaSlice<T> {
        &mut self.values
    }

    /// Waits for all work on the stream.
    fn wait(&self) -> Result<()> {
        self.stream
            .synchronize()
            .map_err(|error| self.device.error("linkage", &error))
    }

    fn address(&self) -> u64 {
        self.values.device_ptr(&self.stream).0
    }

    /// Computes the distances of points, for a metric that the device can compute.
    ///
    /// # Errors
    /// As [`CudaDissimilarities::new`], and `Error::Interrupt` when the monitor says stop.
    pub fn compute(&mut self, points: &Points, cpu: &Cpu, monitor: &Monitor) -> Result<()> {
        let on_device = CudaPoints::new(&self.device, &self.stream, points, cpu)?;
        let all = Pairs::within(self.clusters);
        monitor.expect(all.count() as u64);
        for columns in pieces(&all, self.buffer.len()) {
            monitor.check()?;
            let first = row_start(self.clusters, columns.start);
            let part = all.part(columns);
            self.compute_part(&on_device, &part, first)
                .map_err(|error| self.device.error("computing distances", &error))?;
            self.wait()?;
            monitor.advance(part.count() as u64);
        }
        Ok(())
    }

    fn compute_part(
        &mut self,
        points: &CudaPoints,
        part: &Pairs,
        first: usize,
    ) -> DriverResult<()> {
        let stream = &self.stream;
        let out = self.address() + (first * size_of::<T>()) as u64;
        if size_of::<T>() == size_of::<f64>() {
            // SAFETY: there is room for all distances; the caller waits for the stream.
            return unsafe { points.start(stream, part, out) };
        }
        // SAFETY: the buffer has room for a piece; arguments as declared in dissimilarities.cu.
        unsafe {
            points.start(stream, part, self.buffer.device_ptr(stream).0)?;
            stream
                .launch_builder(&self.kernels.narrow)
                .arg(&self.buffer)
                .arg(&out)
                .arg(&(part.count() as u64))
                .launch(blocks(part.count().div_ceil(THREADS as usize).min(1 << 20)))?;
        }
        Ok(())
    }

    /// Searches for the nearest clusters of each `wanted` cluster. Also returns the position of the
    /// first dissimilarity in their rows that a linkage cannot use, if any.
    fn search(&self, wanted: &[u32]) -> DriverResult<(NearestClusters, Option<usize>)> {
        let each = NearestClusters::of_each(self.clusters);
        if wanted.is_empty() {
            return Ok((NearestClusters::new(Vec::new(), each), None));
        }
        let stream = &self.stream;
        let count = wanted.len();
        let wanted = stream.clone_htod(wanted)?;
        let unusable = stream.clone_htod(&[u64::MAX])?;
        // SAFETY: `nearest` writes all elements of both arrays.
        let (dissimilarities, slots) = unsafe {
            (
                stream.alloc::<f64>(count * each)?,
                stream.alloc::<u32>(count * each)?,
            )
        };
        let search = Search {
            values: self.address(),
            wanted: wanted.device_ptr(stream).0,
            dissimilarities: dissimilarities.device_ptr(stream).0,
            slots: slots.device_ptr(stream).0,
            unusable: unusable.device_ptr(stream).0,
            clusters: self.clusters as u32,
            count: count as u32,
            each: each as u32,
            squared: u32::from(self.squared),
        };
        // SAFETY: the argument is as declared in dissimilarities.cu; its arrays have the declared
        // sizes and live until the stream is synchronized below.
        unsafe {
            stream
                .launch_builder(&self.kernels.nearest)
                .arg(&search)
                .launch(search_config(count))?;
        }
        let dissimilarities = stream.clone_dtoh(&dissimilarities)?;
        let slots = stream.clone_dtoh(&slots)?;
        let unusable = stream.clone_dtoh(&unusable)?;
        stream.synchronize()?;
        let neighbour = |(&dissimilarity, &slot)| Neighbour {
            dissimilarity,
            slot,
        };
        let neighbours = dissimilarities.par_iter().zip(&slots).map(neighbour);
        let unusable = (unusable[0] != u64::MAX).then_some(unusable[0] as usize);
        Ok((NearestClusters::new(neighbours.collect(), each), unusable))
    }

    /// Returns the error about the dissimilarity at this position.
    fn refuse(&self, position: usize) -> Result<()> {
        let n = self.clusters;
        let after = |&slot: &usize| row_start(n, slot) > position;
        let slot = (1..n).find(after).unwrap_or(n) - 1;
        let row = self
            .values
            .slice(row_start(n, slot)..row_start(n, slot + 1));
        let row = self.stream.clone_dtoh(&row).and_then(|row| {
            self.stream.synchronize()?;
            Ok(row)
        });
        let row = row.map_err(|error| self.device.error("fetching dissimilarities", &error))?;
        let dissimilarity = |value: &T| match value.load() {
            value if self.squared => value * value,
            value => value,
        };
        condensed::check::<T>(&row.iter().map(dissimilarity).collect::<Vec<f64>>(), slot)
    }

    /// Merges clusters in place, and moves the dissimilarities of active clusters to the front.
    fn contract_in_place(
        &mut self,
        contraction: &Contraction,
        plan: &Plan,
        monitor: &Monitor,
    ) -> Result<()> {
        let buffers = ContractionBuffers::new(&self.stream, self.clusters, contraction, plan);
        let buffers = buffers.map_err(|error| self.device.error("merging clusters", &error))?;
        for batch in &plan.batches {
            monitor.check()?;
            self.merge(&buffers, contraction.recurrence, batch)
                .map_err(|error| self.device.error("merging clusters", &error))?;
        }
        let active = plan.active.len();
        // No part overwrites dissimilarities that later parts read.
        for rows in pieces(&Pairs::within(active), self.buffer.len()) {
            monitor.check()?;
            self.gather(&buffers, active, rows)
                .map_err(|error| self.device.error("merging clusters", &error))?;
        }
        self.wait()?;
        self.clusters = active;
        self.squared = false;
        Ok(())
    }

    /// Launches a batch of steps. No two steps of a batch have a slot in common.
    fn merge(
        &self,
        buffers: &ContractionBuffers,
        recurrence: Recurrence,
        batch: &Range<usize>,
    ) -> DriverResult<()> {
        let stream = &self.stream;
        let merging = Merging {
            values: self.address(),
            steps: buffers.steps.device_ptr(stream).0,
            sizes: buffers.sizes.device_ptr(stream).0,
            step_of: buffers.step_of.device_ptr(stream).0,
            clusters: self.clusters as u32,
            linkage: recurrence.linkage as u32,
            squared: u32::from(self.squared),
            first: batch.start as u32,
            last: batch.end as u32,
        };
        let chunks = (self.clusters as u32).div_ceil(THREADS);
        // SAFETY: arguments as declared in dissimilarities.cu; the buffers have the declared sizes,
        // and live until `contract_in_place` has synchronized the stream.
        unsafe {
            stream
                .launch_builder(&self.kernels.open)
                .arg(&merging)
                .launch(blocks(batch.len().div_ceil(THREADS as usize)))?;
            stream
                .launch_builder(&self.kernels.merge)
                .arg(&merging)
                .arg(&chunks)
                .launch(blocks(batch.len() * chunks as usize))?;
        }
        Ok(())
    }

    /// Launches the copies that move some rows of the `active` clusters to the front of the array.
    fn gather(
        &mut self,
        buffers: &ContractionBuffers,
        active: usize,
        rows: Range<usize>,
    ) -> DriverResult<()> {
        let stream = &self.stream;
        let rest = Rest {
            values: self.values.device_ptr(stream).0,
            live: buffers.live.device_ptr(stream).0,
            step_of: buffers.step_of.device_ptr(stream).0,
            out: self.buffer.device_ptr(stream).0,
            before: self.clusters as u32,
            clusters: active as u32,
            squared: u32::from(self.squared),
            first: rows.start as u32,
        };
        let range = row_start(active, rows.start)..row_start(active, rows.end);
        // SAFETY: as in `merge`; the buffer has room for the rows, because the stored type is at
        // most as large as `f64`.
        unsafe {
            stream
                .launch_builder(&self.kernels.gather)
                .arg(&rest)
                .launch(blocks(rows.len()))?;
            let moved = self.buffer.transmute::<T>(range.len());
            let moved = moved.expect("the buffer holds the rows");
            stream.memcpy_dtod(&moved, &mut self.values.slice_mut(range))
        }
    }
}

/// Device memory for a contraction.
struct ContractionBuffers {
    steps: CudaSlice<Step>,
    sizes: CudaSlice<f64>,
    live: CudaSlice<u32>,
    /// For each slot, as in struct Merging: 1 + the last step with this slot as the lower one, 0 if
    /// there is none, NONE if the cluster is gone.
    step_of: CudaSlice<u32>,
}

impl ContractionBuffers {
    /// Copies a contraction and its plan to the device. Both must live until the stream's next
    /// synchronization, which ends the transfer.
    fn new(
        stream: &Arc<CudaStream>,
        clusters: usize,
        contraction: &Contraction,
        plan: &Plan,
    ) -> DriverResult<Self> {
        // There may be no step, but an allocation needs a length. SAFETY: elements are written
        // before they are read.
        let mut steps = unsafe { stream.alloc::<Step>(plan.steps.len().max(1))? };
        stream.memcpy_htod(&plan.steps, &mut steps)?;
        Ok(Self {
            steps,
            sizes: stream.clone_htod(contraction.sizes)?,
            live: stream.clone_htod(&plan.active)?,
            step_of: stream.alloc_zeros::<u32>(clusters)?,
        })
    }
}

impl<T: OnDevice> Dissimilarities for CudaDissimilarities<T> {
    fn nearest(&mut self, monitor: &Monitor) -> Result<NearestClusters> {
        monitor.check()?;
        let all: Vec<u32> = (0..self.clusters as u32).collect();
        let (nearest, unusable) = self
            .search(&all)
            .map_err(|error| self.device.error("a search for nearest clusters", &error))?;
        if let Some(position) = unusable {
            self.refuse(position)?;
        }
        monitor.advance(pairs(self.clusters) as u64);
        Ok(nearest)
    }

    fn entries(&self, pairs: &[(u32, u32)]) -> Result<Vec<f64>> {
        if pairs.is_empty() {
            return Ok(Vec::new());
        }
        let n = self.clusters;
        let at = |&(i, j): &(u32, u32)| position(n, i as usize, j as usize) as u64;
        let positions = pairs.par_iter().with_min_len(MIN_ENTRIES_PER_TASK).map(at);
        let positions: Vec<u64> = positions.collect();
        let stream = &self.stream;
        let look_up = || -> DriverResult<Vec<f64>> {
            let positions = stream.clone_htod(&positions)?;
            // SAFETY: `entries` writes all elements.
            let found = unsafe { stream.alloc::<f64>(pairs.len())? };
            // SAFETY: arguments as declared in dissimilarities.cu, which live until the stream is
            // synchronized below; all positions are below the number of pairs.
            unsafe {
                stream
                    .launch_builder(&self.kernels.entries)
                    .arg(&self.values)
                    .arg(&positions)
                    .arg(&found)
                    .arg(&(pairs.len() as u32))
                    .arg(&u32::from(self.squared))
                    .launch(blocks(pairs.len().div_ceil(THREADS as usize)))?;
            }
            let found = stream.clone_dtoh(&found)?;
            stream.synchronize()?;
            Ok(found)
        };
        look_up().map_err(|error| self.device.error("looking up dissimilarities", &error))
    }

    fn contract(
        &mut self,
        contraction: &Contraction,
        wanted: &[u32],
        monitor: &Monitor,
    ) -> Result<NearestClusters> {
        let plan = Plan::new(contraction);
        let done = self.contract_in_place(contraction, &plan, monitor);
        if done.is_err() {
            // Launches in progress must not outlive the memory that they use.
            let _ = self.stream.synchronize();
        }
        done?;
        let (nearest, _) = self
            .search(wanted)
            .map_err(|error| self.device.error("a search for nearest clusters", &error))?;
        Ok(nearest)
    }

    fn chain(
        &mut self,
        recurrence: Recurrence,
        sizes: &[f64],
        monitor: &Monitor,
    ) -> Result<Vec<Merge>> {
        if self.clusters >= self.chain_clusters {
            let (device, stream) = (&self.device, &self.stream);
            let kernel = device.kernel(T::KERNELS, "chain")?;
            let values = self.address();
            // SAFETY: these are the dissimilarities of all clusters, stored as `T`.
            return unsafe {
                chain::merges(device, stream, &kernel, values, recurrence, sizes, monitor)
            };
        }
        let mut here = CondensedMatrix::<T>::reusing(Vec::new(), self.clusters)?;
        let there = self.values.slice(..pairs(self.clusters));
        self.stream
            .memcpy_dtoh(&there, here.values_mut())
            .map_err(|error| self.device.error("fetching dissimilarities", &error))?;
        self.wait()?;
        gmhclust_core::linkage::chain::merges(recurrence, sizes.to_vec(), &mut here, monitor)
    }
}
