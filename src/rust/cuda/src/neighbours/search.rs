//! A search for nearest references on CUDA devices.
//!
//! A frame ([`RowFrame`]) is one way to compute lower bounds: in half or single precision, by
//! products or by differences. Half precision is many times faster than single precision, and
//! products are faster than differences, but the bounds of the faster frames are looser. If too
//! many queries stay open, the next frame takes over.
//!
//! Every device sweeps all references for some batches of queries, which it takes from a queue
//! ([`super::work_queue`]). If its memory cannot hold all references, it sweeps them in chunks
//! ([`super::references`]). If a device fails, the other devices continue.

#[cfg(test)]
mod tests;

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use rayon::prelude::*;

use super::device_sweeper::DeviceSweeper;
use super::exact_rows::{ExactRows, RowsCopy};
use super::layout::{group, room, row_len, MOST_CANDIDATES, TILE};
use super::positions::Positions;
use super::products;
use super::references::are_replaceable;
use super::rows::Rows;
use super::settle::{Settled, Settler, BATCH_BYTES};
use super::sweeper::{ReferenceGroups, Sweeper};
use super::work_queue::{is_lost, process, record_loss, DeviceLoss};
use crate::device::Device;
use crate::policy;
use crate::thresholds::GpuThresholds;
use gmhclust_core::error::{Error, Result};
use gmhclust_core::metric::Points;
use gmhclust_core::monitor::Monitor;
use gmhclust_core::neighbours::cpu::CpuNeighbours;
use gmhclust_core::neighbours::single::{RowFrame, ViewPrecision};
use gmhclust_core::neighbours::{
    BlockSink, ClusterMeans, MeanLinkage, NeighbourLists, NeighbourRequest, Neighbours, Space,
};
use gmhclust_core::tasks::join;
use gmhclust_core::Cpu;

/// Number of pairs of coordinates of a batch in single precision. A device compares them in a
/// fraction of a second. If it is larger, an interrupt is answered late.
const BATCH_COORDINATE_PAIRS: usize = 1 << 41;
/// As [`BATCH_COORDINATE_PAIRS`], in half precision.
const BATCH_COORDINATE_PAIRS_OF_HALVES: usize = 1 << 43;

/// Largest number of queries of a batch.
const MOST_QUERIES: usize = 1 << 18;

/// Smallest number of batches for each sweeper, if there are enough queries. A device that holds
/// all references has two sweepers. While a device sweeps for one batch, the host decides about
/// another. Only the time depends on it.
const BATCHES_PER_SWEEPER: usize = 4;

/// Makes the sweepers of a device, given its number, a frame, and all rows and their positions.
type Make<'a, S> =
    dyn Fn(usize, &RowFrame, &Arc<Rows>, &Positions) -> Result<Vec<S>> + Send + Sync + 'a;

/// A search on devices and on the host.
pub struct CudaNeighbours<'a, S = DeviceSweeper> {
    make: Box<Make<'a, S>>,
    /// The numbers of all devices, including failed ones.
    devices: Vec<usize>,
    losses: Vec<DeviceLoss>,
    /// The sweepers of the devices that have not failed, one or two for each.
    sweepers: Vec<S>,
    /// The sweeper for queries that the first sweep leaves open.
    second_sweeper: Option<S>,
    /// The frames, the fastest first and the most precise last. The sweepers use the first frame.
    frames: Vec<RowFrame>,
    /// The points that are not references.
    others: Range<u32>,
    /// The points, unless these are clusters.
    points: Option<&'a Points>,
    cpu: &'a Cpu,
    /// The CPU's search. It decides about candidates, and answers requests that are too small for a
    /// device or need too many candidates.
    host: CpuNeighbours<'a>,
    /// The positions of all points, or of the remaining clusters.
    positions: Positions,
    /// Indices of clusters that have changed since the devices' last update.
    changed: Vec<u32>,
    /// Number of pairs of queries and clusters that were merged away, in sweeps since all clusters
    /// were copied.
    swept_in_vain: usize,
    /// Number of requests that the devices have answered.
    requests: usize,
    /// The host answers requests with fewer pairs of coordinates than this number.
    smallest: usize,
    /// Number of sweeps of a cluster that take as long as copying it.
    sweeps_per_copy: usize,
    monitor: &'a Monitor,
}

/// Whether a request was answered completely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestProgress {
    Done,
    /// A more precise frame answers the rest faster.
    NeedsMorePreciseFrame,
}

