//! Merges several problems in parallel, each problem on one thread.

use std::cmp::Reverse;

use rayon::prelude::*;

use crate::cpu::Cpu;
use crate::error::Result;
use crate::mahalanobis::problem::Problem;
use crate::memory;
use crate::merge::Merge;

/// Calls `merges_of` for each problem, in parallel on the threads of `cpu`, and returns the merges
/// of each problem. Problems are started in decreasing order of size, so that no large problem is
/// left for the end. A single problem has all threads.
///
/// # Errors
/// `Error::Memory` if there is too little memory for one problem per thread, and the errors of
/// `merges_of`.
pub fn merges_in_parallel(
    problems: &[&Problem<'_>],
    cpu: &Cpu,
    merges_of: impl Fn(&Problem<'_>) -> Result<Vec<Merge>> + Sync,
) -> Result<Vec<Vec<Merge>>> {
    let mut order: Vec<usize> = (0..problems.len()).collect();
    order.sort_by_key(|&index| Reverse(problems[index].clusters()));
    let largest = order.iter().take(cpu.threads());
    check_memory(largest.map(|&index| problems[index]))?;
    let merges_at = |&index: &usize| Ok((index, merges_of(problems[index])?));
    let found: Vec<_> = if let [only] = &order[..] {
        vec![cpu.install_awake(|| merges_at(only))?]
    } else {
        let each = order.par_iter().with_max_len(1);
        cpu.install(|| each.map(merges_at).collect::<Result<_>>())?
    };
    let mut merges = vec![Vec::new(); problems.len()];
    for (index, found) in found {
        merges[index] = found;
    }
    Ok(merges)
}

/// Checks that there is memory to agglomerate these problems at the same time.
///
/// # Errors
/// `Error::Memory`, which says how much memory is needed.
pub fn check_memory<'p, 'x: 'p>(problems: impl Iterator<Item = &'p Problem<'x>>) -> Result<()> {
    let working = problems.map(Problem::working_memory);
    memory::check("the clustering needs", working.sum())
}
