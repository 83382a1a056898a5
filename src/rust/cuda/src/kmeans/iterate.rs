//! Lloyd's iterations, divided among devices.

use std::ops::Range;

use cudarc::driver::{CudaFunction, CudaSlice, PushKernelArg};
use ndarray::Array2;

use super::launch::{config, NONE, ROWS, SPAN, THREADS};
use super::observations::DeviceObservations;
use super::sharing::{on_each, shares};
use crate::arguments::arguments;
use crate::device::DriverResult;
use gmhclust_core::error::Result;
use gmhclust_core::kmeans::Assigned;
use gmhclust_core::matrix::{RowSlices, STANDARD_LAYOUT};
use gmhclust_core::memory;
use gmhclust_core::monitor::Monitor;

/// Number of pairs of coordinates of a launch, which takes a fraction of a second. If larger, an
/// interrupt is answered late.
const BATCH_COORDINATES: usize = 1 << 40;

/// Count of cluster numbers (4 MB) that the host prepares for a device at a time. Only the time
/// depends on it, and only slightly.
const SENT_AT_A_TIME: usize = 1 << 20;

arguments! {
    /// As in kmeans_launch.cuh.
    pub struct Lloyd {
        pub x: u64,
        pub centers: u64,
        pub sums: u64,
        pub cluster: u64,
        pub changed: u64,
        pub rows: u32,
        pub columns: u32,
        pub clusters: u32,
        pub first: u32,
        pub last: u32,
    }
}

/// Assigns observations and updates centers until no assignment changes.
pub fn iterate(
    observations: Vec<DeviceObservations>,
    centers: Array2<f64>,
    most: usize,
    monitor: &Monitor,
) -> Result<Assigned> {
    let n = observations[0].x.nrows();
    monitor.expect((n * most) as u64);
    let mut partition = Partition::new(observations, centers)?;
    for iteration in 1..=most {
        if !partition.assign(monitor)? {
            return partition.finish(iteration);
        }
        partition.update()?;
        monitor.advance(n as u64);
    }
    partition.finish(most + 1)
}

/// The state between two iterations.
struct Partition<'a> {
    workers: Vec<DeviceShare<'a>>,
    /// By observation, the number of its cluster. With several devices, this field and `centers`
    /// equal the devices' copies; with one device, they are filled at the end.
    cluster: Vec<u32>,
    centers: Array2<f64>,
}

impl<'a> Partition<'a> {
    fn new(observations: Vec<DeviceObservations<'a>>, centers: Array2<f64>) -> Result<Self> {
        let (n, k, devices) = (
            observations[0].x.nrows(),
            centers.nrows(),
            observations.len(),
        );
        let parts = shares(n, devices).zip(shares(k, devices));
        let workers = on_each(observations.into_iter().zip(parts), |work| {
            let (observations, (rows, moved)) = work;
            DeviceShare::new(observations, rows, moved, &centers)
        })?;
        Ok(Self {
            workers,
            cluster: memory::filled("the clusters of the observations need", n, NONE)?,
            centers,
        })
    }

    /// Assigns the observations; returns whether any assignment has changed.
    fn assign(&mut self, monitor: &Monitor) -> Result<bool> {
        let (n, devices) = (self.cluster.len(), self.workers.len());
        let own = split(&mut self.cluster, shares(n, devices));
        let changed = on_each(self.workers.iter_mut().zip(own), |(worker, own)| {
            if devices > 1 {
                worker.receive_centers(&self.centers)?;
            }
            let changed = worker.assign(monitor)?;
            if changed && devices > 1 {
                worker.fetch_clusters(own)?;
            }
            Ok(changed)
        })?;
        Ok(changed.contains(&true))
    }

    /// Moves the centers to the means of their members.
    fn update(&mut self) -> Result<()> {
        let ((k, p), devices) = (self.centers.dim(), self.workers.len());
        let values = shares(k, devices).map(|moved| moved.start * p..moved.end * p);
        let centers = self.centers.as_slice_mut().expect(STANDARD_LAYOUT);
        let own = split(centers, values);
        on_each(self.workers.iter_mut().zip(own), |(worker, own)| {
            if devices > 1 {
                worker.receive_clusters(&self.cluster)?;
            }
            worker.update()?;
            if devices > 1 {
                worker.fetch_centers(own)?;
            }
            Ok(())
        })?;
        Ok(())
    }

