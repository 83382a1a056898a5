//! The progress units of agglomeration.

use crate::mahalanobis::problem::Problem;

/// The progress units of a problem: the number of pairs of clusters that the first sweeps and the
/// sweep of each merge compare.
pub fn work(problem: &Problem) -> u64 {
    let n = problem.clusters() as u64;
    n * (n - 1)
}
