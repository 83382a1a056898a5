//! Problems divided between screens and a device that merges whole problems.

use rayon::prelude::*;

use super::one_problem::agglomerate;
use super::work::work;
use crate::error::Result;
use crate::mahalanobis::device::AgglomerationDevice;
use crate::mahalanobis::problem::Problem;
use crate::memory;
use crate::merge::Merge;
use crate::monitor::Monitor;
use crate::tasks::join;

/// The merges of each problem's clusters to one, in order.
///
/// # Errors
/// `Error::Interrupt` when the monitor says stop, `Error::Memory` where there is not enough, and the
/// errors of the device.
pub fn agglomerate_all(
    problems: &[Problem<'_>],
    device: &(impl AgglomerationDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Vec<Vec<Merge>>> {
    let Some(whole) = device.whole_problems() else {
        let all: Vec<usize> = (0..problems.len()).collect();
        return agglomerate_on_screens(problems, &all, device, monitor);
    };
    let chosen = whole.choose(problems, monitor)?;
    let is_left = |number: &usize| chosen.binary_search(number).is_err();
    let left: Vec<usize> = (0..problems.len()).filter(is_left).collect();
    let (by_device, on_screens) = std::thread::scope(|scope| {
        let by_device = scope.spawn(|| {
            let problems: Vec<&Problem> = chosen.iter().map(|&i| &problems[i]).collect();
            whole.merge(&problems, monitor)
        });
        let on_screens = agglomerate_on_screens(problems, &left, device, monitor);
        Ok((join(by_device)?, on_screens?))
    })?;
    let mut merges = vec![Vec::new(); problems.len()];
    let numbers = chosen.iter().chain(&left);
    for (&number, found) in numbers.zip(by_device.into_iter().chain(on_screens)) {
        merges[number] = found;
    }
    Ok(merges)
}

/// The merges of the problems of these numbers, each with a screen of its own.
fn agglomerate_on_screens(
    problems: &[Problem<'_>],
    numbers: &[usize],
    device: &(impl AgglomerationDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Vec<Vec<Merge>>> {
    let each = || numbers.iter().map(|&number| &problems[number]);
    let largest = each().map(Problem::working_memory).fold(0.0, f64::max);
    memory::check("the clustering needs", largest)?;
    for problem in each() {
        monitor.expect(work(problem));
    }
    let merges = |(place, &number): (usize, &usize)| {
        let problem = &problems[number];
        agglomerate(place, problem, device, monitor)
    };
    let cpu = device.cpu();
    cpu.install(|| numbers.par_iter().enumerate().map(merges).collect())
}
