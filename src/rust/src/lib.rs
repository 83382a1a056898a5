//! The R boundary: converts arguments and results, nothing else.
//!
//! Every long computation is a [`Job`]; a new kind of job is one function here that prepares the
//! work and names the function that makes its result an R value.

mod folder;
mod job;
mod reserve;
mod vector;

use std::sync::Arc;
use std::time::Duration;

use extendr_api::prelude::*;
use gmhclust_core::backend::neighbours::{refuse, suspects};
use gmhclust_core::backend::{self, cuda, Choice, Merge, Workload};
use gmhclust_core::cut;
use gmhclust_core::dendrogram::{self, Dendrogram};
use gmhclust_core::distances::Pairs;
use gmhclust_core::kmeans::{self, Partition, Start};
use gmhclust_core::knn::{self, Block, Graph, NOBODY};
use gmhclust_core::linkage::geometric;
use gmhclust_core::linkage::lance_williams::{Linkage, Precision, Recurrence};
use gmhclust_core::linkage::matrix::{linkage as linkage_of, Origin};
use gmhclust_core::linkage::spanning::{self, Edge};
use gmhclust_core::mahalanobis::apriori;
use gmhclust_core::mahalanobis::{self, Clustering, Options, Subthreshold};
use gmhclust_core::metric::{Metric, Points, ZeroOverZero};
use gmhclust_core::{matrix, memory, Error as CoreError, Matrix, Monitor, Result as CoreResult};

use job::Job;

/// Makes extendr allocate its list of protected objects, several megabytes, while R loads the
/// library, where running out of memory does no harm; later it would leave a lock behind.
#[no_mangle]
pub extern "C" fn gmhclust_prepare() {
    drop(Robj::from(0));
}

/// Starts a Mahalanobis-average clustering.
/// @param x double matrix, observations in rows.
/// @param threshold double, in members.
/// @param subthreshold one of "mahal", "mahal0", "euclid", "euclidMahal".
/// @param quick,normalize,apriori_intra flags.
/// @param apriori NULL or an integer code for each observation, 0 for none.
/// @param inner NULL, or the merges within all apriori clusters as job_gmhclust_within() finds them,
///   those of one after those of another.
/// @param backend one of "auto", "cpu", "cuda".
/// @param threads integer, at least 1.
/// @param devices NULL or the numbers of CUDA devices, from 0.
/// @return External pointer to the job.
/// @noRd
#[extendr]
#[allow(clippy::too_many_arguments)]
fn job_gmhclust(
    x: RMatrix<f64>,
    threshold: f64,
    subthreshold: &str,
    quick: bool,
    normalize: bool,
    apriori: Robj,
    apriori_intra: bool,
    inner: Nullable<List>,
    backend: String,
    threads: i32,
    devices: Nullable<Vec<i32>>,
) -> ExternalPtr<Job> {
    let prepare = || {
        let options = Options {
            threshold,
            subthreshold: parse_subthreshold(subthreshold)?,
            quick,
            normalize,
            apriori_intra,
        };
        let apriori = if apriori.is_null() {
            None
        } else {
            let bad = || CoreError::Input("`apriori` has codes that are no integers".into());
            Some(apriori_codes(apriori.as_integer_slice().ok_or_else(bad)?)?)
        };
        let inner = match (&apriori, &inner) {
            (Some(codes), Nullable::NotNull(inner)) => Some(inner_merges(inner, codes)?),
            _ => None,
        };
        let device = Device::new(backend, threads, devices)?;
        let x = Matrix::from_column_major(x.data(), x.nrows(), x.ncols())?;
        Ok(move |monitor: &Monitor| {
            let work = match (&apriori, &inner) {
                (Some(codes), Some(_)) => mahalanobis::workload_above(codes),
                _ => mahalanobis::workload(x.rows(), apriori.as_deref()),
            };
            let backend = backend::select(&device.choice(), &work)?;
            let (apriori, backend) = (apriori.as_deref(), &*backend);
            let clustering = match (apriori, &inner) {
                (Some(codes), Some(inner)) => {
                    mahalanobis::cluster_above(&x, codes, inner, &options, backend, monitor)
                }
                _ => mahalanobis::cluster(&x, apriori, &options, backend, monitor),
            }?;
            Ok((clustering, backend.name()))
        })
    };
    ExternalPtr::new(Job::start(x.nrows(), prepare(), clustering_to_r))
}

