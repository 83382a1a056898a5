//! gkmeans(): k-means.

use extendr_api::prelude::*;
use gmhclust_core::kmeans::{self, Assigned, KMeans, Start};
use gmhclust_core::lazy_rows::LazyRows;
use gmhclust_core::{matrix, memory, Cpu, Monitor, Result as CoreResult};
use gmhclust_engine::{Engine, Workload};
use ndarray::Array2;

use crate::data::{Data, Rows};
use crate::job::Job;
use crate::memory::plan;
use crate::results::r_integer;
use crate::rvalue::{self, Values};
use crate::squares::{self, Addition};
use crate::{arguments, device, vector};

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
        // The device checks its own memory.
        plan_observations(data)?;
        let extended = extended.as_bool();
        let iterations = usize::try_from(iterations).unwrap_or(1);
        let uniforms = Values::<f64>::of(&uniforms, "uniforms")?.to_vec();
        let centers = Values::of_optional(&centers, "centers")?;
        let centers = centers.as_ref().map(copied).transpose()?;
        Ok(move |monitor: &Monitor, rows: Rows| {
            let start = match &centers {
                Some(centers) => Start::Centers(centers.view()),
                None => Start::Draws(&uniforms),
            };
            let workload = Workload::kmeans(n, &start, iterations, columns);
            let engine = Engine::new(&choice, &workload)?;
            let x = LazyRows::from(rows.input());
            let work = || {
                engine.run(monitor, |on| {
                    kmeans::cluster(&x, start, iterations, on, monitor)
                })
            };
            // Beside work of the CPU, parts would take threads away from it.
            let in_parts = engine.name() != "cpu";
            with_squares(rows, &x, extended, in_parts, engine.cpu(), work)
        })
    };
    Job::start_on(x, prepare, partition_to_r).into_r()
}

/// Starts to draw initial centers, on the CPU.
/// @param x as in job_gkmeans().
/// @param uniforms doubles from 0 to 1, a random number for each center.
/// @param threads integer, the number of threads.
/// @return External pointer to the job. Its value is a matrix of centers, in rows.
/// @noRd
#[extendr]
fn job_gkmeans_draw(x: Robj, uniforms: Robj, threads: i32) -> Robj {
    let prepare = |data: &Data| {
        plan_observations(data)?;
        let cpu = arguments::cpu(threads)?;
        let uniforms = Values::<f64>::of(&uniforms, "uniforms")?.to_vec();
        Ok(move |monitor: &Monitor, rows: Rows| {
            kmeans::draw(&*rows.observations(&cpu)?, &uniforms, &cpu, monitor)
        })
    };
    Job::start_on(x, prepare, centers_to_r).into_r()
}

/// Starts to find the nearest center of each observation, for an iteration of k-means.
/// @param x as in job_gkmeans(), at least as many observations as centers.
/// @param centers double matrix with the columns of x.
/// @param device as in job_gmhclust().
/// @return External pointer to the job. Its value is the numbers of the nearest centers.
/// @noRd
#[extendr]
fn job_gkmeans_assign(x: Robj, centers: Robj, device: List) -> Robj {
    let prepare = |data: &Data| {
        plan_observations(data)?;
        let (n, columns) = data.dim()?;
        let choice = device::choice(&device)?;
        let centers = copied(&Values::of(&centers, "centers")?)?;
        Ok(move |monitor: &Monitor, rows: Rows| {
            let workload = Workload::kmeans(n, &Start::Centers(centers.view()), 1, columns);
            let engine = Engine::new(&choice, &workload)?;
            let x = LazyRows::from(rows.input());
            engine.run(monitor, |on| {
                kmeans::assign(&x, centers.view(), on, monitor)
            })
        })
    };
    Job::start_on(x, prepare, clusters_to_r).into_r()
}

/// Starts to move centers to the means of their clusters, on the CPU.
/// @param x as in job_gkmeans().
/// @param cluster integers, the number of the cluster of each observation.
/// @param centers double matrix with the columns of x.
/// @param threads integer, the number of threads.
/// @return External pointer to the job. Its value is the matrix of centers.
/// @noRd
#[extendr]
fn job_gkmeans_move(x: Robj, cluster: Robj, centers: Robj, threads: i32) -> Robj {
    let prepare = |data: &Data| {
        plan_observations(data)?;
        let cpu = arguments::cpu(threads)?;
        let cluster = clusters_of(&cluster)?;
        let centers = copied(&Values::of(&centers, "centers")?)?;
        Ok(move |_: &Monitor, rows: Rows| {
            kmeans::moved(&*rows.observations(&cpu)?, &cluster, centers, &cpu)
        })
    };
    Job::start_on(x, prepare, centers_to_r).into_r()
}

