//! The dissimilarities of all clusters in the CPU's memory.

mod nearest;

use std::ops::Range;

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::chain;
use super::condensed::{check, row_start, Condensed, Stored};
use super::device::LinkageDevice;
use super::dissimilarities::{Contraction, Dissimilarities, Fusion, Nearest};
use super::lance_williams::{Precision, Recurrence, Union};
use super::memory_check::check_memory;
use super::origin::Origin;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::merge::Merge;
use crate::monitor::Monitor;
use crate::simd::dispatch;
use crate::tasks::share;
use nearest::{NearestSoFar, Watcher, FIRST};

/// Rows that are worked on as one task.
const ROWS: usize = FIRST;

/// Fewer entries than this are looked up by one thread.
const PARALLEL_ENTRIES: usize = 1 << 12;

/// The dissimilarities of all clusters, stored as `T`.
pub struct CpuDissimilarities<'a, T> {
    source: Source<'a, T>,
    /// Whether the squares of what is stored are meant.
    squared: bool,
    /// Memory to be used again.
    spare: Vec<T>,
}

/// Where the dissimilarities are.
enum Source<'a, T> {
    /// Where the caller has them; they are taken as if stored as `T`.
    Given {
        values: &'a [f64],
        n: usize,
    },
    Own(Condensed<T>),
}

impl LinkageDevice for Cpu {
    fn dissimilarities<'a>(
        &'a self,
        origin: Origin<'a>,
        n: usize,
        recurrence: Recurrence,
        monitor: &Monitor,
    ) -> Result<Box<dyn Dissimilarities + 'a>> {
        self.install(|| match recurrence.precision {
            Precision::Double => stored::<f64>(origin, n, recurrence, self, monitor),
            Precision::Single => stored::<f32>(origin, n, recurrence, self, monitor),
        })
    }
}

/// The dissimilarities stored as `T`.
fn stored<'a, T: Stored + 'a>(
    origin: Origin<'a>,
    n: usize,
    recurrence: Recurrence,
    cpu: &Cpu,
    monitor: &Monitor,
) -> Result<Box<dyn Dissimilarities + 'a>> {
    let linkage = recurrence.linkage;
    check_memory::<T>(origin, n, linkage)?;
    Ok(match origin {
        Origin::Given(values) => {
            Box::new(CpuDissimilarities::<T>::given(values, n, linkage.squares()))
        }
        Origin::Points(_) => {
            let matrix = Condensed::<T>::from_origin(origin, n, cpu, monitor)?;
            Box::new(CpuDissimilarities::own(matrix, linkage.squares()))
        }
    })
}

impl<'a, T: Stored> CpuDissimilarities<'a, T> {
    /// Of the pairs of `n` clusters, in the order of R's `dist`; their squares where `squared`.
    pub fn given(values: &'a [f64], n: usize, squared: bool) -> Self {
        Self {
            source: Source::Given { values, n },
            squared,
            spare: Vec::new(),
        }
    }

    /// Of the clusters of `matrix`; their squares where `squared`.
    pub fn own(matrix: Condensed<T>, squared: bool) -> Self {
        Self {
            source: Source::Own(matrix),
            squared,
            spare: Vec::new(),
        }
    }

    fn clusters(&self) -> usize {
        match &self.source {
            Source::Given { n, .. } => *n,
            Source::Own(matrix) => matrix.clusters(),
        }
    }

    #[inline(always)]
    fn meant(&self, value: f64) -> f64 {
        if self.squared {
            value * value
        } else {
            value
        }
    }

    /// Those of a cluster and all in higher slots, written into `to`.
    fn load_row(&self, slot: usize, to: &mut [f64]) {
        match &self.source {
            Source::Given { values, n } => {
                let row = &values[row_start(*n, slot)..][..n - 1 - slot];
                for (to, &value) in to.iter_mut().zip(row) {
                    *to = T::store(value).load();
                }
            }
            Source::Own(matrix) => {
                for (to, value) in to.iter_mut().zip(matrix.row(slot)) {
                    *to = value.load();
                }
            }
        }
        if self.squared {
            to.iter_mut().for_each(|value| *value *= *value);
        }
    }

