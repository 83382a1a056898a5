//! Shared by the examples: opens the device that they run on, and times them.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use gmhclust_core::kmeans::KMeansDevice;
use gmhclust_core::linkage::LinkageDevice;
use gmhclust_core::mahalanobis::AgglomerationDevice;
use gmhclust_core::neighbours::NeighbourDevice;
use gmhclust_core::Cpu;
use gmhclust_cuda::{Cuda, GpuThresholds};

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A device for every algorithm.
pub trait AnyDevice: AgglomerationDevice + KMeansDevice + LinkageDevice + NeighbourDevice {}

impl<D: AgglomerationDevice + KMeansDevice + LinkageDevice + NeighbourDevice> AnyDevice for D {}

/// Opens `"cpu"`, `"cuda"` with these devices, which leave small work to the CPU as in R, or
/// `"cuda-only"`, with devices that do all work that they can.
pub fn open(name: &str, threads: usize, devices: Option<&[usize]>) -> Result<Box<dyn AnyDevice>> {
    let cpu = Cpu::new(threads)?;
    let thresholds = match name {
        "cpu" => return Ok(Box::new(cpu)),
        "cuda" => GpuThresholds::by_policy(threads),
        "cuda-only" => GpuThresholds::default(),
        _ => return Err("DEVICE must be cpu, cuda or cuda-only".into()),
    };
    Ok(Box::new(Cuda::new(devices, Arc::new(cpu), thresholds)?))
}

/// Number of runs, unless the first one takes long.
const RUNS: usize = 3;

/// Seconds after which a run is not repeated.
const LONG: f64 = 20.0;

/// Times the parts of a run.
pub struct Clock {
    last: Instant,
    parts: Vec<(&'static str, f64)>,
}

impl Clock {
    /// Ends a part, which began at the start of the run or at the end of the part before.
    pub fn end(&mut self, part: &'static str) {
        let now = Instant::now();
        let seconds = now.duration_since(self.last).as_secs_f64();
        self.parts.push((part, seconds));
        self.last = now;
    }
}

/// Repeats a run. Prints the median seconds of each part and of the whole run, followed by the
/// seconds of every run, and the number that the runs return. Returns the medians.
///
/// # Errors
/// The errors of a run, and an error if runs return different numbers.
pub fn time(title: &str, mut run: impl FnMut(&mut Clock) -> Result<f64>) -> Result<Vec<f64>> {
    let mut runs: Vec<Vec<(&str, f64)>> = Vec::new();
    let mut result = None;
    while runs.len() < RUNS {
        let start = Instant::now();
        let mut clock = Clock {
            last: start,
            parts: Vec::new(),
        };
        let found = run(&mut clock)?;
        let all = start.elapsed().as_secs_f64();
        clock.parts.push(("all", all));
        runs.push(clock.parts);
        let first = *result.get_or_insert(found);
        if first.to_bits() != found.to_bits() {
            return Err(
                format!("{title}: a run returns {found:e}, the first one {first:e}").into(),
            );
        }
        if all > LONG {
            break;
        }
    }
    println!("{title}: {:e}", result.unwrap_or_default());
    let parts = 0..runs[0].len();
    Ok(parts.map(|part| print(part, &runs)).collect())
}

/// Prints the seconds of a part, and returns their median.
fn print(part: usize, runs: &[Vec<(&str, f64)>]) -> f64 {
    let mut seconds: Vec<f64> = runs.iter().map(|parts| parts[part].1).collect();
    let each: Vec<String> = seconds.iter().map(|s| format!("{s:.4}")).collect();
    seconds.sort_by(f64::total_cmp);
    let median = seconds[seconds.len() / 2];
    println!("  {}: {median:.4} s ({})", runs[0][part].0, each.join(", "));
    median
}
