//! The smallest lower bounds that a sweep has found.

use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::mahalanobis::screen::request::ScreenAnswer;

/// The smallest limit that any part of a sweep has found. No part has to search for bounds at or
/// above this limit.
#[derive(Debug)]
pub struct SharedLimit(AtomicU32);

impl SharedLimit {
    pub fn new(limit: f32) -> Self {
        Self(AtomicU32::new(limit.to_bits()))
    }

    #[inline(always)]
    pub fn get(&self) -> f32 {
        f32::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// Limits are ≥ 0, so their bits order them.
    #[inline(always)]
    pub fn lower(&self, limit: f32) {
        if limit < self.get() {
            self.0.fetch_min(limit.to_bits(), Ordering::Relaxed);
        }
    }
}

/// The top-k heap of a sweep: at most `capacity` lower bounds, the smallest that it has found.
#[derive(Debug)]
pub struct LeastBounds {
    capacity: usize,
    /// Bounds at or above this limit are not kept.
    limit: f32,
    /// The keys: the bits of a bound, then its slot. Bounds are ≥ 0, so their bits order them.
    heap: BinaryHeap<u64>,
}

impl LeastBounds {
    /// An empty heap. Bounds at or above `limit` are not wanted.
    pub fn new(capacity: usize, limit: f32) -> Self {
        Self {
            capacity,
            limit,
            heap: BinaryHeap::with_capacity(capacity + 1),
        }
    }

    /// Bounds at or above this limit are not kept.
    #[inline(always)]
    pub fn limit(&self) -> f32 {
        self.limit
    }

    /// Lowers the limit to `limit`. A higher `limit` changes nothing.
    #[inline(always)]
    pub fn lower_limit(&mut self, limit: f32) {
        self.limit = self.limit.min(limit);
    }

    #[inline(always)]
    pub fn insert(&mut self, bound: f32, slot: u32) {
        self.push((u64::from(bound.to_bits()) << 32) | u64::from(slot));
    }

    #[inline(always)]
    fn push(&mut self, key: u64) {
        self.heap.push(key);
        if self.heap.len() > self.capacity {
            self.heap.pop();
        }
        if self.heap.len() == self.capacity {
            let greatest = self.heap.peek().copied().unwrap_or(0);
            self.lower_limit(f32::from_bits((greatest >> 32) as u32));
        }
    }

    /// The smallest bounds of this part and another part of the sweep.
    pub fn merge(mut self, other: LeastBounds) -> LeastBounds {
        self.lower_limit(other.limit);
        for key in other.heap {
            self.push(key);
        }
        self
    }

    /// The bounds in data units. `unit` is the number of data units per screen unit.
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
