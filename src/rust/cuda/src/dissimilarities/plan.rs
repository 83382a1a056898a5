//! The division of a contraction into batches of independent steps.

use std::ops::Range;

use gmhclust_core::linkage::dissimilarities::Contraction;

use super::launch::{Step, NONE};

/// The steps of a contraction.
pub struct Plan {
    pub steps: Vec<Step>,
    /// The steps, divided into batches: steps of one batch have no slot in common.
    pub batches: Vec<Range<usize>>,
    /// The slots of the remaining clusters.
    pub active: Vec<u32>,
}

impl Plan {
    pub fn new(contraction: &Contraction) -> Self {
        let n = contraction.sizes.len();
        let mut batches = Vec::new();
        let mut steps = Vec::with_capacity(contraction.merges.len());
        let mut first = 0;
        // For each slot, the last step in which its cluster took part.
        let mut last = vec![NONE; n];
        let mut is_gone = vec![false; n];
        for (at, merge) in contraction.merges.iter().enumerate() {
            let slots = [merge.lower, merge.higher];
            let before = slots.map(|slot| last[slot as usize]);
            if before
                .iter()
                .any(|&step| step != NONE && step as usize >= first)
            {
                batches.push(first..at);
                first = at;
            }
            steps.push(Step {
                height: merge.pair.height,
                sizes: merge.pair.sizes,
                lower: merge.lower,
                higher: merge.higher,
                merged: before.map(|step| u32::from(step != NONE)),
            });
            for slot in slots {
                last[slot as usize] = at as u32;
            }
            is_gone[merge.higher as usize] = true;
        }
        if first < steps.len() {
            batches.push(first..steps.len());
        }
        let active = |&slot: &u32| !is_gone[slot as usize];
        Self {
            steps,
            batches,
            active: (0..n as u32).filter(active).collect(),
        }
    }
}