/// Starts clusterings within apriori clusters, and nothing above them.
/// @param x,threshold,subthreshold,quick,normalize as in job_gmhclust().
/// @param apriori an integer code for each observation; each is that of two or more.
/// @param backend,threads,devices as in job_gmhclust().
/// @return External pointer to the job.
/// @noRd
#[extendr]
#[allow(clippy::too_many_arguments)]
fn job_gmhclust_within(
    x: RMatrix<f64>,
    threshold: f64,
    subthreshold: &str,
    quick: bool,
    normalize: bool,
    apriori: &[i32],
    backend: String,
    threads: i32,
    devices: Nullable<Vec<i32>>,
) -> ExternalPtr<Job> {
    let prepare = || {
        let options = Options {
            threshold,
            subthreshold: parse_subthreshold(subthreshold)?,
            quick,
            normalize,
            apriori_intra: true,
        };
        let apriori = apriori_codes(apriori)?;
        let device = Device::new(backend, threads, devices)?;
        let x = Matrix::from_column_major(x.data(), x.nrows(), x.ncols())?;
        Ok(move |monitor: &Monitor| {
            let work = mahalanobis::workload(x.rows(), Some(&apriori));
            let backend = backend::select(&device.choice(), &work)?;
            mahalanobis::cluster_within(&x, &apriori, &options, &*backend, monitor)
        })
    };
    ExternalPtr::new(Job::start(x.nrows(), prepare(), merges_to_r))
}

/// Starts the computation of distances.
/// @param x double matrix, observations in rows.
/// @param y NULL, or a double matrix with as many columns for distances between the two.
/// @param method,p,absolute,zero_over_zero the metric; arguments of gdist().
/// @param backend,threads,devices as in job_gmhclust().
/// @return External pointer to the job.
/// @noRd
#[extendr]
#[allow(clippy::too_many_arguments)]
fn job_gdist(
    x: RMatrix<f64>,
    y: Nullable<RMatrix<f64>>,
    method: &str,
    p: f64,
    absolute: bool,
    zero_over_zero: &str,
    backend: String,
    threads: i32,
    devices: Nullable<Vec<i32>>,
) -> ExternalPtr<Job> {
    let prepare = || {
        let metric = parse_metric("method", method, p, absolute, zero_over_zero)?;
        let device = Device::new(backend, threads, devices)?;
        let (n, columns) = (x.nrows(), x.ncols());
        let (pairs, others) = match &y {
            Nullable::NotNull(y) => (Pairs::across(n, y.nrows()), y.nrows()),
            Nullable::Null => (Pairs::within(n), 0),
        };
        pairs.check_memory()?;
        let mut parts = vec![x.data()];
        if let Nullable::NotNull(y) = &y {
            parts.push(y.data());
        }
        let values = matrix::row_major(&parts, columns)?;
        let work = move |monitor: &Monitor, distances: &mut [f64]| {
            let work = Workload::Pairs {
                count: pairs.count(),
                columns,
            };
            let backend = backend::select(&device.choice(), &work)?;
            let points = backend.prepare(metric, &values, n + others, columns, monitor)?;
            drop(values);
            backend.distances(&points, &pairs, distances, monitor)?;
            Ok(points.constant().to_vec())
        };
        Ok((pairs.count(), work))
    };
    ExternalPtr::new(Job::start_filling(x.nrows(), prepare(), distances_to_r))
}

/// Starts the search for nearest neighbours.
/// @param x double matrix of finite values, observations in rows.
/// @param query NULL, or a double matrix with as many columns.
/// @param k integer.
/// @param metric,p,absolute,zero_over_zero as in job_gdist().
/// @param backend,threads,devices as in job_gmhclust().
/// @return External pointer to the job.
/// @noRd
#[extendr]
#[allow(clippy::too_many_arguments)]
fn job_gknn(
    x: RMatrix<f64>,
    query: Nullable<RMatrix<f64>>,
    k: i32,
    metric: &str,
    p: f64,
    absolute: bool,
    zero_over_zero: &str,
    backend: String,
    threads: i32,
    devices: Nullable<Vec<i32>>,
) -> ExternalPtr<Job> {
    let (n, columns) = (x.nrows(), x.ncols());
    let mut queries = n;
    let mut vectors = vec![x.into()];
    if let Nullable::NotNull(query) = query {
        queries = query.nrows();
        vectors.push(query.into());
    }
    let prepare = || {
        let metric = parse_metric("metric", metric, p, absolute, zero_over_zero)?;
        let device = Device::new(backend, threads, devices)?;
        let k = usize::try_from(k).unwrap_or(0);
        let length = queries * k;
        Ok((
            length,
            move |monitor: &Monitor, values: &[&[f64]], index: &mut [i32], distance: &mut [f64]| {
                let work = Workload::Pairs {
                    count: queries * n,
                    columns,
                };
                let backend = backend::select(&device.choice(), &work)?;
                let mut points = None;
                backend.on_threads(&mut || {
                    points = Some(Points::from_column_major(metric, values, columns, monitor));
                });
                let points = points.expect("were made")?;
                let graph = knn::nearest(&points, n, k, &*backend, monitor)?;
                backend.on_threads(&mut || graph.write_columns(index, distance));
                Ok(queries)
            },
        ))
    };
    let job = Job::start_reading_and_filling(queries, vectors, prepare(), neighbours_to_r);
    ExternalPtr::new(job)
}

