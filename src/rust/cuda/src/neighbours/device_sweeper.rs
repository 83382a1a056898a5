//! A CUDA device that sweeps references.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{sys, CudaSlice, CudaStream, DevicePtr, DriverError};

use super::decision::{DecisionBatch, DecisionBuffers};
use super::exact_rows::ExactRows;
use super::launch::SearchKernels;
use super::layout::{row_len, TILE};
use super::memory_plan::usable_memory;
use super::positions::Positions;
use super::query_batch::{DeviceBatch, QueryBatch};
use super::references::References;
use super::rows::Rows;
use super::scatter::scatter;
use super::sweep::Sweep;
use super::sweeper::{ReferenceGroups, Sweeper, Swept};
use super::work_queue::Worker;
use crate::device::{unless_short, Device, DriverResult};
use gmhclust_core::error::{Error, Result};
use gmhclust_core::monitor::Monitor;
use gmhclust_core::neighbours::single::{RowFrame, ViewPrecision};
use gmhclust_core::neighbours::NeighbourRequest;

/// Number of queries of a batch from which a chunk takes longer to sweep than to copy. With fewer
/// queries, the device waits for copies.
const QUERIES_FOR_A_COPY: usize = 1 << 14;

/// A device that sweeps references.
pub struct DeviceSweeper {
    device: Arc<Device>,
    stream: Arc<CudaStream>,
    kernels: SearchKernels,
    frame: RowFrame,
    references: References,
    groups: DeviceGroups,
    /// The rows of queries; `None` if all queries are references on the device.
    rows: Option<Arc<Rows>>,
    /// Largest number of bytes of the device's memory to use; `None` for no limit.
    most_memory: Option<usize>,
    /// Whether all references must be on the device at the same time.
    whole: bool,
    exact: Option<Exact>,
    buffers: Option<DecisionBuffers>,
}

/// What a device needs for exact distances.
#[derive(Clone)]
struct Exact {
    rows: Arc<ExactRows>,
    /// The index of the point at each position.
    indices: Arc<CudaSlice<u32>>,
}

impl DeviceSweeper {
    /// A sweeper of the first `references` rows, which uses at most `most_memory` bytes of the
    /// device's memory. `whole` says that rows will be replaced, so all must be on the device.
    ///
    /// # Errors
    /// `Error::Memory` if the device has too little memory, `Error::Device` if it fails.
    pub fn new(
        device: &Arc<Device>,
        frame: &RowFrame,
        rows: &Arc<Rows>,
        references: usize,
        most_memory: Option<usize>,
        whole: bool,
    ) -> Result<Self> {
        let kernels = SearchKernels::new(device, frame)?;
        let failed = |error: DriverError| device.error("making room for points", &error);
        let stream = device.context.new_stream().map_err(failed)?;
        let memory = usable_memory(device, most_memory)?;
        let scatter = &kernels.scatter;
        let all = References::new(device, &stream, scatter, rows, references, memory, whole)?;
        let has_queries = all.whole().is_some() && references == rows.count();
        Ok(Self {
            device: device.clone(),
            stream,
            kernels,
            frame: frame.clone(),
            references: all,
            groups: DeviceGroups::default(),
            rows: (!has_queries).then(|| rows.clone()),
            most_memory,
            whole,
            exact: None,
            buffers: None,
        })
    }

    /// Lets the device decide about candidates by these rows, which are those of all points, if
    /// there is memory for their indices.
    ///
    /// # Errors
    /// `Error::Device` when the device fails.
    pub fn decide_by(&mut self, rows: Arc<ExactRows>, positions: &Positions) -> Result<()> {
        let copy = || {
            let indices = self.stream.clone_htod(&positions.indices)?;
            // Another stream uses the indices, too.
            self.stream.synchronize()?;
            DriverResult::Ok(Arc::new(indices))
        };
        let indices = copy().map_err(|error| self.device.error("copying points", &error));
        if let Some(indices) = unless_short(indices)? {
            self.exact = Some(Exact { rows, indices });
        }
        Ok(())
    }

    /// Makes [`Sweeper::sweep`] return candidates.
    #[cfg(test)]
    pub fn leave_decisions_to_the_host(&mut self) {
        self.exact = None;
    }
}

impl Worker for DeviceSweeper {
    fn device(&self) -> usize {
        self.device.index()
    }
}

impl Sweeper for DeviceSweeper {
    fn sweep(
        &mut self,
        positions: &Positions,
        request: &NeighbourRequest,
        capacity: usize,
        groups: &ReferenceGroups,
        batch: Range<usize>,
        monitor: &Monitor,
    ) -> Result<Swept> {
        let queries = &request.queries[batch.clone()];
        let swept = self.try_sweep(positions, request, capacity, groups, batch, monitor);
        let swept = swept.map_err(|stopped| match stopped {
            Stopped::Other(error) => error,
            Stopped::Failed(error) => {
                let what = format!("neighbours of {}", in_words(queries, positions.references));
                self.device.error(&what, &error)
            }
        });
        swept.inspect_err(|error| self.device.forget_on_failure(error))
    }

