//! Draws the initial centers, on one device.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaSlice, CudaStream, PushKernelArg};

use super::codes::CodePolicy;
use super::groups::GroupedObservations;
use super::iterate::FirstCenters;
use super::launch::{config, DRAW_THREADS, NONE, WARP, WEIGH_WARPS};
use super::observations::DeviceObservations;
use super::seeding::Seeding;
use crate::device::DriverResult;
use gmhclust_core::error::Result;
use gmhclust_core::kmeans::{seed, CHUNK};
use gmhclust_core::matrix::{self, STANDARD_LAYOUT};
use gmhclust_core::monitor::Monitor;

/// Number of centers that are drawn between two checks of the monitor, in a fraction of a second.
/// If it is larger, an interrupt is answered late.
const DRAWN_AT_A_TIME: usize = 64;

/// The random numbers of draws, and the sizes from which draws use groups and codes.
pub struct Draws<'a> {
    /// A number from 0 to 1 for each center.
    pub uniforms: &'a [f64],
    /// Number of centers from which observations are in groups. Observations are sorted again
    /// whenever the number of centers has doubled.
    pub grouped_from: usize,
    /// The sizes from which observations have codes.
    pub coded: CodePolicy,
}

impl DeviceObservations<'_> {
    /// The centers that [`seed::seed`] draws.
    pub fn draw(&self, draws: Draws, monitor: &Monitor) -> Result<FirstCenters> {
        let uniforms = draws.uniforms;
        let kernels = (self.kernel("draw")?, self.kernel("weigh")?);
        let (p, k) = (self.columns, uniforms.len());
        let memory = SeedingMemory::new(&self.stream, uniforms, self.rows, p);
        let memory = memory.map_err(|error| self.error(&error))?;
        let mut seeding = self.seeding(&memory, uniforms[0]);
        let (mut groups, mut next_sort) = self.groups(&draws)?;
        let mut start = 0;
        while start < k {
            monitor.check()?;
            if let Some(groups) = groups.as_mut().filter(|_| start == next_sort) {
                groups.sort(self, &seeding, start)?;
                seeding.is_grouped = 1;
                next_sort *= 2;
            }
            let end = (start + DRAWN_AT_A_TIME).min(next_sort).min(k);
            let batch = start..end;
            let sorted = groups.as_ref().filter(|_| seeding.is_grouped == 1);
            let rows = self.draw_batch(&kernels, &seeding, sorted, &memory.drawn, batch);
            self.stream
                .synchronize()
                .map_err(|error| self.error(&error))?;
            let rows = rows.map_err(|error| self.error(&error))?;
            if let Some(missing) = rows.iter().position(|&row| row == NONE) {
                return Err(seed::too_few(start + missing, k));
            }
            start = end;
        }
        let mut centers = matrix::zeros(k, p)?;
        let values = centers.as_slice_mut().expect(STANDARD_LAYOUT);
        self.fetch(&memory.centers.as_view(), values)?;
        Ok(FirstCenters {
            centers,
            nearest: Some(memory.nearest),
        })
    }

    /// Memory for groups, if there will be groups, and the number of centers from which there are.
    fn groups(&self, draws: &Draws) -> Result<(Option<GroupedObservations>, usize)> {
        let k = draws.uniforms.len();
        let uncoded_from = draws.grouped_from.max(1);
        let coded_from = uncoded_from.min(draws.coded.centers.max(1));
        let from = |is_coded| if is_coded { coded_from } else { uncoded_from };
        let may_be_coded = draws.coded.suits(self.rows, self.columns);
        if k <= from(may_be_coded) {
            return Ok((None, usize::MAX));
        }
        let groups = GroupedObservations::new(self, k, may_be_coded)?;
        let from = from(groups.have_codes());
        Ok((Some(groups), from))
    }

    /// The kernels' argument for draws. The first draw uses the uniform number `first`.
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
            pruned_share: seed::radius_factor(self.columns),
            rows: self.rows as u32,
            columns: self.columns as u32,
            first: seed::first(self.rows, first) as u32,
            is_grouped: 0,
        }
    }

    /// Launches the draws of the centers in `batch`. Returns the row of each center, or [`NONE`].
    fn draw_batch(
        &self,
        (draw, weigh): &(CudaFunction, CudaFunction),
        seeding: &Seeding,
        groups: Option<&GroupedObservations>,
        drawn: &CudaSlice<u32>,
        batch: Range<usize>,
    ) -> DriverResult<Vec<u32>> {
        let stream = &self.stream;
        let chunks = self.rows.div_ceil(CHUNK) as u32;
        for number in batch.start as u32..batch.end as u32 {
            // SAFETY: arguments as declared in kmeans.cu; all arrays have the sizes that
            // `seeding` says, and live until `draw` synchronizes the stream.
            unsafe {
                let one = config(1, DRAW_THREADS);
                let mut launch = stream.launch_builder(draw);
                launch.arg(seeding).arg(&number).launch(one)?;
            }
            if let Some(groups) = groups {
                groups.weigh(self, seeding, number)?;
                continue;
            }
            // SAFETY: as above.
            unsafe {
                let warps = config(chunks.div_ceil(WEIGH_WARPS), WEIGH_WARPS * WARP);
                let mut launch = stream.launch_builder(weigh);
                launch.arg(seeding).arg(&number).launch(warps)?;
            }
        }
        stream.clone_dtoh(&drawn.slice(batch))
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
    /// Device memory for `n` observations in `p` columns. `uniforms` must live until the stream's
    /// next synchronization, which ends its transfer.
    fn new(stream: &Arc<CudaStream>, uniforms: &[f64], n: usize, p: usize) -> DriverResult<Self> {
        let k = uniforms.len();
        let chunks = n.div_ceil(CHUNK);
        let parts = chunks.div_ceil(CHUNK);
        // SAFETY: the kernels read only values that they have written before.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use gmhclust_core::kmeans::frame::Frame;
    use gmhclust_core::lazy_rows::LazyRows;
    use gmhclust_core::testing::{draw, Data, Random};
    use gmhclust_core::Cpu;

    const NO_CODES: CodePolicy = CodePolicy {
        rows: usize::MAX,
        centers: usize::MAX,
    };

    /// All observations have codes as soon as they are in groups.
    const CODES: CodePolicy = CodePolicy {
        rows: 0,
        centers: usize::MAX,
    };

    #[test]
    #[ignore = "needs an NVIDIA GPU"]
    fn the_gpu_draws_the_seeds_of_the_cpu() {
        compare_seeds(24, 200_000, 200, usize::MAX, NO_CODES);
    }

    #[test]
    #[ignore = "needs an NVIDIA GPU"]
    fn seeds_are_drawn_alike_on_small_data() {
        compare_seeds(4, 2_000, 20, usize::MAX, NO_CODES);
    }

    #[test]
    #[ignore = "needs an NVIDIA GPU"]
    fn groups_change_no_seed() {
        compare_seeds(12, 200_000, 400, 32, NO_CODES);
        compare_seeds(12, 50_000, 400, 1, NO_CODES);
    }

    #[test]
    #[ignore = "needs an NVIDIA GPU"]
    fn groups_change_no_seed_on_small_data() {
        compare_seeds(4, 2_000, 40, 4, NO_CODES);
    }

    #[test]
    #[ignore = "needs an NVIDIA GPU"]
    fn codes_change_no_seed() {
        compare_seeds(12, 200_000, 400, 32, CODES);
        compare_seeds(12, 50_000, 400, 1, CODES);
    }

    #[test]
    #[ignore = "needs an NVIDIA GPU"]
    fn codes_change_no_seed_on_small_data() {
        compare_seeds(4, 2_000, 40, 4, CODES);
    }

    fn compare_seeds(
        rounds: usize,
        most_rows: usize,
        most_centers: usize,
        grouped_from: usize,
        coded: CodePolicy,
    ) {
        let device = Device::shared(0).unwrap();
        let cpu = Cpu::new(2).unwrap();
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
            let lazy = LazyRows::from(&x);
            let observations = DeviceObservations::new(&device, &lazy, &cpu, &monitor).unwrap();
            let draws = Draws {
                uniforms: &uniforms,
                grouped_from,
                coded,
            };
            let drawn = observations
                .draw(draws, &monitor)
                .map(|drawn| drawn.centers);
            let largest = x.largest();
            let scale = Frame::new(x.view(), largest).scale;
            // Grids may have too few distinct rows: then both return an error.
            assert_eq!(
                drawn,
                seed::seed(&x, scale, &uniforms, &monitor),
                "{round}, {data:?}"
            );
        }
    }
}
