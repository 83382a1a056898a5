//! The dissimilarities of all clusters in the CPU's memory.

use rayon::prelude::*;

use super::contract::contract;
use super::contraction_plan::ContractionPlan;
use super::matrix_rows::{MatrixRows, MatrixSource};
use super::nearest::NearestSoFar;
use super::worker::{Worker, ROWS};
use crate::error::Result;
use crate::linkage::chain;
use crate::linkage::condensed::{check, CondensedMatrix, Stored};
use crate::linkage::dissimilarities::{Contraction, Dissimilarities, NearestClusters};
use crate::linkage::lance_williams::Recurrence;
use crate::merge::Merge;
use crate::monitor::Monitor;
use crate::tasks::run_from_queue;

/// Smallest number of entries that a thread looks up. Only the time depends on it.
const MIN_ENTRIES_PER_TASK: usize = 1 << 12;

/// The dissimilarities of all clusters, stored as `T`.
pub struct CpuDissimilarities<'a, T> {
    rows: MatrixRows<'a, T>,
    /// Memory of the matrix before the last contraction, for the next one.
    spare: Vec<T>,
}

impl<'a, T: Stored> CpuDissimilarities<'a, T> {
    /// The dissimilarities of `n` clusters in the order of R's `dist`; their squares if `squared`.
    pub fn given(values: &'a [f64], n: usize, squared: bool) -> Self {
        Self {
            rows: MatrixRows::given(values, n, squared),
            spare: Vec::new(),
        }
    }

    /// The dissimilarities in `matrix`; their squares if `squared`.
    pub fn own(matrix: CondensedMatrix<T>, squared: bool) -> Self {
        Self {
            rows: MatrixRows::own(matrix, squared),
            spare: Vec::new(),
        }
    }
}

impl<T: Stored> Dissimilarities for CpuDissimilarities<'_, T> {
    fn nearest(&mut self, monitor: &Monitor) -> Result<NearestClusters> {
        let n = self.rows.clusters();
        let all: Vec<u32> = (0..n as u32).collect();
        let nearest = NearestSoFar::new(n, &all);
        let mut workers = Worker::one_per_thread(n, &nearest);
        // Starts with the first rows, then goes from the last row on, so that a cluster's own row
        // is mostly visited before the cluster occurs in other rows.
        let mut tasks: Vec<usize> = (0..n).step_by(ROWS).rev().collect();
        tasks.rotate_right(1);
        run_from_queue(tasks, &mut workers, |worker, start| {
            monitor.check()?;
            for slot in (start..(start + ROWS).min(n)).rev() {
                let row = self.rows.row(slot, &mut worker.scratch);
                check::<T>(row, slot)?;
                worker.visitor.visit(slot, row);
                monitor.advance(row.len() as u64);
            }
            Ok(())
        })?;
        Ok(nearest.finish())
    }

    fn entries(&self, pairs: &[(u32, u32)]) -> Result<Vec<f64>> {
        let entry =
            |&(lower, higher): &(u32, u32)| self.rows.entry(lower as usize, higher as usize);
        let entries = pairs
            .par_iter()
            .with_min_len(MIN_ENTRIES_PER_TASK)
            .map(entry);
        Ok(entries.collect())
    }

    fn contract(
        &mut self,
        contraction: &Contraction,
        wanted: &[u32],
        monitor: &Monitor,
    ) -> Result<NearestClusters> {
        let plan = ContractionPlan::new(contraction);
        let n = plan.lowest.len();
        let spare = std::mem::take(&mut self.spare);
        let mut contracted = CondensedMatrix::reusing(spare, n)?;
        let nearest = NearestSoFar::new(n, wanted);
        let mut workers = Worker::one_per_thread(self.rows.clusters(), &nearest);
        contract(&self.rows, &plan, &mut contracted, &mut workers, monitor)?;
        let before = std::mem::replace(&mut self.rows, MatrixRows::own(contracted, false));
        if let MatrixSource::Own(before) = before.source {
            self.spare = before.into_memory();
        }
        Ok(nearest.finish())
    }

    fn chain(
        &mut self,
        recurrence: Recurrence,
        sizes: &[f64],
        monitor: &Monitor,
    ) -> Result<Vec<Merge>> {
        let MatrixSource::Own(matrix) = &mut self.rows.source else {
            unreachable!("given dissimilarities have been contracted before")
        };
        chain::merges(recurrence, sizes.to_vec(), matrix, monitor)
    }
}