    /// A second sweeper with its own stream. Returns `None` unless the device holds all
    /// references. While one sweeper copies queries or candidates, the device sweeps for the
    /// other.
    fn share(&mut self) -> Result<Option<Self>> {
        let failed = |error: DriverError| self.device.error("making room for points", &error);
        let stream = self.device.context.new_stream().map_err(failed)?;
        let Some(references) = self.references.share(&stream) else {
            return Ok(None);
        };
        Ok(Some(Self {
            device: self.device.clone(),
            stream,
            kernels: self.kernels.clone(),
            frame: self.frame.clone(),
            references,
            groups: DeviceGroups::default(),
            rows: self.rows.clone(),
            exact: self.exact.clone(),
            buffers: None,
            ..*self
        }))
    }

    fn most_queries(&self, capacity: usize) -> usize {
        let bytes = DeviceBatch::bytes_per_query(&self.frame, capacity);
        self.references.memory_for_queries() / bytes
    }

    fn fewest_queries(&self) -> usize {
        if self.references.chunks() > 1 {
            QUERIES_FOR_A_COPY
        } else {
            8 * TILE
        }
    }

    fn exact_rows(&self) -> Option<Arc<ExactRows>> {
        self.exact.as_ref().map(|exact| exact.rows.clone())
    }

    fn update(&mut self, rows: &[f32], positions: &[u32]) -> Result<()> {
        self.references.replace(rows, positions)
    }

    fn restart(&mut self, rows: &Arc<Rows>) -> Result<()> {
        let (device, frame) = (self.device.clone(), self.frame.clone());
        *self = Self::new(
            &device,
            &frame,
            rows,
            rows.count(),
            self.most_memory,
            self.whole,
        )?;
        Ok(())
    }
}

/// The groups of the references on the device, with the number of their request: those of the last
/// request that was swept for.
#[derive(Default)]
struct DeviceGroups(Option<(usize, CudaSlice<u32>)>);

impl DeviceGroups {
    /// The groups of a request, copied if they are not there yet.
    fn of(
        &mut self,
        groups: &ReferenceGroups,
        stream: &Arc<CudaStream>,
    ) -> DriverResult<&CudaSlice<u32>> {
        let there = self.0.take();
        let there = match there.filter(|(request, _)| *request == groups.request) {
            Some(there) => there,
            None => {
                let copied = stream.clone_htod(&groups.values)?;
                // The copy in host memory must live until it has been transferred.
                stream.synchronize()?;
                (groups.request, copied)
            }
        };
        Ok(&self.0.insert(there).1)
    }
}

/// The reason why a sweep has ended early.
enum Stopped {
    Failed(DriverError),
    /// An interrupt, or too little memory of the host.
    Other(Error),
}

impl From<DriverError> for Stopped {
    fn from(error: DriverError) -> Self {
        Self::Failed(error)
    }
}

impl DeviceSweeper {
    /// As [`Sweeper::sweep`], with the driver's own errors.
    fn try_sweep(
        &mut self,
        positions: &Positions,
        request: &NeighbourRequest,
        capacity: usize,
        groups: &ReferenceGroups,
        batch: Range<usize>,
        monitor: &Monitor,
    ) -> std::result::Result<Swept, Stopped> {
        let frame = &self.frame;
        let queries = QueryBatch::new(frame, positions, request, batch.clone());
        let mut buffers = DeviceBatch::new(&self.stream, frame, &queries, capacity)?;
        let strides = self.copy_queries(&queries.positions, &mut buffers.coordinates)?;
        let groups = self.groups.of(groups, &self.stream)?;
        let mut sweep = buffers.sweep(&self.stream, &self.frame, groups, strides);
        // SAFETY: the buffers have the sizes given by `sweep`. Also after an early error, kernels
        // do not outlive them: `CudaSlice` frees memory in the order of its stream.
        unsafe { self.sweep_chunks(&mut sweep, monitor)? };
        if let Some(exact) = self.exact.clone() {
            if let Some(rows) = exact.rows.wait() {
                return self.decide(&sweep, request, batch, &exact, &rows);
            }
        }
        let packed = buffers.packed(&self.stream)?;
        // SAFETY: as above; `packed` has room for the candidates that are kept.
        unsafe { self.kernels.pack(&self.stream, &sweep, &packed)? };
        self.sleep()?;
        Ok(Swept::SweptCandidates(
            buffers.fetch(&self.stream, &packed)?,
        ))
    }

    /// Decides about the candidates of a sweep for a batch of queries.
    fn decide(
        &mut self,
        sweep: &Sweep,
        request: &NeighbourRequest,
        batch: Range<usize>,
        exact: &Exact,
        rows: &CudaSlice<f64>,
    ) -> std::result::Result<Swept, Stopped> {
        // Allocating and copying for the decision would spin-wait for the sweep.
        self.sleep()?;
        let batch = DecisionBatch::new(&self.stream, request, batch)?;
        let decision = batch.decision(&self.stream, &self.frame, &exact.rows, rows, &exact.indices);
        // SAFETY: the buffers have the sizes given by `sweep` and `decision`. `CudaSlice` frees
        // memory in the order of its stream, so kernels do not outlive them.
        unsafe { self.kernels.decide(&self.stream, sweep, &decision)? };
        self.sleep()?;
        let decided = batch.fetch(&self.stream, &mut self.buffers)?;
        Ok(Swept::Decided(decided.map_err(Stopped::Other)?))
    }

