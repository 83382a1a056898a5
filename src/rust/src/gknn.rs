//! gknn(): nearest neighbours, in a single block.

use extendr_api::prelude::*;
use gmhclust_core::knn;
use gmhclust_core::neighbours::MOST_LISTED;
use gmhclust_core::{Monitor, Result as CoreResult};
use gmhclust_engine::{Engine, Workload};

use crate::job::Job;
use crate::memory::plan;
use crate::{arguments, device, rvalue, vector};

/// Bytes that a search takes for each value of `x` and `query`. Measured by
/// inst/benchmarks/memory.R.
pub const BYTES_PER_VALUE: usize = 20;

/// Bytes that a search and its result take for all queries. Measured by inst/benchmarks/memory.R:
/// 200 for each query; 12 for each neighbour in the result, and 12 in the search; and 32 for each
/// neighbour in the lists of a block of queries.
pub fn bytes_of_queries(queries: usize, k: usize) -> usize {
    queries * (200 + 24 * k) + 32 * (queries * k).min(MOST_LISTED)
}

/// Starts to search for nearest neighbours.
/// @param x double matrix of finite values, observations in rows.
/// @param query NULL, or a double matrix with the columns of x.
/// @param k integer.
/// @param metric as in job_gdist().
/// @param device as in job_gmhclust().
/// @return External pointer to the job.
/// @noRd
#[extendr]
fn job_gknn(x: Robj, query: Robj, k: i32, metric: List, device: List) -> Robj {
    let is_among_itself = query.is_null();
    let vectors = vector::with_optional(x, query);
    let rows = rvalue::rows(&vectors[vectors.len() - 1]);
    let prepare = || {
        let sizes = vector::sizes(&vectors, ["x", "query"])?;
        let (n, columns) = sizes[0];
        let queries = sizes.get(1).map_or(n, |&(queries, _)| queries);
        let metric = arguments::metric("metric", &metric)?;
        let choice = device::choice(&device)?;
        let k = usize::try_from(k).unwrap_or(0);
        let length = queries * k;
        let rows = if is_among_itself { n } else { n + queries };
        let bytes = bytes_of_queries(queries, k) + BYTES_PER_VALUE * rows * columns;
        plan(
            &format!("the {k} nearest neighbours of {queries} observations need"),
            bytes as f64,
        )?;
        Ok((
            [length, length],
            move |monitor: &Monitor, values: &[&[f64]], index: &mut [i32], distance: &mut [f64]| {
                let engine = Engine::new(&choice, &Workload::pairs_of(queries, n, columns))?;
                let cpu = engine.cpu();
                let points = vector::points(metric, values, &sizes, cpu, monitor)?;
                let mut search = knn::Search::new(&points, n, k, cpu)?;
                engine.run(monitor, |on| search.run(on, monitor))?;
                let graph = search.into_graph();
                engine
                    .cpu()
                    .install(|| graph.write_columns(index, distance));
                Ok(queries)
            },
        ))
    };
    let work = prepare();
    Job::start_reading_and_filling(rows, vectors, work, neighbours_to_r).into_r()
}

/// The matrices have a row for each query, nearest neighbours first. Indices count from 1.
fn neighbours_to_r(queries: usize, index: Robj, distance: Robj) -> CoreResult<Robj> {
    let matrix = |vector: Robj| {
        let k = vector.len() / queries.max(1);
        vector::with_dimensions(vector, queries, k)
    };
    rvalue::list([("index", matrix(index)?), ("distance", matrix(distance)?)])
}

extendr_module! {
    mod gknn;
    fn job_gknn;
}