    fn finish(mut self, iterations: usize) -> Result<Assigned> {
        if let [alone] = &self.workers[..] {
            alone.fetch_clusters(&mut self.cluster)?;
            alone.fetch_centers(self.centers.as_slice_mut().expect(STANDARD_LAYOUT))?;
        }
        Ok(Assigned {
            cluster: self.cluster,
            centers: self.centers,
            iterations,
        })
    }
}

/// Splits values into consecutive parts.
fn split<T>(
    mut values: &mut [T],
    parts: impl ExactSizeIterator<Item = Range<usize>>,
) -> impl ExactSizeIterator<Item = &mut [T]> {
    let part = |part: Range<usize>| {
        let (first, rest) = std::mem::take(&mut values).split_at_mut(part.len());
        values = rest;
        first
    };
    Vec::from_iter(parts.map(part)).into_iter()
}

/// Cluster numbers relative to `first`, for the kernel `update` that moves the centers from `first`
/// on. A center before `first` gets a number that no center has, since there are fewer than 2³¹
/// centers.
pub fn relative(clusters: &[u32], first: usize) -> impl Iterator<Item = u32> + '_ {
    let first = first as u32;
    let among_these = move |&cluster: &u32| cluster.wrapping_sub(first);
    clusters.iter().map(among_these)
}

/// A device, and its share of the work.
struct DeviceShare<'a> {
    observations: DeviceObservations<'a>,
    /// The observations that this device assigns.
    rows: Range<usize>,
    /// The centers that this device moves.
    moved: Range<usize>,
    assign: CudaFunction,
    update: CudaFunction,
    /// All centers.
    centers: CudaSlice<f64>,
    /// The sums over the members of the centers that this device moves.
    sums: CudaSlice<f64>,
    /// The cluster number of each observation that this device assigns; padded for the reads of the
    /// kernel `update`.
    cluster: CudaSlice<u32>,
    /// The cluster numbers of all observations, [`relative`] to the centers that this device moves;
    /// `None` if it does all of the work.
    relative: Option<CudaSlice<u32>>,
    /// Whether any assignment has changed.
    changed: CudaSlice<u32>,
}

impl<'a> DeviceShare<'a> {
    fn new(
        observations: DeviceObservations<'a>,
        rows: Range<usize>,
        moved: Range<usize>,
        centers: &Array2<f64>,
    ) -> Result<Self> {
        let stream = &observations.stream;
        let n = observations.x.nrows();
        let allocate = || -> DriverResult<_> {
            // SAFETY: `update` writes the sums before it reads them.
            let sums = unsafe { stream.alloc::<f64>(moved.len().max(1) * centers.ncols())? };
            let none = vec![NONE; n.next_multiple_of(SPAN)];
            let cluster = stream.clone_htod(&none)?;
            let has_all = rows == (0..n) && moved == (0..centers.nrows());
            let relative = (!has_all).then(|| stream.clone_htod(&none)).transpose()?;
            let centers = stream.clone_htod(centers.values())?;
            // The host's copies must outlive the copying.
            stream.synchronize()?;
            Ok((
                centers,
                sums,
                cluster,
                relative,
                stream.alloc_zeros::<u32>(1)?,
            ))
        };
        let allocated = allocate().map_err(|error| observations.error(&error))?;
        let (centers, sums, cluster, relative, changed) = allocated;
        Ok(Self {
            assign: observations.kernel("assign")?,
            update: observations.kernel("update")?,
            observations,
            rows,
            moved,
            centers,
            sums,
            cluster,
            relative,
            changed,
        })
    }

    /// The kernels' argument for all centers.
    fn lloyd(&self) -> Lloyd {
        let (n, p) = self.observations.x.dim();
        let at = &self.observations;
        Lloyd {
            x: at.at(&at.values),
            centers: at.at(&self.centers),
            sums: at.at(&self.sums),
            cluster: at.at(&self.cluster),
            changed: at.at(&self.changed),
            rows: n as u32,
            columns: p as u32,
            clusters: (self.centers.len() / p) as u32,
            first: 0,
            last: 0,
        }
    }