    /// Those of a cluster and all in higher slots; in `room` where they are not at hand.
    fn row<'r>(&'r self, slot: usize, room: &'r mut [f64]) -> &'r [f64] {
        if self.squared {
            let row = &mut room[..self.clusters() - 1 - slot];
            self.load_row(slot, row);
            return row;
        }
        match &self.source {
            Source::Given { values, n } => {
                T::as_given(&values[row_start(*n, slot)..][..n - 1 - slot], room)
            }
            Source::Own(matrix) => T::as_stored(matrix.row(slot), room),
        }
    }

    fn entry(&self, lower: usize, higher: usize) -> f64 {
        let value = match &self.source {
            Source::Given { values, n } => {
                T::store(values[row_start(*n, lower) + higher - lower - 1]).load()
            }
            Source::Own(matrix) => matrix.get(lower, higher),
        };
        self.meant(value)
    }
}

impl<T: Stored> Dissimilarities for CpuDissimilarities<'_, T> {
    fn nearest(&mut self, monitor: &Monitor) -> Result<Nearest> {
        let n = self.clusters();
        let all: Vec<u32> = (0..n as u32).collect();
        let nearest = NearestSoFar::new(n, &all);
        let mut threads = Thread::all(n, &nearest);
        // From the last on, but for the first ones: when a cluster goes by in the rows of others,
        // most of its own row did.
        let mut tasks: Vec<usize> = (0..n).step_by(ROWS).rev().collect();
        tasks.rotate_right(1);
        share(tasks, &mut threads, |thread, start| {
            monitor.check()?;
            for slot in (start..(start + ROWS).min(n)).rev() {
                let row = self.row(slot, &mut thread.room);
                check::<T>(row, slot)?;
                thread.watcher.see(slot, row);
                monitor.advance(row.len() as u64);
            }
            Ok(())
        })?;
        Ok(nearest.finish())
    }

    fn entries(&self, pairs: &[(u32, u32)]) -> Result<Vec<f64>> {
        let entry = |&(lower, higher): &(u32, u32)| self.entry(lower as usize, higher as usize);
        let entries = pairs.par_iter().with_min_len(PARALLEL_ENTRIES).map(entry);
        Ok(entries.collect())
    }

    fn contract(
        &mut self,
        contraction: &Contraction,
        wanted: &[u32],
        monitor: &Monitor,
    ) -> Result<Nearest> {
        let plan = Plan::new(contraction);
        let n = plan.lowest.len();
        let spare = std::mem::take(&mut self.spare);
        let mut contracted = Condensed::reusing(spare, n)?;
        let nearest = NearestSoFar::new(n, wanted);
        let mut threads = Thread::all(self.clusters(), &nearest);
        self.fill(&plan, &mut contracted, &mut threads, monitor)?;
        let before = std::mem::replace(&mut self.source, Source::Own(contracted));
        if let Source::Own(before) = before {
            self.spare = before.into_memory();
        }
        self.squared = false;
        Ok(nearest.finish())
    }

    fn chain(
        &mut self,
        recurrence: Recurrence,
        sizes: &[f64],
        monitor: &Monitor,
    ) -> Result<Vec<Merge>> {
        let Source::Own(matrix) = &mut self.source else {
            unreachable!("what was given has been contracted before")
        };
        chain::merges(recurrence, sizes.to_vec(), matrix, monitor)
    }
}

/// What a thread works with.
struct Thread<'a> {
    watcher: Watcher<'a>,
    /// Room for dissimilarities by slot.
    row: Vec<f64>,
    /// Room for a row that is not stored in double precision.
    room: Vec<f64>,
    parts: Vec<Part>,
}

impl<'a> Thread<'a> {
    /// One for each thread of the pool, for rows of this many clusters.
    fn all(clusters: usize, nearest: &'a NearestSoFar) -> Vec<Self> {
        let thread = |_| Self {
            watcher: nearest.watcher(),
            row: vec![0.0; clusters],
            room: vec![0.0; clusters],
            parts: Vec::new(),
        };
        (0..rayon::current_num_threads()).map(thread).collect()
    }
}

/// A fusion and the lowest slot of all that its clusters become part of.
struct Step {
    fusion: Fusion,
    lowest: u32,
}

/// What becomes of which slots.
struct Plan<'a> {
    contraction: &'a Contraction<'a>,
    steps: Vec<Step>,
    /// By new slot: the lowest old one.
    lowest: Vec<u32>,
    /// By new slot: its other old ones, in increasing order.
    others: Vec<Vec<u32>>,
    /// By new slot: which steps made it.
    own: Vec<Vec<usize>>,
}

