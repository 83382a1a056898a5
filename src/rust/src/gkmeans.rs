//! gkmeans(): k-means.

use extendr_api::prelude::*;
use gmhclust_core::kmeans::{self, KMeans, Start};
use gmhclust_core::{matrix, Monitor, Result as CoreResult};
use ndarray::ArrayView2;

use crate::device::Device;
use crate::job::Job;
use crate::memory::plan;
use crate::results::r_integer;
use crate::{vector, workload};

/// Starts a k-means clustering.
/// @param x double matrix of finite values, observations in rows.
/// @param centers NULL, or a double matrix with the columns of x: the initial centers.
/// @param uniforms doubles from 0 to 1, random numbers to draw one initial center with each; used
///   if `centers` is NULL.
/// @param iterations integer, at least 1: the maximum number of iterations.
/// @param device as in job_gmhclust().
/// @return External pointer to the job.
/// @noRd
#[extendr]
fn job_gkmeans(
    x: RMatrix<f64>,
    centers: Nullable<ArrayView2<f64>>,
    uniforms: Vec<f64>,
    iterations: i32,
    device: List,
) -> ExternalPtr<Job> {
    let (n, columns) = (x.nrows(), x.ncols());
    let prepare = || {
        let device = Device::from_list(&device)?;
        // A copy, and the result; the device asks for the rest.
        let bytes = n * (8 * columns + 40);
        plan("the observations and their clusters need", bytes as f64)?;
        let iterations = usize::try_from(iterations).unwrap_or(1);
        let centers = centers.into_option();
        let centers = centers.map(|centers| matrix::stacked(&[centers], centers.ncols()));
        let centers = centers.transpose()?;
        Ok(move |monitor: &Monitor, values: &[f64]| {
            let start = match &centers {
                Some(centers) => Start::Centers(centers.view()),
                None => Start::Draws(&uniforms),
            };
            let engine = device.engine(&workload::kmeans(n, &start, iterations, columns))?;
            let x = vector::observations(values, columns, engine.cpu())?;
            engine.run(monitor, |on| {
                kmeans::cluster(&x, start, iterations, on, monitor)
            })
        })
    };
    ExternalPtr::new(Job::start_reading(n, x.into(), prepare(), partition_to_r))
}

/// Clusters are numbered from 1. The matrix of centers has a row for each cluster.
fn partition_to_r(partition: KMeans) -> CoreResult<Robj> {
    let KMeans {
        cluster,
        centers,
        sizes,
        within,
        total,
        iterations,
    } = partition;
    let (k, p) = centers.dim();
    let number = |cluster: u32| r_integer(cluster) + 1;
    let columns = vector::doubles(centers.t().iter().copied())?;
    Ok(list!(
        cluster = vector::integers(cluster.into_iter().map(number))?,
        centers = vector::with_dimensions(columns, k, p),
        sizes = vector::integers(sizes.into_iter().map(r_integer))?,
        within = vector::doubles(within.into_iter())?,
        total = total,
        iterations = r_integer(iterations)
    )
    .into())
}

extendr_module! {
    mod gkmeans;
    fn job_gkmeans;
}