/// Starts to describe the result of iterations by job_gkmeans_assign() and job_gkmeans_move().
/// @param x,cluster,centers as in job_gkmeans_move().
/// @param iterations integer, the number of iterations.
/// @param extended as in job_gkmeans().
/// @param threads integer, the number of threads.
/// @return As job_gkmeans().
/// @noRd
#[extendr]
fn job_gkmeans_result(
    x: Robj,
    cluster: Robj,
    centers: Robj,
    iterations: i32,
    extended: Robj,
    threads: i32,
) -> Robj {
    let prepare = |data: &Data| {
        plan_observations(data)?;
        let cpu = arguments::cpu(threads)?;
        let extended = extended.as_bool();
        let assigned = Assigned {
            cluster: clusters_of(&cluster)?,
            centers: copied(&Values::of(&centers, "centers")?)?,
            iterations: usize::try_from(iterations).unwrap_or(1),
            sums: None,
        };
        Ok(move |_: &Monitor, rows: Rows| {
            let x = LazyRows::from(rows.input());
            let work = || KMeans::of(&x, assigned, &cpu);
            with_squares(rows, &x, extended, true, &cpu, work)
        })
    };
    Job::start_on(x, prepare, partition_to_r).into_r()
}

/// The result of `work` on `x` and, if `extended` is given, the squares about the means, computed
/// beside. `rows` has the same values as `x`.
/// `extended` says whether R adds in long double, and `in_parts` is as in [`Addition`].
fn with_squares(
    rows: Rows,
    x: &LazyRows,
    extended: Option<bool>,
    in_parts: bool,
    cpu: &Cpu,
    work: impl FnOnce() -> CoreResult<KMeans>,
) -> CoreResult<(KMeans, Option<f64>)> {
    let Some(extended) = extended else {
        return Ok((work()?, None));
    };
    let addition = match extended {
        true => Addition::LongDouble { in_parts },
        false => Addition::Double,
    };
    let (partition, squares) = squares::with_squares_about_means(rows, x, addition, cpu, work)?;
    Ok((partition, Some(squares)))
}

/// Plans the memory of a copy of the observations, and of the result.
fn plan_observations(data: &Data) -> CoreResult<()> {
    let (n, columns) = data.dim()?;
    let bytes = n * (data.bytes_per_value() * columns + 40);
    plan("the observations and their clusters need", bytes as f64)
}

fn copied(centers: &Values<f64>) -> CoreResult<Array2<f64>> {
    let centers = centers.matrix("centers")?;
    matrix::stacked(&[centers], centers.ncols())
}

/// Numbers of clusters, which R numbers from 1.
fn clusters_of(cluster: &Robj) -> CoreResult<Vec<u32>> {
    let cluster = Values::<i32>::of(cluster, "cluster")?;
    let number = |&cluster: &i32| u32::try_from(cluster.wrapping_sub(1)).unwrap_or(u32::MAX);
    memory::collected(kmeans::CLUSTERS, cluster.iter().map(number))
}

fn clusters_to_r(cluster: Vec<u32>) -> CoreResult<Robj> {
    vector::integers(cluster.into_iter().map(|cluster| r_integer(cluster) + 1))
}

fn centers_to_r(centers: Array2<f64>) -> CoreResult<Robj> {
    let (k, p) = centers.dim();
    let columns = vector::doubles(centers.t().iter().copied())?;
    vector::with_dimensions(columns, k, p)
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
    rvalue::list([
        ("cluster", clusters_to_r(cluster)?),
        ("centers", centers_to_r(centers)?),
        ("sizes", vector::integers(sizes.into_iter().map(r_integer))?),
        ("within", vector::doubles(within.into_iter())?),
        ("iterations", vector::integer(r_integer(iterations))?),
        ("squares", vector::doubles(squares.into_iter())?),
    ])
}

extendr_module! {
    mod gkmeans;
    fn job_gkmeans;
    fn job_gkmeans_draw;
    fn job_gkmeans_assign;
    fn job_gkmeans_move;
    fn job_gkmeans_result;
}
