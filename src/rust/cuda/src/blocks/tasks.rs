//! Converts problems to the kernel's tasks.

use gmhclust_core::mahalanobis::{distance, Problem};
use gmhclust_core::matrix::RowSlices;
use rayon::prelude::*;

use super::arrays::Task;

/// The tasks of some problems. The observations of each problem follow those of the problem before.
pub fn tasks(problems: &[&Problem<'_>]) -> Vec<Task> {
    let mut first = 0;
    let firsts: Vec<u64> = problems
        .iter()
        .map(|problem| {
            let at = first;
            first += problem.clusters() as u64;
            at
        })
        .collect();
    problems
        .par_iter()
        .zip(&firsts)
        .map(|(problem, &first)| Task {
            diagonal: problem.bounding_box().diagonal(),
            first,
            observations: problem.clusters() as u32,
            log2_terms: distance::log2_ceil(problem.members.len()),
        })
        .collect()
}

/// Fills `rows` with observations, from observation `first` of all problems on.
pub fn copy_observations(
    problems: &[&Problem<'_>],
    tasks: &[Task],
    first: usize,
    rows: &mut [f64],
) {
    let p = problems[0].x.ncols();
    let of_first = tasks.partition_point(|task| task.first <= first as u64) - 1;
    let before = first - tasks[of_first].first as usize;
    let observations = problems[of_first..].iter().flat_map(|problem| {
        let members = problem.members.iter();
        members.map(|&member| problem.x.row_slice(member as usize))
    });
    for (row, observation) in rows.chunks_exact_mut(p).zip(observations.skip(before)) {
        row.copy_from_slice(observation);
    }
}
