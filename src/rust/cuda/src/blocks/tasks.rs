//! Converts problems to the kernel's tasks.

use gmhclust_core::mahalanobis::{distance, Problem};
use gmhclust_core::tasks::pieces;
use rayon::prelude::*;

use super::arrays::{Task, BALL};

/// The place of the first observation of each problem. The observations of each problem follow
/// those of the problem before; those of the first problem start at `first`.
pub fn starts(problems: &[&Problem<'_>], first: usize) -> Vec<usize> {
    let starts = problems.iter().scan(first, |end, problem| {
        let start = *end;
        *end += problem.clusters();
        Some(start)
    });
    starts.collect()
}

/// The tasks of some problems, whose observations are at [`starts`].
pub fn tasks(problems: &[&Problem<'_>], first: usize) -> Vec<Task> {
    let with_starts = problems.par_iter().zip(starts(problems, first));
    with_starts
        .map(|(problem, start)| Task {
            diagonal: problem.bounding_box().diagonal(),
            first: start as u64,
            observations: problem.clusters() as u32,
            log2_terms: distance::log2_ceil(problem.members.len()),
        })
        .collect()
}

/// Number of observations from which the column to halve along is chosen. Only the time depends on
/// it.
const SAMPLE: usize = 64;

/// The slots of each problem, sorted so that slots of observations that are near each other follow
/// each other: the slots of one problem after those of the other.
pub fn sorted_slots(problems: &[&Problem<'_>]) -> Vec<u32> {
    let sizes = problems.iter().map(|problem| problem.clusters());
    let mut all = vec![0; sizes.clone().sum()];
    let of_problems: Vec<(&&Problem, &mut [u32])> =
        problems.iter().zip(pieces(&mut all, sizes)).collect();
    of_problems.into_par_iter().for_each(|(problem, slots)| {
        // A copy, because the rows of the members are far from each other in memory.
        let mut rows = Vec::with_capacity(slots.len() * problem.x.ncols());
        problem.rows().for_each(|row| rows.extend_from_slice(row));
        for (slot, number) in slots.iter_mut().zip(0..) {
            *slot = number;
        }
        sort_spatially(&rows, problem.x.ncols(), slots);
    });
    all
}

/// Halves the slots recursively along the column that varies most, down to those of a ball. `rows`
/// has the observation of each slot, in `p` columns.
fn sort_spatially(rows: &[f64], p: usize, slots: &mut [u32]) {
    if slots.len() <= BALL {
        return;
    }
    let sample = || slots.iter().step_by(slots.len().div_ceil(SAMPLE));
    let variance = |column: usize| {
        let values = || sample().map(|&slot| rows[slot as usize * p + column]);
        let mean = values().sum::<f64>() / values().count() as f64;
        values().map(|value| (value - mean).powi(2)).sum::<f64>()
    };
    let variances: Vec<f64> = (0..p).map(variance).collect();
    let column = (0..p).max_by(|&a, &b| variances[a].total_cmp(&variances[b]));
    let column = column.expect("there is a column");
    let middle = (slots.len() / 2).next_multiple_of(BALL);
    let value = |slot: u32| rows[slot as usize * p + column];
    slots.select_nth_unstable_by(middle - 1, |&a, &b| {
        value(a).total_cmp(&value(b)).then(a.cmp(&b))
    });
    let (left, right) = slots.split_at_mut(middle);
    sort_spatially(rows, p, left);
    sort_spatially(rows, p, right);
}

/// Fills `rows` with observations of the problems of these tasks, from observation `first` on.
pub fn copy_observations(
    problems: &[&Problem<'_>],
    tasks: &[Task],
    first: usize,
    rows: &mut [f64],
) {
    let p = problems[0].x.ncols();
    let of_first = tasks.partition_point(|task| task.first <= first as u64) - 1;
    let before = first - tasks[of_first].first as usize;
    let observations = problems[of_first..]
        .iter()
        .flat_map(|problem| problem.rows());
    for (row, observation) in rows.chunks_exact_mut(p).zip(observations.skip(before)) {
        row.copy_from_slice(observation);
    }
}
