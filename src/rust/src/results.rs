//! Converts results that several functions of R share to R values.

use extendr_api::prelude::*;
use gmhclust_core::dendrogram::Dendrogram;
use gmhclust_core::Result as CoreResult;

use crate::{rvalue, vector};

/// The components of an `hclust` object, and the name of the backend.
pub fn tree_to_r((tree, backend): (Dendrogram, &'static str)) -> CoreResult<Robj> {
    rvalue::list([
        ("merge", merge_to_r(&tree)?),
        ("height", vector::doubles(tree.height.iter().copied())?),
        ("order", vector::integers(tree.order.iter().copied())?),
        ("backend", rvalue::string(backend)?),
    ])
}

/// An R vector of integers.
pub fn integers_to_r(integers: Vec<i32>) -> CoreResult<Robj> {
    vector::integers(integers.into_iter())
}

/// Component `merge` of an `hclust` object, a matrix.
pub fn merge_to_r(tree: &Dendrogram) -> CoreResult<Robj> {
    let rows = tree.merge.len();
    let columns = (0..2 * rows).map(|place| match place.checked_sub(rows) {
        None => tree.merge[place][0],
        Some(row) => tree.merge[row][1],
    });
    vector::with_dimensions(vector::integers(columns)?, rows, 2)
}

/// R's missing integer.
pub const NA_INTEGER: i32 = i32::MIN;

/// A count or code as an R integer. Neither exceeds the number of observations, which fits an R
/// integer because `hclust` objects store indices of observations as integers.
pub fn r_integer<T>(value: T) -> i32
where
    i32: TryFrom<T>,
    <i32 as TryFrom<T>>::Error: std::fmt::Debug,
{
    i32::try_from(value).expect("counts and codes fit R's integers")
}
