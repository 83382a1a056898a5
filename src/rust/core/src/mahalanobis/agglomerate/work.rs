//! The progress units of agglomeration.

use crate::mahalanobis::problem::Problem;

/// The progress units of a problem: the pairs of clusters that the initial sweeps and those after
/// each merge compare.
pub fn work(problem: &Problem) -> u64 {
    let n = problem.clusters() as u64;
    n * (n - 1)
}
