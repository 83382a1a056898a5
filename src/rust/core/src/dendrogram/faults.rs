//! The faults of a tree.

use crate::error::Result;
use crate::memory;

/// First words of a memory error, before the number of bytes.
const NEEDS: &str = "checking the tree needs";

/// The faults of a merge matrix and of an order of its leaves. For a sound tree, all lists are
/// empty and `has_all` is true.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Ids that name neither an observation nor a merge, in the order of their places.
    pub unknown: Vec<i32>,
    /// Ids of clusters that are merged more than once, in increasing order.
    pub repeated: Vec<i32>,
    /// Ids of clusters, except the last, that are never merged, in increasing order.
    pub missing: Vec<i32>,
    /// Merges (from 1) of clusters that are not there yet.
    pub early: Vec<i32>,
    /// Whether `order` has every observation once.
    pub has_all: bool,
    /// As [`crossings`]; empty if there are other faults.
    pub crossing: Vec<i32>,
}

impl Faults {
    /// The faults of any numbers. Takes O(n) time.
    ///
    /// # Errors
    /// `Error::Memory`.
    pub fn of(merge: &[[i32; 2]], order: &[i32]) -> Result<Self> {
        let n = merge.len() + 1;
        if is_sound(merge, order)? {
            return Ok(Self {
                has_all: true,
                ..Self::default()
            });
        }
        let mut faults = Self::default();
        // By observation, then by merge: how often it is named, at most twice.
        let mut times = memory::zeros::<u8>(NEEDS, n + merge.len())?;
        for (row, pair) in (1..).zip(merge) {
            for &id in pair {
                let place = match id {
                    ..0 => Some(id.unsigned_abs() as usize - 1).filter(|&place| place < n),
                    0 => None,
                    _ => Some(n + id as usize - 1),
                };
                match place.and_then(|place| times.get_mut(place)) {
                    Some(times) => *times = (*times + 1).min(2),
                    None => faults.unknown.push(id),
                }
            }
            if pair[0].max(pair[1]) >= row {
                faults.early.push(row);
            }
        }
        let observations = (0..n).rev().map(|i| (i, -(i as i32) - 1));
        let merges = (n..n + merge.len() - 1).map(|place| (place, (place - n) as i32 + 1));
        for (place, id) in observations.chain(merges) {
            match times[place] {
                0 => faults.missing.push(id),
                1 => {}
                _ => faults.repeated.push(id),
            }
        }
        let mut seen = memory::zeros::<u8>(NEEDS, n)?;
        let is_new = |&leaf: &i32| {
            let place = usize::try_from(leaf).unwrap_or(0).wrapping_sub(1);
            let seen = seen.get_mut(place);
            seen.is_some_and(|seen| std::mem::replace(seen, 1) == 0)
        };
        faults.has_all = order.len() == n && order.iter().all(is_new);
        if faults.is_a_tree() && faults.has_all {
            faults.crossing = crossings(merge, order)?;
        }
        Ok(faults)
    }

    fn is_a_tree(&self) -> bool {
        [&self.unknown, &self.repeated, &self.missing, &self.early]
            .iter()
            .all(|faults| faults.is_empty())
    }
}

/// Whether a merge matrix has the rows of a tree, and no branches cross in this order of its
/// leaves. Takes a third of the time of finding the faults.
fn is_sound(merge: &[[i32; 2]], order: &[i32]) -> Result<bool> {
    let n = merge.len() + 1;
    // By observation: its place in the order.
    let mut position = memory::filled(NEEDS, n, u32::MAX)?;
    for (&leaf, place) in order.iter().zip(0..) {
        match position.get_mut((leaf as usize).wrapping_sub(1)) {
            Some(position) if *position == u32::MAX => *position = place,
            _ => return Ok(false),
        }
    }
    if order.len() != n {
        return Ok(false);
    }
    // By merge: the first and the last place of its leaves, and `NAMED` once it is part of another.
    const NAMED: (u32, u32) = (1, 0);
    let mut spans: Vec<(u32, u32)> = memory::room(NEEDS, merge.len())?;
    for pair in merge {
        let mut part = |id: i32| {
            if id < 0 {
                let place = position.get_mut(id.unsigned_abs() as usize - 1)?;
                let place = std::mem::replace(place, u32::MAX);
                return (place != u32::MAX).then_some((place, place));
            }
            let span = spans.get_mut((id as usize).wrapping_sub(1))?;
            Some(std::mem::replace(span, NAMED)).filter(|&span| span != NAMED)
        };
        let (Some(a), Some(b)) = (part(pair[0]), part(pair[1])) else {
            return Ok(false);
        };
        spans.push(match (a, b) {
            _ if a.1 + 1 == b.0 => (a.0, b.1),
            _ if b.1 + 1 == a.0 => (b.0, a.1),
            _ => return Ok(false),
        });
    }
    // With n - 1 merges of different parts, no part is left out.
    Ok(true)
}

