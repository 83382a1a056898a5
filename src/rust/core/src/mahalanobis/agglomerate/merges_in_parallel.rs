//! Merges several problems in parallel. Each thread merges one problem at a time; once no problem
//! is left to begin, idle threads help with the others.

use std::cmp::Reverse;

use crate::cpu::Cpu;
use crate::error::Result;
use crate::mahalanobis::problem::Problem;
use crate::memory;
use crate::merge::Merge;
use crate::tasks::run_from_queue;

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
    if let [only] = problems {
        return Ok(vec![cpu.install_awake(|| merges_of(only))?]);
    }
    let mut found = vec![Vec::new(); cpu.threads()];
    let work = |found: &mut Vec<(usize, Vec<Merge>)>, index: usize| {
        found.push((index, merges_of(problems[index])?));
        // Other threads may wait for `cpu`, to prepare problems for a device. At the beginning of
        // `work`, this would put off the largest problems to the end.
        rayon::yield_now();
        Ok(())
    };
    cpu.install(|| run_from_queue(order, &mut found, work))?;
    let mut merges = vec![Vec::new(); problems.len()];
    for (index, found) in found.into_iter().flatten() {
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::Mutex;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::testing::{observations, CENTROID_OPTIONS};

    #[test]
    fn large_problems_begin_first() {
        let x = observations(vec![0.0; 40], 40, 1);
        let problem = |n: u32| Problem::of_observations(&x, 0..n, CENTROID_OPTIONS);
        let problems: Vec<Problem> = (2..40).map(problem).collect();
        let problems: Vec<&Problem> = problems.iter().collect();
        let begun = Mutex::new(Vec::new());
        let merges_of = |problem: &Problem<'_>| {
            begun.lock().unwrap().push(problem.clusters());
            thread::sleep(Duration::from_millis(1));
            Ok(Vec::new())
        };
        merges_in_parallel(&problems, &Cpu::new(4).unwrap(), merges_of).unwrap();
        let begun = begun.into_inner().unwrap();
        // Four threads take them from the queue in order, but begin at slightly other times.
        let is_in_order =
            |(place, &size): (usize, &usize)| (39 - 4..=39 + 4).contains(&(size + place));
        assert!(begun.iter().enumerate().all(is_in_order), "{begun:?}");
        assert_eq!(begun.len(), 38);
    }

    #[test]
    fn a_thread_that_wants_the_cpu_waits_for_one_problem_only() {
        let x = observations(vec![0.0; 2], 2, 1);
        let problem = Problem::of_observations(&x, 0..2, CENTROID_OPTIONS);
        let problems = [&problem; 200];
        let cpu = Cpu::new(1).unwrap();
        let (done, seen) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
        let merges_of = |_: &Problem<'_>| {
            done.fetch_add(1, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(2));
            Ok(Vec::new())
        };
        thread::scope(|scope| {
            scope.spawn(|| merges_in_parallel(&problems, &cpu, merges_of));
            while done.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
            cpu.install(|| seen.store(done.load(Ordering::Relaxed), Ordering::Relaxed));
        });
        assert_eq!(done.into_inner(), 200);
        assert!(seen.into_inner() < 150);
    }
}
