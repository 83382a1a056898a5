//! [`Cuda`]: a device for every algorithm, on one or more CUDA devices.

use std::sync::Arc;

use gmhclust_core::distances::{DistanceDevice, Pairs};
use gmhclust_core::error::{Error, Result};
use gmhclust_core::kmeans::frame::Frame;
use gmhclust_core::kmeans::{Assigned, KMeansDevice, Start};
use gmhclust_core::lazy_rows::LazyRows;
use gmhclust_core::linkage::dissimilarities::Dissimilarities;
use gmhclust_core::linkage::{DissimilaritySource, LinkageDevice, Recurrence};
use gmhclust_core::mahalanobis::{AgglomerationDevice, Problem, OBSERVATIONS_AT_A_TIME};
use gmhclust_core::metric::Points;
use gmhclust_core::neighbours::cpu::CpuNeighbours;
use gmhclust_core::neighbours::{NeighbourDevice, Neighbours, RemainingClusters, Space};
use gmhclust_core::{Cpu, Merge, Monitor};

use crate::agglomerate::Agglomerator;
use crate::budget::memory_from_environment;
use crate::device::{self, Device};
use crate::neighbours::CudaNeighbours;
use crate::thresholds::GpuThresholds;
use crate::{dissimilarities, distances, kmeans, mean_linkage, policy};

/// One or more CUDA devices, and the CPU that works with them.
pub struct Cuda {
    devices: Vec<Arc<Device>>,
    /// The CPU. It does the host's part of the work, and all work that the devices cannot do.
    cpu: Arc<Cpu>,
    thresholds: GpuThresholds,
    /// Largest number of bytes of a device's memory that a search for neighbours or a linkage by
    /// means may take; `None` for no limit. Trees, matrices and k-means do not obey it.
    memory: Option<usize>,
}

impl Cuda {
    /// Opens the devices with these numbers, or all usable devices if `chosen` is `None`.
    ///
    /// # Errors
    /// `Error::Device` if one of the chosen devices cannot be used, or if there is no device.
    /// `Error::Input` if `GMHCLUST_DEVICE_MEMORY` is not a number of bytes.
    pub fn new(chosen: Option<&[usize]>, cpu: Arc<Cpu>, thresholds: GpuThresholds) -> Result<Self> {
        let devices = match chosen {
            Some(chosen) => Device::shared_each(chosen)
                .into_iter()
                .collect::<Result<_>>()?,
            None => usable(Device::shared_each(&numbers()?))?,
        };
        Self::on(devices, cpu, thresholds)
    }

    /// Opens only the first usable device, because opening a device takes time and device memory.
    ///
    /// # Errors
    /// As [`Cuda::new`].
    pub fn on_first(cpu: Arc<Cpu>, thresholds: GpuThresholds) -> Result<Self> {
        let numbers = numbers()?;
        let devices = first_usable(numbers.iter().map(|&number| Device::shared(number)))?;
        Self::on(devices, cpu, thresholds)
    }

    fn on(devices: Vec<Arc<Device>>, cpu: Arc<Cpu>, thresholds: GpuThresholds) -> Result<Self> {
        if devices.is_empty() {
            return Err(Error::Device(
                "there is no CUDA device on this machine".into(),
            ));
        }
        Ok(Self {
            devices,
            cpu,
            thresholds,
            memory: memory_from_environment()?,
        })
    }

    /// Returns this device with merging in thread blocks switched off.
    pub fn without_blocks(mut self) -> Self {
        self.thresholds.block_problems = usize::MAX;
        self
    }

    /// Returns this device with large blocks for any number of problems.
    pub fn with_large_blocks(mut self) -> Self {
        self.thresholds.large_block_problems = usize::MAX;
        self
    }

    /// Returns this device with a limit on searches for neighbours and on linkages by means: they
    /// take at most `bytes` bytes of the memory of each GPU.
    pub fn with_memory(mut self, bytes: usize) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Returns this device with another limit on linkages by means in rounds on a GPU: they begin
    /// once the square of the number of clusters, times the number of columns, is at most
    /// `coordinates`.
    pub fn with_mean_linkage(mut self, coordinates: usize) -> Self {
        self.thresholds.mean_linkage_coordinates = coordinates;
        self
    }

    /// Number of devices.
    pub fn devices(&self) -> usize {
        self.devices.len()
    }
}

/// The numbers of all devices.
fn numbers() -> Result<Vec<usize>> {
    Ok((0..device::count()?).collect())
}

/// The devices that could be opened. If no device could be opened, returns the first error. An
/// error other than `Error::Device` is always returned.
fn usable<D>(opened: Vec<Result<D>>) -> Result<Vec<D>> {
    let mut usable = Vec::new();
    let mut first_error = None;
    for opened in opened {
        match opened {
            Ok(device) => usable.push(device),
            Err(error @ Error::Device(_)) => first_error = first_error.or(Some(error)),
            Err(other) => return Err(other),
        }
    }
    match first_error {
        Some(error) if usable.is_empty() => Err(error),
        _ => Ok(usable),
    }
}

/// As [`usable`], but returns only the first usable device. The devices after it are not opened.
fn first_usable<D>(opened: impl Iterator<Item = Result<D>>) -> Result<Vec<D>> {
    let mut tried = Vec::new();
    for opened in opened {
        let go_on = matches!(opened, Err(Error::Device(_)));
        tried.push(opened);
        if !go_on {
            break;
        }
    }
    usable(tried)
}

impl gmhclust_core::Device for Cuda {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn cpu(&self) -> &Cpu {
        &self.cpu
    }

    /// After the failure of a device, makes the next use open the devices again. Other errors
    /// change nothing.
    fn failed(&self, error: &Error) {
        for device in &self.devices {
            device.forget_on_failure(error);
        }
    }
}