/// Observations prepared for a metric, for several jobs; `None` once they are released.
pub struct Prepared(Option<Arc<Points>>);

/// Starts the preparation of observations for searches by job_gknn_block().
/// @param x double matrix of finite values, references in rows.
/// @param query NULL, or a double matrix with as many columns; its rows follow those of x.
/// @param digest what this job returned for the rows before those of x, "" where there are none.
/// @param metric,p,absolute,zero_over_zero as in job_gdist().
/// @param backend,threads,devices as in job_gmhclust().
/// @return External pointer to the job. Its value is list(points, rows, digests): an external
///   pointer, for which see gknn_release(); the numbers of rows that gknn_refusal() has to judge; a
///   digest of x and what came before it, and one of query.
/// @noRd
#[extendr]
#[allow(clippy::too_many_arguments)]
fn job_gknn_points(
    x: RMatrix<f64>,
    query: Nullable<RMatrix<f64>>,
    digest: &str,
    metric: &str,
    p: f64,
    absolute: bool,
    zero_over_zero: &str,
    backend: String,
    threads: i32,
    devices: Nullable<Vec<i32>>,
) -> ExternalPtr<Job> {
    let prepare = || {
        let metric = parse_metric("metric", metric, p, absolute, zero_over_zero)?;
        let device = Device::new(backend, threads, devices)?;
        let (n, columns) = (x.nrows(), x.ncols());
        let before = u64::from_str_radix(digest, 16).unwrap_or(0);
        let mut parts = vec![x.data()];
        let mut rows = n;
        if let Nullable::NotNull(query) = &query {
            parts.push(query.data());
            rows += query.nrows();
        }
        let values = matrix::row_major(&parts, columns)?;
        Ok(move |monitor: &Monitor| {
            let (x, query) = values.split_at(n * columns);
            let digests = [matrix::digest(x, before), matrix::digest(query, 0)];
            let work = Workload::Pairs {
                count: rows,
                columns,
            };
            let backend = backend::select(&device.choice(), &work)?;
            let points = backend.prepare(metric, &values, rows, columns, monitor)?;
            let rows = suspects(&points)?;
            Ok((points, rows, digests))
        })
    };
    ExternalPtr::new(Job::start(x.nrows(), prepare(), points_to_r))
}

/// Frees the memory of prepared observations.
/// @return NULL.
/// @noRd
#[extendr]
fn gknn_release(mut points: ExternalPtr<Prepared>) {
    points.0 = None;
}

/// Starts the search for nearest neighbours among a block of all references.
/// @param points what job_gknn_points() prepared.
/// @param references integer: how many of them, the first ones, are references.
/// @param first integer, the number of the first of them among all references, from 1.
/// @param queries integers, the first and the last of the points that are queries.
/// @param own NULL, or the number of the first query among all references, where queries are
///   references: none is a neighbour of its own.
/// @param k integer.
/// @param index,distance NULL, or what this job found in blocks before, as matrices.
/// @param backend,threads,devices as in job_gmhclust().
/// @return External pointer to the job. Where fewer than k references were seen, the index is NA.
/// @noRd
#[extendr]
#[allow(clippy::too_many_arguments)]
fn job_gknn_block(
    points: ExternalPtr<Prepared>,
    references: i32,
    first: i32,
    queries: Vec<i32>,
    own: Nullable<i32>,
    k: i32,
    index: Nullable<RMatrix<i32>>,
    distance: Nullable<RMatrix<f64>>,
    backend: String,
    threads: i32,
    devices: Nullable<Vec<i32>>,
) -> ExternalPtr<Job> {
    let observations = points.0.as_ref().map_or(0, |points| points.rows());
    let prepare = || {
        let gone = || CoreError::Input("the points were released".into());
        let points = points.0.clone().ok_or_else(gone)?;
        let device = Device::new(backend, threads, devices)?;
        let count = |count: i32| usize::try_from(count).unwrap_or(0);
        let queries = count(queries[0] - 1)..count(queries[1]);
        let (references, k) = (count(references), count(k));
        let first = count(first - 1) as u32;
        let own = own.into_option().map(|number| count(number - 1) as u32);
        let mut graph = match (&index, &distance) {
            (Nullable::NotNull(index), Nullable::NotNull(distance)) => graph_of(index, distance)?,
            _ => Graph::unknown(queries.len(), k)?,
        };
        Ok(move |monitor: &Monitor| {
            let work = Workload::Pairs {
                count: queries.len() * references,
                columns: points.columns(),
            };
            let backend = backend::select(&device.choice(), &work)?;
            let block = Block {
                points: &points,
                references,
                first,
                queries,
                own,
            };
            graph.update(&block, &*backend, monitor)?;
            Ok(graph)
        })
    };
    ExternalPtr::new(Job::start(observations, prepare(), graph_to_r))
}

