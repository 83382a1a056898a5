//! Converts results that several functions of R share to R values.

use extendr_api::prelude::*;
use gmhclust_core::dendrogram::Dendrogram;
use gmhclust_core::{Cpu, Result as CoreResult};
use gmhclust_engine::Engine;

use crate::{rvalue, vector};

/// The components of an `hclust` object, and the name of the backend. The engine made the tree.
pub fn tree_to_r((tree, engine): (Dendrogram, Engine)) -> CoreResult<Robj> {
    let [merge, height, order] = components_to_r(&tree, engine.cpu())?;
    rvalue::list([
        ("merge", merge),
        ("height", height),
        ("order", order),
        ("backend", rvalue::string(engine.name())?),
    ])
}

/// Components `merge`, a matrix, `height` and `order` of an `hclust` object. The CPU's threads fill
/// them in.
pub fn components_to_r(tree: &Dendrogram, cpu: &Cpu) -> CoreResult<[Robj; 3]> {
    let rows = tree.merge.len();
    let joined = |place: usize| match place.checked_sub(rows) {
        None => tree.merge[place][0],
        Some(row) => tree.merge[row][1],
    };
    let merge = vector::integers_on_threads(2 * rows, joined, cpu)?;
    Ok([
        vector::with_dimensions(merge, rows, 2)?,
        vector::doubles_on_threads(rows, |row| tree.height[row], cpu)?,
        vector::integers_on_threads(tree.order.len(), |place| tree.order[place], cpu)?,
    ])
}

/// An R vector of integers.
pub fn integers_to_r(integers: Vec<i32>) -> CoreResult<Robj> {
    vector::integers(integers.into_iter())
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
