//! Graphs of nearest neighbours as matrices of R's.

use extendr_api::prelude::*;
use gmhclust_core::knn::{Graph, UNKNOWN};
use gmhclust_core::Result as CoreResult;

use crate::results::{r_integer, NA_INTEGER};
use crate::vector;

/// Queries in rows, nearest first; indices from 1. Neighbours that the graph lacks are NA.
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
    Ok(list!(
        index = vector::with_dimensions(index, queries, k),
        distance = vector::with_dimensions(distance, queries, k)
    )
    .into())
}

/// What [`graph_to_r`] made a matrix each of.
pub fn graph_of(index: &RMatrix<i32>, distance: &RMatrix<f64>) -> CoreResult<Graph> {
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