/// Why rows that job_gknn_points() found cannot be.
/// @param x,query integers, the numbers of these rows in X and in `query`.
/// @param metric,p,absolute,zero_over_zero as in job_gdist().
/// @return A string, or NULL where they can.
/// @noRd
#[extendr]
fn gknn_refusal(
    x: Vec<i32>,
    query: Vec<i32>,
    metric: &str,
    p: f64,
    absolute: bool,
    zero_over_zero: &str,
) -> Nullable<String> {
    let check = || {
        let metric = parse_metric("metric", metric, p, absolute, zero_over_zero)?;
        let rows = |numbers: &[i32]| -> Vec<usize> {
            let rows = numbers
                .iter()
                .filter_map(|&row| usize::try_from(row - 1).ok());
            rows.collect()
        };
        refuse(&metric, &rows(&x), &rows(&query))
    };
    match check() {
        Ok(()) => Nullable::Null,
        Err(error) => Nullable::NotNull(error.to_string()),
    }
}

/// Starts the search for a minimum spanning tree.
/// @param x double matrix of finite values, observations in rows.
/// @param metric,p,absolute,zero_over_zero as in job_gdist().
/// @param backend,threads,devices as in job_gmhclust().
/// @return External pointer to the job.
/// @noRd
#[extendr]
#[allow(clippy::too_many_arguments)]
fn job_gmst(
    x: RMatrix<f64>,
    metric: &str,
    p: f64,
    absolute: bool,
    zero_over_zero: &str,
    backend: String,
    threads: i32,
    devices: Nullable<Vec<i32>>,
) -> ExternalPtr<Job> {
    let prepare = || {
        let metric = parse_metric("metric", metric, p, absolute, zero_over_zero)?;
        let device = Device::new(backend, threads, devices)?;
        let (n, columns) = (x.nrows(), x.ncols());
        let values = matrix::row_major(&[x.data()], columns)?;
        Ok(move |monitor: &Monitor| {
            let work = Workload::Pairs {
                count: n * n,
                columns,
            };
            let backend = backend::select(&device.choice(), &work)?;
            let points = backend.prepare(metric, &values, n, columns, monitor)?;
            drop(values);
            spanning::tree(&points, &*backend, monitor)
        })
    };
    ExternalPtr::new(Job::start(x.nrows(), prepare(), edges_to_r))
}

/// Starts linkage from dissimilarities.
/// @param x double vector, the values of a dist object.
/// @param n integer, its number of observations.
/// @param method the full name of a linkage, as in hclust().
/// @param members NULL, or a double for each observation.
/// @param single whether to keep dissimilarities in single precision.
/// @param backend,threads,devices as in job_gmhclust().
/// @return External pointer to the job.
/// @noRd
#[extendr]
#[allow(clippy::too_many_arguments)]
fn job_ghclust_dist(
    x: Robj,
    n: i32,
    method: &str,
    members: Robj,
    single: bool,
    backend: String,
    threads: i32,
    devices: Nullable<Vec<i32>>,
) -> ExternalPtr<Job> {
    let n = usize::try_from(n).unwrap_or(0);
    let prepare = || {
        let recurrence = recurrence(method, single)?;
        let device = Device::new(backend, threads, devices)?;
        let members = members_of(&members)?;
        Ok(move |monitor: &Monitor, values: &[f64]| {
            let work = Workload::Linkage {
                linkage: recurrence.linkage,
                observations: n,
                columns: None,
            };
            let backend = backend::select(&device.choice(), &work)?;
            let tree = linkage_of(
                Origin::Given(values),
                n,
                recurrence,
                members,
                &*backend,
                monitor,
            )?;
            Ok((tree, backend.name()))
        })
    };
    ExternalPtr::new(Job::start_reading(n, x, prepare(), tree_to_r))
}

