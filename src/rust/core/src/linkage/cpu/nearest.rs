//! The nearest clusters of some, while rows of dissimilarities go by in any order.
//!
//! Of equal dissimilarities those to lower slots count as nearer. Where many are equal, rows that go
//! by from the last on would each bring a nearer one for every cluster. So the [`FIRST`] rows should
//! go by before all others: where they hold the nearest of a cluster, no equal one that comes later
//! is nearer.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::super::dissimilarities::{Nearest, Neighbour};
use crate::simd::{dispatch, doubles};

/// Dissimilarities looked at together: the lanes of the widest registers.
const TOGETHER: usize = 8;

/// Rows that should go by first: as many as may hold all neighbours that are sought, and some more.
pub const FIRST: usize = 64;

/// Into how many parts a row is divided for each neighbour that is sought: so many that the nearest
/// ones are mostly in different parts.
const PARTS: usize = 8;

/// The nearest of some clusters among all dissimilarities that any thread saw.
pub struct NearestSoFar {
    /// How many are sought of each.
    each: usize,
    /// By slot; only those of the wanted ones are ever filled.
    found: Vec<Mutex<Found>>,
    wanted: Vec<u32>,
}

/// The nearest of a cluster, and some more.
struct Found {
    neighbours: Vec<Neighbour>,
    /// What comes after this is not among the nearest.
    limit: Neighbour,
}

/// After all others.
const LAST: Neighbour = Neighbour {
    dissimilarity: f64::INFINITY,
    slot: u32::MAX,
};

impl Found {
    fn new() -> Self {
        Self {
            neighbours: Vec::new(),
            limit: LAST,
        }
    }

    /// The greatest dissimilarity of any from this slot on that can be among the nearest.
    fn limit_from(&self, slot: usize) -> f64 {
        if (self.limit.slot as usize) < slot {
            self.limit.dissimilarity.next_down()
        } else {
            self.limit.dissimilarity
        }
    }

    /// Takes another one in, unless it is too far.
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
    /// Of the `wanted` ones among `clusters` clusters.
    pub fn new(clusters: usize, wanted: &[u32]) -> Self {
        Self {
            each: Nearest::of_each(clusters),
            found: (0..clusters).map(|_| Mutex::new(Found::new())).collect(),
            wanted: wanted.to_vec(),
        }
    }

    /// What one thread has to know.
    pub fn watcher(&self) -> Watcher<'_> {
        let mut limits = vec![f64::NEG_INFINITY; self.found.len()];
        for &slot in &self.wanted {
            limits[slot as usize] = f64::INFINITY;
        }
        Watcher {
            nearest: self,
            limits,
            limits_in_first: Vec::new(),
            own: Found::new(),
            minima: vec![0.0; PARTS * self.each],
        }
    }

    fn found(&self, slot: usize) -> MutexGuard<'_, Found> {
        // Nothing panics while it holds the lock, so what is poisoned is whole all the same.
        self.found[slot]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Those of the wanted ones.
    pub fn finish(self) -> Nearest {
        let nearest = |&slot: &u32| {
            let mut neighbours = std::mem::take(&mut self.found(slot as usize).neighbours);
            neighbours.sort_unstable();
            neighbours.truncate(self.each);
            neighbours
        };
        let neighbours = self.wanted.par_iter().flat_map_iter(nearest).collect();
        Nearest::new(neighbours, self.each)
    }
}

/// One thread's part in a search.
pub struct Watcher<'a> {
    nearest: &'a NearestSoFar,
    /// By slot: what is farther than this does not matter, in rows from [`FIRST`] on. Those of the
    /// search may be lower.
    limits: Vec<f64>,
    /// The same in a row before [`FIRST`].
    limits_in_first: Vec<f64>,
    /// The nearest in the row that goes by.
    own: Found,
    /// Room for the least of each part of a row.
    minima: Vec<f64>,
}

impl Watcher<'_> {
    /// The dissimilarities of a cluster and all in higher slots go by.
    pub fn see(&mut self, slot: usize, row: &[f64]) {
        let is_first = slot < FIRST;
        if is_first {
            // What equals a limit in a later row may be nearer than that in this one.
            let limits = self.limits.iter().map(|limit| limit.next_up());
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
        dispatch(See {
            watcher: self,
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

    /// What at least as many values of a row as are sought are not above.
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

    /// The dissimilarities of a cluster and those in slots from `first` on.
    fn see_some(&mut self, slot: usize, first: usize, values: &[f64]) {
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

/// The least of each part of a row, as a kernel. There are as many parts as minima, each of every
/// so-manieth value.
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

/// A row going by, as a kernel.
struct See<'w, 'a> {
    watcher: &'w mut Watcher<'a>,
    slot: usize,
    row: &'w [f64],
}

impl WithSimd for See<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { watcher, slot, row } = self;
        let (whole, rest) = row.as_chunks::<TOGETHER>();
        for (block, values) in whole.iter().enumerate() {
            let first = slot + 1 + block * TOGETHER;
            let limits = doubles::<S>(&watcher.limits[first..][..TOGETHER]);
            let own = simd.splat_f64s(watcher.own.limit_from(first));
            // None yet.
            let mut near = simd.less_than_f64s(own, own);
            for (&value, &limit) in doubles::<S>(values).iter().zip(limits) {
                let limit = simd.max_f64s(own, limit);
                near = simd.or_m64s(near, simd.less_than_or_equal_f64s(value, limit));
            }
            if simd.first_true_m64s(near) < S::F64_LANES {
                watcher.see_some(slot, first, values);
            }
        }
        watcher.see_some(slot, slot + 1 + whole.len() * TOGETHER, rest);
    }
}
