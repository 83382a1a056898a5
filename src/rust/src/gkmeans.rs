//! gkmeans(): k-means.

use extendr_api::prelude::*;
use gmhclust_core::kmeans::{self, KMeans, Start};
use gmhclust_core::{matrix, Monitor, Result as CoreResult};
use gmhclust_engine::{Engine, Workload};

use crate::data::{Data, Rows};
use crate::job::Job;
use crate::memory::plan;
use crate::results::r_integer;
use crate::rvalue::{self, Values};
use crate::{device, squares, vector};

/// Starts a k-means clustering.
/// @param x double matrix of finite values, observations in rows; or stored observations, as of
///   job_stored_begin().
/// @param centers NULL, or a double matrix with the columns of x: the initial centers.
/// @param uniforms doubles from 0 to 1, random numbers to draw one initial center with each; used
///   if `centers` is NULL.
/// @param iterations integer, at least 1: the maximum number of iterations.
/// @param extended NULL, or a logical: whether R adds in long double. If it is given, the result
///   has the sum of squares of x about the means of its columns, as R adds it up.
/// @param device as in job_gmhclust().
/// @return External pointer to the job.
/// @noRd
#[extendr]
fn job_gkmeans(
    x: Robj,
    centers: Robj,
    uniforms: Robj,
    iterations: i32,
    extended: Robj,
    device: List,
) -> Robj {
    let prepare = |data: &Data| {
        let (n, columns) = data.dim()?;
        let choice = device::choice(&device)?;
        // A copy, and the result; the device checks its own memory.
        let bytes = n * (data.bytes_per_value() * columns + 40);
        plan("the observations and their clusters need", bytes as f64)?;
        let extended = extended.as_bool();
        let iterations = usize::try_from(iterations).unwrap_or(1);
        let uniforms = Values::<f64>::of(&uniforms, "uniforms")?.to_vec();
        let centers = Values::of_optional(&centers, "centers")?;
        let copied = |centers: &Values<f64>| {
            let centers = centers.matrix("centers")?;
            matrix::stacked(&[centers], centers.ncols())
        };
        let centers = centers.as_ref().map(copied).transpose()?;
        Ok(move |monitor: &Monitor, rows: Rows| {
            let start = match &centers {
                Some(centers) => Start::Centers(centers.view()),
                None => Start::Draws(&uniforms),
            };
            let workload = Workload::kmeans(n, &start, iterations, columns);
            let engine = Engine::new(&choice, &workload)?;
            let work = || {
                let x = rows.observations(engine.cpu())?;
                engine.run(monitor, |on| {
                    kmeans::cluster(&x, start, iterations, on, monitor)
                })
            };
            let (partition, squares) = match extended {
                Some(extended) => {
                    let (partition, squares) =
                        squares::with_squares_about_means(rows, extended, engine.cpu(), work)?;
                    (partition, Some(squares))
                }
                None => (work()?, None),
            };
            Ok((partition, squares))
        })
    };
    Job::start_on(x, prepare, partition_to_r).into_r()
}

/// Clusters are numbered from 1. The matrix of centers has a row for each cluster.
fn partition_to_r((partition, squares): (KMeans, Option<f64>)) -> CoreResult<Robj> {
    let KMeans {
        cluster,
        centers,
        sizes,
        within,
        iterations,
    } = partition;
    let (k, p) = centers.dim();
    let number = |cluster: u32| r_integer(cluster) + 1;
    let columns = vector::doubles(centers.t().iter().copied())?;
    rvalue::list([
        (
            "cluster",
            vector::integers(cluster.into_iter().map(number))?,
        ),
        ("centers", vector::with_dimensions(columns, k, p)?),
        ("sizes", vector::integers(sizes.into_iter().map(r_integer))?),
        ("within", vector::doubles(within.into_iter())?),
        ("iterations", vector::integer(r_integer(iterations))?),
        ("squares", vector::doubles(squares.into_iter())?),
    ])
}

extendr_module! {
    mod gkmeans;
    fn job_gkmeans;
}
