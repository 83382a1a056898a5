//! The known nearest older neighbours of a cluster.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::mahalanobis::screen::ScreenAnswer;

/// A neighbour of a cluster, with a lower bound on its distance or the distance itself. Candidates
/// are ordered by value. At equal values, bounds come before distances: the distance behind the
/// bound may be equal, too, and then the lower slot comes first. At equal values of one kind, the
/// lower partner comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    /// The bits of the bound or distance. Both are ≥ 0, so their bits order them.
    pub value: u64,
    /// Whether the value is the distance.
    pub is_exact: bool,
    pub partner: u32,
    pub partner_birth: u32,
}

impl Candidate {
    /// This candidate with its distance in place of the bound.
    pub fn with_distance(self, distance: f64) -> Self {
        // The distance is NaN after an overflow. Then the tree is rejected at the end.
        debug_assert!(
            f64::from_bits(self.value) <= distance || distance.is_nan(),
            "the bound holds"
        );
        Self {
            value: distance.to_bits(),
            is_exact: true,
            ..self
        }
    }
}

/// The older neighbours of one cluster.
#[derive(Debug, Default)]
pub struct Candidates {
    pub heap: BinaryHeap<Reverse<Candidate>>,
    /// A lower bound on the distances to all older clusters outside the heap.
    pub floor: f64,
    /// Number of sweeps so far.
    pub sweeps: u32,
}

impl Candidates {
    /// The candidates in the answer to a sweep.
    pub fn new(answer: ScreenAnswer, births: &[u32]) -> Self {
        let candidate = |(bound, partner): (f64, u32)| {
            Reverse(Candidate {
                value: bound.to_bits(),
                is_exact: false,
                partner,
                partner_birth: births[partner as usize],
            })
        };
        Self {
            heap: answer.bounds.into_iter().map(candidate).collect(),
            floor: answer.floor,
            sweeps: 1,
        }
    }
}
