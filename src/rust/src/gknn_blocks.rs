//! gknn() in blocks of references and queries.

use std::ffi::CStr;
use std::sync::Arc;

use extendr_api::prelude::*;
use gmhclust_core::knn::{Block, Graph, UpdateProgress};
use gmhclust_core::matrix::RowSlices;
use gmhclust_core::metric::Points;
use gmhclust_core::neighbours::{refuse_undefined, rows_without_distance};
use gmhclust_core::{Error as CoreError, Monitor, Result as CoreResult};
use gmhclust_engine::{Engine, Workload};

use crate::arguments::{self, Fields};
use crate::gknn::{bytes_of_queries, BYTES_PER_VALUE};
use crate::graph::{graph_of, graph_to_r};
use crate::job::Job;
use crate::memory::plan;
use crate::results::r_integer;
use crate::rvalue::{self, Kind, Pointer, Values};
use crate::{device, digest, vector};

/// Observations prepared for a metric, which several jobs share; `None` after gknn_release().
pub struct Prepared(Option<Arc<Points>>);

impl Kind for Prepared {
    const TAG: &'static CStr = c"gmhclust points";
}

/// Starts to prepare observations for job_gknn_block().
/// @param x double matrix of finite values, references in rows.
/// @param query NULL, or a double matrix with the columns of x; its rows follow those of x.
/// @param digest the digest that this job returned for the rows before x; "" if x comes first.
/// @param metric as in job_gdist().
/// @param device as in job_gmhclust().
/// @return External pointer to the job. Its value is list(points, rows, digests): an external
///   pointer to the prepared observations, which gknn_release() frees; the numbers of the rows that
///   may have no distance, for gknn_refusal(); a digest of x and all rows before it, and a digest
///   of query.
/// @noRd
#[extendr]
fn job_gknn_points(x: Robj, query: Robj, digest: &str, metric: List, device: List) -> Robj {
    let first = rvalue::rows(&x);
    let vectors = vector::with_optional(x, query);
    let prepare = || {
        let metric = arguments::metric("metric", &metric)?;
        let choice = device::choice(&device)?;
        let sizes = vector::sizes(&vectors, ["x", "query"])?;
        let (n, columns) = sizes[0];
        let rows = sizes.iter().map(|&(rows, _)| rows).sum::<usize>();
        let bytes = BYTES_PER_VALUE * rows * columns;
        plan("the observations of a block need", bytes as f64)?;
        let before = digest::from_text(digest);
        Ok(move |monitor: &Monitor, values: &[&[f64]]| {
            let engine = Engine::new(&choice, &Workload::preparation(rows, columns))?;
            let all = engine.cpu().install(|| vector::stacked(values, &sizes))?;
            let (x, query) = all.values().split_at(n * columns);
            let digests = [
                gmhclust_core::digest::digest(x, before),
                gmhclust_core::digest::digest(query, 0),
            ];
            let prepare = || Points::prepare(metric, all, monitor);
            let points = engine.cpu().install(prepare)?;
            let rows = rows_without_distance(&points, "x")?;
            Ok((points, rows, digests))
        })
    };
    let work = prepare();
    Job::start_reading_all(first, vectors, work, points_to_r).into_r()
}

/// Frees prepared observations.
/// @param points the external pointer that job_gknn_points() returned.
/// @return NULL.
/// @noRd
#[extendr]
fn gknn_release(mut points: Pointer<Prepared>) {
    points.0 = None;
}