impl AgglomerationDevice for Cuda {
    fn observations_at_a_time(&self) -> usize {
        self.devices.len() * OBSERVATIONS_AT_A_TIME
    }

    fn agglomerate(&self, problems: &[Problem<'_>], monitor: &Monitor) -> Result<Vec<Vec<Merge>>> {
        let agglomerator = Agglomerator {
            devices: &self.devices,
            cpu: &self.cpu,
            thresholds: &self.thresholds,
        };
        agglomerator.agglomerate(problems, monitor)
    }
}

impl NeighbourDevice for Cuda {
    fn references<'a>(
        &'a self,
        space: Space<'a>,
        monitor: &'a Monitor,
    ) -> Result<Box<dyn Neighbours + 'a>> {
        let (devices, cpu) = (&self.devices, &*self.cpu);
        let (thresholds, memory) = (&self.thresholds, self.memory);
        self.cpu.install(|| {
            let neighbours = CudaNeighbours::new(devices, cpu, space, thresholds, memory, monitor)?;
            Ok::<Box<dyn Neighbours>, _>(match neighbours {
                Some(neighbours) => Box::new(neighbours),
                None => Box::new(CpuNeighbours::new(space, monitor)?),
            })
        })
    }

    fn prefers_merges_of_means(&self, clusters: usize, columns: usize) -> bool {
        let pairs = clusters.saturating_mul(clusters);
        pairs.saturating_mul(columns) <= self.thresholds.mean_linkage_coordinates
    }

    fn merges_of_means(
        &self,
        clusters: &RemainingClusters<'_>,
        monitor: &Monitor,
    ) -> Result<Option<Vec<Merge>>> {
        mean_linkage::merges(&self.devices[0], clusters, self.memory, &self.cpu, monitor)
    }
}

impl DistanceDevice for Cuda {
    fn distances(
        &self,
        points: &Points,
        pairs: &Pairs,
        out: &mut [f64],
        monitor: &Monitor,
    ) -> Result<()> {
        if !distances::fits(points) {
            return self.cpu.distances(points, pairs, out, monitor);
        }
        let device = &self.devices[0];
        distances::distances(device, points, pairs, out, &self.cpu, monitor)
    }
}

impl LinkageDevice for Cuda {
    fn dissimilarities<'a>(
        &'a self,
        source: DissimilaritySource<'a>,
        n: usize,
        recurrence: Recurrence,
        monitor: &Monitor,
    ) -> Result<Box<dyn Dissimilarities + 'a>> {
        if n < self.thresholds.matrix_observations || !dissimilarities::fits(recurrence.linkage) {
            return self.cpu.dissimilarities(source, n, recurrence, monitor);
        }
        let device = &self.devices[0];
        let chain_clusters = self.thresholds.chain_clusters;
        dissimilarities::dissimilarities(
            device,
            source,
            n,
            recurrence,
            self,
            chain_clusters,
            monitor,
        )
    }
}

impl KMeansDevice for Cuda {
    fn iterate(
        &self,
        x: &LazyRows,
        start: Start,
        iterations: usize,
        monitor: &Monitor,
    ) -> Result<Assigned> {
        let centers = start.centers();
        let coordinates = (x.nrows() * x.ncols()).saturating_mul(centers);
        let of_one = self.thresholds.kmeans_coordinates_per_device.max(1);
        let worthwhile_devices = (coordinates / of_one).max(1);
        let devices =
            if coordinates < self.thresholds.kmeans_coordinates || !Frame::is_useful(x.ncols()) {
                Vec::new()
            } else {
                kmeans::fitting(&self.devices, x, centers, worthwhile_devices)?
            };
        if devices.is_empty() {
            return self.cpu.iterate(x, start, iterations, monitor);
        }
        let columns = x.ncols().saturating_sub(policy::KMEANS_HALF_COLUMNS);
        let on = kmeans::CudaKMeans {
            devices: &devices,
            grouped_from: self.thresholds.kmeans_grouped_centers,
            coded: kmeans::CodePolicy {
                rows: self.thresholds.kmeans_coded_observations,
                centers: self.thresholds.kmeans_coded_centers,
            },
            in_halves: centers * columns >= self.thresholds.kmeans_half_coordinates,
            near: kmeans::NearPolicy {
                centers: self.thresholds.kmeans_near_centers,
                ratio: self.thresholds.kmeans_near_ratio,
            },
            cpu: &self.cpu,
        };
        kmeans::kmeans(on, x, start, iterations, monitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_that_cannot_be_opened_are_left_out_unless_none_can() {
        let failed = |name: &str| Error::Device(name.into());
        assert_eq!(usable::<u8>(vec![]), Ok(vec![]));
        assert_eq!(usable(vec![Err(failed("a")), Ok(1), Ok(2)]), Ok(vec![1, 2]));
        let none = vec![Err(failed("a")), Err(failed("b"))];
        assert_eq!(usable::<u8>(none), Err(failed("a")));
        let full = Error::Memory("full".into());
        assert_eq!(usable(vec![Ok(1), Err(full.clone())]), Err(full));
    }

    #[test]
    fn devices_after_the_first_usable_one_are_not_opened() {
        let failed = || Error::Device("gone".into());
        for (opened, expected) in [
            (vec![], Ok(vec![])),
            (vec![Err(failed()), Err(failed())], Err(failed())),
            (vec![Err(failed()), Ok(1), Ok(2), Ok(3)], Ok(vec![1])),
        ] {
            let mut tried = 0;
            let opened = opened.into_iter().inspect(|_| tried += 1);
            assert_eq!(first_usable(opened), expected);
            assert!(tried <= 2, "{tried} were opened");
        }
    }
}