/// The merges (from 1) whose branches cross in this order of the leaves, that is, whose leaves are
/// not contiguous. `order` is a permutation of the observations (from 1).
///
/// # Errors
/// `Error::Memory`.
pub fn crossings(merge: &[[i32; 2]], order: &[i32]) -> Result<Vec<i32>> {
    const NEEDS: &str = "looking for branches that cross needs";
    let mut position = memory::zeros::<u32>(NEEDS, order.len())?;
    for (place, &leaf) in (0..).zip(order) {
        position[leaf as usize - 1] = place;
    }
    // By cluster: the first and the last place of its leaves, and the number of its leaves.
    let mut spans: Vec<(u32, u32, u32)> = memory::room(NEEDS, merge.len())?;
    for pair in merge {
        let [a, b] = pair.map(|id| match id {
            ..0 => {
                let place = position[-id as usize - 1];
                (place, place, 1)
            }
            _ => spans[id as usize - 1],
        });
        spans.push((a.0.min(b.0), a.1.max(b.1), a.2 + b.2));
    }
    let crosses = |&(_, (first, last, leaves)): &(i32, _)| last - first + 1 != leaves;
    let numbered = (1..).zip(spans);
    Ok(numbered.filter(crosses).map(|(merge, _)| merge).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    #[test]
    fn faults_of_a_tree_are_found() {
        let tree = [[-1, -2], [-3, 1], [-4, 2]];
        let of = |merge: &[[i32; 2]], order: &[i32]| Faults::of(merge, order).unwrap();
        let sound = Faults {
            has_all: true,
            ..Faults::default()
        };
        assert_eq!(of(&tree, &[4, 3, 1, 2]), sound);
        assert_eq!(of(&[[-1, -2]], &[2, 1]), sound);
        assert_eq!(of(&tree, &[1, 3, 2, 4]).crossing, [1]);
        for order in [
            &[1, 2, 3, 3][..],
            &[0, 1, 2, 3],
            &[i32::MIN, 1, 2, 3],
            &[1, 2, 3],
        ] {
            assert!(!of(&tree, order).has_all);
        }
        let faults = of(&[[-1, 0], [-5, i32::MIN], [4, i32::MAX]], &[1, 2, 3, 4]);
        assert_eq!(faults.unknown, [0, -5, i32::MIN, 4, i32::MAX]);
        assert_eq!(faults.missing, [-4, -3, -2, 1, 2]);
        assert_eq!(faults.early, [3]);
        let faults = of(&[[-1, -1], [-1, 3], [-4, 1]], &[1, 2, 3, 4]);
        assert_eq!(faults.repeated, [-1]);
        assert_eq!(faults.missing, [-3, -2, 2]);
        assert_eq!(faults.early, [2]);
        assert!(faults.crossing.is_empty());
    }

    #[test]
    fn a_tree_is_sound_if_it_has_no_fault() {
        let mut random = Random::of(29);
        let mut sound = 0;
        for _ in 0..20_000 {
            let n = 2 + random.below(5);
            // A tree whose leaves are in order, with one number changed in most rounds.
            let mut nodes: Vec<i32> = (1..=n as i32).map(|leaf| -leaf).collect();
            let mut merge = Vec::new();
            for row in 1..n as i32 {
                let first = random.below(nodes.len() - 1);
                let second = nodes.remove(first + 1);
                merge.push([nodes[first], second]);
                nodes[first] = row;
            }
            let mut order: Vec<i32> = (1..=n as i32).collect();
            let any = random.below(2 * n + 4) as i32 - n as i32 - 2;
            match random.below(4) {
                0 => merge[random.below(n - 1)][random.below(2)] = any,
                1 => order[random.below(n)] = any,
                2 => order.swap(random.below(n), random.below(n)),
                _ => {}
            }
            let faults = Faults::of(&merge, &order).unwrap();
            let slowly = {
                let mut times = vec![0; 2 * n];
                let place = |id: i32| match id {
                    ..0 => id.unsigned_abs() as usize - 1,
                    _ => n + id as usize - 1,
                };
                let all = merge.iter().zip(1..);
                let known = all.clone().all(|(pair, row)| {
                    pair.iter()
                        .all(|&id| id != 0 && id < row && id >= -(n as i32))
                });
                known && {
                    all.for_each(|(pair, _)| pair.iter().for_each(|&id| times[place(id)] += 1));
                    let mut sorted = order.clone();
                    sorted.sort_unstable();
                    times.iter().all(|&times| times <= 1)
                        && sorted.into_iter().eq(1..=n as i32)
                        && crossings(&merge, &order).unwrap().is_empty()
                }
            };
            assert_eq!(is_sound(&merge, &order), Ok(slowly), "{merge:?}, {order:?}");
            assert_eq!(
                faults
                    == Faults {
                        has_all: true,
                        ..Faults::default()
                    },
                slowly
            );
            sound += usize::from(slowly);
        }
        assert!(sound > 5_000 && sound < 15_000, "{sound}");
    }

    #[test]
    fn branches_cross_where_leaves_of_a_cluster_are_apart() {
        let merge = [[-2, -4], [-1, 1], [-3, 2]];
        for sound in [[3, 1, 2, 4], [1, 2, 4, 3], [4, 2, 1, 3]] {
            assert_eq!(crossings(&merge, &sound), Ok(vec![]));
        }
        assert_eq!(crossings(&merge, &[2, 1, 4, 3]), Ok(vec![1]));
        assert_eq!(crossings(&merge, &[1, 3, 2, 4]), Ok(vec![2]));
        assert_eq!(crossings(&merge, &[1, 2, 3, 4]), Ok(vec![1, 2]));
    }
}
