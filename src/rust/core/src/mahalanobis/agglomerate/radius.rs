//! Search radii: how far the candidates of a union probably are.

use std::cmp::Reverse;

use super::active::ActiveClusters;
use super::tentative::PreparedMerge;

/// Ratio of sizes from which on the larger cluster hardly changes in a merge, so that its own
/// candidates tell those of the union. Only the time depends on it.
const LARGE_RATIO: usize = 8;

/// Candidates in an answer, as a multiple of those wanted, from which on the radius shrinks. To
/// make more takes longer than an occasional second sweep.
const MANY: usize = 8;

/// The clusters whose candidates tell those of a union.
#[derive(Debug, Clone, Copy)]
enum GuessedBy {
    Both,
    Larger,
}

/// An estimate of the distance of the last of the candidates wanted of a union.
#[derive(Debug, Clone, Copy)]
pub struct Guess {
    by: GuessedBy,
    distance: f64,
}

impl Guess {
    /// For the union of a pair. A bad guess costs time only: a second sweep, or useless candidates.
    pub fn new(active: &ActiveClusters, pair: (u32, u32), wanted: usize) -> Self {
        let side = |slot: u32| {
            let near = active.neighbours(slot, pair).map(|c| c.value);
            (active.clusters.size(slot), near)
        };
        Self::of_sides(side(pair.0), side(pair.1), wanted)
    }

    /// For the union of a prepared merge's union and another slot's cluster.
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

    /// For the union of two clusters with these sizes and distances, or bounds, of their
    /// neighbours.
    fn of_sides(
        one: (usize, impl Iterator<Item = u64>),
        other: (usize, impl Iterator<Item = u64>),
        wanted: usize,
    ) -> Self {
        let mut values: Vec<u64> = Vec::with_capacity(8 * wanted);
        let by = if one.0 < other.0 {
            known_by(&mut values, other, one, wanted)
        } else {
            known_by(&mut values, one, other, wanted)
        };
        let wanted = wanted.min(values.len());
        let distance = if wanted == 0 {
            f64::INFINITY
        } else {
            f64::from_bits(*values.select_nth_unstable(wanted - 1).1)
        };
        Self { by, distance }
    }
}

/// Adds to `values` those of the clusters that tell the candidates of their union.
fn known_by(
    values: &mut Vec<u64>,
    larger: (usize, impl Iterator<Item = u64>),
    smaller: (usize, impl Iterator<Item = u64>),
    wanted: usize,
) -> GuessedBy {
    values.extend(larger.1);
    if larger.0 >= LARGE_RATIO * smaller.0 && values.len() >= wanted {
        return GuessedBy::Larger;
    }
    values.extend(smaller.1);
    GuessedBy::Both
}

/// The search radius factors: the ratios of the search radius and the guess, by the kind of guess.
/// They adapt so that a search finds a few times as many as wanted.
#[derive(Debug)]
pub struct RadiusFactors([f64; 2]);

impl Default for RadiusFactors {
    fn default() -> Self {
        Self([1.0; 2])
    }
}

impl RadiusFactors {
    /// The search radius for a guess, in data units.
    pub fn radius(&self, guess: &Guess) -> f64 {
        self.0[guess.by as usize] * guess.distance
    }

    /// Learns the number of candidates that a search within its radius has found.
    pub fn learn(&mut self, guess: &Guess, found: usize, wanted: usize) {
        let adapted = if found < wanted {
            1.03
        } else if found > MANY * wanted {
            0.98
        } else {
            1.0
        };
        let factor = &mut self.0[guess.by as usize];
        *factor = (*factor * adapted).clamp(0.1, 10.0);
    }
}
