//! Contracts the matrix: replaces merged clusters by their unions.

use pulp::{Simd, WithSimd};

use super::contraction_plan::{ClusterPart, ContractionPlan};
use super::matrix_rows::MatrixRows;
use super::worker::{Worker, ROWS};
use crate::error::Result;
use crate::linkage::condensed::{CondensedMatrix, Stored};
use crate::memory;
use crate::monitor::Monitor;
use crate::simd::dispatch;
use crate::tasks::run_from_queue;

/// Some columns of the dissimilarities in [`ROWS`] rows, kept for the unions.
#[derive(Default)]
struct KeptColumns {
    /// The slots of the columns, in increasing order.
    slots: Vec<u32>,
    /// [`ROWS`] values for each column.
    values: Vec<f64>,
}

impl KeptColumns {
    /// The values of a column.
    fn of(&self, slot: u32) -> &[f64] {
        let at = self
            .slots
            .binary_search(&slot)
            .expect("is one of the columns");
        &self.values[at * ROWS..][..ROWS]
    }
}

/// A task of the first pass: the rows of old slots from `start` on.
struct RowBlock<'m, T> {
    start: usize,
    /// The new slots of clusters that do not merge, and their new rows.
    rows: Vec<(usize, &'m mut [T])>,
    columns: &'m mut KeptColumns,
}

/// Fills in the `contracted` matrix. Passes each new row to the visitor of the worker that computed
/// it.
///
/// The first pass reads all rows: it writes the new rows of clusters that did not merge, and keeps
/// the columns that the unions need. The second pass computes the rows of the unions.
///
/// # Errors
/// `Error::Interrupt` when the monitor says stop, `Error::Memory` if the columns do not fit.
pub fn contract<T: Stored>(
    rows: &MatrixRows<T>,
    plan: &ContractionPlan,
    contracted: &mut CondensedMatrix<T>,
    workers: &mut [Worker],
    monitor: &Monitor,
) -> Result<()> {
    let before = rows.clusters();
    let mut columns = wanted_columns(plan, before);
    let kept: usize = columns.iter().map(|columns| columns.slots.len()).sum();
    let bytes = (kept * ROWS * size_of::<f64>()) as f64;
    memory::check("the columns of merged clusters need", bytes)?;
    let starts = (0..before).step_by(ROWS);
    let mut blocks: Vec<RowBlock<T>> = starts
        .zip(&mut columns)
        .map(|(start, columns)| RowBlock {
            start,
            rows: Vec::new(),
            columns,
        })
        .collect();
    let mut clusters = Vec::new();
    for (new, row) in contracted.rows_mut().into_iter().enumerate() {
        if plan.others[new].is_empty() {
            let block = plan.lowest[new] as usize / ROWS;
            blocks[block].rows.push((new, row));
        } else {
            clusters.push((new, row));
        }
    }
    blocks.reverse();
    blocks.rotate_right(1);
    run_from_queue(blocks, workers, |worker, block| {
        monitor.check()?;
        contract_block(rows, plan, block, worker);
        Ok(())
    })?;
    run_from_queue(clusters, workers, |worker, (new, row)| {
        monitor.check()?;
        contract_cluster(rows, plan, &columns, (new, row), worker);
        Ok(())
    })
}

/// For each block of the `before` old rows, the columns that the unions of a plan need, without
/// values.
fn wanted_columns(plan: &ContractionPlan, before: usize) -> Vec<KeptColumns> {
    let mut columns: Vec<KeptColumns> = (0..before.div_ceil(ROWS))
        .map(|_| KeptColumns::default())
        .collect();
    for (&lowest, others) in plan.lowest.iter().zip(&plan.others) {
        for &other in others {
            for block in &mut columns[lowest as usize / ROWS..=other as usize / ROWS] {
                block.slots.push(other);
            }
        }
    }
    columns
}

/// First pass for one block: writes the new rows of its clusters that do not merge, and keeps the
/// columns that unions need.
fn contract_block<T: Stored>(
    rows: &MatrixRows<T>,
    plan: &ContractionPlan,
    block: RowBlock<T>,
    worker: &mut Worker,
) {
    let RowBlock {
        start,
        rows: new_rows,
        columns,
    } = block;
    columns.slots.sort_unstable();
    columns.values = vec![0.0; columns.slots.len() * ROWS];
    let mut new_rows = new_rows.into_iter().peekable();
    for slot in start..(start + ROWS).min(rows.clusters()) {
        let row = rows.row(slot, &mut worker.scratch);
        for (&column, values) in columns.slots.iter().zip(columns.values.chunks_mut(ROWS)) {
            if column as usize > slot {
                values[slot - start] = row[column as usize - slot - 1];
            }
        }
        if let Some((new, to)) = new_rows.next_if(|(new, _)| plan.lowest[*new] as usize == slot) {
            worker.row[slot + 1..].copy_from_slice(row);
            let size = plan.contraction.sizes[slot];
            let all = 0..plan.steps.len();
            plan.merge_columns(&mut worker.row, all, slot as u32, size);
            write(&worker.row, &plan.lowest[new + 1..], to);
            let seen = T::to_doubles(to, &mut worker.scratch);
            worker.visitor.visit(new, seen);
        }
    }
}

/// Second pass for one union: writes its new row.
fn contract_cluster<T: Stored>(
    rows: &MatrixRows<T>,
    plan: &ContractionPlan,
    columns: &[KeptColumns],
    (new, to): (usize, &mut [T]),
    worker: &mut Worker,
) {
    let lowest = plan.lowest[new];
    let slots = 1 + plan.others[new].len();
    while worker.parts.len() < slots {
        worker.parts.push(ClusterPart {
            slot: 0,
            size: 0.0,
            row: vec![0.0; rows.clusters()],
            done: 0,
        });
    }
    let parts = &mut worker.parts[..slots];
    let slots = std::iter::once(&lowest).chain(&plan.others[new]);
    for (part, &slot) in parts.iter_mut().zip(slots) {
        part.slot = slot;
        part.size = plan.contraction.sizes[slot as usize];
        part.done = 0;
        rows.load_row(slot as usize, &mut part.row[slot as usize + 1..]);
        let (first, last) = (lowest as usize, slot as usize);
        for (block, columns) in columns
            .iter()
            .enumerate()
            .take(last / ROWS + 1)
            .skip(first / ROWS)
        {
            if first == last {
                continue;
            }
            let from = (block * ROWS).max(first);
            let to = ((block + 1) * ROWS).min(last);
            part.row[from..to]
                .copy_from_slice(&columns.of(slot)[from - block * ROWS..to - block * ROWS]);
        }
    }
    plan.merge_parts(parts, new);
    write(&parts[0].row, &plan.lowest[new + 1..], to);
    worker
        .visitor
        .visit(new, T::to_doubles(to, &mut worker.scratch));
}

/// Writes the dissimilarities of `row` to some slots into `to`.
fn write<T: Stored>(row: &[f64], slots: &[u32], to: &mut [T]) {
    dispatch(Write { row, slots, to });
}

/// [`write()`] as a kernel.
struct Write<'a, T> {
    row: &'a [f64],
    slots: &'a [u32],
    to: &'a mut [T],
}

impl<T: Stored> WithSimd for Write<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (to, &slot) in self.to.iter_mut().zip(self.slots) {
            // All slots are in the row. `get` without a panic lets the compiler use gathers.
            let value = self.row.get(slot as usize).copied().unwrap_or(f64::NAN);
            *to = T::store(value);
        }
    }
}
