//! Search radii: estimates of the distances of a union's candidates.

use std::cmp::Reverse;

use super::active::ActiveClusters;
use super::tentative::PreparedMerge;

/// Ratio of sizes from which a merge hardly changes the larger cluster. Then the union's candidates
/// are estimated from the larger cluster's candidates alone. Only the time depends on it.
const LARGE_RATIO: usize = 8;

/// Factors of a radius after a search that found too few candidates, and too many. A second sweep
/// takes longer than a few useless candidates, so the radius grows faster than it shrinks. Only the
/// time depends on these and on the limits of the factor.
const GROWTH: f64 = 1.03;
const SHRINKAGE: f64 = 0.98;
const LEAST_FACTOR: f64 = 0.1;
const MOST_FACTOR: f64 = 10.0;

/// Ratio of found to wanted candidates above which the radius shrinks. More candidates cost more
/// time than an occasional second sweep. Only the time depends on it.
const MOST_FOUND_RATIO: usize = 8;

/// The clusters from whose candidates a union's candidates are estimated.
#[derive(Debug, Clone, Copy)]
enum EstimatedFrom {
    Both,
    Larger,
}

/// An estimate of the distance from a union to the farthest of its `wanted` nearest clusters.
#[derive(Debug, Clone, Copy)]
pub struct RadiusEstimate {
    from: EstimatedFrom,
    distance: f64,
}

impl RadiusEstimate {
    /// The estimate for the union of a pair. A bad estimate costs time only: a second sweep, or
    /// useless candidates.
    pub fn new(active: &ActiveClusters, pair: (u32, u32), wanted: usize) -> Self {
        let side = |slot: u32| {
            let near = active.neighbours(slot, pair).map(|c| c.value);
            (active.clusters.size(slot), near)
        };
        Self::of_sides(side(pair.0), side(pair.1), wanted)
    }

    /// The estimate for the union of a prepared merge's union and another slot's cluster.
    pub fn after(
        active: &ActiveClusters,
        prepared: &PreparedMerge,
        partner: u32,
        wanted: usize,
    ) -> Self {
        let (size, heap) = (
            prepared.tentative.merged.part().size(),
            &prepared.candidates.heap,
        );
        let others = heap.iter().filter(|Reverse(c)| c.partner != partner);
        let near = active.neighbours(partner, prepared.tentative.pair);
        Self::of_sides(
            (size, others.map(|Reverse(c)| c.value)),
            (active.clusters.size(partner), near.map(|c| c.value)),
            wanted,
        )
    }

    /// The estimate for the union of two clusters. Each cluster is given by its size and the
    /// distances of its neighbours, or lower bounds on these distances.
    fn of_sides(
        one: (usize, impl Iterator<Item = u64>),
        other: (usize, impl Iterator<Item = u64>),
        wanted: usize,
    ) -> Self {
        let mut values: Vec<u64> = Vec::with_capacity(8 * wanted);
        let from = if one.0 < other.0 {
            add_neighbours(&mut values, other, one, wanted)
        } else {
            add_neighbours(&mut values, one, other, wanted)
        };
        let wanted = wanted.min(values.len());
        let distance = if wanted == 0 {
            f64::INFINITY
        } else {
            f64::from_bits(*values.select_nth_unstable(wanted - 1).1)
        };
        Self { from, distance }
    }
}

/// Adds to `values` the distances of the larger cluster's neighbours, and those of the smaller
/// cluster's neighbours if the smaller cluster counts. Returns the clusters that count.
fn add_neighbours(
    values: &mut Vec<u64>,
    larger: (usize, impl Iterator<Item = u64>),
    smaller: (usize, impl Iterator<Item = u64>),
    wanted: usize,
) -> EstimatedFrom {
    values.extend(larger.1);
    if larger.0 >= LARGE_RATIO * smaller.0 && values.len() >= wanted {
        return EstimatedFrom::Larger;
    }
    values.extend(smaller.1);
    EstimatedFrom::Both
}

/// The search radius factors: the ratio of search radius to estimate, one for each kind of
/// estimate. They adapt so that a search finds a few times the number of candidates wanted.
#[derive(Debug)]
pub struct RadiusFactors([f64; 2]);

impl Default for RadiusFactors {
    fn default() -> Self {
        Self([1.0; 2])
    }
}

impl RadiusFactors {
    /// The search radius for an estimate, in data units.
    pub fn radius(&self, estimate: &RadiusEstimate) -> f64 {
        self.0[estimate.from as usize] * estimate.distance
    }

    /// Adapts a factor to the number of candidates that a search within its radius has found.
    pub fn learn(&mut self, estimate: &RadiusEstimate, found: usize, wanted: usize) {
        let adapted = if found < wanted {
            GROWTH
        } else if found > MOST_FOUND_RATIO * wanted {
            SHRINKAGE
        } else {
            1.0
        };
        let factor = &mut self.0[estimate.from as usize];
        *factor = (*factor * adapted).clamp(LEAST_FACTOR, MOST_FACTOR);
    }
}
