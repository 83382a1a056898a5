//! gknn() in blocks of references and queries.

use std::sync::Arc;

use extendr_api::prelude::*;
use gmhclust_core::knn::{Block, Done, Graph};
use gmhclust_core::metric::Points;
use gmhclust_core::neighbours::{refuse_undefined, rows_without_distance};
use gmhclust_core::{matrix, Error as CoreError, Monitor, Result as CoreResult};

use crate::arguments::{self, Fields};
use crate::device::Device;
use crate::graph::{graph_of, graph_to_r};
use crate::job::Job;
use crate::results::r_integer;
use crate::{vector, workload};

/// Observations prepared for a metric, for several jobs; `None` once they are released.
pub struct Prepared(Option<Arc<Points>>);

/// Starts the preparation of observations for searches by job_gknn_block().
/// @param x double matrix of finite values, references in rows.
/// @param query NULL, or a double matrix with as many columns; its rows follow those of x.
/// @param digest what this job returned for the rows before those of x, "" where there are none.
/// @param metric as in job_gdist().
/// @param device as in job_gmhclust().
/// @return External pointer to the job. Its value is list(points, rows, digests): an external
///   pointer, for which see gknn_release(); the numbers of rows that gknn_refusal() has to judge; a
///   digest of x and what came before it, and one of query.
/// @noRd
#[extendr]
fn job_gknn_points(
    x: RMatrix<f64>,
    query: Nullable<RMatrix<f64>>,
    digest: &str,
    metric: List,
    device: List,
) -> ExternalPtr<Job> {
    let prepare = || {
        let metric = arguments::metric("metric", &metric)?;
        let device = Device::from_list(&device)?;
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
            let digests = [
                gmhclust_core::digest::digest(x, before),
                gmhclust_core::digest::digest(query, 0),
            ];
            let engine = device.engine(&workload::preparation(rows, columns))?;
            let prepare = || Points::from_row_major(metric, values, rows, columns, monitor);
            let points = engine.cpu().install(prepare)?;
            let rows = rows_without_distance(&points)?;
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
/// @param block list(references, first, queries, own): how many of the points, the first ones, are
///   references; the number of the first of them among all references, from 1; the numbers of the
///   first and the last of the points that are queries; NULL or, where queries are references, the
///   number of the first query among all references, so that none is a neighbour of its own.
/// @param k integer.
/// @param found NULL, or list(index, distance), which this job returned for the blocks before.
/// @param device as in job_gmhclust().
/// @return External pointer to the job. Where fewer than k references were seen, the index is NA.
/// @noRd
#[extendr]
fn job_gknn_block(
    points: ExternalPtr<Prepared>,
    block: List,
    k: i32,
    found: Nullable<List>,
    device: List,
) -> ExternalPtr<Job> {
    let observations = points.0.as_ref().map_or(0, |points| points.rows());
    let prepare = || {
        let gone = || CoreError::Input("the points were released".into());
        let points = points.0.clone().ok_or_else(gone)?;
        let device = Device::from_list(&device)?;
        let count = |count: i32| usize::try_from(count).unwrap_or(0);
        let fields = Fields::new("block", &block);
        let references = count(fields.get("references")?);
        let first = count(fields.get::<i32>("first")? - 1) as u32;
        let queries: Vec<i32> = fields.get("queries")?;
        let queries = count(queries[0] - 1)..count(queries[1]);
        let own: Nullable<i32> = fields.get("own")?;
        let own = own.into_option().map(|number| count(number - 1) as u32);
        let mut graph = match &found {
            Nullable::NotNull(found) => {
                let found = Fields::new("found", found);
                graph_of(&found.get("index")?, &found.get("distance")?)?
            }
            Nullable::Null => Graph::unknown(queries.len(), count(k))?,
        };
        Ok(move |monitor: &Monitor| {
            let work = workload::pairs_of(queries.len(), references, points.columns());
            let engine = device.engine(&work)?;
            let block = Block {
                points: &points,
                references,
                first,
                queries,
                own,
            };
            let mut done = Done::default();
            engine.run(monitor, |on| graph.update(&block, &mut done, on, monitor))?;
            Ok(graph)
        })
    };
    ExternalPtr::new(Job::start(observations, prepare(), graph_to_r))
}

/// Why rows that job_gknn_points() found cannot be.
/// @param x,query integers, the numbers of these rows in X and in `query`.
/// @param metric as in job_gdist().
/// @return A string, or NULL where they can.
/// @noRd
#[extendr]
fn gknn_refusal(x: Vec<i32>, query: Vec<i32>, metric: List) -> Nullable<String> {
    let check = || {
        let metric = arguments::metric("metric", &metric)?;
        let rows = |numbers: &[i32]| -> Vec<usize> {
            let rows = numbers
                .iter()
                .filter_map(|&row| usize::try_from(row - 1).ok());
            rows.collect()
        };
        refuse_undefined(&metric, &rows(&x), &rows(&query))
    };
    match check() {
        Ok(()) => Nullable::Null,
        Err(error) => Nullable::NotNull(error.to_string()),
    }
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

extendr_module! {
    mod gknn_blocks;
    fn job_gknn_points;
    fn job_gknn_block;
    fn gknn_release;
    fn gknn_refusal;
}
