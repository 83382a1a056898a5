//! as_igraph(): weights of the edges of a graph of neighbours.

use extendr_api::prelude::*;
use gmhclust_core::{knn, memory, Error as CoreError, Monitor, Result as CoreResult};

use crate::job::Job;
use crate::memory::plan;
use crate::rvalue::Values;
use crate::vector;

/// Bytes for each edge: its target, here and in a set, and its weight, here and in R.
const BYTES_PER_EDGE: usize = 24;
/// Bytes for each observation: its place in a set, a mark, and two ends.
const BYTES_PER_ROW: usize = 24;

/// Starts to compute the Jaccard coefficients of the neighbours of both ends of edges.
/// @param count integer: the number of neighbours of each observation.
/// @param target integers: the numbers of the neighbours, one observation after the other.
/// @return External pointer to the job. Its value is a double for each of `target`.
/// @noRd
#[extendr]
fn job_jaccard(count: Robj, target: Robj) -> Robj {
    let count = Values::<i32>::of(&count, "count");
    let rows = count.as_ref().map_or(0, |count| count.len());
    let prepare = || {
        let (count, target) = (count?, Values::<i32>::of(&target, "target")?);
        let bytes = BYTES_PER_EDGE * target.len() + BYTES_PER_ROW * rows;
        plan("the weights of the edges need", bytes as f64)?;
        let ends = ends(&count)?;
        if ends.last().copied().unwrap_or(0) != target.len() {
            return Err(wrong("`count` does not sum to the length of `target`"));
        }
        let mut targets = memory::room("the weights of the edges need", target.len())?;
        for &number in target.iter() {
            match usize::try_from(number) {
                Ok(number) if (1..=rows).contains(&number) => targets.push(number as u32 - 1),
                _ => return Err(wrong("`target` has a number of no observation")),
            }
        }
        Ok(move |monitor: &Monitor| knn::jaccard(&ends, &targets, monitor))
    };
    Job::start(rows, prepare(), weights_to_r).into_r()
}

/// For each observation, the end of its edges among all edges.
fn ends(count: &[i32]) -> CoreResult<Vec<usize>> {
    let mut ends = memory::room("the weights of the edges need", count.len())?;
    let mut end = 0;
    for &count in count {
        end += usize::try_from(count).map_err(|_| wrong("`count` is negative"))?;
        ends.push(end);
    }
    Ok(ends)
}

fn wrong(message: &str) -> CoreError {
    CoreError::Input(message.into())
}

fn weights_to_r(weights: Vec<f64>) -> CoreResult<Robj> {
    vector::doubles(weights.into_iter())
}

extendr_module! {
    mod as_igraph;
    fn job_jaccard;
}
