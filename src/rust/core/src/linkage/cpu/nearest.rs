//! Finds the nearest clusters of some clusters, in a pass over the rows of dissimilarities in any
//! order.
//!
//! Of equal dissimilarities, the one to the lower slot is nearer. If many dissimilarities are
//! equal, a pass from the last row on would find a nearer neighbour for every cluster in every row.
//! So the first [`FIRST`] rows should be visited before all others: if they hold the nearest
//! neighbours of a cluster, no equal dissimilarity in a later row is nearer.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pulp::{as_arrays, Simd, WithSimd};
use rayon::prelude::*;

use crate::linkage::dissimilarities::{NearestClusters, Neighbour};
use crate::next_float::NextFloat;
use crate::simd::{dispatch, doubles};

/// Number of dissimilarities that are compared together: the lanes of the widest registers.
const LANES: usize = 8;

/// Number of rows to visit first; it should exceed the number of neighbours per cluster. Only the
/// time depends on it.
pub const FIRST: usize = 64;

/// Number of parts of a row per wanted neighbour: enough for the nearest neighbours to be mostly in
/// different parts. Only the time depends on it.
const PARTS: usize = 8;

/// The nearest clusters of some clusters, among all dissimilarities that any thread has visited.
pub struct NearestSoFar {
    /// Number of neighbours per cluster.
    each: usize,
    /// By slot; filled for wanted clusters only.
    found: Vec<Mutex<NearestOfOne>>,
    wanted: Vec<u32>,
}

/// The candidates for the nearest clusters of one cluster, fewer than twice the wanted number.
struct NearestOfOne {
    neighbours: Vec<Neighbour>,
    /// Neighbours that come after this one are not among the nearest.
    limit: Neighbour,
}

/// A neighbour that comes after all others.
const LAST: Neighbour = Neighbour {
    dissimilarity: f64::INFINITY,
    slot: u32::MAX,
};

impl NearestOfOne {
    fn new() -> Self {
        Self {
            neighbours: Vec::new(),
            limit: LAST,
        }
    }

    /// The greatest dissimilarity that a neighbour in this slot or a higher one can have to be
    /// among the nearest.
    fn limit_from(&self, slot: usize) -> f64 {
        if (self.limit.slot as usize) < slot {
            self.limit.dissimilarity.next_below()
        } else {
            self.limit.dissimilarity
        }
    }

    /// Adds a neighbour, unless it is after the limit.
    fn keep(&mut self, neighbour: Neighbour, each: usize) {
        if neighbour > self.limit {
            return;
        }
        self.neighbours.push(neighbour);
        if self.neighbours.len() == 2 * each {
            self.neighbours.select_nth_unstable(each - 1);
            self.neighbours.truncate(each);
            self.limit = self.neighbours[each - 1];
        }
    }
}

impl NearestSoFar {
    /// A search, without results yet, for the nearest clusters of the `wanted` slots among
    /// `clusters` clusters.
    pub fn new(clusters: usize, wanted: &[u32]) -> Self {
        Self {
            each: NearestClusters::of_each(clusters),
            found: (0..clusters)
                .map(|_| Mutex::new(NearestOfOne::new()))
                .collect(),
            wanted: wanted.to_vec(),
        }
    }

    /// The state of one thread.
    pub fn visitor(&self) -> RowVisitor<'_> {
        let mut limits = vec![f64::NEG_INFINITY; self.found.len()];
        for &slot in &self.wanted {
            limits[slot as usize] = f64::INFINITY;
        }
        RowVisitor {
            nearest: self,
            limits,
            limits_in_first: Vec::new(),
            own: NearestOfOne::new(),
            minima: vec![0.0; PARTS * self.each],
        }
    }

    fn found(&self, slot: usize) -> MutexGuard<'_, NearestOfOne> {
        // No code panics while it holds the lock, so a poisoned value is valid.
        self.found[slot]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The nearest clusters of the wanted clusters.
    pub fn finish(self) -> NearestClusters {
        let nearest = |&slot: &u32| {
            let mut neighbours = std::mem::take(&mut self.found(slot as usize).neighbours);
            neighbours.sort_unstable();
            neighbours.truncate(self.each);
            neighbours
        };
        let neighbours = self.wanted.par_iter().flat_map_iter(nearest).collect();
        NearestClusters::new(neighbours, self.each)
    }
}