/// Starts linkage of observations.
/// @param x double matrix of finite values, observations in rows.
/// @param method,members,single as in job_ghclust_dist().
/// @param metric,p,absolute,zero_over_zero as in job_gdist().
/// @param matrix whether to go through a matrix of distances; else from points, for "single",
///   and Euclidean "ward.D2", "centroid" and "median".
/// @param backend,threads,devices as in job_gmhclust().
/// @return External pointer to the job.
/// @noRd
#[extendr]
#[allow(clippy::too_many_arguments)]
fn job_ghclust_points(
    x: RMatrix<f64>,
    method: &str,
    members: Robj,
    single: bool,
    metric: &str,
    p: f64,
    absolute: bool,
    zero_over_zero: &str,
    matrix: bool,
    backend: String,
    threads: i32,
    devices: Nullable<Vec<i32>>,
) -> ExternalPtr<Job> {
    let prepare = || {
        let recurrence = recurrence(method, single)?;
        let metric = parse_metric("metric", metric, p, absolute, zero_over_zero)?;
        let device = Device::new(backend, threads, devices)?;
        let (n, columns) = (x.nrows(), x.ncols());
        let x = Matrix::from_column_major(x.data(), n, columns)?;
        let members = members_of(&members)?;
        Ok(move |monitor: &Monitor| {
            let work = if matrix {
                Workload::Linkage {
                    linkage: recurrence.linkage,
                    observations: n,
                    columns: Some(columns),
                }
            } else {
                Workload::Pairs {
                    count: n * n,
                    columns,
                }
            };
            let backend = backend::select(&device.choice(), &work)?;
            let backend = &*backend;
            let points = || backend.prepare(metric, x.values(), n, columns, monitor);
            let tree = match recurrence.linkage {
                _ if matrix => {
                    let points = points()?;
                    let origin = Origin::Points(&points);
                    linkage_of(origin, n, recurrence, members, backend, monitor)
                }
                Linkage::WardD2 => geometric::ward(&x, backend, monitor),
                Linkage::Centroid => geometric::centroid(&x, backend, monitor),
                Linkage::Median => geometric::median(&x, backend, monitor),
                _ => spanning::single(&points()?, backend, monitor),
            }?;
            Ok((tree, backend.name()))
        })
    };
    ExternalPtr::new(Job::start(x.nrows(), prepare(), tree_to_r))
}

/// Starts a k-means clustering.
/// @param x double matrix of finite values, observations in rows.
/// @param centers NULL, or a double matrix with as many columns: the centers to start from.
/// @param uniforms doubles from 0 to 1, one for each center to draw where `centers` is NULL.
/// @param iterations integer, at least 1: how many at most.
/// @param backend,threads,devices as in job_gmhclust().
/// @return External pointer to the job.
/// @noRd
#[extendr]
#[allow(clippy::too_many_arguments)]
fn job_gkmeans(
    x: RMatrix<f64>,
    centers: Nullable<RMatrix<f64>>,
    uniforms: Vec<f64>,
    iterations: i32,
    backend: String,
    threads: i32,
    devices: Nullable<Vec<i32>>,
) -> ExternalPtr<Job> {
    let (n, columns) = (x.nrows(), x.ncols());
    let prepare = || {
        let device = Device::new(backend, threads, devices)?;
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
            let work = Workload::Pairs {
                count: (n * start.centers(columns)).saturating_mul(iterations),
                columns,
            };
            let backend = backend::select(&device.choice(), &work)?;
            let mut x = None;
            backend.on_threads(&mut || {
                x = Some(Matrix::from_column_major_on_threads(values, n, columns));
            });
            let x = x.expect("was made")?;
            kmeans::cluster(&x, start, iterations, &*backend, monitor)
        })
    };
    ExternalPtr::new(Job::start_reading(n, x.into(), prepare(), partition_to_r))
}

/// Starts cutting a tree into clusters.
/// @param merge integer matrix, that of a sound hclust object.
/// @param k integers: how many clusters, for each cut.
/// @return External pointer to the job. Its value is the number of each observation's cluster, for
///   one cut after the other.
/// @noRd
#[extendr]
fn job_cut_tree(merge: RMatrix<i32>, k: Vec<i32>) -> ExternalPtr<Job> {
    let prepare = || {
        let merge = dendrogram::merge_rows(merge.data())?;
        Ok(move |monitor: &Monitor| {
            let clusters = k.iter().map(|&k| usize::try_from(k).unwrap_or(0));
            cut::cuts(&merge, clusters, monitor)
        })
    };
    ExternalPtr::new(Job::start(merge.nrows(), prepare(), integers_to_r))
}

/// Starts putting the leaves of a tree in an order in which no branches cross.
/// @param merge as in job_cut_tree().
/// @return External pointer to the job. Its value is `order` of the hclust object.
/// @noRd
#[extendr]
fn job_leaf_order(merge: RMatrix<i32>) -> ExternalPtr<Job> {
    let prepare = || {
        let merge = dendrogram::merge_rows(merge.data())?;
        Ok(move |_: &Monitor| dendrogram::leaf_order(&merge))
    };
    ExternalPtr::new(Job::start(merge.nrows(), prepare(), integers_to_r))
}