impl<'a> Plan<'a> {
    fn new(contraction: &'a Contraction<'a>) -> Self {
        let fusions = contraction.fusions;
        let mut lowest_of: Vec<u32> = (0..contraction.sizes.len() as u32).collect();
        for fusion in fusions.iter().rev() {
            lowest_of[fusion.higher as usize] = lowest_of[fusion.lower as usize];
        }
        let lowest: Vec<u32> = (0..lowest_of.len() as u32)
            .filter(|&slot| lowest_of[slot as usize] == slot)
            .collect();
        let mut others = vec![Vec::new(); lowest.len()];
        for (slot, &low) in lowest_of.iter().enumerate() {
            if low as usize != slot {
                let new = lowest.binary_search(&low).expect("is the lowest of some");
                others[new].push(slot as u32);
            }
        }
        let step = |&fusion: &Fusion| Step {
            fusion,
            lowest: lowest_of[fusion.lower as usize],
        };
        let steps: Vec<Step> = fusions.iter().map(step).collect();
        let mut own = vec![Vec::new(); lowest.len()];
        for (at, step) in steps.iter().enumerate() {
            let new = lowest
                .binary_search(&step.lowest)
                .expect("is the lowest of some");
            own[new].push(at);
        }
        Self {
            contraction,
            steps,
            lowest,
            others,
            own,
        }
    }

    /// Has clusters merge in `row`, the dissimilarities by slot of a cluster of size `size`, whose
    /// lowest slot is `lowest`: by the steps in `range`, as far as they are about higher slots.
    fn merge_columns(&self, row: &mut [f64], range: Range<usize>, lowest: u32, size: f64) {
        let recurrence = self.contraction.recurrence;
        for step in &self.steps[range] {
            if step.lowest > lowest {
                let Fusion {
                    lower,
                    higher,
                    union,
                } = &step.fusion;
                let (first, second) = (row[*lower as usize], row[*higher as usize]);
                row[*lower as usize] = recurrence.update(union, first, second, size);
            }
        }
    }

    /// Has the parts of a cluster merge, and the clusters that they are dissimilar to, all in the
    /// order in which they came to be. The result is in the first part.
    fn merge_parts(&self, parts: &mut [Part], new: usize) {
        let lowest = self.lowest[new];
        let recurrence = self.contraction.recurrence;
        let mut sizes = self.contraction.sizes.to_vec();
        let mut done = 0;
        for &own in &self.own[new] {
            let Fusion {
                lower,
                higher,
                union,
            } = &self.steps[own].fusion;
            for step in &self.steps[done..own] {
                sizes[step.fusion.lower as usize] = step.fusion.union.size();
            }
            done = own;
            let at = |slot: &u32| parts.iter().position(|part| part.slot == *slot);
            let [first, second] = [lower, higher].map(|slot| at(slot).expect("is a part"));
            let (before, after) = parts.split_at_mut(second);
            let (first, second) = (&mut before[first], &mut after[0]);
            for part in [&mut *first, &mut *second] {
                self.merge_columns(&mut part.row, part.done..own, lowest, part.size);
            }
            let higher = lowest as usize + 1..;
            dispatch(MergeRows {
                recurrence,
                union,
                to: &mut first.row[higher.clone()],
                other: &second.row[higher.clone()],
                sizes: &sizes[higher],
            });
            first.size = union.size();
            first.done = own;
        }
        let whole = &mut parts[0];
        let rest = whole.done..self.steps.len();
        self.merge_columns(&mut whole.row, rest, lowest, whole.size);
    }
}

/// A part of a cluster that is being put together.
struct Part {
    slot: u32,
    size: f64,
    /// Its dissimilarities by slot, from the lowest of the cluster on.
    row: Vec<f64>,
    /// How many steps its row has gone through.
    done: usize,
}

/// Some columns of the dissimilarities in [`ROWS`] rows, which are asked for after the rows have
/// gone by.
#[derive(Default)]
struct Columns {
    /// Which, in increasing order.
    slots: Vec<u32>,
    /// [`ROWS`] of each.
    values: Vec<f64>,
}

impl Columns {
    fn of(&self, slot: u32) -> &[f64] {
        let at = self.slots.binary_search(&slot).expect("was asked for");
        &self.values[at * ROWS..][..ROWS]
    }
}

/// Rows to go by: those of old slots from `start` on.
struct Block<'m, T> {
    start: usize,
    /// New slots of those that merge with nothing, and where their rows go.
    rows: Vec<(usize, &'m mut [T])>,
    columns: &'m mut Columns,
}

