//! Converts problems to the kernel's tasks.

use std::ops::Range;

use gmhclust_core::mahalanobis::{distance, Problem};
use gmhclust_core::matrix::RowSlices;
use rayon::prelude::*;

use super::arrays::Task;

/// The tasks, whose observations are one after the other.
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

/// Divides problems into consecutive ones of at least this number of observations, but for the
/// last.
pub fn runs(problems: &[&Problem<'_>], observations: usize) -> Vec<Range<usize>> {
    let mut runs = Vec::new();
    let (mut start, mut count) = (0, 0);
    for (number, problem) in problems.iter().enumerate() {
        count += problem.clusters();
        if count >= observations || number + 1 == problems.len() {
            runs.push(start..number + 1);
            (start, count) = (number + 1, 0);
        }
    }
    runs
}

/// Writes the observations of problems one after the other into `values`, on the threads of the
/// calling pool.
pub fn gather(problems: &[&Problem<'_>], values: &mut Vec<f64>) {
    let p = problems[0].x.ncols();
    let observations: usize = problems.iter().map(|problem| problem.clusters()).sum();
    values.resize(observations * p, 0.0);
    let mut rest = &mut values[..];
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use gmhclust_core::mahalanobis::{Distance, Options, Subthreshold};
    use gmhclust_core::testing::observations;

    #[test]
    fn observations_are_gathered_in_runs() {
        let x = observations((0..40).map(f64::from).collect(), 20, 2);
        let options = Options {
            threshold: 5.0,
            subthreshold: Subthreshold::Mahal,
            distance: Distance::Centroid,
            normalize: false,
            apriori_intra: true,
        };
        let members = [vec![3, 5, 8], vec![1, 0], vec![19, 2, 4, 6], vec![7, 9]];
        let problem = |members: &Vec<u32>| Problem::of_observations(&x, members.clone(), options);
        let problems: Vec<Problem> = members.iter().map(problem).collect();
        let problems: Vec<&Problem> = problems.iter().collect();
        assert_eq!(runs(&problems, 5), [0..2, 2..4]);
        assert_eq!(runs(&problems, 3), [0..1, 1..3, 3..4]);
        assert_eq!(runs(&problems, 100).len(), 1);
        let mut values = vec![7.0; 3];
        let mut all = Vec::new();
        for run in runs(&problems, 3) {
            gather(&problems[run], &mut values);
            all.extend_from_slice(&values);
        }
        let rows = members.iter().flatten();
        let expected = rows.flat_map(|&row| [f64::from(2 * row), f64::from(2 * row + 1)]);
        assert!(all.into_iter().eq(expected));
        let firsts: Vec<u64> = tasks(&problems).iter().map(|task| task.first).collect();
        assert_eq!(firsts, [0, 3, 5, 9]);
    }
}
