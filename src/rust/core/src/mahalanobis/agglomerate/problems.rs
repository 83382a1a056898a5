//! Problems divided between screens and a device that merges whole problems.

use std::cmp::Reverse;

use rayon::prelude::*;

use super::one_problem::agglomerate;
use super::work::work;
use crate::error::Result;
use crate::mahalanobis::device::{AgglomerationDevice, Division};
use crate::mahalanobis::problem::Problem;
use crate::memory;
use crate::merge::Merge;
use crate::monitor::Monitor;
use crate::tasks::join;

/// The merges of each problem's clusters to one, in order.
///
/// # Errors
/// `Error::Interrupt` when the monitor says stop, `Error::Memory` where there is not enough, and
/// the errors of the device.
pub fn agglomerate_all(
    problems: &[Problem<'_>],
    device: &(impl AgglomerationDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Vec<Vec<Merge>>> {
    let Some(whole) = device.whole_problems() else {
        return on_screens(problems, &Division::default(), device, monitor);
    };
    let division = whole.divide(problems, monitor)?;
    let wholes = division.whole.iter().map(|&i| &problems[i]).collect();
    let merge_each = whole.prepare(wholes, monitor)?;
    let (by_device, mut merges) = std::thread::scope(|scope| {
        let by_device = scope.spawn(merge_each);
        let merges = on_screens(problems, &division, device, monitor);
        Ok((join(by_device)?, merges?))
    })?;
    for (&number, found) in division.whole.iter().zip(by_device) {
        merges[number] = found;
    }
    Ok(merges)
}

/// How a problem is merged with a screen.
#[derive(Clone, Copy)]
enum Way {
    Device,
    /// Without the rest of the device.
    Cpu,
}

/// The merges of the problems that the device does not merge as a whole, each with a screen of its
/// own; none of the others.
fn on_screens(
    problems: &[Problem<'_>],
    division: &Division,
    device: &(impl AgglomerationDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Vec<Vec<Merge>>> {
    let mut ways = vec![Some(Way::Device); problems.len()];
    for &number in &division.whole {
        ways[number] = None;
    }
    for &number in &division.on_cpu {
        ways[number] = Some(Way::Cpu);
    }
    let chosen = problems.iter().zip(ways).enumerate();
    let chosen = chosen.filter_map(|(number, (problem, way))| Some((number, problem, way?)));
    let mut chosen: Vec<(usize, &Problem, Way)> = chosen.collect();
    // The largest first, so that none of them is last.
    chosen.sort_by_key(|(_, problem, _)| Reverse(problem.clusters()));
    let cpu = device.cpu();
    let at_a_time = cpu.threads();
    let largest = chosen.iter().take(at_a_time);
    let working = largest.map(|(_, problem, _)| problem.working_memory());
    memory::check("the clustering needs", working.sum())?;
    for (_, problem, _) in &chosen {
        monitor.expect(work(problem));
    }
    let merge = |(place, &(number, problem, way)): (usize, &(usize, &Problem, Way))| {
        let found = match way {
            Way::Device => agglomerate(place, problem, device, monitor),
            Way::Cpu => agglomerate(place, problem, cpu, monitor),
        };
        Ok((number, found?))
    };
    let found: Vec<_> = if let [only] = &chosen[..] {
        vec![cpu.install_awake(|| merge((0, only)))?]
    } else {
        let each = chosen.par_iter().enumerate().with_max_len(1);
        cpu.install(|| each.map(merge).collect::<Result<_>>())?
    };
    let mut merges = vec![Vec::new(); problems.len()];
    for (number, found) in found {
        merges[number] = found;
    }
    Ok(merges)
}
