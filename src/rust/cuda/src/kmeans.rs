//! k-means on a CUDA device, all of it in double precision; kernels/kmeans.cu says how.

#[cfg(test)]
mod decisions;

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{
    CudaFunction, CudaSlice, CudaStream, DevicePtr, DriverError, LaunchConfig, PushKernelArg,
};

use crate::arguments::arguments;
use crate::device::{Device, DriverResult};
use crate::kernels;
use ndarray::Array2;

use gmhclust_core::error::{Error, Result};
use gmhclust_core::kmeans::seed::{self, CHUNK};
use gmhclust_core::kmeans::{Assigned, Start};
use gmhclust_core::matrix::RowSlices;
use gmhclust_core::monitor::Monitor;
use gmhclust_core::observations::Observations;

// As in kmeans_launch.cuh.
const DRAW_THREADS: u32 = 1024;
const WARP: u32 = 32;
const WEIGH_WARPS: u32 = 4;
const THREADS: u32 = 256;
const ROWS: u32 = 128;
const SPAN: usize = 2048;
const NONE: u32 = u32::MAX;

/// Centers that are drawn between two looks at the monitor: a fraction of a second. With more, an
/// interrupt would have to wait.
const DRAWN_AT_A_TIME: usize = 64;

/// Pairs of coordinates of a launch: a fraction of a second. With more, an interrupt would have to
/// wait.
const BATCH_COORDINATES: usize = 1 << 40;

arguments! {
    /// As in kmeans_launch.cuh.
    struct Seeding {
        x: u64,
        uniforms: u64,
        squares: u64,
        nearest: u64,
        sums: u64,
        parts: u64,
        totals: u64,
        centers: u64,
        pruned_below: u64,
        drawn: u64,
        pruned_share: f64,
        rows: u32,
        columns: u32,
        first: u32,
    }
}

arguments! {
    /// As in kmeans_launch.cuh.
    struct Lloyd {
        x: u64,
        centers: u64,
        sums: u64,
        cluster: u64,
        changed: u64,
        rows: u32,
        columns: u32,
        clusters: u32,
        first: u32,
        last: u32,
    }
}

/// Whether the device has memory for this many centers of these observations.
///
/// # Errors
/// `Error::Device` when it fails.
pub fn fits(device: &Device, x: &Observations, centers: usize) -> Result<bool> {
    if x.nrows() > i32::MAX as usize {
        return Ok(false);
    }
    let (rows, values) = (x.nrows() + SPAN, x.values().len());
    // The observations, the scalars of each while centers are drawn, centers and their sums.
    let bytes = 8 * values + 20 * rows + 2 * 8 * centers * (x.ncols() + 2);
    Ok(bytes + (bytes >> 4) <= device.free_memory()?)
}

/// As [`gmhclust_core::kmeans::KMeansDevice::iterate`], where that [`fits`].
///
/// # Errors
/// As there.
pub fn kmeans(
    device: &Arc<Device>,
    x: &Observations,
    start: Start,
    iterations: usize,
    monitor: &Monitor,
) -> Result<Assigned> {
    let observations = DeviceObservations::new(device, x)?;
    // Outlives the copying to the device.
    let rows;
    let centers = match start {
        Start::Centers(centers) => {
            rows = centers.as_standard_layout();
            let copy = observations.stream.clone_htod(rows.values());
            copy.map_err(|error| observations.error(error))?
        }
        Start::Draws(uniforms) => observations.draw(uniforms, monitor)?,
    };
    observations.iterate(centers, iterations, monitor)
}

/// Observations on a device.
struct DeviceObservations<'a> {
    device: &'a Device,
    stream: Arc<CudaStream>,
    x: &'a Observations,
    values: CudaSlice<f64>,
}

