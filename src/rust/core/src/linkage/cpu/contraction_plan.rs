//! The steps of a contraction, by old and new slots.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use crate::linkage::dissimilarities::{ContractedMerge, Contraction};
use crate::linkage::lance_williams::{MergedPair, Recurrence};
use crate::simd::dispatch;

/// A merge, and the lowest slot of the new cluster that it contributes to.
pub struct ContractionStep {
    pub merge: ContractedMerge,
    pub lowest: u32,
}

/// The old and the new slots of a contraction, and its steps.
pub struct ContractionPlan<'a> {
    pub contraction: &'a Contraction<'a>,
    pub steps: Vec<ContractionStep>,
    /// By new slot: the lowest old slot of its cluster.
    pub lowest: Vec<u32>,
    /// By new slot: the other old slots of its cluster, in increasing order.
    pub others: Vec<Vec<u32>>,
    /// By new slot: the steps that make it.
    own: Vec<Vec<usize>>,
}

impl<'a> ContractionPlan<'a> {
    /// The plan of a contraction.
    pub fn new(contraction: &'a Contraction<'a>) -> Self {
        let merges = contraction.merges;
        let mut lowest_of: Vec<u32> = (0..contraction.sizes.len() as u32).collect();
        for merge in merges.iter().rev() {
            lowest_of[merge.higher as usize] = lowest_of[merge.lower as usize];
        }
        let lowest: Vec<u32> = (0..lowest_of.len() as u32)
            .filter(|&slot| lowest_of[slot as usize] == slot)
            .collect();
        let mut others = vec![Vec::new(); lowest.len()];
        for (slot, &low) in lowest_of.iter().enumerate() {
            if low as usize != slot {
                let new = lowest
                    .binary_search(&low)
                    .expect("is the lowest of a new slot");
                others[new].push(slot as u32);
            }
        }
        let step = |&merge: &ContractedMerge| ContractionStep {
            merge,
            lowest: lowest_of[merge.lower as usize],
        };
        let steps: Vec<ContractionStep> = merges.iter().map(step).collect();
        let mut own = vec![Vec::new(); lowest.len()];
        for (at, step) in steps.iter().enumerate() {
            let new = lowest
                .binary_search(&step.lowest)
                .expect("is the lowest of a new slot");
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

    /// Applies those steps in `range` that merge clusters with higher slots to `row`. The row has
    /// the dissimilarities, by slot, of a cluster of size `size` with lowest slot `lowest`.
    pub fn merge_columns(&self, row: &mut [f64], range: Range<usize>, lowest: u32, size: f64) {
        let recurrence = self.contraction.recurrence;
        for step in &self.steps[range] {
            if step.lowest > lowest {
                let ContractedMerge {
                    lower,
                    higher,
                    pair,
                } = &step.merge;
                let (first, second) = (row[*lower as usize], row[*higher as usize]);
                row[*lower as usize] = recurrence.update(pair, first, second, size);
            }
        }
    }

    /// Merges the parts of the new cluster `new` and, within their rows, the columns of the other
    /// clusters, all in the order of the steps. The first part's row becomes the row of the new
    /// cluster.
    pub fn merge_parts(&self, parts: &mut [ClusterPart], new: usize) {
        let lowest = self.lowest[new];
        let recurrence = self.contraction.recurrence;
        let mut sizes = self.contraction.sizes.to_vec();
        let mut done = 0;
        for &own in &self.own[new] {
            let ContractedMerge {
                lower,
                higher,
                pair,
            } = &self.steps[own].merge;
            for step in &self.steps[done..own] {
                sizes[step.merge.lower as usize] = step.merge.pair.size();
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
                pair,
                to: &mut first.row[higher.clone()],
                other: &second.row[higher.clone()],
                sizes: &sizes[higher],
            });
            first.size = pair.size();
            first.done = own;
        }
        let whole = &mut parts[0];
        let rest = whole.done..self.steps.len();
        self.merge_columns(&mut whole.row, rest, lowest, whole.size);
    }
}

/// A part of a new cluster while it is computed.
pub struct ClusterPart {
    pub slot: u32,
    pub size: f64,
    /// Its dissimilarities by slot, from the lowest slot of the cluster on.
    pub row: Vec<f64>,
    /// Number of steps that have been applied to its row.
    pub done: usize,
}

/// A kernel that updates a row by a merge with another row.
struct MergeRows<'a> {
    recurrence: Recurrence,
    pair: &'a MergedPair,
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
            *to = self.recurrence.update(self.pair, *to, other, size);
        }
    }
}
