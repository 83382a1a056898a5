//! The nearest references of a query so far.

use std::collections::BinaryHeap;

/// The nearest of the references that were decided, ties by index: of one query after the other,
/// in the same memory.
#[derive(Default)]
pub struct Best {
    wanted: usize,
    limit: f64,
    /// Bits of the distance (distances are ≥ 0, so their bits order them), then the index.
    heap: BinaryHeap<(u64, u32)>,
    sorted: Vec<(f64, u32)>,
}

impl Best {
    /// None yet.
    pub fn restart(&mut self, wanted: usize, limit: f64) {
        self.wanted = wanted;
        self.limit = limit;
        self.heap.clear();
    }

    pub fn insert(&mut self, distance: f64, reference: u32) {
        if distance > self.limit {
            return;
        }
        self.heap.push((distance.to_bits(), reference));
        if self.heap.len() > self.wanted {
            self.heap.pop();
        }
    }

    /// No reference farther away is among the nearest, if its index is above all those that came
    /// before.
    pub fn limit_of_later(&self) -> f64 {
        match self.heap.peek() {
            Some(&(last, _)) if self.heap.len() == self.wanted && last > 0 => {
                f64::from_bits(last - 1)
            }
            Some(_) if self.heap.len() == self.wanted => f64::NEG_INFINITY,
            _ => self.limit,
        }
    }

    /// No reference farther away is among the nearest.
    pub fn limit(&self) -> f64 {
        match self.heap.peek() {
            Some(&(last, _)) if self.heap.len() == self.wanted => f64::from_bits(last),
            _ => self.limit,
        }
    }

    /// Whether no reference from this distance and index on can be among the nearest.
    pub fn is_before(&self, distance: f64, reference: u32) -> bool {
        match self.heap.peek() {
            Some(&last) if self.heap.len() == self.wanted => last < (distance.to_bits(), reference),
            _ => self.limit < distance,
        }
    }

    /// Distances and indices of all, nearest first; there are none from then on.
    pub fn sorted(&mut self) -> &[(f64, u32)] {
        let mut sorted = std::mem::take(&mut self.heap).into_sorted_vec();
        let nearest = sorted.drain(..).map(|(bits, i)| (f64::from_bits(bits), i));
        self.sorted.clear();
        self.sorted.extend(nearest);
        self.heap = sorted.into();
        &self.sorted
    }
}
