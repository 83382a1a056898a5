//! A batch of queries, on the host and on the device.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DevicePtr};
use gmhclust_core::neighbours::single::RowFrame;
use gmhclust_core::neighbours::{Exclusion, NeighbourRequest};

use super::decision::DecisionBatch;
use super::layout::{coordinate_values, first_beyond, group, room, row_len, NO_GROUP};
use super::positions::Positions;
use super::sweep::{code, Sweep};
use super::sweeper::SweptCandidates;
use crate::device::DriverResult;

/// A batch of queries in the format of the kernels.
pub struct QueryBatch {
    pub positions: Vec<u32>,
    groups: Vec<u32>,
    /// The slopes of the queries' thresholds, which are linear functions: within a query's limit,
    /// sums are below its threshold.
    slopes: Vec<f32>,
    /// The values at 0 of the queries' thresholds.
    bases: Vec<f32>,
    /// The first keys beyond the queries' limits.
    floors: Vec<u64>,
}

impl QueryBatch {
    /// The queries of a request in `batch`.
    pub fn new(
        frame: &RowFrame,
        positions: &Positions,
        request: &NeighbourRequest,
        batch: Range<usize>,
    ) -> Self {
        let queries = &request.queries[batch.clone()];
        let count = queries.len();
        let place = |&index: &u32| positions.positions[index as usize];
        let mut queries = Self {
            positions: queries.iter().map(place).collect(),
            groups: match request.exclusion {
                Exclusion::Nothing => vec![NO_GROUP; count],
                exclusion => queries
                    .iter()
                    .map(|&query| group(exclusion, query))
                    .collect(),
            },
            slopes: Vec::with_capacity(count),
            bases: Vec::with_capacity(count),
            floors: Vec::with_capacity(count),
        };
        for (i, at) in batch.enumerate() {
            let limit = frame.limit(request.limits.map_or(f64::INFINITY, |l| l[at]));
            let scalars = &positions.scalars[queries.positions[i] as usize];
            let threshold = frame.threshold(scalars, limit);
            queries.slopes.push(threshold.slope);
            queries.bases.push(threshold.base);
            queries.floors.push(first_beyond(limit));
        }
        queries
    }
}

/// Device memory for a batch of queries and their candidates.
pub struct DeviceBatch {
    query_groups: CudaSlice<u32>,
    slopes: CudaSlice<f32>,
    bases: CudaSlice<f32>,
    floors: CudaSlice<u64>,
    /// For each query, the number of candidates found.
    counts: CudaSlice<u32>,
    /// For each query, the number of collected candidates that are keys already.
    kept: CudaSlice<u32>,
    pub coordinates: CudaSlice<f32>,
    /// Room for `room` collected candidates of each query.
    candidates: CudaSlice<u64>,
    count: usize,
    capacity: usize,
    room: usize,
}

impl DeviceBatch {
    /// Bytes of device memory per query, if `capacity` candidates of each query are kept. They hold
    /// the coordinates as received and as swept, the candidates as collected and as kept or the
    /// decisions about them, and the query's scalars.
    pub fn bytes_per_query(frame: &RowFrame, capacity: usize) -> usize {
        let kept = (8 * capacity).max(DecisionBatch::bytes_per_query(capacity));
        8 * row_len(frame) + 8 * room(capacity) + kept + 36
    }

    /// Device memory for these queries. The caller has to write the coordinates. `queries` must
    /// live until the stream's next synchronization, which ends their transfer.
    pub fn new(
        stream: &Arc<CudaStream>,
        frame: &RowFrame,
        queries: &QueryBatch,
        capacity: usize,
    ) -> DriverResult<Self> {
        let count = queries.positions.len();
        let room = room(capacity);
        let query_groups = stream.clone_htod(&queries.groups)?;
        let slopes = stream.clone_htod(&queries.slopes)?;
        let bases = stream.clone_htod(&queries.bases)?;
        let floors = stream.clone_htod(&queries.floors)?;
        let counts = stream.alloc_zeros::<u32>(count)?;
        let kept = stream.alloc_zeros::<u32>(count)?;
        // SAFETY: the caller writes all coordinates, and kernels read only written elements of the
        // other arrays.
        let (coordinates, candidates) = unsafe {
            (
                stream.alloc::<f32>(count * row_len(frame))?,
                stream.alloc::<u64>(count * room)?,
            )
        };
        Ok(Self {
            query_groups,
            slopes,
            bases,
            floors,
            counts,
            kept,
            coordinates,
            candidates,
            count,
            capacity,
            room,
        })
    }

    /// The arguments of a sweep for these queries, without references but with their groups.
    /// Consecutive values of a query are `query_stride` apart, and consecutive queries are
    /// `query_step` apart.
    pub fn sweep(
        &self,
        stream: &Arc<CudaStream>,
        frame: &RowFrame,
        groups: &CudaSlice<u32>,
        (query_stride, query_step): (u64, u64),
    ) -> Sweep {
        let (shrink, margin) = frame.margins();
        Sweep {
            shrink,
            margin,
            references: 0,
            groups: groups.device_ptr(stream).0,
            queries: self.coordinates.device_ptr(stream).0,
            query_groups: self.query_groups.device_ptr(stream).0,
            slopes: self.slopes.device_ptr(stream).0,
            bases: self.bases.device_ptr(stream).0,
            candidates: self.candidates.device_ptr(stream).0,
            floors: self.floors.device_ptr(stream).0,
            counts: self.counts.device_ptr(stream).0,
            kept: self.kept.device_ptr(stream).0,
            stride: 0,
            step: 0,
            query_stride,
            query_step,
            columns: coordinate_values(frame) as u32,
            query_count: self.count as u32,
            kind: code(frame.epilog()),
            capacity: self.capacity as u32,
            room: self.room as u32,
            first: 0,
            last: 0,
        }
    }

    /// Memory for the candidates that are kept, `capacity` for each query.
    pub fn packed(&self, stream: &Arc<CudaStream>) -> DriverResult<CudaSlice<u64>> {
        // SAFETY: the kernel `pack` writes all elements before the host reads them.
        unsafe { stream.alloc(self.count * self.capacity) }
    }

    /// Copies the candidates, which the kernel `pack` has written to `packed`, to the host.
    pub fn fetch(
        &self,
        stream: &Arc<CudaStream>,
        packed: &CudaSlice<u64>,
    ) -> DriverResult<SweptCandidates> {
        let candidates = SweptCandidates {
            capacity: self.capacity,
            room: self.room,
            counts: stream.clone_dtoh(&self.counts)?,
            floors: stream.clone_dtoh(&self.floors)?,
            keys: stream.clone_dtoh(packed)?,
        };
        stream.synchronize()?;
        Ok(candidates)
    }
}
