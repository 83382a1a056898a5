//! gneighbours(): all neighbours within a radius.

use extendr_api::prelude::*;
use gmhclust_core::knn::{RadiusNeighbours, RangeSearch};
use gmhclust_core::{memory, Error as CoreError, Monitor, Result as CoreResult};
use gmhclust_engine::{Engine, Workload};

use crate::job::Job;
use crate::memory::plan;
use crate::rvalue::{self, Values};
use crate::{arguments, device, vector};

/// Smallest number of bytes that a search takes for each value of `x` and `query`. Measured by
/// inst/benchmarks/memory.R.
const BYTES_PER_VALUE: usize = 20;
/// Smallest number of bytes that a search takes for each row of `x` and `query`. Measured by
/// inst/benchmarks/memory.R.
const BYTES_PER_ROW: usize = 200;

/// Bytes of a neighbour in R: its number and its distance.
const BYTES_PER_NEIGHBOUR: usize = 12;

/// Starts to search for all neighbours within a radius.
/// @param x double matrix of finite values, observations in rows.
/// @param query NULL, or a double matrix with the columns of x.
/// @param subset NULL, or integers: the rows of query or, without it, of x to search for.
/// @param radius doubles, one for all searches or one for each.
/// @param metric as in job_gdist().
/// @param device as in job_gmhclust().
/// @return External pointer to the job. Its value is list(index, distance): lists with a vector for
///   each query, the neighbours' numbers and distances.
/// @noRd
#[extendr]
fn job_gneighbours(
    x: Robj,
    query: Robj,
    subset: Robj,
    radius: Robj,
    metric: List,
    device: List,
) -> Robj {
    let first = rvalue::rows(&x);
    let vectors = vector::with_optional(x, query);
    let prepare = || {
        let metric = arguments::metric("metric", &metric)?;
        let choice = device::choice(&device)?;
        let radius = Values::<f64>::of(&radius, "radius")?.to_vec();
        let sizes = vector::sizes(&vectors, ["x", "query"])?;
        let (n, columns) = sizes[0];
        let rows = match sizes.get(1) {
            Some(&(queries, _)) => n..n + queries,
            None => 0..n,
        };
        let count = rows.len() + n;
        let bytes = BYTES_PER_VALUE * count * columns + BYTES_PER_ROW * count;
        plan("the search for neighbours needs", bytes as f64)?;
        let queries = match Values::of_optional(&subset, "subset")? {
            Some(subset) => chosen(&subset, rows.start, rows.len())?,
            None => memory::collected("the neighbours need", rows.start as u32..rows.end as u32)?,
        };
        Ok(move |monitor: &Monitor, values: &[&[f64]]| {
            let engine = Engine::new(&choice, &Workload::pairs_of(queries.len(), n, columns))?;
            let points = vector::points(metric, values, &sizes, engine.cpu(), monitor)?;
            let search = RangeSearch::new(&points, n, queries, &radius)?;
            let mut search = search.to_be_copied(BYTES_PER_NEIGHBOUR);
            engine.run(monitor, |on| search.run(on, monitor))?;
            Ok(search.into_neighbours())
        })
    };
    let work = prepare();
    Job::start_reading_all(first, vectors, work, within_to_r).into_r()
}

/// The numbers, from 0, of the chosen rows among `count` rows, whose first row has the number
/// `first`.
fn chosen(subset: &[i32], first: usize, count: usize) -> CoreResult<Vec<u32>> {
    let number = |&row: &i32| match usize::try_from(row) {
        Ok(row) if (1..=count).contains(&row) => Ok((first + row - 1) as u32),
        _ => Err(CoreError::Input(format!(
            "`subset` has {row}; it must be from 1 to {count}"
        ))),
    };
    subset.iter().map(number).collect()
}

/// The neighbours as an R list. Indices count from 1.
fn within_to_r(within: RadiusNeighbours) -> CoreResult<Robj> {
    let RadiusNeighbours {
        ends,
        index,
        distance,
    } = within;
    let index_to_r = vector::split_indices(&index, &ends)?;
    drop(index);
    rvalue::list([
        ("index", index_to_r),
        ("distance", vector::split_doubles(&distance, &ends)?),
    ])
}

extendr_module! {
    mod gneighbours;
    fn job_gneighbours;
}
