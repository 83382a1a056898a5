//! Search radii: how far the candidates of a union probably are.

use super::active::ActiveClusters;
use super::candidates::CANDIDATES;

/// Ratio of sizes from which on the larger cluster hardly changes in a merge, so that its own
/// candidates tell those of the union. Only the time depends on it.
const LARGE_RATIO: usize = 8;

/// Number of candidates in an answer from which on the radius shrinks. To make more candidates takes
/// longer than an occasional second sweep.
const MANY_CANDIDATES: usize = 8 * CANDIDATES;

/// The clusters whose candidates tell those of a union.
#[derive(Debug, Clone, Copy)]
enum GuessedBy {
    Both,
    Larger,
}

/// An estimate of the distance of the [`CANDIDATES`]-th candidate of a union.
#[derive(Debug, Clone, Copy)]
pub struct Guess {
    by: GuessedBy,
    distance: f64,
}

impl Guess {
    /// For the union of a pair. A bad guess costs time only: a second sweep, or useless candidates.
    pub fn new(active: &ActiveClusters, pair: (u32, u32)) -> Self {
        let size = |slot: u32| active.clusters.size(slot);
        let (larger, smaller) = if size(pair.0) < size(pair.1) {
            (pair.1, pair.0)
        } else {
            pair
        };
        let known = |owner: u32| active.neighbours(owner, pair).map(|c| c.value);
        let mut values: Vec<u64> = Vec::with_capacity(8 * CANDIDATES);
        values.extend(known(larger));
        let hardly_changes = size(larger) >= LARGE_RATIO * size(smaller);
        let by = if hardly_changes && values.len() >= CANDIDATES {
            GuessedBy::Larger
        } else {
            values.extend(known(smaller));
            GuessedBy::Both
        };
        let wanted = CANDIDATES.min(values.len());
        let distance = if wanted == 0 {
            f64::INFINITY
        } else {
            f64::from_bits(*values.select_nth_unstable(wanted - 1).1)
        };
        Self { by, distance }
    }
}

/// The search radius factors: the ratios of the search radius and the guess, by the kind of guess.
/// They adapt so that a search finds a few times [`CANDIDATES`].
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
    pub fn learn(&mut self, guess: &Guess, found: usize) {
        let adapted = match found {
            0..CANDIDATES => 1.03,
            count if count > MANY_CANDIDATES => 0.98,
            _ => 1.0,
        };
        let factor = &mut self.0[guess.by as usize];
        *factor = (*factor * adapted).clamp(0.1, 10.0);
    }
}
