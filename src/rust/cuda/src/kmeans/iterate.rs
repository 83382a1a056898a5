//! Lloyd's iterations, divided among devices.

use std::ops::Range;

use cudarc::driver::CudaSlice;
use ndarray::Array2;

use super::assign::{Assigner, Comparison};
use super::launch::NONE;
use super::observations::DeviceObservations;
use super::update::Updater;
use crate::device::DriverResult;
use crate::policy;
use crate::sharing::{on_each, shares};
use gmhclust_core::error::Result;
use gmhclust_core::kmeans::{Assigned, ClusterSums, CLUSTERS};
use gmhclust_core::matrix::{RowSlices, STANDARD_LAYOUT};
use gmhclust_core::memory;
use gmhclust_core::monitor::Monitor;
use gmhclust_core::tasks::pieces;

/// Number of cluster numbers (4 MB) that the host prepares for a device at a time. Only the time
/// depends on it, and only slightly.
const SENT_AT_A_TIME: usize = 1 << 20;

/// The centers before the first iteration. `nearest` has, on the first device, the number of the
/// nearest center of each observation, or of a near center, if the device knows it.
pub struct FirstCenters {
    pub centers: Array2<f64>,
    pub nearest: Option<CudaSlice<u32>>,
}

/// Assigns observations and updates centers until no assignment changes.
pub fn iterate(
    observations: Vec<DeviceObservations>,
    comparison: Comparison,
    first: FirstCenters,
    most: usize,
    monitor: &Monitor,
) -> Result<Assigned> {
    let n = observations[0].rows;
    monitor.expect((n * most) as u64);
    let mut partition = Partition::new(observations, comparison, first)?;
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
    /// The number of the cluster of each observation. With several devices, this field and
    /// `centers` equal the devices' copies. With one device, they are filled at the end.
    cluster: Vec<u32>,
    centers: Array2<f64>,
}

impl<'a> Partition<'a> {
    fn new(
        observations: Vec<DeviceObservations<'a>>,
        comparison: Comparison,
        FirstCenters { centers, nearest }: FirstCenters,
    ) -> Result<Self> {
        let (n, k, devices) = (observations[0].rows, centers.nrows(), observations.len());
        let parts = shares(n, devices).zip(shares(k, devices));
        let mut workers = on_each(observations.into_iter().zip(parts), |work| {
            let (observations, (rows, moved)) = work;
            DeviceShare::new(observations, comparison, rows, moved, &centers)
        })?;
        if let ([alone], Some(nearest)) = (&mut workers[..], nearest) {
            alone.start_at(nearest)?;
        }
        Ok(Self {
            workers,
            cluster: memory::filled(CLUSTERS, n, NONE)?,
            centers,
        })
    }

    /// Assigns the observations. Returns whether any assignment has changed.
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
            sums: self.sums()?,
            cluster: self.cluster,
            centers: self.centers,
            iterations,
        })
    }

    /// The sums over the clusters, unless a cluster is so large that the CPU is faster.
    fn sums(&self) -> Result<Option<ClusterSums>> {
        let sizes = on_each(self.workers.iter(), DeviceShare::sizes)?.concat();
        let largest = sizes.iter().copied().max().unwrap_or(0);
        if largest > self.cluster.len() / policy::KMEANS_SQUARES_RATIO {
            return Ok(None);
        }
        let within = on_each(self.workers.iter(), DeviceShare::squares)?.concat();
        Ok(Some(ClusterSums { sizes, within }))
    }
}

/// Splits values into consecutive parts.
fn split<T>(
    values: &mut [T],
    parts: impl ExactSizeIterator<Item = Range<usize>>,
) -> impl ExactSizeIterator<Item = &mut [T]> {
    Vec::from_iter(pieces(values, parts.map(|part| part.len()))).into_iter()
}

