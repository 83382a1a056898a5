//! Sets of points that threads unite, many at a time, with the root of its set at each point.

use rayon::prelude::*;

use crate::error::Result;
use crate::memory;

/// First words of a memory error, before the number of bytes.
const COMPONENTS: &str = "the components of a spanning tree need";

/// Number of points per task of a thread. Only the time depends on it.
const POINTS_PER_TASK: usize = 1 << 12;

/// Disjoint sets of points, many of which are united at a time. For two at a time, see
/// [`DisjointSets`](super::disjoint_sets::DisjointSets).
pub struct LabelledSets {
    /// By point: the root of its set; a root is its own root.
    roots: Vec<u32>,
    /// As `roots`, while they change.
    next: Vec<u32>,
    /// By root: number of points.
    sizes: Vec<u32>,
}

impl LabelledSets {
    /// One set for each of `n` points.
    pub fn new(n: usize) -> Result<Self> {
        Ok(Self {
            roots: memory::collected(COMPONENTS, 0..n as u32)?,
            next: memory::collected(COMPONENTS, 0..n as u32)?,
            sizes: memory::filled(COMPONENTS, n, 1)?,
        })
    }

    /// By point, the root of its set.
    pub fn roots(&self) -> &[u32] {
        &self.roots
    }

    /// Unites sets, on the threads of the calling pool. `other(root, roots)` returns the root of
    /// the set with which the set of `root` is united, or `None`. Two roots may name each other;
    /// longer cycles are not allowed. Returns the former roots, in increasing order.
    ///
    /// # Panics
    /// If there is a longer cycle.
    pub fn unite_all(&mut self, other: impl Fn(u32, &[u32]) -> Option<u32> + Sync) -> Vec<u32> {
        let Self { roots, next, sizes } = self;
        let before = &*roots;
        // Of two roots that name each other, the lower one stays.
        let target = |root: u32| {
            let to = other(root, before)?;
            (to < root || other(to, before) != Some(root)).then_some(to)
        };
        let points = (0..before.len() as u32)
            .into_par_iter()
            .with_min_len(POINTS_PER_TASK);
        let united: Vec<(u32, u32)> = points
            .filter(|&point| before[point as usize] == point)
            .filter_map(|root| Some((root, target(root)?)))
            .collect();
        for &(root, to) in &united {
            roots[root as usize] = to;
        }
        // Pointer jumping: halves the depth of each point until every point refers to its root.
        for _ in 0..=u32::BITS {
            let ways = next
                .par_iter_mut()
                .zip(&*roots)
                .with_min_len(POINTS_PER_TASK);
            ways.for_each(|(next, &way)| *next = roots[way as usize]);
            let is_there = (next.par_iter().zip(&*roots)).all(|(next, way)| next == way);
            std::mem::swap(roots, next);
            if is_there {
                for &(root, _) in &united {
                    sizes[roots[root as usize] as usize] += sizes[root as usize];
                }
                return united.into_iter().map(|(root, _)| root).collect();
            }
        }
        unreachable!("there is no cycle");
    }

    /// The root of the largest set.
    pub fn largest(&self) -> u32 {
        let roots = (0..self.roots.len() as u32).filter(|&p| self.roots[p as usize] == p);
        roots
            .max_by_key(|&root| self.sizes[root as usize])
            .expect("there are points")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    #[test]
    fn sets_are_united_along_chains_of_any_length() {
        let n = 10_000;
        for chain in [1, 2, 3, 1000, n] {
            let mut sets = LabelledSets::new(n as usize).unwrap();
            // Each names the next one, and the last two of a chain name each other.
            let other = |point: u32, _: &[u32]| {
                let is_last = point % chain == chain - 1 || point == n - 1;
                let is_first = point % chain == 0;
                match (is_last, is_first) {
                    (true, true) => None,
                    (true, false) => Some(point - 1),
                    (false, _) => Some(point + 1),
                }
            };
            let gone = sets.unite_all(other);
            let count = n.div_ceil(chain);
            assert_eq!(gone.len() as u32, n - count);
            for point in 0..n {
                assert_eq!(sets.roots()[point as usize] / chain, point / chain);
            }
            let largest = sets.largest();
            assert_eq!(sets.roots()[largest as usize], largest);
            assert_eq!(sets.sizes[largest as usize], chain.min(n));
        }
    }

    #[test]
    fn sets_are_those_of_a_slow_union() {
        let mut random = Random::of(5);
        for _ in 0..50 {
            let n = 2 + random.below(60);
            let mut sets = LabelledSets::new(n).unwrap();
            let mut labels: Vec<u32> = (0..n as u32).collect();
            for _ in 0..4 {
                // Each set names one with a lower root, or none.
                let targets: Vec<Option<u32>> = (0..n)
                    .map(|root| {
                        let lower: Vec<u32> = (0..root as u32)
                            .filter(|&other| sets.roots()[other as usize] == other)
                            .collect();
                        let some = random.below(2 * lower.len() + 1);
                        lower.get(some).copied()
                    })
                    .collect();
                for root in (0..n).filter(|&root| sets.roots()[root] == root as u32) {
                    if let Some(to) = targets[root] {
                        let (own, new) = (labels[root], labels[to as usize]);
                        labels
                            .iter_mut()
                            .filter(|label| **label == own)
                            .for_each(|l| *l = new);
                    }
                }
                sets.unite_all(|root, _| targets[root as usize]);
                for (a, b) in (0..n).flat_map(|a| (0..a).map(move |b| (a, b))) {
                    let same = sets.roots()[a] == sets.roots()[b];
                    assert_eq!(same, labels[a] == labels[b]);
                }
            }
        }
    }
}