    /// Assigns the device's observations; returns whether any assignment has changed.
    fn assign(&mut self, monitor: &Monitor) -> Result<bool> {
        let stream = self.observations.stream.clone();
        let zeroed = stream.memset_zeros(&mut self.changed);
        zeroed.map_err(|error| self.observations.error(&error))?;
        let lloyd = self.lloyd();
        let centers = lloyd.clusters as usize * lloyd.columns as usize;
        let rows = (BATCH_COORDINATES / centers).clamp(1 << 14, i32::MAX as usize);
        for first in self.rows.clone().step_by(rows) {
            monitor.check()?;
            let last = self.rows.end.min(first + rows);
            let part = Lloyd {
                first: first as u32,
                last: last as u32,
                ..lloyd
            };
            let blocks = ((last - first) as u32).div_ceil(ROWS);
            // SAFETY: arguments as declared in kmeans.cu; all arrays have the sizes given by
            // `lloyd`, and live until the stream is synchronized here.
            let launched = unsafe {
                let mut launch = stream.launch_builder(&self.assign);
                launch.arg(&part).launch(config(blocks, THREADS))
            };
            launched
                .and_then(|_| stream.synchronize())
                .map_err(|error| self.observations.error(&error))?;
        }
        let mut changed = [0];
        self.observations
            .fetch(&self.changed.as_view(), &mut changed)?;
        Ok(changed != [0])
    }

    /// Moves the device's centers. The kernel sees only these centers.
    fn update(&mut self) -> Result<()> {
        if self.moved.is_empty() {
            return Ok(());
        }
        let all = self.lloyd();
        let before = size_of::<f64>() * self.moved.start * all.columns as usize;
        let numbers = self.relative.as_ref().unwrap_or(&self.cluster);
        let lloyd = Lloyd {
            centers: all.centers + before as u64,
            cluster: self.observations.at(numbers),
            clusters: self.moved.len() as u32,
            ..all
        };
        let mut launch = self.observations.stream.launch_builder(&self.update);
        // SAFETY: as in `assign`; these arrays live as long as `self`, whose later work on them is
        // on the same stream.
        let launched = unsafe { launch.arg(&lloyd).launch(config(lloyd.clusters, THREADS)) };
        launched.map_err(|error| self.observations.error(&error))?;
        Ok(())
    }

    fn receive_centers(&mut self, centers: &Array2<f64>) -> Result<()> {
        let stream = &self.observations.stream;
        // The host's copy may change after this.
        let received = stream
            .memcpy_htod(centers.values(), &mut self.centers)
            .and_then(|()| stream.synchronize());
        received.map_err(|error| self.observations.error(&error))
    }

    /// Copies the cluster numbers of all observations to the device, for `update`.
    fn receive_clusters(&mut self, clusters: &[u32]) -> Result<()> {
        let Some(relative_here) = &mut self.relative else {
            return Ok(());
        };
        let stream = &self.observations.stream;
        let mut numbers = Vec::with_capacity(clusters.len().min(SENT_AT_A_TIME));
        for (at, part) in (0..)
            .step_by(SENT_AT_A_TIME)
            .zip(clusters.chunks(SENT_AT_A_TIME))
        {
            numbers.clear();
            numbers.extend(relative(part, self.moved.start));
            let sent = stream
                .memcpy_htod(&numbers, &mut relative_here.slice_mut(at..at + part.len()))
                .and_then(|()| stream.synchronize());
            sent.map_err(|error| self.observations.error(&error))?;
        }
        Ok(())
    }

    /// Copies the cluster numbers of the device's observations to the host.
    fn fetch_clusters(&self, here: &mut [u32]) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let there = self.cluster.slice(self.rows.clone());
        self.observations.fetch(&there, here)
    }

    /// Copies the device's centers to the host.
    fn fetch_centers(&self, here: &mut [f64]) -> Result<()> {
        if self.moved.is_empty() {
            return Ok(());
        }
        let p = self.observations.x.ncols();
        let there = self.centers.slice(self.moved.start * p..self.moved.end * p);
        self.observations.fetch(&there, here)
    }
}
