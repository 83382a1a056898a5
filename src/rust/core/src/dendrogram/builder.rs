//! Builds a tree from merges whose clusters are named by slots.

use std::sync::atomic::{AtomicU32, Ordering};

use rayon::prelude::*;

use super::{leaf_order, place_leaves, row_of, Dendrogram, TREE};
use crate::error::Result;
use crate::memory;
use crate::merge::Merge;

/// Builds one tree from several sequences of merges, each with its own slots.
pub struct TreeBuilder {
    n: usize,
    /// By observation: the current node of its slot. Nodes `0..n` are the observations, node
    /// `n + k` is the union of merge k.
    node: Vec<u32>,
    /// As in [`Dendrogram`].
    merge: Vec<[i32; 2]>,
    /// As in [`Dendrogram`].
    height: Vec<f64>,
    /// Number of merges in branches, which come first.
    in_branches: usize,
    /// In increasing order of their roots.
    branches: Vec<Branch>,
}

/// The cluster of all merges of a part.
struct Branch {
    /// The id of its last merge in the tree.
    root: i32,
    /// The observation that represents it.
    representative: u32,
    /// Its observations (from 1), in an order in which no branches cross.
    order: Vec<i32>,
}

/// A sequence of merges that make one cluster: the observation that represents each slot, in
/// increasing order, and the merges.
pub type Part<'a> = (&'a [u32], Vec<Merge>);

impl TreeBuilder {
    /// A builder for `n` observations, each a node.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn new(n: usize) -> Result<Self> {
        Ok(Self {
            n,
            node: memory::collected(TREE, 0..n as u32)?,
            merge: memory::room(TREE, n - 1)?,
            height: memory::room(TREE, n - 1)?,
            in_branches: 0,
            branches: Vec::new(),
        })
    }

    /// Joins the clusters that the observations `lower` and `higher` represent; `lower` represents
    /// their union.
    pub fn join(&mut self, lower: u32, higher: u32, height: f64) {
        let made = (self.n + self.merge.len()) as u32;
        let nodes = [lower, higher].map(|observation| self.node[observation as usize]);
        self.merge.push(row_of(self.n, nodes));
        self.height.push(height);
        self.node[lower as usize] = made;
    }

    /// Joins a sequence of merges; observation `slots[s]` represents slot s.
    pub fn append(&mut self, slots: &[u32], merges: &[Merge]) {
        for merge in merges {
            self.join(
                slots[merge.lower as usize],
                slots[merge.higher as usize],
                merge.height,
            );
        }
    }

    /// Joins the merges of several parts, on the threads of the calling pool. `sequence` has the
    /// number of the part of each merge, and its number there. Within each part, merges come in
    /// order.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    ///
    /// # Panics
    /// If there are merges already.
    pub fn append_parts(
        &mut self,
        mut parts: Vec<Part<'_>>,
        sequence: &[(u32, u32)],
    ) -> Result<()> {
        assert!(self.merge.is_empty(), "parts come first");
        let n = self.n;
        let starts = parts.iter().scan(0, |end, (_, merges)| {
            let start = *end;
            *end += merges.len();
            Some(start)
        });
        let starts: Vec<usize> = starts.collect();
        // By part, then by merge: the node that it makes.
        let unknown = (0..sequence.len()).map(|_| AtomicU32::new(0));
        let made = memory::collected(TREE, unknown)?;
        let number = |(index, &(part, at)): (usize, &(u32, u32))| {
            let place = starts[part as usize] + at as usize;
            made[place].store((n + index) as u32, Ordering::Relaxed);
        };
        sequence.par_iter().enumerate().for_each(number);
        let branch = |(part, &start): (&mut Part<'_>, &usize)| {
            let made = &made[start..start + part.1.len()];
            Branch::new(n, part, made).transpose()
        };
        let branches = parts.par_iter_mut().zip(&starts).filter_map(branch);
        self.branches = branches.collect::<Result<_>>()?;
        self.branches.sort_unstable_by_key(|branch| branch.root);
        let merge = |&(part, at): &(u32, u32)| {
            let merge = parts[part as usize].1[at as usize];
            (row_of(n, [merge.lower, merge.higher]), merge.height)
        };
        let merges = sequence.par_iter().map(merge);
        merges.unzip_into_vecs(&mut self.merge, &mut self.height);
        self.in_branches = sequence.len();
        for branch in &self.branches {
            self.node[branch.representative as usize] = n as u32 + branch.root as u32 - 1;
        }
        Ok(())
    }

    /// The tree, after all observations are joined. Works on the threads of the calling pool.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn finish(self) -> Result<Dendrogram> {
        Ok(Dendrogram {
            order: self.order()?,
            merge: self.merge,
            height: self.height,
        })
    }

    /// The value of [`leaf_order`], from the orders within branches.
    fn order(&self) -> Result<Vec<i32>> {
        if self.branches.is_empty() {
            return leaf_order(&self.merge);
        }
        let branch = |id| {
            let at = self.branches.binary_search_by_key(&id, |each| each.root);
            &self.branches[at.expect("a merge above joins whole branches")]
        };
        let mut order = memory::zeros(TREE, self.n)?;
        let mut places = memory::room(TREE, self.branches.len())?;
        let size = |id: i32| match id {
            ..0 => 1,
            _ => branch(id).order.len() as u32,
        };
        place_leaves(&self.merge, self.in_branches, size, |id, place| match id {
            ..0 => order[place as usize] = -id,
            _ => places.push((place as usize, &branch(id).order)),
        })?;
        places.sort_unstable_by_key(|&(place, _)| place);
        let (mut rest, mut before) = (&mut order[..], 0);
        let mut copies = memory::room(TREE, places.len())?;
        for (place, of_branch) in places {
            let (_, from_place) = rest.split_at_mut(place - before);
            let (own, others) = from_place.split_at_mut(of_branch.len());
            copies.push((own, of_branch));
            (rest, before) = (others, place + of_branch.len());
        }
        let copies = copies.into_par_iter();
        copies.for_each(|(own, of_branch)| own.copy_from_slice(of_branch));
        Ok(order)
    }
}

