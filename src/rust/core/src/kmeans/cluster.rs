//! k-means clustering of observations.

use ndarray::{Array2, ArrayView2};
use rayon::prelude::*;

use super::device::{Assigned, ClusterSums, KMeansDevice, Start};
use super::frame::Frame;
use super::members::{means, members_in_blocks};
use super::seed::seed;
use super::CLUSTERS;
use crate::cpu::Cpu;
use crate::error::{Error, Result};
use crate::lazy_rows::LazyRows;
use crate::matrix::RowSlices;
use crate::memory;
use crate::monitor::Monitor;
use crate::observations::Observations;

/// Number of members whose squares are computed before they are added up. Only the time depends on
/// it.
const SQUARED_AT_A_TIME: usize = 8;

/// The result of k-means.
#[derive(Debug, Clone, PartialEq)]
pub struct KMeans {
    /// By observation: the number of its cluster, from 0.
    pub cluster: Vec<u32>,
    /// The means of the clusters, in rows; for a cluster without members, its last center.
    pub centers: Array2<f64>,
    /// By cluster: number of members.
    pub sizes: Vec<usize>,
    /// By cluster: the sum of squares of its members about its center.
    pub within: Vec<f64>,
    /// The iteration that changed no assignment; one more than the limit if there was none. With
    /// one cluster, the first iteration.
    pub iterations: usize,
}

/// Clusters the rows of `x` in at most `iterations` iterations.
///
/// For n rows of p columns and k centers, takes O(n·k·p) time per iteration, often less in later
/// iterations, and O(n·p + k·p) memory.
///
/// # Errors
/// `Error::Input` if the centers and `x` have different numbers of columns, if there are no centers
/// or more than rows of `x` (distinct rows, if centers are drawn), or if squares overflow;
/// otherwise the errors of the device.
pub fn cluster(
    x: &LazyRows,
    start: Start,
    iterations: usize,
    device: &(impl KMeansDevice + ?Sized),
    monitor: &Monitor,
) -> Result<KMeans> {
    check_centers(x.dim(), &start)?;
    // No observation leaves the only cluster, so a second iteration would repeat the first.
    let only_one = start.centers() == 1;
    let most = if only_one { 1 } else { iterations };
    let mut assigned = device.iterate(x, start, most, monitor)?;
    if only_one {
        assigned.iterations = 1;
    }
    KMeans::new(x, assigned, device.cpu())
}

/// Checks the numbers of centers and columns for observations of this size.
fn check_centers((n, p): (usize, usize), start: &Start) -> Result<()> {
    let (k, columns) = match start {
        Start::Centers(centers) => centers.dim(),
        Start::Draws(uniforms) => (uniforms.len(), p),
    };
    if columns != p || k == 0 || k > n {
        return Err(Error::Input(format!(
            "`centers` has {k} row(s) and {columns} column(s); it must have 1 to {n} rows and {p} \
             column(s)"
        )));
    }
    Ok(())
}

/// The centers that [`cluster()`] draws with these numbers from 0 to 1, in rows.
///
/// # Errors
/// As [`cluster()`].
pub fn draw(
    x: &Observations,
    uniforms: &[f64],
    cpu: &Cpu,
    monitor: &Monitor,
) -> Result<Array2<f64>> {
    let start = Start::Draws(uniforms);
    check_centers(x.dim(), &start)?;
    let frame = Frame::of(&x.into(), &start, cpu)?;
    cpu.install(|| seed(x, frame.scale, uniforms, monitor))
}

