//! Builds a tree from merges whose clusters are named by slots.

use std::sync::atomic::{AtomicU32, Ordering};

use rayon::prelude::*;

use super::{leaf_order, place_leaves, row_of, Dendrogram, TREE};
use crate::error::Result;
use crate::memory;
use crate::merge::Merge;
use crate::tasks::pieces;

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
    subtrees: Subtrees,
}

/// Parts of the tree that are finished. Their merges are the first ones.
#[derive(Default)]
struct Subtrees {
    /// Number of merges in all of them.
    merges: usize,
    /// The id of each subtree's last merge, and the place of the subtree in `orders`.
    roots: Vec<(i32, usize)>,
    /// The observations (from 1) of one subtree after the other, each in an order in which no
    /// branches cross.
    orders: Vec<i32>,
}

/// Merges that make one cluster: the observation that represents each slot, in increasing order,
/// and the merges in order.
pub type Sequence<'a> = (&'a [u32], Vec<Merge>);

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
            subtrees: Subtrees::default(),
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

    /// Joins the merges of several sequences, on the threads of the calling pool. By merge of the
    /// tree, `order` has the number of its sequence, and its number there.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    ///
    /// # Panics
    /// If there are merges already.
    pub fn append_interleaved(
        &mut self,
        mut sequences: Vec<Sequence<'_>>,
        order: &[(u32, u32)],
    ) -> Result<()> {
        assert!(self.merge.is_empty(), "subtrees come first");
        let n = self.n;
        let mut starts = memory::room(TREE, sequences.len())?;
        let mut end = 0;
        for (_, merges) in &sequences {
            starts.push(end);
            end += merges.len();
        }
        // One sequence after the other, by merge: the node that it makes.
        let unknown = (0..order.len()).map(|_| AtomicU32::new(0));
        let made = memory::collected(TREE, unknown)?;
        let name = |(index, &(sequence, at)): (usize, &(u32, u32))| {
            let place = starts[sequence as usize] + at as usize;
            made[place].store((n + index) as u32, Ordering::Relaxed);
        };
        order.par_iter().enumerate().for_each(name);

        // A sequence without merges is no subtree.
        let leaves = |(slots, merges): &Sequence<'_>| match merges[..] {
            [] => 0,
            _ => slots.len(),
        };
        let mut sizes = memory::room(TREE, sequences.len())?;
        sizes.extend(sequences.iter().map(leaves));
        let mut orders = memory::zeros(TREE, sizes.iter().sum())?;
        let mut places = memory::room(TREE, sequences.len())?;
        places.extend(pieces(&mut orders, sizes.iter().copied()));
        let works = sequences.par_iter_mut().zip(&starts).zip(places);
        works.try_for_each(|((sequence, &start), order)| {
            let made = &made[start..start + sequence.1.len()];
            name_nodes(sequence, made, order)
        })?;

        let merge = |&(sequence, at): &(u32, u32)| {
            let merge = sequences[sequence as usize].1[at as usize];
            (row_of(n, [merge.lower, merge.higher]), merge.height)
        };
        let merges = order.par_iter().map(merge);
        merges.unzip_into_vecs(&mut self.merge, &mut self.height);
        let mut roots = memory::room(TREE, sequences.len())?;
        let mut place = 0;
        for (((slots, merges), start), size) in sequences.iter().zip(starts).zip(sizes) {
            if !merges.is_empty() {
                let root = made[start + merges.len() - 1].load(Ordering::Relaxed);
                // The union of all slots has the lowest one.
                self.node[slots[0] as usize] = root;
                roots.push(((root as usize - n) as i32 + 1, place));
            }
            place += size;
        }
        self.subtrees = Subtrees {
            merges: order.len(),
            roots,
            orders,
        };
        Ok(())
    }

    /// The tree, after all observations are joined. Works on the threads of the calling pool.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn finish(self) -> Result<Dendrogram> {
        Ok(Dendrogram {
            order: self.subtrees.leaf_order(&self.merge)?,
            merge: self.merge,
            height: self.height,
        })
    }
}

