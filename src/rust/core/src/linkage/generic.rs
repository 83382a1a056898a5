//! Müllner's generic algorithm (arXiv:1109.2378), for any linkage, also with inversions: each step
//! merges the nearest of all pairs.

use std::cmp::Ordering;

use super::active_slots::ActiveSlots;
use super::condensed::{check, CondensedMatrix, Stored};
use super::dissimilarities::Neighbour;
use super::lance_williams::{MergedPair, Recurrence};
use crate::error::Result;
use crate::merge::Merge;
use crate::monitor::Monitor;

/// The merges that join all clusters of `matrix`, whose sizes are `sizes`, in order. Overwrites
/// `matrix`.
///
/// Each cluster keeps its nearest neighbour among higher slots. If the neighbour becomes farther,
/// its old dissimilarity stays as a lower bound, and a new search is made only when this bound is
/// the least of all. Takes O(n²) time in practice, O(n³) in the worst case.
///
/// # Errors
/// `Error::Input` if a dissimilarity cannot be used; `Error::Interrupt` when the monitor says stop.
pub fn merges<T: Stored>(
    recurrence: Recurrence,
    sizes: Vec<f64>,
    matrix: &mut CondensedMatrix<T>,
    monitor: &Monitor,
) -> Result<Vec<Merge>> {
    let n = sizes.len();
    let mut state = Generic {
        recurrence,
        active: ActiveSlots::new(n),
        nearest: Vec::with_capacity(n),
        exact: vec![true; n],
        sizes,
        matrix,
    };
    let mut scratch = vec![0.0; n];
    for slot in 0..n - 1 {
        monitor.check()?;
        check::<T>(T::to_doubles(state.matrix.row(slot), &mut scratch), slot)?;
        let nearest = state.search_above(slot);
        state.nearest.push(nearest);
        monitor.advance((n - 1 - slot) as u64);
    }
    let mut merges = Vec::with_capacity(n - 1);
    while state.active.len() > 1 {
        let lower = state.least(monitor)?;
        merges.push(state.merge(lower));
        monitor.advance(state.active.len() as u64);
    }
    Ok(merges)
}

/// The clusters between two merges.
struct Generic<'a, T> {
    recurrence: Recurrence,
    sizes: Vec<f64>,
    matrix: &'a mut CondensedMatrix<T>,
    active: ActiveSlots,
    /// By slot: the nearest cluster in a higher slot or, if not `exact`, a lower bound on its
    /// dissimilarity.
    nearest: Vec<Neighbour>,
    exact: Vec<bool>,
}

impl<T: Stored> Generic<'_, T> {
    /// The nearest cluster in a slot above `slot`, which must not be the highest.
    fn search_above(&self, slot: usize) -> Neighbour {
        let neighbours = self.active.above(slot).map(|other| Neighbour {
            dissimilarity: self.matrix.get(slot, other),
            slot: other as u32,
        });
        neighbours.min().expect("there are higher ones")
    }

    /// The lower slot of the nearest of all pairs.
    ///
    /// # Errors
    /// `Error::Interrupt` when the monitor says stop.
    fn least(&mut self, monitor: &Monitor) -> Result<usize> {
        let highest = self.active.last();
        loop {
            monitor.check()?;
            let slots = self.active.below(highest);
            let least = slots
                .min_by(|&a, &b| {
                    let [a, b] = [a, b].map(|slot| self.nearest[slot].dissimilarity);
                    // NaN after an overflow in single precision; the height is rejected at the end.
                    a.partial_cmp(&b).unwrap_or(Ordering::Equal)
                })
                .expect("there are two");
            if self.exact[least] {
                return Ok(least);
            }
            self.nearest[least] = self.search_above(least);
            self.exact[least] = true;
        }
    }

    /// Merges the cluster in this slot with its nearest neighbour.
    fn merge(&mut self, lower: usize) -> Merge {
        let nearest = self.nearest[lower];
        let higher = nearest.slot as usize;
        let pair = MergedPair {
            height: nearest.dissimilarity,
            sizes: [self.sizes[lower], self.sizes[higher]],
        };
        self.active.remove(higher);
        for slot in self.active.iter().filter(|&slot| slot != lower) {
            let first = self.matrix.get(lower, slot);
            let second = self.matrix.get(higher, slot);
            let updated = self
                .recurrence
                .update(&pair, first, second, self.sizes[slot]);
            self.matrix.set(lower, slot, updated);
        }
        self.sizes[lower] = pair.size();
        for slot in self.active.below(lower) {
            let updated = Neighbour {
                dissimilarity: self.matrix.get(lower, slot),
                slot: lower as u32,
            };
            let before = self.nearest[slot].slot as usize;
            if updated <= self.nearest[slot] {
                self.nearest[slot] = updated;
                self.exact[slot] = true;
            } else if before == lower || before == higher {
                self.exact[slot] = false;
            }
        }
        for slot in self.active.above(lower).take_while(|&slot| slot < higher) {
            if self.nearest[slot].slot as usize == higher {
                self.exact[slot] = false;
            }
        }
        if lower < self.active.last() {
            self.nearest[lower] = self.search_above(lower);
            self.exact[lower] = true;
        }
        Merge {
            lower: lower as u32,
            higher: higher as u32,
            height: pair.height,
        }
    }
}
