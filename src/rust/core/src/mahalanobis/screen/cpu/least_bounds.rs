//! The smallest lower bounds that a sweep has found.

use std::collections::BinaryHeap;

use crate::mahalanobis::screen::request::ScreenAnswer;

/// The smallest lower bounds of a sweep, at most `capacity` of them.
#[derive(Debug)]
pub struct LeastBounds {
    capacity: usize,
    /// Bounds at or above it are not wanted.
    ceiling: f32,
    /// Bits of the bound (bounds are ≥ 0, so their bits order them), then the slot.
    heap: BinaryHeap<u64>,
}

impl LeastBounds {
    pub fn new(capacity: usize, ceiling: f32) -> Self {
        Self {
            capacity,
            ceiling,
            heap: BinaryHeap::with_capacity(capacity + 1),
        }
    }

    /// Bounds at or above it are not kept.
    #[inline(always)]
    pub fn limit(&self) -> f32 {
        if self.heap.len() < self.capacity {
            return self.ceiling;
        }
        self.heap
            .peek()
            .map_or(self.ceiling, |top| f32::from_bits((top >> 32) as u32))
    }

    #[inline(always)]
    pub fn insert(&mut self, bound: f32, slot: u32) {
        self.heap
            .push((u64::from(bound.to_bits()) << 32) | u64::from(slot));
        if self.heap.len() > self.capacity {
            self.heap.pop();
        }
    }

    /// The smallest of these and of another part of the sweep.
    pub fn merge(mut self, other: LeastBounds) -> LeastBounds {
        for key in other.heap {
            self.heap.push(key);
            if self.heap.len() > self.capacity {
                self.heap.pop();
            }
        }
        self
    }

    /// The bounds in data units, `unit` of them per screen unit.
    pub fn into_answer(self, unit: f64) -> ScreenAnswer {
        let floor = f64::from(self.limit()) * unit;
        let bound = |key: u64| {
            let bound = f32::from_bits((key >> 32) as u32);
            (f64::from(bound) * unit, key as u32)
        };
        ScreenAnswer {
            bounds: self.heap.into_iter().map(bound).collect(),
            floor,
        }
    }
}
