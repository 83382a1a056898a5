//! gkmeans(): k-means.

use extendr_api::prelude::*;
use gmhclust_core::kmeans::{self, KMeans, Start};
use gmhclust_core::{matrix, Matrix, Monitor, Result as CoreResult};

use crate::device::Device;
use crate::job::Job;
use crate::results::r_integer;
use crate::{vector, workload};

/// Starts a k-means clustering.
/// @param x double matrix of finite values, observations in rows.
/// @param centers NULL, or a double matrix with as many columns: the centers to start from.
/// @param uniforms doubles from 0 to 1, one for each center to draw where `centers` is NULL.
/// @param iterations integer, at least 1: how many at most.
/// @param device as in job_gmhclust().
/// @return External pointer to the job.
/// @noRd
#[extendr]
fn job_gkmeans(
    x: RMatrix<f64>,
    centers: Nullable<RMatrix<f64>>,
    uniforms: Vec<f64>,
    iterations: i32,
    device: List,
) -> ExternalPtr<Job> {
    let (n, columns) = (x.nrows(), x.ncols());
    let prepare = || {
        let device = Device::from_list(&device)?;
        let iterations = usize::try_from(iterations).unwrap_or(1);
        let centers = match &centers {
            Nullable::NotNull(centers) => {
                Some(matrix::row_major(&[centers.data()], centers.ncols())?)
            }
            Nullable::Null => None,
        };
        Ok(move |monitor: &Monitor, values: &[f64]| {
            let start = match &centers {
                Some(centers) => Start::Centers(centers),
                None => Start::Draws(&uniforms),
            };
            let engine = device.engine(&workload::kmeans(n, &start, iterations, columns))?;
            let x = engine
                .cpu()
                .install(|| Matrix::from_column_major_on_threads(values, n, columns))?;
            engine.run(monitor, |on| {
                kmeans::cluster(&x, start, iterations, on, monitor)
            })
        })
    };
    ExternalPtr::new(Job::start_reading(n, x.into(), prepare(), partition_to_r))
}

/// Clusters from 1; their centers in rows.
fn partition_to_r(partition: KMeans) -> CoreResult<Robj> {
    let KMeans {
        cluster,
        centers,
        sizes,
        within,
        total,
        iterations,
    } = partition;
    let (k, p) = (sizes.len(), centers.len() / sizes.len());
    let number = |cluster: u32| r_integer(cluster) + 1;
    let places = (0..k * p).map(|place| place % k * p + place / k);
    let columns = vector::doubles(places.map(|at| centers[at]))?;
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
