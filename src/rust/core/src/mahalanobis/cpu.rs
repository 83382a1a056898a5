//! Agglomeration on the CPU.

use super::agglomerate::{merges_in_parallel, merges_on_cpu};
use super::device::AgglomerationDevice;
use super::problem::Problem;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::merge::Merge;
use crate::monitor::Monitor;

impl AgglomerationDevice for Cpu {
    fn agglomerate(&self, problems: &[Problem<'_>], monitor: &Monitor) -> Result<Vec<Vec<Merge>>> {
        let problems: Vec<&Problem> = problems.iter().collect();
        merges_in_parallel(&problems, self, |problem| merges_on_cpu(problem, monitor))
    }
}