/// Starts looking for branches that cross.
/// @param merge as in job_cut_tree().
/// @param order integers, a permutation of the observations.
/// @return External pointer to the job. Its value is the numbers of the merges that make them cross.
/// @noRd
#[extendr]
fn job_crossings(merge: RMatrix<i32>, order: Vec<i32>) -> ExternalPtr<Job> {
    let prepare = || {
        let merge = dendrogram::merge_rows(merge.data())?;
        Ok(move |_: &Monitor| dendrogram::crossings(&merge, &order))
    };
    ExternalPtr::new(Job::start(merge.nrows(), prepare(), integers_to_r))
}

/// Gives attributes to a vector in place, which spares a copy.
/// @param vector a vector that nobody else refers to.
/// @param attributes named list.
/// @return The vector.
/// @noRd
#[extendr]
fn own_attributes(mut vector: Robj, attributes: List) -> extendr_api::Result<Robj> {
    for (name, value) in attributes.iter() {
        vector.set_attrib(name, value)?;
    }
    Ok(vector)
}

/// Waits for a job, at most `seconds`.
/// @return TRUE when the job has ended.
/// @noRd
#[extendr]
fn job_wait(job: ExternalPtr<Job>, seconds: f64) -> bool {
    // What is no duration, such as a negative number, means a look without waiting.
    job.wait(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

/// Work that a job has done and expects in all, in units of its own.
/// @return c(done, total), doubles.
/// @noRd
#[extendr]
fn job_progress(job: ExternalPtr<Job>) -> Vec<f64> {
    let (done, total) = job.progress();
    vec![done as f64, total as f64]
}

/// The result of a job, which can be taken once; waits for a job that still runs.
/// @return list(ok = TRUE, value, warnings) or list(ok = FALSE, kind, message).
/// @noRd
#[extendr]
fn job_take(mut job: ExternalPtr<Job>) -> Robj {
    job.take()
}

/// Stops a job, waits until it has stopped and frees its memory.
/// @return NULL.
/// @noRd
#[extendr]
fn job_cancel(mut job: ExternalPtr<Job>) {
    job.cancel();
}

fn recurrence(method: &str, single: bool) -> CoreResult<Recurrence> {
    Ok(Recurrence {
        linkage: Linkage::new(method)?,
        precision: if single {
            Precision::Single
        } else {
            Precision::Double
        },
    })
}

/// A copy of the numbers of members where they are given.
fn members_of(members: &Robj) -> CoreResult<Option<Vec<f64>>> {
    if members.is_null() {
        return Ok(None);
    }
    let bad = || CoreError::Input("`members` is no double vector".into());
    let members = members.as_real_slice().ok_or_else(bad)?;
    memory::copied("the numbers of members need", members).map(Some)
}

/// The metric that an argument of this name, and those for single metrics, describe.
fn parse_metric(
    argument: &str,
    name: &str,
    p: f64,
    absolute: bool,
    zero_over_zero: &str,
) -> CoreResult<Metric> {
    let zero_over_zero = ZeroOverZero::new("zero_over_zero", zero_over_zero)?;
    Metric::new(argument, name, p, absolute, zero_over_zero)
}

fn parse_subthreshold(name: &str) -> CoreResult<Subthreshold> {
    match name {
        "mahal" => Ok(Subthreshold::Mahal),
        "mahal0" => Ok(Subthreshold::Mahal0),
        "euclid" => Ok(Subthreshold::Euclid),
        "euclidMahal" => Ok(Subthreshold::EuclidMahal),
        other => Err(CoreError::Input(format!(
            "`subthreshold` is {other:?}, it must be \"mahal\", \"mahal0\", \"euclid\" or \
             \"euclidMahal\""
        ))),
    }
}

/// Where the user wants the work done.
struct Device {
    backend: String,
    threads: usize,
    devices: Option<Vec<usize>>,
}

impl Device {
    fn new(backend: String, threads: i32, devices: Nullable<Vec<i32>>) -> CoreResult<Self> {
        Ok(Self {
            backend,
            threads: usize::try_from(threads).unwrap_or(1).max(1),
            devices: match devices {
                Nullable::NotNull(numbers) => Some(device_numbers(&numbers)?),
                Nullable::Null => None,
            },
        })
    }

    fn choice(&self) -> Choice<'_> {
        Choice {
            backend: &self.backend,
            threads: self.threads,
            devices: self.devices.as_deref(),
        }
    }
}

fn device_numbers(numbers: &[i32]) -> CoreResult<Vec<usize>> {
    numbers
        .iter()
        .map(|&number| usize::try_from(number))
        .collect::<std::result::Result<_, _>>()
        .map_err(|_| CoreError::Input("`devices` has numbers that are negative".into()))
}

/// The CUDA devices of this machine.
/// @return list of vectors with one element for each device, and `problem`, why there is none, or
///   NULL.
/// @noRd
#[extendr]
fn cuda_devices() -> Robj {
    let (devices, problem) = match cuda::devices() {
        Ok(devices) => (devices, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let strings = |of: &dyn Fn(&cuda::DeviceInfo) -> String| -> Vec<String> {
        devices.iter().map(of).collect()
    };
    let reals =
        |of: &dyn Fn(&cuda::DeviceInfo) -> f64| -> Vec<f64> { devices.iter().map(of).collect() };
    list!(
        device = devices
            .iter()
            .map(|d| r_integer(d.index))
            .collect::<Vec<i32>>(),
        name = strings(&|d| d.name.clone()),
        compute_capability = strings(&|d| format!("{}.{}", d.capability.0, d.capability.1)),
        memory_total = reals(&|d| d.total_memory as f64),
        memory_free = reals(&|d| d.free_memory.map_or(f64::NAN, |free| free as f64)),
        driver = strings(&|d| format!("{}.{}", d.driver / 1000, d.driver % 1000 / 10)),
        unusable = strings(&|d| d.problem.clone().unwrap_or_default()),
        problem = problem
    )
    .into()
}

fn apriori_codes(codes: &[i32]) -> CoreResult<Vec<u32>> {
    if codes.iter().any(|&code| code < 0) {
        let message = "`apriori` has codes that are missing or negative";
        return Err(CoreError::Input(message.into()));
    }
    memory::collected("the codes need", codes.iter().map(|&code| code as u32))
}

/// Merges within the clusters of these codes, from one list for all.
fn inner_merges(inner: &List, codes: &[u32]) -> CoreResult<Vec<Vec<Merge>>> {
    let bad = || CoreError::Input("`inner` is no list of merges".into());
    let column = |name: &str| inner.dollar(name).map_err(|_| bad());
    let slots = |name: &str| -> CoreResult<Vec<u32>> {
        let slots = column(name)?.as_integer_vector().ok_or_else(bad)?;
        let slot = |&slot: &i32| u32::try_from(slot - 1).map_err(|_| bad());
        slots.iter().map(slot).collect()
    };
    let (lower, higher) = (slots("lower")?, slots("higher")?);
    let height = column("height")?.as_real_vector().ok_or_else(bad)?;
    let mut merges = lower.into_iter().zip(higher).zip(height);
    let merge = |((lower, higher), height)| Merge {
        lower,
        higher,
        height,
    };
    let partition = apriori::Partition::by_label(codes);
    Ok(partition
        .sizes()
        .map(|size| merges.by_ref().take(size - 1).map(merge).collect())
        .collect())
}

/// The merges within apriori clusters, those of one after those of another; slots from 1.
fn merges_to_r(inner: Vec<Vec<Merge>>) -> CoreResult<Robj> {
    let count = inner.iter().map(Vec::len).sum();
    let merges = || Counted(inner.iter().flatten(), count);
    Ok(list!(
        lower = vector::integers(merges().map(|merge| r_integer(merge.lower) + 1))?,
        higher = vector::integers(merges().map(|merge| r_integer(merge.higher) + 1))?,
        height = vector::doubles(merges().map(|merge| merge.height))?
    )
    .into())
}

/// An iterator of so many items that does not know their number itself.
struct Counted<I>(I, usize);

impl<I: Iterator> Iterator for Counted<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        self.1 = self.1.saturating_sub(1);
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.1, Some(self.1))
    }
}