    /// Sleeps until all kernels of the stream have ended, so that the host's threads can work
    /// meanwhile. Copies would spin-wait.
    fn sleep(&self) -> DriverResult<()> {
        let blocking = sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC;
        self.stream.record_event(Some(blocking))?.synchronize()
    }

    /// Launches the sweeps of all references, chunk by chunk.
    ///
    /// # Safety
    /// As [`SearchKernels::collect`].
    unsafe fn sweep_chunks(
        &mut self,
        sweep: &mut Sweep,
        monitor: &Monitor,
    ) -> std::result::Result<(), Stopped> {
        // There is room for all candidates of the first part. Each further part is as large as all
        // parts before it together. So about `capacity` of its references are nearer than the
        // threshold.
        let capacity = sweep.capacity as usize;
        let first_part = (2 * capacity)
            .next_multiple_of(2 * TILE)
            .min(sweep.room as usize);
        let mut before = 0;
        for _ in 0..self.references.chunks() {
            if monitor.stopped() {
                return Err(Stopped::Other(Error::Interrupt));
            }
            let chunk = self.references.begin_turn()?;
            sweep.references = chunk.address;
            sweep.stride = chunk.stride as u64;
            sweep.step = chunk.step as u64;
            sweep.last = chunk.range.start as u32;
            while (sweep.last as usize) < chunk.range.end {
                let part = if before == 0 { first_part } else { before };
                sweep.first = sweep.last;
                sweep.last = (sweep.first as usize + part).min(chunk.range.end) as u32;
                before += (sweep.last - sweep.first) as usize;
                // SAFETY: the chunk's buffer lives as long as `self`; the caller guarantees the
                // rest.
                unsafe { self.kernels.collect(&self.stream, sweep)? };
            }
            self.references.end_turn()?;
        }
        Ok(())
    }

    /// Copies the rows of queries, by their positions, to `coordinates`. Returns the distance
    /// between consecutive values of a query, and between consecutive queries.
    fn copy_queries(
        &self,
        positions: &[u32],
        coordinates: &mut CudaSlice<f32>,
    ) -> DriverResult<(u64, u64)> {
        let stream = &self.stream;
        let (count, row_len) = (positions.len(), row_len(&self.frame));
        let strides = match self.frame.precision() {
            ViewPrecision::Single => (count as u64, 1),
            ViewPrecision::Half => (1, row_len as u64),
        };
        let Some(rows) = &self.rows else {
            let all = self.references.whole().expect("queries are references");
            let positions = stream.clone_htod(positions)?;
            // SAFETY: all queries are references, and `coordinates` has room for the queries.
            unsafe {
                self.kernels.gather(
                    stream,
                    &all,
                    &positions,
                    row_len as u32,
                    coordinates,
                    strides,
                )?;
            }
            return Ok(strides);
        };
        let rows = rows.at(positions);
        match self.frame.precision() {
            ViewPrecision::Single => {
                let places: Vec<u32> = (0..count as u32).collect();
                let address = coordinates.device_ptr(stream).0;
                scatter(
                    stream,
                    &self.kernels.scatter,
                    &rows,
                    &places,
                    address,
                    count,
                )?;
            }
            ViewPrecision::Half => {
                stream.memcpy_htod(&rows[..], coordinates)?;
                // The copy in host memory must live until it has been transferred.
                stream.synchronize()?;
            }
        }
        Ok(strides)
    }
}

/// Names queries in messages by their row numbers, from 1. Queries from number `references` on are
/// rows of `query`.
fn in_words(queries: &[u32], references: usize) -> String {
    let of_query = queries.iter().all(|&query| query as usize >= references);
    let first = if of_query { references as u32 } else { 0 };
    let (Some(least), Some(greatest)) = (queries.iter().min(), queries.iter().max()) else {
        return "no row".into();
    };
    let (least, greatest) = (least - first + 1, greatest - first + 1);
    let whose = if of_query { " of `query`" } else { "" };
    match queries.len() {
        1 => format!("row {least}{whose}"),
        count if count as u32 == greatest - least + 1 => {
            format!("rows {least} to {greatest}{whose}")
        }
        count => format!("{count} rows from {least} to {greatest}{whose}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_named_as_the_user_counts_them() {
        assert_eq!(in_words(&[0, 1, 2], 100), "rows 1 to 3");
        assert_eq!(in_words(&[7], 100), "row 8");
        assert_eq!(in_words(&[9, 3, 4], 100), "3 rows from 4 to 10");
        assert_eq!(in_words(&[100, 101], 100), "rows 1 to 2 of `query`");
        assert_eq!(in_words(&[], 100), "no row");
    }
}