impl Branch {
    /// The branch of a part in a tree of `n` observations, if it has merges. `made` has the node
    /// that each merge makes. Names nodes in place of slots in the merges.
    fn new(n: usize, (slots, merges): &mut Part<'_>, made: &[AtomicU32]) -> Result<Option<Self>> {
        debug_assert!(slots.is_sorted());
        let node = |merge: usize| made[merge].load(Ordering::Relaxed);
        let Some(last) = merges.last() else {
            return Ok(None);
        };
        let representative = slots[last.lower as usize];
        let root = (node(merges.len() - 1) as usize - n) as i32 + 1;
        // Nodes of a tree of this part alone: its slots, then its merges.
        let mut current = memory::collected(TREE, 0..slots.len() as u32)?;
        let mut rows = memory::room(TREE, merges.len())?;
        let in_tree = |own: u32| match (own as usize).checked_sub(slots.len()) {
            None => slots[own as usize],
            Some(merge) => node(merge),
        };
        for (merge, union) in merges.iter_mut().zip(slots.len() as u32..) {
            let joined = [merge.lower, merge.higher].map(|slot| current[slot as usize]);
            rows.push(row_of(slots.len(), joined));
            current[merge.lower as usize] = union;
            [merge.lower, merge.higher] = joined.map(in_tree);
        }
        let mut order = leaf_order(&rows)?;
        for leaf in &mut order {
            *leaf = slots[*leaf as usize - 1] as i32 + 1;
        }
        Ok(Some(Self {
            root,
            representative,
            order,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    /// The merges of a random tree of `size` slots.
    fn random_merges(random: &mut Random, size: usize) -> Vec<Merge> {
        let mut active: Vec<u32> = (0..size as u32).collect();
        let mut merge = |_| {
            let a = active.swap_remove(random.below(active.len()));
            let at = random.below(active.len());
            let b = active[at];
            active[at] = a.min(b);
            Merge {
                lower: a.min(b),
                higher: a.max(b),
                height: random.below(9) as f64,
            }
        };
        (1..size).map(&mut merge).collect()
    }

    #[test]
    fn parts_give_the_tree_of_their_merges_one_by_one() {
        let mut random = Random::of(37);
        for round in 0..200 {
            let n = 2 + random.below(60);
            let count = 1 + random.below(5);
            // The last group is no part, except in some rounds.
            let parts = if round % 3 == 0 { count } else { count - 1 };
            let mut groups = vec![Vec::new(); count];
            (0..n as u32).for_each(|leaf| groups[random.below(count)].push(leaf));
            let groups: Vec<Vec<u32>> = groups.into_iter().filter(|g| !g.is_empty()).collect();
            let parts = parts.min(groups.len());
            let merges = |group: &Vec<u32>| random_merges(&mut random, group.len());
            let merges: Vec<Vec<Merge>> = groups[..parts].iter().map(merges).collect();
            // Merges come from random parts.
            let mut sequence = Vec::new();
            let mut done = vec![0; parts];
            let all: usize = merges.iter().map(Vec::len).sum();
            while sequence.len() < all {
                let part = random.below(parts);
                if done[part] < merges[part].len() {
                    sequence.push((part as u32, done[part] as u32));
                    done[part] += 1;
                }
            }
            let mut slots: Vec<u32> = groups[..parts].iter().map(|group| group[0]).collect();
            slots.extend(groups[parts..].iter().flatten());
            let above = random_merges(&mut random, slots.len());

            let mut one_by_one = TreeBuilder::new(n).unwrap();
            for &(part, at) in &sequence {
                let merge = merges[part as usize][at as usize];
                one_by_one.append(&groups[part as usize], &[merge]);
            }
            one_by_one.append(&slots, &above);
            let mut by_parts = TreeBuilder::new(n).unwrap();
            let of_groups = groups.iter().map(Vec::as_slice);
            let parts = of_groups.zip(merges).collect();
            by_parts.append_parts(parts, &sequence).unwrap();
            by_parts.append(&slots, &above);
            let (expected, found) = (one_by_one.finish(), by_parts.finish());
            assert_eq!(found.unwrap(), expected.unwrap());
        }
    }
}
