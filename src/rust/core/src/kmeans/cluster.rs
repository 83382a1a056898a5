//! The verb: observations in, a partition of them out.

use rayon::prelude::*;

use super::device::{Assigned, KMeansDevice, Start};
use super::members::Members;
use crate::error::{Error, Result};
use crate::magnitude::{check_largest, largest};
use crate::matrix::Matrix;
use crate::monitor::Monitor;

/// Observations that are worth a thread.
const OBSERVATIONS_AT_A_TIME: usize = 1 << 11;

/// Observations in clusters.
#[derive(Debug, Clone, PartialEq)]
pub struct Partition {
    /// The number of each observation's cluster.
    pub cluster: Vec<u32>,
    /// Means of the clusters, one after the other; where a cluster has no members, its last
    /// center.
    pub centers: Vec<f64>,
    /// Members of each cluster.
    pub sizes: Vec<usize>,
    /// The sum of squares of each cluster's members about its center.
    pub within: Vec<f64>,
    /// The sum of squares of all observations about their mean.
    pub total: f64,
    /// The iteration that changed nothing; one more than are allowed where all changed something.
    pub iterations: usize,
}

/// Clusters the rows of `x` in at most so many `iterations`.
///
/// Takes O(n·k·p) time for an iteration with k centers, often less for later ones, and O(n·p + k·p)
/// memory.
///
/// # Errors
/// `Error::Input` where centers are no rows of `x`'s length, or more than `x` has, distinct ones
/// where they are drawn, and where squares overflow; what the device returns otherwise.
pub fn cluster(
    x: &Matrix,
    start: Start,
    iterations: usize,
    device: &(impl KMeansDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Partition> {
    let k = start.centers(x.columns());
    let whole = match start {
        Start::Centers(values) => values.len() == k * x.columns(),
        Start::Draws(_) => true,
    };
    if !whole || k == 0 || k > x.rows() {
        return Err(Error::Input(format!(
            "`centers` has {} values; it must have at least 1 row and at most {}, of {} values",
            match start {
                Start::Centers(values) => values.len(),
                Start::Draws(_) => k * x.columns(),
            },
            x.rows(),
            x.columns()
        )));
    }
    let cpu = device.cpu();
    check_largest(cpu.install(|| largest_on_threads(x)))?;
    let assigned = device.iterate(x, start, iterations, monitor)?;
    cpu.install(|| Partition::new(x, assigned))
}

impl Partition {
    /// What has become of the observations.
    fn new(x: &Matrix, assigned: Assigned) -> Result<Self> {
        let Assigned {
            cluster,
            centers,
            iterations,
        } = assigned;
        let k = centers.len() / x.columns();
        let members = Members::new(&cluster, k)?;
        let within = |(c, center): (usize, &[f64])| {
            let mut sum = 0.0;
            for &i in members.of(c) {
                for (v, center) in x.row(i as usize).iter().zip(center) {
                    sum += (v - center) * (v - center);
                }
            }
            sum
        };
        Ok(Self {
            within: centers
                .par_chunks(x.columns())
                .enumerate()
                .map(within)
                .collect(),
            sizes: (0..k).map(|c| members.of(c).len()).collect(),
            total: total(x),
            iterations,
            cluster,
            centers,
        })
    }
}

/// The largest magnitude of a value.
fn largest_on_threads(x: &Matrix) -> f64 {
    let parts = x.values().par_chunks(OBSERVATIONS_AT_A_TIME * x.columns());
    parts.map(largest).reduce(|| 0.0, f64::max)
}

/// The sum of squares about the mean.
fn total(x: &Matrix) -> f64 {
    let mean: Vec<f64> = column_sums(x, |_, value| value)
        .into_iter()
        .map(|sum| sum / x.rows() as f64)
        .collect();
    let squares = column_sums(x, |k, value| (value - mean[k]) * (value - mean[k]));
    squares.iter().sum()
}

/// The sums of what `term` makes of each column's values, in one order whatever the threads.
fn column_sums(x: &Matrix, term: impl Fn(usize, f64) -> f64 + Sync) -> Vec<f64> {
    let of_some_rows = |rows: &[f64]| {
        let mut sums = vec![0.0; x.columns()];
        for row in rows.chunks_exact(x.columns()) {
            for (k, (sum, &value)) in sums.iter_mut().zip(row).enumerate() {
                *sum += term(k, value);
            }
        }
        sums
    };
    let parts: Vec<Vec<f64>> = x
        .values()
        .par_chunks(OBSERVATIONS_AT_A_TIME * x.columns())
        .map(of_some_rows)
        .collect();
    let mut sums = vec![0.0; x.columns()];
    for part in parts {
        sums.iter_mut()
            .zip(part)
            .for_each(|(sum, part)| *sum += part);
    }
    sums
}
