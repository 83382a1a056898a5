//! The k nearest references of a query.

use std::collections::BinaryHeap;

/// The k nearest references of a query by exact distance, ties by index. One object serves many
/// queries, one after the other, without new allocations.
#[derive(Default)]
pub struct TopK {
    /// The number k of references to keep.
    wanted: usize,
    /// The search radius.
    limit: f64,
    /// The nearest references so far, the farthest on top: bits of the distance (distances are ≥ 0,
    /// so their bits order them), then the index.
    heap: BinaryHeap<(u64, u32)>,
    sorted: Vec<(f64, u32)>,
}

impl TopK {
    /// Empties the list for a query that wants `wanted` references within `limit`.
    pub fn restart(&mut self, wanted: usize, limit: f64) {
        self.wanted = wanted;
        self.limit = limit;
        self.heap.clear();
    }

    /// Adds a reference if it is among the nearest so far.
    pub fn insert(&mut self, distance: f64, reference: u32) {
        if distance > self.limit {
            return;
        }
        self.heap.push((distance.to_bits(), reference));
        if self.heap.len() > self.wanted {
            self.heap.pop();
        }
    }

    /// An upper bound on the distance of any further reference among the nearest, if its index is
    /// above the indices of all references so far.
    pub fn limit_of_later(&self) -> f64 {
        match self.heap.peek() {
            Some(&(last, _)) if self.heap.len() == self.wanted && last > 0 => {
                f64::from_bits(last - 1)
            }
            Some(_) if self.heap.len() == self.wanted => f64::NEG_INFINITY,
            _ => self.limit,
        }
    }

    /// An upper bound on the distance of any further reference among the nearest.
    pub fn limit(&self) -> f64 {
        match self.heap.peek() {
            Some(&(last, _)) if self.heap.len() == self.wanted => f64::from_bits(last),
            _ => self.limit,
        }
    }

    /// Whether the whole list comes before this distance and index, so that no reference from there
    /// on can be among the nearest.
    pub fn is_before(&self, distance: f64, reference: u32) -> bool {
        match self.heap.peek() {
            Some(&last) if self.heap.len() == self.wanted => last < (distance.to_bits(), reference),
            _ => self.limit < distance,
        }
    }

    /// Distances and indices of the references, nearest first. Empties the list.
    pub fn sorted(&mut self) -> &[(f64, u32)] {
        let mut sorted = std::mem::take(&mut self.heap).into_sorted_vec();
        let nearest = sorted.drain(..).map(|(bits, i)| (f64::from_bits(bits), i));
        self.sorted.clear();
        self.sorted.extend(nearest);
        self.heap = sorted.into();
        &self.sorted
    }
}
