//! How well sets of leaves agree with the branches of another tree of some of these leaves: the
//! largest Jaccard coefficient (Hennig 2007, doi:10.1016/j.csda.2006.11.025).

use std::ops::Range;

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::merge::Merge;
use crate::monitor::Monitor;

/// A set of members of the leaves of a tree.
#[derive(Debug, Clone, PartialEq)]
pub enum LeafSet {
    /// All members of the leaves at these places in an order of the leaves.
    Branch(Range<usize>),
    /// By leaf, the number of its members that are in the set.
    Members(Vec<f64>),
}

/// Sets of members of leaves.
#[derive(Debug, Clone)]
pub struct LeafSets {
    /// By leaf, the number of its members.
    sizes: Vec<f64>,
    /// By leaf, its place in the order.
    places: Vec<usize>,
    sets: Vec<LeafSet>,
}

/// A tree of some of the leaves.
#[derive(Debug, Clone, PartialEq)]
pub struct SomeTree {
    /// By slot, the leaf.
    pub leaves: Vec<u32>,
    /// The merges of all slots, in order.
    pub merges: Vec<Merge>,
}

impl LeafSets {
    /// Sets of members, given the number of members of each leaf. `order` has each leaf once; a
    /// [`LeafSet::Branch`] is a range of its places.
    ///
    /// # Errors
    /// `Error::Input` if the arguments do not fit each other.
    pub fn new(sizes: Vec<f64>, order: &[usize], sets: Vec<LeafSet>) -> Result<Self> {
        let n = sizes.len();
        let mut places = vec![usize::MAX; n];
        for (place, &leaf) in order.iter().enumerate() {
            if let Some(to) = places.get_mut(leaf) {
                *to = place;
            }
        }
        let is_order = order.len() == n && !places.contains(&usize::MAX);
        let fits = |set: &LeafSet| match set {
            LeafSet::Branch(places) => places.start <= places.end && places.end <= n,
            LeafSet::Members(members) => members.len() == n,
        };
        if is_order && sets.iter().all(fits) {
            return Ok(Self {
                sizes,
                places,
                sets,
            });
        }
        Err(Error::Input("the sets do not fit the leaves".into()))
    }

    /// Number of sets.
    pub fn len(&self) -> usize {
        self.sets.len()
    }

    /// Whether there are no sets.
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// For each set, restricted to the leaves of `tree`: its largest Jaccard coefficient, counted
    /// in members, with any branch of `tree` (a leaf, or the leaves below a merge), from 0 to 1.
    /// NaN for a set with members in fewer than two of the leaves: a single leaf is a branch of
    /// every tree.
    ///
    /// Takes O(leaves · sets) time, on the threads of the calling pool. Numbers of members are
    /// whole, so that sums are exact.
    ///
    /// # Errors
    /// `Error::Interrupt`.
    pub fn agreements(&self, tree: &SomeTree, monitor: &Monitor) -> Result<Vec<f64>> {
        let sizes: Vec<f64> = tree
            .leaves
            .iter()
            .map(|&leaf| self.sizes[leaf as usize])
            .collect();
        let sets = self.sets.par_iter().with_max_len(1);
        sets.map(|set| {
            monitor.check()?;
            let inside = tree.leaves.iter().map(|&leaf| self.inside(set, leaf));
            Ok(best_jaccard(inside.collect(), sizes.clone(), &tree.merges))
        })
        .collect()
    }

    /// The members of a leaf that are in a set.
    fn inside(&self, set: &LeafSet, leaf: u32) -> f64 {
        let leaf = leaf as usize;
        match set {
            LeafSet::Branch(places) if places.contains(&self.places[leaf]) => self.sizes[leaf],
            LeafSet::Branch(_) => 0.0,
            LeafSet::Members(members) => members[leaf],
        }
    }
}