impl<T: Stored> CpuDissimilarities<'_, T> {
    /// Fills in what becomes of the clusters; the threads see it.
    fn fill(
        &self,
        plan: &Plan,
        contracted: &mut Condensed<T>,
        threads: &mut [Thread],
        monitor: &Monitor,
    ) -> Result<()> {
        let before = self.clusters();
        let mut columns: Vec<Columns> = (0..before.div_ceil(ROWS))
            .map(|_| Columns::default())
            .collect();
        for (&lowest, others) in plan.lowest.iter().zip(&plan.others) {
            for &other in others {
                for block in &mut columns[lowest as usize / ROWS..=other as usize / ROWS] {
                    block.slots.push(other);
                }
            }
        }
        let starts = (0..before).step_by(ROWS);
        let mut blocks: Vec<Block<T>> = starts
            .zip(&mut columns)
            .map(|(start, columns)| Block {
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
        share(blocks, threads, |thread, block| {
            monitor.check()?;
            self.contract_block(plan, block, thread);
            Ok(())
        })?;
        share(clusters, threads, |thread, (new, row)| {
            monitor.check()?;
            self.contract_cluster(plan, &columns, (new, row), thread);
            Ok(())
        })
    }

    /// The new rows of a block, and the columns that are wanted of it.
    fn contract_block(&self, plan: &Plan, block: Block<T>, thread: &mut Thread) {
        let Block {
            start,
            rows,
            columns,
        } = block;
        columns.slots.sort_unstable();
        columns.values = vec![0.0; columns.slots.len() * ROWS];
        let mut rows = rows.into_iter().peekable();
        for slot in start..(start + ROWS).min(self.clusters()) {
            let row = self.row(slot, &mut thread.room);
            for (&column, values) in columns.slots.iter().zip(columns.values.chunks_mut(ROWS)) {
                if column as usize > slot {
                    values[slot - start] = row[column as usize - slot - 1];
                }
            }
            if let Some((new, to)) = rows.next_if(|(new, _)| plan.lowest[*new] as usize == slot) {
                thread.row[slot + 1..].copy_from_slice(row);
                let size = plan.contraction.sizes[slot];
                let all = 0..plan.steps.len();
                plan.merge_columns(&mut thread.row, all, slot as u32, size);
                write(&thread.row, &plan.lowest[new + 1..], to);
                let seen = T::as_stored(to, &mut thread.room);
                thread.watcher.see(new, seen);
            }
        }
    }

    /// The new row of a cluster that several have merged to.
    fn contract_cluster(
        &self,
        plan: &Plan,
        columns: &[Columns],
        (new, to): (usize, &mut [T]),
        thread: &mut Thread,
    ) {
        let lowest = plan.lowest[new];
        let slots = 1 + plan.others[new].len();
        while thread.parts.len() < slots {
            thread.parts.push(Part {
                slot: 0,
                size: 0.0,
                row: vec![0.0; self.clusters()],
                done: 0,
            });
        }
        let parts = &mut thread.parts[..slots];
        let slots = std::iter::once(&lowest).chain(&plan.others[new]);
        for (part, &slot) in parts.iter_mut().zip(slots) {
            part.slot = slot;
            part.size = plan.contraction.sizes[slot as usize];
            part.done = 0;
            self.load_row(slot as usize, &mut part.row[slot as usize + 1..]);
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
        thread.watcher.see(new, T::as_stored(to, &mut thread.room));
    }
}

/// Writes the dissimilarities in some slots.
fn write<T: Stored>(row: &[f64], slots: &[u32], to: &mut [T]) {
    dispatch(Write { row, slots, to });
}

/// [`write`] as a kernel.
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
            // All are there; but this way they are fetched several at a time.
            let value = self.row.get(slot as usize).copied().unwrap_or(f64::NAN);
            *to = T::store(value);
        }
    }
}

/// Merges two rows, as a kernel.
struct MergeRows<'a> {
    recurrence: Recurrence,
    union: &'a Union,
    to: &'a mut [f64],
    other: &'a [f64],
    sizes: &'a [f64],
}

impl WithSimd for MergeRows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let rows = self.to.iter_mut().zip(self.other).zip(self.sizes);
        for ((to, &other), &size) in rows {
            *to = self.recurrence.update(self.union, *to, other, size);
        }
    }
}