impl<'a> CudaNeighbours<'a> {
    /// A search for the queries and references of `space`. Returns `None` for a metric without
    /// lower bounds. `cpu` does the host's part, and answers requests that are too small by
    /// `thresholds`. The search uses at most `memory` bytes of each device, if given. A search
    /// among clusters uses one device only.
    ///
    /// # Errors
    /// `Error::Memory` if a device has too little memory, `Error::Device` if all devices fail.
    pub fn new(
        devices: &[Arc<Device>],
        cpu: &'a Cpu,
        space: Space<'a>,
        thresholds: &GpuThresholds,
        memory: Option<usize>,
        monitor: &'a Monitor,
    ) -> Result<Option<Self>> {
        // A device that does not answer fails later, and is dropped then.
        let halves = |device: &Arc<Device>| products::suits(device).unwrap_or(true);
        let halves = devices.iter().all(halves);
        let (devices, whole) = match space {
            Space::Points { .. } => (devices.to_vec(), false),
            // Requests are small, and every merge would have to be sent to every device.
            Space::Clusters { .. } => (devices[..1].to_vec(), true),
        };
        let numbers = devices.iter().map(|device| device.index()).collect();
        let make = move |number, frame: &RowFrame, rows: &Arc<Rows>, positions: &Positions| {
            let device = devices.iter().find(|device| device.index() == number);
            let device = device.expect("is one of the numbers");
            let open = || {
                let exact = match space {
                    Space::Points { points, .. } => {
                        ExactRows::within(device, points, rows, memory)?
                    }
                    Space::Clusters { .. } => None,
                };
                let memory =
                    memory.map(|most| most - exact.as_ref().map_or(0, |rows| rows.bytes()));
                let references = positions.references;
                let mut one = DeviceSweeper::new(device, frame, rows, references, memory, whole)?;
                if let Some(exact) = exact {
                    one.decide_by(exact, positions)?;
                }
                // Requests of clusters are small.
                let second = if whole { None } else { one.share()? };
                Ok([Some(one), second].into_iter().flatten().collect())
            };
            open().inspect_err(|error| device.forget_on_failure(error))
        };
        Self::on(
            cpu,
            space,
            thresholds,
            halves,
            monitor,
            numbers,
            Box::new(make),
        )
    }
}

impl<'a, S: Sweeper> CudaNeighbours<'a, S> {
    /// As [`CudaNeighbours::new`], on devices with these numbers. `make` makes the sweepers of a
    /// device. `halves` says that the devices can sweep in half precision.
    fn on(
        cpu: &'a Cpu,
        space: Space<'a>,
        thresholds: &GpuThresholds,
        halves: bool,
        monitor: &'a Monitor,
        devices: Vec<usize>,
        make: Box<Make<'a, S>>,
    ) -> Result<Option<Self>> {
        let (points, others) = match space {
            Space::Points { points, references } => {
                (Some(points), references as u32..points.rows() as u32)
            }
            Space::Clusters { .. } => (None, 0..0),
        };
        let host = CpuNeighbours::new(space, monitor)?;
        let mut frames = host.frames().to_vec();
        let Some(frame) = frames.first() else {
            return Ok(None);
        };
        let halves = halves && frame.columns() >= policy::HALF_COLUMNS;
        let in_halves = halves.then(|| frame.in_halves()).flatten();
        let in_halves = in_halves.filter(|frame| match space {
            Space::Points { .. } => true,
            // The kernel assumes that all sizes are equal.
            Space::Clusters {
                linkage: MeanLinkage::Ward,
                ..
            } => false,
            Space::Clusters { points, .. } => are_replaceable(points.rows(), row_len(frame)),
        });
        frames.splice(0..0, in_halves);
        let mut neighbours = Self {
            make,
            devices,
            losses: Vec::new(),
            sweepers: Vec::new(),
            second_sweeper: None,
            frames,
            others,
            points,
            cpu,
            host,
            positions: Positions::default(),
            changed: Vec::new(),
            swept_in_vain: 0,
            requests: 0,
            smallest: thresholds.request_coordinates,
            sweeps_per_copy: thresholds.sweeps_per_copy,
            monitor,
        };
        neighbours.open()?;
        Ok(Some(neighbours))
    }

    /// Makes the sweepers for the first frame. Drops the present sweepers before, to free their
    /// memory.
    fn open(&mut self) -> Result<()> {
        self.sweepers.clear();
        self.second_sweeper = None;
        self.changed.clear();
        self.swept_in_vain = 0;
        let frame = &self.frames[0];
        let (positions, rows) = Positions::new(frame, &self.host, self.others.clone())?;
        self.positions = positions;
        let (make, rows, positions) = (&self.make, &rows, &self.positions);
        let is_left = |number: &&usize| !is_lost(&self.losses, **number);
        let left: Vec<usize> = self.devices.iter().filter(is_left).copied().collect();
        // Opens all devices in parallel, because copying rows and, at the first use, loading
        // kernels take time.
        let opened: Vec<Result<Vec<S>>> = std::thread::scope(|scope| {
            let open = |&number| scope.spawn(move || make(number, frame, rows, positions));
            let threads: Vec<_> = left.iter().map(open).collect();
            threads.into_iter().map(join).collect()
        });
        let losses_before = self.losses.len();
        for (device, opened) in left.into_iter().zip(opened) {
            match opened {
                Err(error @ Error::Device(_)) => record_loss(&mut self.losses, device, error),
                opened => self.sweepers.extend(opened?),
            }
        }
        self.drop_lost_devices(losses_before)
    }