impl<'a> DeviceObservations<'a> {
    fn new(device: &'a Device, x: &'a Observations) -> Result<Self> {
        let copied = || -> DriverResult<_> {
            let stream = device.context.new_stream()?;
            let values = stream.clone_htod(x.values())?;
            // The host's copy must outlive the copying.
            stream.synchronize()?;
            Ok((stream, values))
        };
        let (stream, values) =
            copied().map_err(|error| device.error("copying observations", &error))?;
        Ok(Self {
            device,
            stream,
            x,
            values,
        })
    }

    fn error(&self, error: DriverError) -> Error {
        self.device.error("k-means", &error)
    }

    fn kernel(&self, name: &str) -> Result<CudaFunction> {
        self.device.kernel(&kernels::KMEANS, name)
    }

    /// The address of a buffer on the device.
    fn at<T>(&self, buffer: &CudaSlice<T>) -> u64 {
        buffer.device_ptr(&self.stream).0
    }

    /// The centers that [`seed::seed`] draws.
    fn draw(&self, uniforms: &[f64], monitor: &Monitor) -> Result<CudaSlice<f64>> {
        let kernels = (self.kernel("draw")?, self.kernel("weigh")?);
        let (p, k) = (self.x.ncols(), uniforms.len());
        let memory = SeedingMemory::new(&self.stream, uniforms, self.x.nrows(), p);
        let memory = memory.map_err(|error| self.error(error))?;
        let seeding = self.seeding(&memory, uniforms[0]);
        for start in (0..k).step_by(DRAWN_AT_A_TIME) {
            monitor.check()?;
            let batch = start..(start + DRAWN_AT_A_TIME).min(k);
            let rows = self.draw_batch(&kernels, &seeding, &memory.drawn, batch);
            self.stream
                .synchronize()
                .map_err(|error| self.error(error))?;
            let rows = rows.map_err(|error| self.error(error))?;
            if let Some(missing) = rows.iter().position(|&row| row == NONE) {
                return Err(seed::too_few(start + missing, k));
            }
        }
        Ok(memory.centers)
    }

    /// The kernels' argument for draws, of which the first takes the uniform number `first`.
    fn seeding(&self, memory: &SeedingMemory, first: f64) -> Seeding {
        Seeding {
            x: self.at(&self.values),
            uniforms: self.at(&memory.uniforms),
            squares: self.at(&memory.squares),
            nearest: self.at(&memory.nearest),
            sums: self.at(&memory.sums),
            parts: self.at(&memory.parts),
            totals: self.at(&memory.totals),
            centers: self.at(&memory.centers),
            pruned_below: self.at(&memory.pruned_below),
            drawn: self.at(&memory.drawn),
            pruned_share: seed::radius_factor(self.x.ncols()),
            rows: self.x.nrows() as u32,
            columns: self.x.ncols() as u32,
            first: seed::first(self.x, first) as u32,
        }
    }

    /// Launches the draws of some centers; the rows that they are, or [`NONE`].
    fn draw_batch(
        &self,
        (draw, weigh): &(CudaFunction, CudaFunction),
        seeding: &Seeding,
        drawn: &CudaSlice<u32>,
        batch: Range<usize>,
    ) -> DriverResult<Vec<u32>> {
        let stream = &self.stream;
        let chunks = self.x.nrows().div_ceil(CHUNK) as u32;
        for number in batch.start as u32..batch.end as u32 {
            // SAFETY: arguments as declared in kmeans.cu; all arrays have the sizes that
            // `seeding` says, and live until `draw` synchronizes the stream.
            unsafe {
                let one = config(1, DRAW_THREADS);
                let mut launch = stream.launch_builder(draw);
                launch.arg(seeding).arg(&number).launch(one)?;
                let warps = config(chunks.div_ceil(WEIGH_WARPS), WEIGH_WARPS * WARP);
                let mut launch = stream.launch_builder(weigh);
                launch.arg(seeding).arg(&number).launch(warps)?;
            }
        }
        stream.clone_dtoh(&drawn.slice(batch))
    }