/// One thread's part in a pass.
pub struct RowVisitor<'a> {
    nearest: &'a NearestSoFar,
    /// By slot: the greatest dissimilarity that can be among the nearest, in rows from [`FIRST`]
    /// on. The limits of the shared search may be lower.
    limits: Vec<f64>,
    /// The same limits for a row before [`FIRST`].
    limits_in_first: Vec<f64>,
    /// The nearest clusters in the current row.
    own: NearestOfOne,
    /// Room for the minimum of each part of a row.
    minima: Vec<f64>,
}

impl RowVisitor<'_> {
    /// Visits the dissimilarities of a cluster to the clusters in higher slots.
    pub fn visit(&mut self, slot: usize, row: &[f64]) {
        let is_first = slot < FIRST;
        if is_first {
            // A dissimilarity in this row that equals a limit from a later row may be nearer.
            let limits = self.limits.iter().map(|limit| limit.next_above());
            self.limits_in_first.clear();
            self.limits_in_first.extend(limits);
            std::mem::swap(&mut self.limits, &mut self.limits_in_first);
        }
        let mut limit = self.limits[slot];
        if limit > f64::NEG_INFINITY {
            limit = limit.min(self.bound(row));
        }
        self.own.limit = Neighbour {
            dissimilarity: limit,
            slot: u32::MAX,
        };
        dispatch(VisitRow {
            visitor: self,
            slot,
            row,
        });
        if is_first {
            std::mem::swap(&mut self.limits, &mut self.limits_in_first);
        }
        let Self { nearest, own, .. } = self;
        if !own.neighbours.is_empty() {
            let mut found = nearest.found(slot);
            for neighbour in own.neighbours.drain(..) {
                found.keep(neighbour, nearest.each);
            }
        }
    }

    /// An upper bound on the `each` smallest values of a row, where `each` is the wanted number of
    /// neighbours.
    fn bound(&mut self, row: &[f64]) -> f64 {
        let each = self.nearest.each;
        self.minima.fill(f64::INFINITY);
        dispatch(Minima {
            row,
            minima: &mut self.minima,
        });
        let (_, bound, _) = self.minima.select_nth_unstable_by(each - 1, f64::total_cmp);
        *bound
    }

    /// Visits the dissimilarities of a cluster to the clusters in slots from `first` on.
    fn visit_some(&mut self, slot: usize, first: usize, values: &[f64]) {
        let Self {
            nearest,
            limits,
            own,
            ..
        } = self;
        let each = nearest.each;
        for (other, &dissimilarity) in (first..).zip(values) {
            let seen_from = |slot: usize| Neighbour {
                dissimilarity,
                slot: slot as u32,
            };
            if dissimilarity <= own.limit_from(other) {
                own.keep(seen_from(other), each);
            }
            if dissimilarity <= limits[other] {
                let mut found = nearest.found(other);
                found.keep(seen_from(slot), each);
                limits[other] = found.limit_from(slot.min(FIRST));
            }
        }
    }
}

/// A kernel that finds the minimum of each part of a row. With m parts, part i holds the values i,
/// i + m, i + 2m, ….
struct Minima<'a> {
    row: &'a [f64],
    minima: &'a mut [f64],
}

impl WithSimd for Minima<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for values in self.row.chunks(self.minima.len()) {
            for (least, &value) in self.minima.iter_mut().zip(values) {
                *least = if value < *least { value } else { *least };
            }
        }
    }
}

/// A kernel that visits a row.
struct VisitRow<'w, 'a> {
    visitor: &'w mut RowVisitor<'a>,
    slot: usize,
    row: &'w [f64],
}

impl WithSimd for VisitRow<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { visitor, slot, row } = self;
        let (whole, rest) = as_arrays::<LANES, _>(row);
        for (block, values) in whole.iter().enumerate() {
            let first = slot + 1 + block * LANES;
            let limits = doubles::<S>(&visitor.limits[first..][..LANES]);
            let own = simd.splat_f64s(visitor.own.limit_from(first));
            // False in all lanes.
            let mut near = simd.less_than_f64s(own, own);
            for (&value, &limit) in doubles::<S>(values).iter().zip(limits) {
                let limit = simd.max_f64s(own, limit);
                near = simd.or_m64s(near, simd.less_than_or_equal_f64s(value, limit));
            }
            if simd.first_true_m64s(near) < S::F64_LANES {
                visitor.visit_some(slot, first, values);
            }
        }
        visitor.visit_some(slot, slot + 1 + whole.len() * LANES, rest);
    }
}