/// Cluster numbers relative to `first`, for the device that moves the centers from `first` on. A
/// cluster before `first` gets a number that no cluster has, since there are fewer than 2³¹
/// clusters.
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
    assigner: Assigner,
    updater: Updater,
    /// Whether `updater` has sorted the observations by their clusters.
    is_sorted: bool,
    /// All centers.
    centers: CudaSlice<f64>,
    /// The cluster numbers of all observations, [`relative`] to the centers that this device moves.
    /// `None` if this device does all of the work.
    relative: Option<CudaSlice<u32>>,
}

impl<'a> DeviceShare<'a> {
    fn new(
        observations: DeviceObservations<'a>,
        comparison: Comparison,
        rows: Range<usize>,
        moved: Range<usize>,
        centers: &Array2<f64>,
    ) -> Result<Self> {
        let stream = &observations.stream;
        let n = observations.rows;
        let has_all = rows == (0..n) && moved == (0..centers.nrows());
        let allocate = || -> DriverResult<_> {
            let there = stream.clone_htod(centers.values())?;
            // The copy in host memory must live until it has been transferred.
            stream.synchronize()?;
            // SAFETY: the numbers are written before `update` reads them.
            let relative = (!has_all).then(|| unsafe { stream.alloc::<u32>(n) });
            Ok((there, relative.transpose()?))
        };
        let allocated = allocate().map_err(|error| observations.error(&error))?;
        let (centers, relative) = allocated;
        Ok(Self {
            // The updater must have its memory. The assigner takes more memory if there is some.
            updater: Updater::new(&observations, moved.clone())?,
            assigner: Assigner::new(&observations, comparison, &centers, &rows)?,
            observations,
            rows,
            moved,
            is_sorted: false,
            centers,
            relative,
        })
    }

    /// Sets the clusters of all observations before the first assignment, and sorts by them, if the
    /// assigner compares with near centers. This device must do all of the work.
    fn start_at(&mut self, nearest: CudaSlice<u32>) -> Result<()> {
        if !self.assigner.compares_near() {
            return Ok(());
        }
        self.assigner.start_at(nearest);
        self.sort()
    }

    /// Assigns the device's observations. Returns whether any assignment has changed.
    fn assign(&mut self, monitor: &Monitor) -> Result<bool> {
        let at = &self.observations;
        // A device that does all of the work has sorted its observations by cluster.
        let has_sorted = self.relative.is_none() && self.is_sorted;
        let sorted = has_sorted.then(|| self.updater.members(at, at.at(&self.centers)));
        self.assigner
            .assign(at, &self.centers, sorted.as_ref(), monitor)
    }

    fn sort(&mut self) -> Result<()> {
        let numbers = self.relative.as_ref();
        let numbers = numbers.unwrap_or_else(|| self.assigner.cluster());
        self.updater.sort(&self.observations, numbers)?;
        self.is_sorted = true;
        Ok(())
    }

    /// Moves the device's centers.
    fn update(&mut self) -> Result<()> {
        self.sort()?;
        self.updater.update(&self.observations, &self.centers)
    }

    /// The numbers of members of the clusters whose centers the device moves.
    fn sizes(&self) -> Result<Vec<usize>> {
        self.updater.sizes(&self.observations)
    }

    /// The sums of squares within the clusters whose centers the device moves.
    fn squares(&self) -> Result<Vec<f64>> {
        self.updater.squares(&self.observations, &self.centers)
    }

    fn receive_centers(&mut self, centers: &Array2<f64>) -> Result<()> {
        let stream = &self.observations.stream;
        // The host may change its copy after this function.
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
        let there = self.assigner.cluster().slice(self.rows.clone());
        self.observations.fetch(&there, here)
    }

    /// Copies the device's centers to the host.
    fn fetch_centers(&self, here: &mut [f64]) -> Result<()> {
        if self.moved.is_empty() {
            return Ok(());
        }
        let p = self.observations.columns;
        let there = self.centers.slice(self.moved.start * p..self.moved.end * p);
        self.observations.fetch(&there, here)
    }
}