/// The number of the nearest center, from 0, of each row of `x`, as the first iteration of
/// [`cluster()`] finds it. `x` may be a part of the observations that are clustered.
///
/// # Errors
/// As [`cluster()`].
pub fn assign(
    x: &LazyRows,
    centers: ArrayView2<f64>,
    device: &(impl KMeansDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Vec<u32>> {
    let start = Start::Centers(centers);
    check_centers(x.dim(), &start)?;
    Ok(device.iterate(x, start, 1, monitor)?.cluster)
}

/// Moves centers to the means of their clusters, as an iteration of [`cluster()`] does. `cluster`
/// has the number of the cluster of each row of `x`, from 0. A center of a cluster without members
/// stays where it was.
///
/// # Errors
/// `Error::Input` if the sizes do not fit, or if a number is not that of a cluster;
/// `Error::Memory`.
pub fn moved(
    x: &Observations,
    cluster: &[u32],
    mut centers: Array2<f64>,
    cpu: &Cpu,
) -> Result<Array2<f64>> {
    check_clusters(x.dim(), cluster, &centers)?;
    let (means, sizes) = cpu.install(|| means(x, centers.nrows(), |i| cluster[i]))?;
    let rows = centers.rows_mut().into_iter().zip(means.rows());
    for ((mut center, mean), _) in rows.zip(sizes).filter(|(_, size)| *size > 0) {
        center.assign(&mean);
    }
    Ok(centers)
}

fn check_clusters(size: (usize, usize), cluster: &[u32], centers: &Array2<f64>) -> Result<()> {
    let (k, p) = centers.dim();
    let fit = size == (cluster.len(), p);
    if fit && cluster.iter().all(|&number| (number as usize) < k) {
        return Ok(());
    }
    Err(Error::Input(
        "the clusters do not fit the observations".into(),
    ))
}

impl KMeans {
    /// The result of iterations that were done elsewhere, by [`assign`] and [`moved`].
    ///
    /// # Errors
    /// As [`moved`].
    pub fn of(x: &LazyRows, assigned: Assigned, cpu: &Cpu) -> Result<Self> {
        check_clusters(x.dim(), &assigned.cluster, &assigned.centers)?;
        Self::new(x, assigned, cpu)
    }

    /// The result, given the result of the iterations.
    fn new(x: &LazyRows, assigned: Assigned, cpu: &Cpu) -> Result<Self> {
        let Assigned {
            cluster,
            centers,
            iterations,
            sums,
        } = assigned;
        let ClusterSums { sizes, within } = match sums {
            Some(sums) => sums,
            None => {
                let x = x.rows(cpu)?;
                cpu.install(|| ClusterSums::new(x, &cluster, &centers))?
            }
        };
        Ok(Self {
            cluster,
            centers,
            sizes,
            within,
            iterations,
        })
    }
}

impl ClusterSums {
    /// The sums over the clusters of the rows of `x`, by the threads of the calling pool. `cluster`
    /// has the number of each row's cluster.
    fn new(x: &Observations, cluster: &[u32], centers: &Array2<f64>) -> Result<Self> {
        let (k, p) = centers.dim();
        let mut within = memory::filled(CLUSTERS, k, 0.0)?;
        let mut sizes = memory::filled(CLUSTERS, k, 0)?;
        members_in_blocks(
            x.dim(),
            k,
            |i| cluster[i],
            |members| {
                let centers = centers.values().par_chunks(p);
                let clusters = centers.zip(&mut within).zip(&mut sizes).enumerate();
                clusters
                    .with_min_len(members.clusters_at_a_time())
                    .for_each_init(
                        || vec![0.0; SQUARED_AT_A_TIME * p],
                        |squares, (c, ((center, within), size))| {
                            *size += members.of(c).len();
                            *within = plus_squares(*within, x, members.of(c), center, squares);
                        },
                    );
            },
        )?;
        Ok(Self { sizes, within })
    }
}

/// `sum` plus the squared differences of members from a center, added coordinate by coordinate.
/// `squares` has room for the squares of [`SQUARED_AT_A_TIME`] members.
fn plus_squares(
    mut sum: f64,
    x: &Observations,
    members: &[u32],
    center: &[f64],
    squares: &mut [f64],
) -> f64 {
    // Squares several members before adding: the squares do not wait for each other, as the
    // additions do.
    for some in members.chunks(SQUARED_AT_A_TIME) {
        for (squares, &i) in squares.chunks_exact_mut(center.len()).zip(some) {
            let pairs = x.row_slice(i as usize).iter().zip(center);
            for (square, (v, center)) in squares.iter_mut().zip(pairs) {
                *square = (v - center) * (v - center);
            }
        }
        let squares = &squares[..some.len() * center.len()];
        sum = squares.iter().fold(sum, |sum, square| sum + square);
    }
    sum
}
