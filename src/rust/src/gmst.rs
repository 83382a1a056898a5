//! gmst(): minimum spanning trees.

use extendr_api::prelude::*;
use gmhclust_core::linkage::spanning::{self, Edge};
use gmhclust_core::{Monitor, Result as CoreResult};
use gmhclust_engine::{Engine, Workload};

use crate::job::Job;
use crate::memory::plan;
use crate::results::r_integer;
use crate::spanning::Spanning;
use crate::{arguments, device, rvalue, vector};

/// Bytes that the computation and the result take for each row. Measured by
/// inst/benchmarks/memory.R.
const BYTES_PER_ROW: usize = 400;
/// Bytes that the computation takes for each value. Measured by inst/benchmarks/memory.R.
const BYTES_PER_VALUE: usize = 30;

/// Starts to build a minimum spanning tree.
/// @param x double matrix of finite values, observations in rows.
/// @param metric as in job_gdist().
/// @param spanning list(min_points, known): an integer, 1 for distances, more for mutual
///   reachability distances; NULL, or the nearest other rows of each row, at least 1 and
///   min_points - 1, as in the value of job_gknn().
/// @param device as in job_gmhclust().
/// @return External pointer to the job.
/// @noRd
#[extendr]
fn job_gmst(x: Robj, metric: List, spanning: List, device: List) -> Robj {
    let prepare = || {
        let metric = arguments::metric("metric", &metric)?;
        let choice = device::choice(&device)?;
        let (n, columns) = rvalue::size(&x, "x")?;
        let bytes = n * (BYTES_PER_ROW + BYTES_PER_VALUE * columns);
        let what = format!("the spanning tree of {n} observations needs");
        plan(&what, bytes as f64)?;
        let Spanning { min_points, known } = Spanning::of(&spanning)?;
        Ok(move |monitor: &Monitor, values: &[f64]| {
            let engine = Engine::new(&choice, &Workload::pairs_of(n, n, columns))?;
            let points = vector::points(metric, &[values], &[(n, columns)], engine.cpu(), monitor)?;
            engine.run(monitor, |on| match &known {
                Some(known) => {
                    spanning::tree_from_neighbours(&points, min_points, known, on, monitor)
                        .map(|(edges, _)| edges)
                }
                None if min_points > 1 => {
                    spanning::reachability_tree(&points, min_points, on, monitor)
                        .map(|(edges, _)| edges)
                }
                None => spanning::tree(&points, on, monitor),
            })
        })
    };
    let work = prepare();
    Job::start_reading(rvalue::rows(&x), x, work, edges_to_r).into_r()
}

/// The edges as an R list. The ends of edges count from 1.
fn edges_to_r(edges: Vec<Edge>) -> CoreResult<Robj> {
    let number = |end: u32| r_integer(end) + 1;
    let (sources, targets) = (edges.iter(), edges.iter());
    rvalue::list([
        (
            "source",
            vector::integers(sources.map(|edge| number(edge.lower)))?,
        ),
        (
            "target",
            vector::integers(targets.map(|edge| number(edge.higher)))?,
        ),
        (
            "weight",
            vector::doubles(edges.iter().map(|edge| edge.weight))?,
        ),
    ])
}

extendr_module! {
    mod gmst;
    fn job_gmst;
}