/// Starts to search a block of references for nearest neighbours.
/// @param points as in gknn_release().
/// @param block list(references, first, queries, own). `references`: the number of references,
///   which are the first points. `first`: the number of the first of them among all references,
///   from 1. `queries`: the numbers of the first and the last point that are queries. `own`: NULL
///   or, if queries are references, the number of each query among all references; no query is its
///   own neighbour.
/// @param k integer.
/// @param found NULL, or list(index, distance), the value of this job for the previous blocks.
/// @param device as in job_gmhclust().
/// @return External pointer to the job. Its value is list(index, distance); NA stands for
///   neighbours that are missing because all blocks so far have fewer than k references.
/// @noRd
#[extendr]
fn job_gknn_block(
    points: Pointer<Prepared>,
    block: List,
    k: i32,
    found: Nullable<List>,
    device: List,
) -> Robj {
    let observations = points.0.as_ref().map_or(0, |points| points.rows());
    let prepare = || {
        let gone = || CoreError::Input("the points were released".into());
        let points = points.0.clone().ok_or_else(gone)?;
        let choice = device::choice(&device)?;
        let count = |count: i32| usize::try_from(count).unwrap_or(0);
        let fields = Fields::new("block", &block);
        let references = count(fields.get("references")?);
        let first = count(fields.get::<i32>("first")? - 1) as u32;
        let queries = fields.integers("queries")?;
        let queries = match queries.as_deref() {
            Some([first, last]) => count(first - 1)..count(*last),
            _ => return Err(CoreError::Input("`queries` has not two numbers".into())),
        };
        let own = fields.integers("own")?;
        let number = |number: &i32| count(number - 1) as u32;
        let own = own.map(|numbers| numbers.iter().map(number).collect());
        let bytes = bytes_of_queries(queries.len(), count(k));
        plan("the neighbours of a block need", bytes as f64)?;
        let mut graph = match &found {
            Nullable::NotNull(found) => {
                let found = Fields::new("found", found);
                graph_of(&found.object("index")?, &found.object("distance")?)?
            }
            Nullable::Null => Graph::unknown(queries.len(), count(k))?,
        };
        Ok(move |monitor: &Monitor| {
            let work = Workload::pairs_of(queries.len(), references, points.columns());
            let engine = Engine::new(&choice, &work)?;
            let block = Block {
                points: &points,
                references,
                first,
                queries,
                own,
            };
            let mut done = UpdateProgress::default();
            engine.run(monitor, |on| graph.update(&block, &mut done, on, monitor))?;
            Ok(graph)
        })
    };
    Job::start(observations, prepare(), graph_to_r).into_r()
}

/// Decides whether rows that job_gknn_points() reported have a distance.
/// @param x,query integers, the numbers of these rows in `x` and in `query`.
/// @param metric as in job_gdist().
/// @return An error message, or NULL if the rows have a distance; FALSE if R has no memory for the
///   message.
/// @noRd
#[extendr]
fn gknn_refusal(x: Robj, query: Robj, metric: List) -> Robj {
    let check = || {
        let (x, query) = (Values::of(&x, "x")?, Values::of(&query, "query")?);
        let metric = arguments::metric("metric", &metric)?;
        let rows = |numbers: &[i32]| -> Vec<usize> {
            let rows = numbers
                .iter()
                .filter_map(|&row| usize::try_from(row - 1).ok());
            rows.collect()
        };
        refuse_undefined(&metric, &[("x", &rows(&x)), ("query", &rows(&query))])
    };
    match check() {
        Ok(()) => rvalue::null(),
        Err(error) => rvalue::string(&error.to_string()).unwrap_or_else(|_| rvalue::logical(false)),
    }
}

/// Row numbers count from 1.
fn points_to_r((points, rows, digests): (Points, Vec<usize>, [u64; 2])) -> CoreResult<Robj> {
    let rows = vector::integers(rows.into_iter().map(|row| r_integer(row) + 1))?;
    let digests = digests.map(digest::to_text);
    rvalue::list([
        ("points", Pointer::make(Prepared(Some(Arc::new(points))))?),
        ("rows", rows),
        ("digests", rvalue::strings(&digests)?),
    ])
}

extendr_module! {
    mod gknn_blocks;
    fn job_gknn_points;
    fn job_gknn_block;
    fn gknn_release;
    fn gknn_refusal;
}
