//! Decisions about the candidates of sweeps on a device, by exact distances in double precision.

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaEvent, CudaSlice, CudaStream, DevicePtr};
use gmhclust_core::error::Result;
use gmhclust_core::neighbours::single::RowFrame;
use gmhclust_core::neighbours::{NeighbourLists, NeighbourRequest};

use super::exact_rows::ExactRows;
use super::sweeper::Decided;
use crate::arguments::arguments;
use crate::device::DriverResult;
use crate::pinned::Pinned;

/// Number of neighbours that are copied to the host together. If it is larger, pinned memory takes
/// longer to allocate. If it is smaller, copies are too small for the bus.
const COPIED_AT_A_TIME: usize = 1 << 16;

/// The number of a query's neighbours if it stays open. As NONE in base.cuh.
const OPEN: u32 = u32::MAX;

arguments! {
    /// As in neighbours/decision.cuh.
    pub struct Decision {
        rows: u64,
        indices: u64,
        queries: u64,
        limits: u64,
        distances: u64,
        nearest: u64,
        counts: u64,
        unit: f64,
        columns: u32,
        wanted: u32,
        parameter: u32,
    }
}

/// Device memory for the decisions about a batch of queries.
pub struct DecisionBatch {
    queries: CudaSlice<u32>,
    limits: CudaSlice<f64>,
    distances: CudaSlice<f64>,
    nearest: CudaSlice<u32>,
    counts: CudaSlice<u32>,
    wanted: usize,
}

impl DecisionBatch {
    /// Bytes of device memory per query.
    pub fn bytes_per_query(wanted: usize) -> usize {
        12 * wanted + 16
    }

    /// Device memory for the queries of a request in `batch`. The request must live until the
    /// stream's next synchronization.
    pub fn new(
        stream: &Arc<CudaStream>,
        request: &NeighbourRequest,
        batch: Range<usize>,
    ) -> DriverResult<Self> {
        let (count, wanted) = (batch.len(), request.wanted);
        let limits = match request.limits {
            Some(limits) => stream.clone_htod(&limits[batch.clone()])?,
            None => {
                let infinite = vec![f64::INFINITY; count];
                let limits = stream.clone_htod(&infinite)?;
                // The copy in host memory must live until it has been transferred.
                stream.synchronize()?;
                limits
            }
        };
        // SAFETY: the host reads only what the kernel has written.
        let (distances, nearest, counts) = unsafe {
            (
                stream.alloc(count * wanted)?,
                stream.alloc(count * wanted)?,
                stream.alloc(count)?,
            )
        };
        Ok(Self {
            queries: stream.clone_htod(&request.queries[batch])?,
            limits,
            distances,
            nearest,
            counts,
            wanted,
        })
    }

    /// The argument of the kernel. `values` are the values of `rows`, and `indices` are the indices
    /// of the points at each position.
    pub fn decision(
        &self,
        stream: &Arc<CudaStream>,
        frame: &RowFrame,
        rows: &ExactRows,
        values: &CudaSlice<f64>,
        indices: &CudaSlice<u32>,
    ) -> Decision {
        Decision {
            rows: values.device_ptr(stream).0,
            indices: indices.device_ptr(stream).0,
            queries: self.queries.device_ptr(stream).0,
            limits: self.limits.device_ptr(stream).0,
            distances: self.distances.device_ptr(stream).0,
            nearest: self.nearest.device_ptr(stream).0,
            counts: self.counts.device_ptr(stream).0,
            unit: frame.distance_unit(),
            columns: rows.columns() as u32,
            wanted: self.wanted as u32,
            parameter: rows.parameter(),
        }
    }

    /// Copies the decisions to the host, through `buffers`.
    ///
    /// # Errors
    /// The driver's; inside, `Error::Memory` if the host has too little memory.
    pub fn fetch(
        &self,
        stream: &Arc<CudaStream>,
        buffers: &mut Option<DecisionBuffers>,
    ) -> DriverResult<Result<Decided>> {
        let counts = stream.clone_dtoh(&self.counts)?;
        let limits = stream.clone_dtoh(&self.limits)?;
        stream.synchronize()?;
        let is_open = |count: u32| count == OPEN;
        let found = counts.iter().filter(|&&count| !is_open(count));
        let found = found.map(|&count| count as usize).sum();
        let mut nearest = match NeighbourLists::with_room(counts.len(), found) {
            Ok(nearest) => nearest,
            Err(error) => return Ok(Err(error)),
        };
        let len = COPIED_AT_A_TIME.min(counts.len() * self.wanted);
        let len = len.max(self.wanted);
        let buffers = match buffers.take().filter(|buffers| buffers.len >= len) {
            Some(there) => buffers.insert(there),
            None => buffers.insert(DecisionBuffers::new(stream.context(), len)?),
        };
        buffers.fetch(self, stream, |query, distances, indices| {
            let count = counts[query];
            let count = if is_open(count) { 0 } else { count as usize };
            let found = distances[..count].iter().zip(&indices[..count]);
            nearest.push_from(found.map(|(&distance, &index)| (distance, index)));
        })?;
        let limits = counts.iter().zip(limits);
        let limits = limits.map(|(&count, limit)| is_open(count).then_some(limit));
        Ok(Ok(Decided {
            limits: limits.collect(),
            nearest,
        }))
    }
}

/// Pinned memory for the neighbours of some queries. While one half is copied from the device, the
/// host reads the other.
pub struct DecisionBuffers {
    halves: [(Pinned<f64>, Pinned<u32>); 2],
    /// Number of neighbours of a half.
    len: usize,
}

impl DecisionBuffers {
    fn new(context: &Arc<CudaContext>, len: usize) -> DriverResult<Self> {
        let half = || Ok((Pinned::new(context, len)?, Pinned::new(context, len)?));
        Ok(Self {
            halves: [half()?, half()?],
            len,
        })
    }

    /// Passes the number of each query, and the distances and indices of its neighbours, to `take`.
    fn fetch(
        &mut self,
        batch: &DecisionBatch,
        stream: &Arc<CudaStream>,
        mut take: impl FnMut(usize, &[f64], &[u32]),
    ) -> DriverResult<()> {
        let (queries, wanted) = (batch.counts.len(), batch.wanted);
        let at_a_time = self.len / wanted;
        let starts: Vec<usize> = (0..queries).step_by(at_a_time).collect();
        let mut copied = [None, None];
        for part in 0..=starts.len() {
            if let Some(&start) = starts.get(part) {
                let some = start * wanted..(start + at_a_time).min(queries) * wanted;
                let (distances, nearest) = &mut self.halves[part % 2];
                let len = some.len();
                stream.memcpy_dtoh(&batch.distances.slice(some.clone()), &mut distances[..len])?;
                stream.memcpy_dtoh(&batch.nearest.slice(some), &mut nearest[..len])?;
                copied[part % 2] = Some(stream.record_event(None)?);
            }
            let Some(before) = part.checked_sub(1) else {
                continue;
            };
            let there: Option<CudaEvent> = copied[before % 2].take();
            there.expect("the copy has begun").synchronize()?;
            let (distances, nearest) = &self.halves[before % 2];
            let lists = distances
                .chunks_exact(wanted)
                .zip(nearest.chunks_exact(wanted));
            for (query, (distances, nearest)) in
                (starts[before]..queries).zip(lists).take(at_a_time)
            {
                take(query, distances, nearest);
            }
        }
        Ok(())
    }
}
