//! Jaccard coefficients of the neighbours of two observations, as weights of the edges between
//! them.

use crate::error::Result;
use crate::memory;
use crate::monitor::Monitor;

/// First words of a memory error, before the number of bytes.
const WEIGHTS: &str = "the weights of the edges need";

/// Number of observations between two checks of the monitor: with 15 neighbours each, about a
/// millisecond. If larger, an interrupt is answered late.
const ROWS_PER_CHECK: usize = 1 << 12;

/// The Jaccard coefficient of the neighbours of the two ends of each edge: the size of the
/// intersection of two sets divided by the size of their union.
///
/// Observation i has an edge to each of `target[ends[i - 1]..ends[i]]`, its neighbours. Its set
/// contains its neighbours and itself. So the sets of the two ends of an edge share at least one
/// member, and no weight is 0. The result has a weight for each of `target`. Both sizes are
/// integers until the division.
///
/// The time is proportional to the sum, over all edges, of the size of the target's set.
///
/// # Errors
/// `Error::Memory`, `Error::Interrupt`.
///
/// # Panics
/// If `ends` does not increase to the length of `target`, or if a target is not an observation.
pub fn jaccard(ends: &[usize], target: &[u32], monitor: &Monitor) -> Result<Vec<f64>> {
    let sets = Sets::new(ends, target)?;
    let mut weights = memory::room(WEIGHTS, target.len())?;
    // By observation: the last observation whose marked set contains it.
    let mut marked = memory::filled(WEIGHTS, ends.len(), u32::MAX)?;
    let mut begin = 0;
    for (i, &end) in ends.iter().enumerate() {
        if i % ROWS_PER_CHECK == 0 {
            monitor.check()?;
        }
        let own = sets.of(i);
        for &member in own {
            marked[member as usize] = i as u32;
        }
        weights.extend(target[begin..end].iter().map(|&other| {
            let theirs = sets.of(other as usize);
            let is_shared = |&&member: &&u32| marked[member as usize] == i as u32;
            let shared = theirs.iter().filter(is_shared).count();
            shared as f64 / (own.len() + theirs.len() - shared) as f64
        }));
        begin = end;
    }
    Ok(weights)
}

/// For each observation, itself and its neighbours, each once.
struct Sets {
    ends: Vec<usize>,
    members: Vec<u32>,
}

impl Sets {
    fn new(ends: &[usize], target: &[u32]) -> Result<Self> {
        let mut sets = Self {
            ends: memory::room(WEIGHTS, ends.len())?,
            members: memory::room(WEIGHTS, ends.len() + target.len())?,
        };
        let mut begin = 0;
        let mut set = Vec::new();
        for (i, &end) in ends.iter().enumerate() {
            set.clear();
            set.push(i as u32);
            set.extend_from_slice(&target[begin..end]);
            set.sort_unstable();
            set.dedup();
            sets.members.extend_from_slice(&set);
            sets.ends.push(sets.members.len());
            begin = end;
        }
        Ok(sets)
    }

    fn of(&self, i: usize) -> &[u32] {
        let begin = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.members[begin..self.ends[i]]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::error::Error;
    use crate::testing::Random;

    /// The plain definition.
    fn reference(neighbours: &[Vec<u32>]) -> Vec<f64> {
        let set = |i: usize| -> BTreeSet<u32> {
            let own = neighbours[i].iter().copied();
            own.chain([i as u32]).collect()
        };
        let mut weights = Vec::new();
        for (i, own) in neighbours.iter().enumerate() {
            for &other in own {
                let (a, b) = (set(i), set(other as usize));
                let (shared, all) = (a.intersection(&b).count(), a.union(&b).count());
                weights.push(shared as f64 / all as f64);
            }
        }
        weights
    }

    fn weights(neighbours: &[Vec<u32>], monitor: &Monitor) -> Result<Vec<f64>> {
        let mut end = 0;
        let ends: Vec<usize> = neighbours
            .iter()
            .map(|own| {
                end += own.len();
                end
            })
            .collect();
        jaccard(&ends, &neighbours.concat(), monitor)
    }

    #[test]
    fn weights_are_those_of_the_definition() {
        let mut random = Random(1);
        for n in [1, 2, 3, 10, 60] {
            for most in [0, 1, 4, n] {
                // Lists of different lengths, with repetitions.
                let neighbours: Vec<Vec<u32>> = (0..n)
                    .map(|_| {
                        let length = random.below(most + 1);
                        (0..length).map(|_| random.below(n) as u32).collect()
                    })
                    .collect();
                let found = weights(&neighbours, &Monitor::default()).unwrap();
                assert_eq!(found, reference(&neighbours));
            }
        }
    }

    #[test]
    fn observations_count_as_their_own_neighbours() {
        // 0 and 1 are neighbours of each other only; 0 is a neighbour of 2, but 2 is not a
        // neighbour of 0.
        let neighbours = [vec![1], vec![0], vec![0]];
        let found = weights(&neighbours, &Monitor::default()).unwrap();
        assert_eq!(found, [1.0, 1.0, 1.0 / 3.0]);
    }

    #[test]
    fn a_stop_ends_it() {
        let monitor = Monitor::default();
        monitor.stop();
        assert_eq!(
            weights(&[vec![1], vec![0]], &monitor),
            Err(Error::Interrupt)
        );
    }
}