    /// Drops the sweepers of lost devices, and warns of all losses but the first `losses_before`.
    ///
    /// # Errors
    /// The error of the last device if no device is left.
    fn drop_lost_devices(&mut self, losses_before: usize) -> Result<()> {
        let Self {
            losses, sweepers, ..
        } = self;
        let is_left = |sweeper: &S| !is_lost(losses, sweeper.device());
        sweepers.retain(is_left);
        self.second_sweeper = self.second_sweeper.take().filter(is_left);
        let Some(first) = sweepers.first_mut() else {
            let last = losses.last().expect("there were devices");
            return Err(last.error.clone());
        };
        for loss in &losses[losses_before..] {
            let error = &loss.error;
            let message = format!("{error}; the other devices did its part of the work");
            self.monitor.warn(message);
        }
        if self.second_sweeper.is_none() {
            // If the device fails here, it will fail again at its next sweep, which reports the
            // error.
            self.second_sweeper = first.share().unwrap_or_default();
        }
        Ok(())
    }

    /// Copies changed clusters to the devices, before a sweep for `queries` queries. Copies all
    /// remaining clusters once sweeps of clusters that were merged away have taken as long.
    fn update(&mut self, queries: usize) -> Result<()> {
        self.swept_in_vain += queries * self.positions.gone;
        if self.swept_in_vain > self.sweeps_per_copy * self.positions.live() {
            self.swept_in_vain = 0;
            self.changed.clear();
            let (positions, rows) = Positions::new(&self.frames[0], &self.host, 0..0)?;
            self.positions = positions;
            // The second sweeper holds memory of the rows that are replaced.
            self.second_sweeper = None;
            for sweeper in &mut self.sweepers {
                sweeper.restart(&rows)?;
            }
            return self.drop_lost_devices(self.losses.len());
        }
        let mut changed = std::mem::take(&mut self.changed);
        changed.sort_unstable();
        changed.dedup();
        let (frame, host) = (&self.frames[0], &self.host);
        let (rows, positions) = self.positions.update(frame, host, &changed)?;
        self.sweepers
            .iter_mut()
            .try_for_each(|sweeper| sweeper.update(&rows, &positions))
    }

    /// Largest number of queries of a batch, if devices keep `capacity` candidates of each query.
    fn most_queries(&self, capacity: usize) -> usize {
        let most = self.sweepers.iter().map(|s| s.most_queries(capacity)).min();
        let frame = &self.frames[0];
        let coordinates = match frame.precision() {
            ViewPrecision::Single => BATCH_COORDINATE_PAIRS,
            ViewPrecision::Half => BATCH_COORDINATE_PAIRS_OF_HALVES,
        };
        (coordinates / (frame.columns() * self.positions.references))
            .clamp(self.fewest_queries(), MOST_QUERIES)
            .min(BATCH_BYTES / (8 * room(capacity)))
            .min(most.unwrap_or(usize::MAX))
    }

    /// Smallest number of queries of a batch that keeps every device busy.
    fn fewest_queries(&self) -> usize {
        let fewest = self.sweepers.iter().map(|s| s.fewest_queries()).max();
        fewest.unwrap_or(TILE)
    }

    /// Divides `count` queries into batches.
    fn batches(&self, count: usize, capacity: usize) -> Result<Vec<Range<usize>>> {
        let most = self.most_queries(capacity);
        if most == 0 {
            return Err(Error::Memory(format!(
                "the device's memory does not suffice for {capacity} candidates of a row"
            )));
        }
        let sweepers = self.sweepers.len();
        let size = count
            .div_ceil(BATCHES_PER_SWEEPER * sweepers)
            .max(self.fewest_queries().min(count.div_ceil(sweepers)))
            .next_multiple_of(TILE)
            .min(most);
        let starts = (0..count).step_by(size);
        Ok(starts
            .map(|start| start..(start + size).min(count))
            .collect())
    }

