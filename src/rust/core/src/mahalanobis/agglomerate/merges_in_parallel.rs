//! Merges several problems in parallel, each problem on one thread.

use std::cmp::Reverse;

use rayon::prelude::*;

use crate::cpu::Cpu;
use crate::error::Result;
use crate::mahalanobis::problem::Problem;
use crate::memory;
use crate::merge::Merge;

/// A problem, and its rank in the order of work.
#[derive(Debug, Clone, Copy)]
pub struct ScheduledProblem<'p, 'x> {
    pub problem: &'p Problem<'x>,
    /// The index of the problem among all problems.
    pub index: usize,
    /// Number of problems that are started before. Problems are started in decreasing order of
    /// size, so that no large problem is left for the end.
    pub rank: usize,
}

/// Calls `merges_of` for each problem, in parallel on the threads of `cpu`, and returns the merges
/// of each problem. A single problem has all threads.
///
/// # Errors
/// `Error::Memory` if there is too little memory for one problem per thread, and the errors of
/// `merges_of`.
pub fn merges_in_parallel(
    problems: &[&Problem<'_>],
    cpu: &Cpu,
    merges_of: impl Fn(ScheduledProblem<'_, '_>) -> Result<Vec<Merge>> + Sync,
) -> Result<Vec<Vec<Merge>>> {
    let mut order: Vec<usize> = (0..problems.len()).collect();
    order.sort_by_key(|&index| Reverse(problems[index].clusters()));
    let largest = order.iter().take(cpu.threads());
    let working = largest.map(|&index| problems[index].working_memory());
    memory::check("the clustering needs", working.sum())?;
    let merges_at = |(rank, &index): (usize, &usize)| {
        let problem = problems[index];
        let scheduled = ScheduledProblem {
            problem,
            index,
            rank,
        };
        Ok((index, merges_of(scheduled)?))
    };
    let found: Vec<_> = if let [only] = &order[..] {
        vec![cpu.install_awake(|| merges_at((0, only)))?]
    } else {
        let each = order.par_iter().enumerate().with_max_len(1);
        cpu.install(|| each.map(merges_at).collect::<Result<_>>())?
    };
    let mut merges = vec![Vec::new(); problems.len()];
    for (index, found) in found {
        merges[index] = found;
    }
    Ok(merges)
}
