//! Converts problems to the kernel's tasks.

use gmhclust_core::mahalanobis::{distance, Problem};
use gmhclust_core::matrix::RowSlices;
use rayon::prelude::*;

use super::arrays::{Task, MOST_IN_REGISTERS};

/// The tasks, and the observations of all tasks one after the other, with zeros behind them.
pub fn gather(problems: &[&Problem<'_>]) -> (Vec<Task>, Vec<f64>) {
    let p = problems[0].x.ncols();
    let mut first = 0;
    let firsts: Vec<u64> = problems
        .iter()
        .map(|problem| {
            let at = first;
            first += problem.clusters() as u64;
            at
        })
        .collect();
    let tasks = problems
        .par_iter()
        .zip(&firsts)
        .map(|(problem, &first)| Task {
            diagonal: problem.bounding_box().diagonal(),
            first,
            observations: problem.clusters() as u32,
            log2_terms: distance::log2_ceil(problem.members.len()),
        })
        .collect();
    let mut x = vec![0.0; first as usize * p + MOST_IN_REGISTERS];
    let mut rest = &mut x[..];
    let mut parts = Vec::with_capacity(problems.len());
    for problem in problems {
        let (part, others) = rest.split_at_mut(problem.clusters() * p);
        parts.push(part);
        rest = others;
    }
    problems.par_iter().zip(parts).for_each(|(problem, part)| {
        for (&member, row) in problem.members.iter().zip(part.chunks_mut(p)) {
            row.copy_from_slice(problem.x.row_slice(member as usize));
        }
    });
    (tasks, x)
}