impl<I: Iterator> ExactSizeIterator for Counted<I> {}

fn clustering_to_r((clustering, backend): (Clustering, &'static str)) -> CoreResult<Robj> {
    let Clustering {
        dendrogram,
        apriori_merges,
        apriori_labels,
    } = clustering;
    Ok(list!(
        merge = merge_to_r(&dendrogram)?,
        height = vector::doubles(dendrogram.height.iter().copied())?,
        order = vector::integers(dendrogram.order.iter().copied())?,
        n_height_apriori = r_integer(apriori_merges),
        g_labels = vector::integers(apriori_labels.into_iter().map(r_integer))?,
        backend = backend
    )
    .into())
}

/// `constant`: the rows of x, then y, that have no direction, from 0.
fn distances_to_r(constant: Vec<usize>, distances: Robj) -> CoreResult<Robj> {
    let constant = vector::doubles(constant.into_iter().map(|row| row as f64 + 1.0))?;
    Ok(list!(distances = distances, constant = constant).into())
}

/// Queries in rows, nearest first; indices from 1.
fn neighbours_to_r(queries: usize, index: Robj, distance: Robj) -> CoreResult<Robj> {
    let matrix = |vector: Robj| {
        let k = vector.len() / queries.max(1);
        vector::with_dimensions(vector, queries, k)
    };
    Ok(list!(index = matrix(index), distance = matrix(distance)).into())
}

/// The same of a graph that may lack neighbours, which are NA.
fn graph_to_r(graph: Graph) -> CoreResult<Robj> {
    let Graph { k, index, distance } = graph;
    let queries = index.len() / k;
    let number = |index: u32| match index {
        NOBODY => NA_INTEGER,
        index => r_integer(index) + 1,
    };
    let places = || (0..queries * k).map(|place| place % queries * k + place / queries);
    let index = vector::integers(places().map(|at| number(index[at])))?;
    let distance = vector::doubles(places().map(|at| distance[at]))?;
    Ok(list!(
        index = vector::with_dimensions(index, queries, k),
        distance = vector::with_dimensions(distance, queries, k)
    )
    .into())
}

/// What [`graph_to_r`] made a matrix each of.
fn graph_of(index: &RMatrix<i32>, distance: &RMatrix<f64>) -> CoreResult<Graph> {
    let (queries, k) = (index.nrows(), index.ncols());
    let mut graph = Graph::unknown(queries, k)?;
    for i in 0..queries {
        for j in 0..k {
            // NA is negative.
            if let Ok(number) = u32::try_from(index.data()[j * queries + i]) {
                graph.index[i * k + j] = number - 1;
                graph.distance[i * k + j] = distance.data()[j * queries + i];
            }
        }
    }
    Ok(graph)
}

/// Rows from 1.
fn points_to_r((points, rows, digests): (Points, Vec<usize>, [u64; 2])) -> CoreResult<Robj> {
    let rows = vector::integers(rows.into_iter().map(|row| r_integer(row) + 1))?;
    let digests = digests.map(|digest| format!("{digest:016x}"));
    Ok(list!(
        points = ExternalPtr::new(Prepared(Some(Arc::new(points)))),
        rows = rows,
        digests = digests.to_vec()
    )
    .into())
}

/// Clusters from 1; their centers in rows.
fn partition_to_r(partition: Partition) -> CoreResult<Robj> {
    let Partition {
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

/// Ends from 1.
fn edges_to_r(edges: Vec<Edge>) -> CoreResult<Robj> {
    let number = |end: u32| r_integer(end) + 1;
    Ok(list!(
        source = vector::integers(edges.iter().map(|edge| number(edge.lower)))?,
        target = vector::integers(edges.iter().map(|edge| number(edge.higher)))?,
        weight = vector::doubles(edges.iter().map(|edge| edge.weight))?
    )
    .into())
}

fn tree_to_r((tree, backend): (Dendrogram, &'static str)) -> CoreResult<Robj> {
    Ok(list!(
        merge = merge_to_r(&tree)?,
        height = vector::doubles(tree.height.iter().copied())?,
        order = vector::integers(tree.order.iter().copied())?,
        backend = backend
    )
    .into())
}

fn integers_to_r(integers: Vec<i32>) -> CoreResult<Robj> {
    vector::integers(integers.into_iter())
}

/// The merges as the matrix of R's `hclust`.
fn merge_to_r(tree: &Dendrogram) -> CoreResult<Robj> {
    let rows = tree.merge.len();
    let columns = (0..2 * rows).map(|place| tree.merge[place % rows][place / rows]);
    Ok(vector::with_dimensions(vector::integers(columns)?, rows, 2))
}

/// R's missing integer.
const NA_INTEGER: i32 = i32::MIN;

/// A count or code as R stores it; neither exceeds the number of observations, whose indices R's
/// `hclust` stores as integers too.
fn r_integer<T>(value: T) -> i32
where
    i32: TryFrom<T>,
    <i32 as TryFrom<T>>::Error: std::fmt::Debug,
{
    i32::try_from(value).expect("counts and codes fit R's integers")
}

extendr_module! {
    mod gmhclust;
    use folder;
    fn job_gmhclust;
    fn job_gmhclust_within;
    fn job_gdist;
    fn job_gknn;
    fn job_gknn_points;
    fn job_gknn_block;
    fn gknn_release;
    fn gknn_refusal;
    fn job_gmst;
    fn job_gkmeans;
    fn job_cut_tree;
    fn job_leaf_order;
    fn job_crossings;
    fn own_attributes;
    fn job_ghclust_dist;
    fn job_ghclust_points;
    fn job_wait;
    fn job_progress;
    fn job_take;
    fn job_cancel;
    fn cuda_devices;
}