    /// Assigns and updates until nothing changes.
    fn iterate(&self, centers: CudaSlice<f64>, most: usize, monitor: &Monitor) -> Result<Assigned> {
        let stream = &self.stream;
        let (n, p) = (self.x.nrows(), self.x.ncols());
        let k = centers.len() / p;
        monitor.expect((n * most) as u64);
        let (sums, cluster, mut changed) =
            self.lloyd_memory(k).map_err(|error| self.error(error))?;
        let lloyd = Lloyd {
            x: self.at(&self.values),
            centers: self.at(&centers),
            sums: self.at(&sums),
            cluster: self.at(&cluster),
            changed: self.at(&changed),
            rows: n as u32,
            columns: p as u32,
            clusters: k as u32,
            first: 0,
            last: 0,
        };
        let (assign, update) = (self.kernel("assign")?, self.kernel("update")?);
        let mut iterations = most + 1;
        for iteration in 1..=most {
            let zeroed = stream.memset_zeros(&mut changed);
            zeroed.map_err(|error| self.error(error))?;
            self.assign(&assign, lloyd, monitor)?;
            let any = stream.clone_dtoh(&changed);
            if any.map_err(|error| self.error(error))? == [0] {
                iterations = iteration;
                break;
            }
            // SAFETY: arguments as declared in kmeans.cu; all arrays have the sizes that `lloyd`
            // says, and live until the stream is synchronized below.
            let launched = unsafe {
                let mut launch = stream.launch_builder(&update);
                launch.arg(&lloyd).launch(config(k as u32, THREADS))
            };
            launched.map_err(|error| self.error(error))?;
            monitor.advance(n as u64);
        }
        let fetched = self.fetch(&cluster, &centers);
        let (cluster, centers) = fetched.map_err(|error| self.error(error))?;
        Ok(Assigned {
            cluster,
            centers,
            iterations,
        })
    }

    /// Memory for the sums of `k` clusters, for the observations' clusters, and for whether one has
    /// changed.
    fn lloyd_memory(
        &self,
        k: usize,
    ) -> DriverResult<(CudaSlice<f64>, CudaSlice<u32>, CudaSlice<u32>)> {
        let stream = &self.stream;
        // SAFETY: `update` writes the sums before it reads them.
        let sums = unsafe { stream.alloc::<f64>(k * self.x.ncols())? };
        let none = vec![NONE; self.x.nrows().next_multiple_of(SPAN)];
        let cluster = stream.clone_htod(&none)?;
        // The host's copy must outlive the copying.
        stream.synchronize()?;
        Ok((sums, cluster, stream.alloc_zeros::<u32>(1)?))
    }

    /// Copies the observations' clusters and the centers to the host.
    fn fetch(
        &self,
        cluster: &CudaSlice<u32>,
        centers: &CudaSlice<f64>,
    ) -> DriverResult<(Vec<u32>, Array2<f64>)> {
        let cluster = self.stream.clone_dtoh(&cluster.slice(..self.x.nrows()))?;
        let centers = self.stream.clone_dtoh(centers)?;
        self.stream.synchronize()?;
        let shape = (centers.len() / self.x.ncols(), self.x.ncols());
        let centers = Array2::from_shape_vec(shape, centers);
        Ok((cluster, centers.expect("there is a value for each column")))
    }

    /// Assigns all observations, in launches that take a fraction of a second each.
    fn assign(&self, kernel: &CudaFunction, lloyd: Lloyd, monitor: &Monitor) -> Result<()> {
        let stream = &self.stream;
        let centers = lloyd.clusters as usize * lloyd.columns as usize;
        let rows = (BATCH_COORDINATES / centers).clamp(1 << 14, i32::MAX as usize) as u32;
        for first in (0..lloyd.rows).step_by(rows as usize) {
            monitor.check()?;
            let part = Lloyd {
                first,
                last: lloyd.rows.min(first + rows),
                ..lloyd
            };
            let blocks = (part.last - first).div_ceil(ROWS);
            // SAFETY: as in `iterate`.
            let launched = unsafe {
                let mut launch = stream.launch_builder(kernel);
                launch.arg(&part).launch(config(blocks, THREADS))
            };
            launched
                .and_then(|_| stream.synchronize())
                .map_err(|error| self.error(error))?;
        }
        Ok(())
    }
}