/// The largest Jaccard coefficient of a set with a branch. By slot: `inside` is the number of
/// members in the set, `sizes` the number of all members.
fn best_jaccard(mut inside: Vec<f64>, mut sizes: Vec<f64>, merges: &[Merge]) -> f64 {
    if inside.iter().filter(|&&members| members > 0.0).count() < 2 {
        return f64::NAN;
    }
    let total: f64 = inside.iter().sum();
    let jaccard = |inside: f64, size: f64| inside / (total + size - inside);
    let of_leaves = inside.iter().zip(&sizes);
    let mut best = of_leaves
        .map(|(&i, &size)| jaccard(i, size))
        .fold(0.0, f64::max);
    for merge in merges {
        let (lower, higher) = (merge.lower as usize, merge.higher as usize);
        inside[lower] += inside[higher];
        sizes[lower] += sizes[higher];
        best = best.max(jaccard(inside[lower], sizes[lower]));
    }
    best
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::testing::Random;

    /// A random tree of the slots 0..n.
    fn random_merges(random: &mut Random, n: usize) -> Vec<Merge> {
        let mut active: Vec<u32> = (0..n as u32).collect();
        let mut merges = Vec::new();
        while active.len() > 1 {
            let a = active.swap_remove(random.below(active.len()));
            let at = random.below(active.len());
            let b = active[at];
            active[at] = a.min(b);
            merges.push(Merge {
                lower: a.min(b),
                higher: a.max(b),
                height: 0.0,
            });
        }
        merges
    }

    /// The members of all branches of a tree, as pairs of a leaf and the number of the member.
    fn branches(tree: &SomeTree, sizes: &[f64]) -> Vec<BTreeSet<(u32, usize)>> {
        let members = |&leaf: &u32| (0..sizes[leaf as usize] as usize).map(move |m| (leaf, m));
        let leaves = tree.leaves.iter();
        let mut slots: Vec<BTreeSet<_>> = leaves.map(|leaf| members(leaf).collect()).collect();
        let mut all = slots.clone();
        for merge in &tree.merges {
            let mut higher = std::mem::take(&mut slots[merge.higher as usize]);
            slots[merge.lower as usize].append(&mut higher);
            all.push(slots[merge.lower as usize].clone());
        }
        all
    }

    #[test]
    fn agreements_are_those_of_sets_of_members() {
        let mut random = Random::of(31);
        for _ in 0..200 {
            let n = 1 + random.below(12);
            let sizes: Vec<f64> = (0..n).map(|_| 1.0 + random.below(4) as f64).collect();
            let mut order: Vec<usize> = (0..n).collect();
            for i in 1..n {
                order.swap(i, random.below(i + 1));
            }
            let start = random.below(n);
            let branch = start..start + random.below(n - start + 1);
            let some: Vec<f64> = sizes
                .iter()
                .map(|&size| random.below(size as usize + 1) as f64)
                .collect();
            let sets = vec![
                LeafSet::Branch(branch.clone()),
                LeafSet::Members(some.clone()),
            ];
            let sets = LeafSets::new(sizes.clone(), &order, sets).unwrap();
            let leaves: Vec<u32> = (0..n as u32).filter(|_| random.below(3) > 0).collect();
            let tree = SomeTree {
                merges: random_merges(&mut random, leaves.len()),
                leaves,
            };
            let in_branch = |leaf: u32| order[branch.clone()].contains(&(leaf as usize));
            let whole = |leaf: u32| {
                if in_branch(leaf) {
                    sizes[leaf as usize]
                } else {
                    0.0
                }
            };
            let members: [&dyn Fn(u32) -> f64; 2] = [&whole, &|leaf| some[leaf as usize]];
            let found = sets.agreements(&tree, &Monitor::default()).unwrap();
            for (found, members) in found.into_iter().zip(members) {
                let set: BTreeSet<(u32, usize)> = tree
                    .leaves
                    .iter()
                    .flat_map(|&leaf| (0..members(leaf) as usize).map(move |m| (leaf, m)))
                    .collect();
                let drawn: BTreeSet<u32> = set.iter().map(|&(leaf, _)| leaf).collect();
                if drawn.len() < 2 {
                    assert!(found.is_nan());
                    continue;
                }
                let jaccard = |branch: &BTreeSet<(u32, usize)>| {
                    set.intersection(branch).count() as f64 / set.union(branch).count() as f64
                };
                let expected = branches(&tree, &sizes);
                let expected = expected.iter().map(jaccard).fold(0.0, f64::max);
                assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn sets_must_fit_the_leaves() {
        let fits = |order: &[usize], set| LeafSets::new(vec![1.0; 3], order, vec![set]).is_ok();
        assert!(fits(&[2, 0, 1], LeafSet::Branch(1..3)));
        assert!(!fits(&[2, 0, 0], LeafSet::Branch(1..3)));
        assert!(!fits(&[2, 0], LeafSet::Branch(1..2)));
        assert!(!fits(&[0, 1, 3], LeafSet::Branch(1..2)));
        assert!(!fits(&[0, 1, 2], LeafSet::Branch(1..4)));
        assert!(!fits(&[0, 1, 2], LeafSet::Members(vec![1.0; 2])));
    }
}