/// Names nodes in place of slots in a sequence of merges, given the node that each merge makes.
/// Fills `order` with its observations (from 1), in an order in which no branches cross.
fn name_nodes(
    (slots, merges): &mut Sequence<'_>,
    made: &[AtomicU32],
    order: &mut [i32],
) -> Result<()> {
    debug_assert!(slots.is_sorted());
    // By slot, the node in a tree of these merges alone: its slots, then its merges.
    let mut nodes = memory::collected(TREE, 0..slots.len() as u32)?;
    let mut rows = memory::room(TREE, merges.len())?;
    let in_whole_tree = |node: u32| match (node as usize).checked_sub(slots.len()) {
        None => slots[node as usize],
        Some(merge) => made[merge].load(Ordering::Relaxed),
    };
    for (merge, union) in merges.iter_mut().zip(slots.len() as u32..) {
        let joined = [merge.lower, merge.higher].map(|slot| nodes[slot as usize]);
        rows.push(row_of(slots.len(), joined));
        nodes[merge.lower as usize] = union;
        [merge.lower, merge.higher] = joined.map(in_whole_tree);
    }
    for (to, leaf) in order.iter_mut().zip(leaf_order(&rows)?) {
        *to = slots[leaf as usize - 1] as i32 + 1;
    }
    Ok(())
}

impl Subtrees {
    /// The value of [`leaf_order`] for the rows of the whole tree. Works on the threads of the
    /// calling pool.
    ///
    /// # Errors
    /// `Error::Memory`.
    fn leaf_order(&self, merge: &[[i32; 2]]) -> Result<Vec<i32>> {
        if self.merges == 0 {
            return leaf_order(merge);
        }
        // By merge that is a root, the number of its subtree.
        let mut numbers = memory::zeros::<u32>(TREE, self.merges)?;
        for (&(root, _), number) in self.roots.iter().zip(0..) {
            numbers[root as usize - 1] = number;
        }
        let of_subtree = |root: i32| {
            let number = numbers[root as usize - 1] as usize;
            let end = self.roots.get(number + 1);
            let end = end.map_or(self.orders.len(), |&(_, start)| start);
            &self.orders[self.roots[number].1..end]
        };
        let mut order = memory::zeros(TREE, merge.len() + 1)?;
        let mut places = memory::room(TREE, self.roots.len())?;
        let size = |id: i32| match id {
            ..0 => 1,
            _ => of_subtree(id).len() as u32,
        };
        place_leaves(merge, self.merges, size, |id, place| match id {
            ..0 => order[place as usize] = -id,
            _ => places.push((place as usize, of_subtree(id))),
        })?;
        places.par_sort_unstable_by_key(|&(place, _)| place);
        let (mut rest, mut before) = (&mut order[..], 0);
        let mut copies = memory::room(TREE, places.len())?;
        for (place, from) in places {
            let (_, from_place) = rest.split_at_mut(place - before);
            let (to, others) = from_place.split_at_mut(from.len());
            copies.push((to, from));
            (rest, before) = (others, place + from.len());
        }
        let copies = copies.into_par_iter();
        copies.for_each(|(to, from)| to.copy_from_slice(from));
        Ok(order)
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
    fn interleaved_sequences_give_the_tree_of_their_merges_one_by_one() {
        let mut random = Random::of(37);
        for round in 0..200 {
            let n = 2 + random.below(60);
            let count = 1 + random.below(5);
            // The observations of the last group are loose, except in some rounds.
            let subtrees = if round % 3 == 0 { count } else { count - 1 };
            let mut groups = vec![Vec::new(); count];
            (0..n as u32).for_each(|leaf| groups[random.below(count)].push(leaf));
            let groups: Vec<Vec<u32>> = groups.into_iter().filter(|g| !g.is_empty()).collect();
            let subtrees = subtrees.min(groups.len());
            let merges = |group: &Vec<u32>| random_merges(&mut random, group.len());
            let merges: Vec<Vec<Merge>> = groups[..subtrees].iter().map(merges).collect();
            // Merges come from random subtrees.
            let mut order = Vec::new();
            let mut done = vec![0; subtrees];
            let all: usize = merges.iter().map(Vec::len).sum();
            while order.len() < all {
                let subtree = random.below(subtrees);
                if done[subtree] < merges[subtree].len() {
                    order.push((subtree as u32, done[subtree] as u32));
                    done[subtree] += 1;
                }
            }
            let mut slots: Vec<u32> = groups[..subtrees].iter().map(|group| group[0]).collect();
            slots.extend(groups[subtrees..].iter().flatten());
            let above = random_merges(&mut random, slots.len());

            let mut one_by_one = TreeBuilder::new(n).unwrap();
            for &(subtree, at) in &order {
                let merge = merges[subtree as usize][at as usize];
                one_by_one.append(&groups[subtree as usize], &[merge]);
            }
            one_by_one.append(&slots, &above);
            let mut interleaved = TreeBuilder::new(n).unwrap();
            let of_groups = groups.iter().map(Vec::as_slice);
            let sequences = of_groups.zip(merges).collect();
            interleaved.append_interleaved(sequences, &order).unwrap();
            interleaved.append(&slots, &above);
            let (expected, found) = (one_by_one.finish(), interleaved.finish());
            assert_eq!(found.unwrap(), expected.unwrap());
        }
    }
}