    /// Answers a request with the present frame, batch by batch, until all queries are answered or
    /// too many stay open.
    fn answer(
        &mut self,
        request: &NeighbourRequest<'_>,
        take: &mut BlockSink<'_>,
    ) -> Result<RequestProgress> {
        let capacity = capacity(&self.frames[0], request);
        let batches = self.batches(request.queries.len(), capacity)?;
        self.requests += 1;
        let references = &self.positions.indices[..self.positions.references];
        let groups = references
            .par_iter()
            .map(|&at| group(request.exclusion, at));
        let groups = &ReferenceGroups {
            values: groups.collect(),
            request: self.requests,
        };
        let (positions, cpu, monitor) = (&self.positions, self.cpu, self.monitor);
        let exact_rows = self.sweepers.iter().filter_map(Sweeper::exact_rows);
        let exact_rows: Vec<Arc<ExactRows>> = exact_rows.collect();
        // Copying all rows takes longer than deciding about fewer candidates than rows on the host.
        let pays = request.queries.len() * capacity >= positions.references;
        let copies: Vec<RowsCopy> = (exact_rows.iter())
            .filter(|_| pays)
            .filter_map(|rows| rows.begin_copy())
            .collect();
        let points = self.points;
        let copy_exact_rows = || {
            for copy in copies {
                if let Some(points) = points {
                    copy.run(points, cpu, monitor);
                }
            }
        };
        let losses_before = self.losses.len();
        let mut settler = Settler {
            host: &mut self.host,
            second_sweeper: self.second_sweeper.as_mut(),
            loss: None,
            frame: &self.frames[0],
            positions,
            request,
            groups,
            capacity,
            has_more_precise_frame: self.frames.len() > 1,
            monitor,
        };
        let ended = process(
            &mut self.sweepers,
            &batches,
            &mut self.losses,
            copy_exact_rows,
            |sweeper, batch| sweeper.sweep(positions, request, capacity, groups, batch, monitor),
            |batch, swept| match settler.settle(batch, swept)? {
                Settled::All(nearest) => take(&nearest).map(ControlFlow::Continue),
                Settled::TooManyOpen => Ok(ControlFlow::Break(())),
            },
        )?;
        if let Some(DeviceLoss { device, error }) = settler.loss {
            record_loss(&mut self.losses, device, error);
        }
        self.drop_lost_devices(losses_before)?;
        Ok(match ended {
            ControlFlow::Continue(()) => RequestProgress::Done,
            ControlFlow::Break(()) => RequestProgress::NeedsMorePreciseFrame,
        })
    }
}

/// Number of candidates that a sweep keeps of each query. It is larger in half precision, because
/// bounds are looser.
fn capacity(frame: &RowFrame, request: &NeighbourRequest) -> usize {
    match frame.precision() {
        ViewPrecision::Single => CpuNeighbours::capacity(request),
        ViewPrecision::Half => request.wanted + request.wanted / 4 + 12,
    }
}

impl<S: Sweeper> Neighbours for CudaNeighbours<'_, S> {
    fn nearest(&mut self, request: &NeighbourRequest<'_>) -> Result<NeighbourLists> {
        let mut all = NeighbourLists::default();
        self.nearest_in_blocks(request, &mut |nearest| {
            all.append(nearest);
            Ok(())
        })?;
        Ok(all)
    }

    fn nearest_in_blocks(
        &mut self,
        request: &NeighbourRequest<'_>,
        take: &mut BlockSink<'_>,
    ) -> Result<()> {
        let count = request.queries.len();
        if count == 0 {
            return Ok(());
        }
        let pairs = count * self.positions.live();
        if pairs * self.frames[0].columns() < self.smallest {
            return self.host.nearest_in_blocks(request, take);
        }
        self.update(count)?;
        let mut done = 0;
        loop {
            let rest = request.part(done..count);
            if capacity(&self.frames[0], request) <= MOST_CANDIDATES {
                let progress = self.answer(&rest, &mut |nearest| {
                    done += nearest.len();
                    take(nearest)
                })?;
                if progress == RequestProgress::Done {
                    return Ok(());
                }
            } else if self.frames.len() == 1 {
                return self.host.nearest_in_blocks(&rest, take);
            }
            // Too many queries are open. A more precise frame takes over.
            self.frames.remove(0);
            self.open()?;
        }
    }

    fn distances(&self, query: u32, references: &[u32], distances: &mut [f64]) {
        self.host.distances(query, references, distances);
    }

    fn clusters(&self) -> &ClusterMeans {
        self.host.clusters()
    }

    fn merge(&mut self, pairs: &[(u32, u32)]) -> Result<()> {
        // The host rarely searches, and seldom for many queries. Without screens, merges need not
        // update them.
        self.host.drop_screens();
        self.host.merge(pairs)?;
        self.positions.gone += pairs.len();
        let slots = pairs.iter().flat_map(|&(lower, higher)| [lower, higher]);
        self.changed.extend(slots);
        Ok(())
    }

    fn batch(&self) -> usize {
        self.most_queries(1).max(1) * self.sweepers.len()
    }

    fn least_batch(&self) -> usize {
        policy::REQUEST_QUERIES
    }
}