/// Device memory for the draws of centers.
struct SeedingMemory {
    uniforms: CudaSlice<f64>,
    squares: CudaSlice<f64>,
    sums: CudaSlice<f64>,
    pruned_below: CudaSlice<f64>,
    parts: CudaSlice<f64>,
    totals: CudaSlice<f64>,
    centers: CudaSlice<f64>,
    nearest: CudaSlice<u32>,
    drawn: CudaSlice<u32>,
}

impl SeedingMemory {
    /// For `n` observations in `p` columns. `uniforms` must outlive its copy, which ends with the
    /// stream's next synchronization.
    fn new(stream: &Arc<CudaStream>, uniforms: &[f64], n: usize, p: usize) -> DriverResult<Self> {
        let k = uniforms.len();
        let chunks = n.div_ceil(CHUNK);
        let parts = chunks.div_ceil(CHUNK);
        // SAFETY: the kernels read only what they have written before.
        let reals = |count: usize| unsafe { stream.alloc::<f64>(count) };
        // SAFETY: as above.
        let numbers = |count: usize| unsafe { stream.alloc::<u32>(count) };
        Ok(Self {
            squares: reals(n)?,
            sums: reals(chunks)?,
            pruned_below: reals(k)?,
            parts: reals(parts)?,
            totals: reals(parts)?,
            centers: reals(k * p)?,
            nearest: numbers(n)?,
            drawn: numbers(k)?,
            uniforms: stream.clone_htod(uniforms)?,
        })
    }
}

fn config(blocks: u32, threads: u32) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (blocks, 1, 1),
        block_dim: (threads, 1, 1),
        shared_mem_bytes: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{check, constants};
    use gmhclust_core::testing::{array, draw, Data, Random};

    #[test]
    fn arguments_are_laid_out_as_the_kernels_read_them() {
        let constants = constants![
            DRAW_THREADS,
            WARP,
            WEIGH_WARPS,
            THREADS,
            ROWS,
            SPAN,
            NONE,
            CHUNK
        ];
        let structs = [Seeding::layout(), Lloyd::layout()];
        check("kmeans_launch.cuh", &[], &structs, &constants);
    }

    #[test]
    #[ignore = "needs an NVIDIA GPU"]
    fn the_gpu_draws_the_seeds_of_the_cpu() {
        compare_seeds(24, 200_000, 200);
    }

    #[test]
    #[ignore = "needs an NVIDIA GPU"]
    fn seeds_are_drawn_alike_on_small_data() {
        compare_seeds(4, 2_000, 20);
    }

    fn compare_seeds(rounds: usize, most_rows: usize, most_centers: usize) {
        let device = Device::shared(0).unwrap();
        let monitor = Monitor::default();
        let mut random = Random(14);
        for round in 0..rounds {
            let n = 2 + random.below(most_rows);
            let p = 1 + random.below([3, 40][round % 2]);
            let data = [Data::Plain, Data::Mixture, Data::Grid][round % 3];
            let x = draw(&mut random, data, n, p);
            let k = 1 + random.below(most_centers);
            let mut uniforms: Vec<f64> = (0..k).map(|_| random.uniform()).collect();
            uniforms[k / 2] = [0.0, 1.0][round % 2];
            let observations = DeviceObservations::new(&device, &x).unwrap();
            let drawn = observations.draw(&uniforms, &monitor);
            let drawn =
                drawn.map(|centers| array(observations.stream.clone_dtoh(&centers).unwrap(), k, p));
            // Grids may have too few distinct rows: an error, too.
            assert_eq!(
                drawn,
                seed::seed(&x, &uniforms, &monitor),
                "{round}, {data:?}"
            );
        }
    }
}
