//! Conversion between graphs of nearest neighbours and R matrices.

use extendr_api::prelude::*;
use gmhclust_core::knn::{Graph, UNKNOWN};
use gmhclust_core::{Error as CoreError, Result as CoreResult};

use crate::results::{r_integer, NA_INTEGER};
use crate::rvalue::{self, Values};
use crate::vector;

/// list(index, distance): matrices with a row for each query, nearest neighbours first. Indices
/// count from 1; NA stands for neighbours that the graph does not have yet.
pub fn graph_to_r(graph: Graph) -> CoreResult<Robj> {
    let Graph { k, index, distance } = graph;
    let queries = index.len() / k;
    let number = |index: u32| match index {
        UNKNOWN => NA_INTEGER,
        index => r_integer(index) + 1,
    };
    let places = || (0..queries * k).map(|place| place % queries * k + place / queries);
    let index = vector::integers(places().map(|at| number(index[at])))?;
    let distance = vector::doubles(places().map(|at| distance[at]))?;
    rvalue::list([
        ("index", vector::with_dimensions(index, queries, k)?),
        ("distance", vector::with_dimensions(distance, queries, k)?),
    ])
}

/// The graph from the two matrices that [`graph_to_r`] made.
///
/// # Errors
/// `Error::Input` if they are no matrices of a graph; `Error::Memory`.
pub fn graph_of(index: &Robj, distance: &Robj) -> CoreResult<Graph> {
    let (index, distance) = (
        Values::<i32>::of(index, "index")?,
        Values::<f64>::of(distance, "distance")?,
    );
    let (queries, k) = index.dim("index")?;
    if distance.dim("distance")? != (queries, k) {
        return Err(CoreError::Input(
            "`distance` has other dimensions than `index`".into(),
        ));
    }
    let mut graph = Graph::unknown(queries, k)?;
    for i in 0..queries {
        for j in 0..k {
            // NA is negative.
            if let Ok(number) = u32::try_from(index[j * queries + i]) {
                graph.index[i * k + j] = number - 1;
                graph.distance[i * k + j] = distance[j * queries + i];
            }
        }
    }
    Ok(graph)
}
