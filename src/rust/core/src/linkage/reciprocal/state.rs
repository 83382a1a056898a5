//! Merges reciprocal pairs, between and across passes.

use rayon::prelude::*;

use super::known_neighbours::{KnownNeighbour, KnownNeighbours, NONE};
use super::nodes::{Nodes, UnionNode};
use crate::error::Result;
use crate::linkage::condensed::pairs;
use crate::linkage::dissimilarities::{
    ContractedMerge, Contraction, Dissimilarities, NearestClusters, Neighbour,
};
use crate::linkage::lance_williams::{Linkage, Recurrence};
use crate::merge::Merge;
use crate::monitor::Monitor;
use crate::tasks::{of_parts, on_slots, pieces};

/// Smallest share of the clusters that must have merged since the last pass for another pass;
/// otherwise the chain merges the rest. Only the time depends on it.
const LEAST_PROGRESS: f64 = 1.0 / 16.0;

/// Number of slots per task of a thread, where a slot takes a few operations, and where it takes
/// some hundred. Only the time depends on them.
const SLOTS_PER_TASK: usize = 1 << 12;
const STALE_PER_TASK: usize = 32;

/// Largest number of slots of a cluster that merges before the next pass, since the number of
/// entries that have to be looked up grows with the slots. Only the time depends on it.
const MOST_SLOTS: u32 = 64;

/// The merges that join all clusters of `matrix`, whose sizes are `sizes`, each merge after the
/// merges of its parts. Merges name a cluster by its lowest slot.
///
/// Takes O(n²) time for n clusters.
///
/// # Errors
/// As [`Dissimilarities::nearest`].
pub fn merges(
    recurrence: Recurrence,
    sizes: Vec<f64>,
    matrix: &mut dyn Dissimilarities,
    monitor: &Monitor,
) -> Result<Vec<Merge>> {
    let nearest = matrix.nearest(monitor)?;
    let mut state = MatrixReciprocalMerges::new(recurrence, sizes, &nearest);
    loop {
        let clusters = state.nodes.sizes.len();
        state.merge_known_pairs(matrix, monitor)?;
        if state.nodes.unions.len() + 1 == clusters {
            return Ok(state.merges);
        }
        state.contract(matrix, monitor)?;
        let left = state.nodes.sizes.len();
        monitor.advance((pairs(clusters) - pairs(left)) as u64);
        if ((clusters - left) as f64) < LEAST_PROGRESS * clusters as f64 {
            let rest = matrix.chain(recurrence, &state.nodes.sizes, monitor)?;
            let rest = rest.into_iter().map(|merge| state.named(merge));
            state.merges.extend(rest.collect::<Vec<_>>());
            return Ok(state.merges);
        }
    }
}

/// Some slots whose nearest neighbours have to be found again.
struct StaleSlots<'a> {
    slots: &'a [u32],
    /// For each slot in turn: the current slots, in increasing order, of the candidates of its
    /// node, or of the node's two parts if it was merged just now. Each has its dissimilarity if no
    /// entry of the matrix is needed for it.
    neighbours: Vec<(u32, Option<f64>)>,
    /// For each of `slots`, in turn: the end of its neighbours in `neighbours`.
    ends: Vec<usize>,
    /// The entries of the matrix that [`MatrixReciprocalMerges::dissimilarity`] reads for these
    /// neighbours, in order.
    wanted: Vec<(u32, u32)>,
}

impl StaleSlots<'_> {
    /// Each slot, with its neighbours.
    fn iter(&self) -> impl Iterator<Item = (u32, &[(u32, Option<f64>)])> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        let slots = self.slots.iter().zip(starts.zip(&self.ends));
        slots.map(|(&slot, (start, &end))| (slot, &self.neighbours[start..end]))
    }
}

/// Merges so far, and the clusters between two passes.
struct MatrixReciprocalMerges {
    recurrence: Recurrence,
    /// All merges so far.
    merges: Vec<Merge>,
    /// By slot: the name of its cluster in merges.
    names: Vec<u32>,
    nodes: Nodes,
    /// By slot: its current node, or [`NONE`].
    node: Vec<u32>,
    /// By slot: the current slot of its first node.
    current_slot: Vec<u32>,
    /// By slot: the candidates of its current node, or of a former one.
    candidates: Vec<KnownNeighbours>,
    /// By slot: the slot of the nearest neighbour, or [`NONE`] if it is not known.
    nearest: Vec<u32>,
}

impl MatrixReciprocalMerges {
    fn new(recurrence: Recurrence, sizes: Vec<f64>, nearest: &NearestClusters) -> Self {
        let n = sizes.len();
        let slots = 0..n as u32;
        let candidates = slots.clone().zip(nearest.iter());
        let candidates = candidates.map(|(slot, nearest)| KnownNeighbours::new(slot, nearest, n));
        let mut state = Self {
            recurrence,
            merges: Vec::with_capacity(n - 1),
            names: slots.collect(),
            nodes: Nodes::default(),
            node: Vec::new(),
            current_slot: Vec::new(),
            candidates: Vec::new(),
            nearest: Vec::new(),
        };
        state.restart(sizes, candidates.collect());
        state
    }

    /// Starts after a pass, with its clusters and their candidates.
    fn restart(&mut self, sizes: Vec<f64>, candidates: Vec<KnownNeighbours>) {
        self.node = (0..sizes.len() as u32).collect();
        self.current_slot = self.node.clone();
        let nearest = |candidates: &KnownNeighbours| candidates.nearest().unwrap_or(NONE);
        self.nearest = candidates.iter().map(nearest).collect();
        self.nodes.restart(sizes);
        self.candidates = candidates;
    }

    /// Merges reciprocal pairs until there is one cluster, or no pair is known.
    fn merge_known_pairs(&mut self, matrix: &dyn Dissimilarities, monitor: &Monitor) -> Result<()> {
        loop {
            monitor.check()?;
            let pairs = self.reciprocal_pairs();
            if pairs.is_empty() {
                return Ok(());
            }
            let merged = self.merge(&pairs);
            let stale = self.stale_slots(&merged);
            self.refresh(&stale, matrix)?;
        }
    }

    /// The slots in increasing order, for tasks of threads.
    fn slots(&self) -> impl IndexedParallelIterator<Item = u32> {
        let slots = (0..self.node.len() as u32).into_par_iter();
        slots.with_min_len(SLOTS_PER_TASK)
    }

    /// The pairs of slots that are reciprocal nearest neighbours, the lower slot first.
    fn reciprocal_pairs(&self) -> Vec<(u32, u32)> {
        let pairs = self.slots().filter_map(|slot| {
            let nearest = self.nearest[slot as usize];
            let is_reciprocal =
                nearest != NONE && slot < nearest && self.nearest[nearest as usize] == slot;
            is_reciprocal.then_some((slot, nearest))
        });
        pairs.collect()
    }

    /// Merges the pairs; returns, by slot, the slot that it was merged into, or [`NONE`].
    fn merge(&mut self, pairs: &[(u32, u32)]) -> Vec<u32> {
        let mut merged_into = vec![NONE; self.node.len()];
        for &(lower, higher) in pairs {
            let [a, b] = [lower, higher].map(|slot| self.node[slot as usize]);
            let height = self.find(a, b).expect("the nearest is a candidate");
            self.merges.push(self.named(Merge {
                lower,
                higher,
                height,
            }));
            self.node[lower as usize] = self.nodes.join([a, b], height, lower);
            self.node[higher as usize] = NONE;
            self.nearest[higher as usize] = NONE;
            merged_into[lower as usize] = lower;
            merged_into[higher as usize] = lower;
        }
        let current_slots = self.current_slot.par_iter_mut();
        current_slots.with_min_len(SLOTS_PER_TASK).for_each(|now| {
            let into = merged_into[*now as usize];
            if into != NONE {
                *now = into;
            }
        });
        merged_into
    }

    /// The slots whose nearest neighbour has to be found again, given the value of `merge()`.
    fn stale_slots(&self, merged_into: &[u32]) -> Vec<u32> {
        let was_merged = |slot: u32| slot != NONE && merged_into[slot as usize] != NONE;
        let is_stale = |&slot: &u32| {
            self.node[slot as usize] != NONE
                && (was_merged(slot) || was_merged(self.nearest[slot as usize]))
        };
        self.slots().filter(is_stale).collect()
    }

    /// The candidates of some slots, by their current slots.
    fn stale<'s>(&self, slots: &'s [u32]) -> StaleSlots<'s> {
        let mut stale = StaleSlots {
            slots,
            neighbours: Vec::new(),
            ends: Vec::with_capacity(slots.len()),
            wanted: Vec::new(),
        };
        let mut neighbours: Vec<(u32, Option<f64>)> = Vec::new();
        for &slot in slots {
            let node = self.node[slot as usize];
            let (first, second) = self.candidates_of(slot);
            let lists = [Some(first), second].into_iter().flatten();
            neighbours.clear();
            neighbours.extend(
                lists
                    .flat_map(KnownNeighbours::known)
                    .map(|known| {
                        let is_exact = first.node == node && self.is_current(known.node);
                        let dissimilarity = is_exact.then_some(known.dissimilarity);
                        (self.slot_of(known.node), dissimilarity)
                    })
                    .filter(|&(neighbour, _)| neighbour != slot),
            );
            neighbours.sort_unstable_by_key(|&(neighbour, _)| neighbour);
            neighbours.dedup_by_key(|&mut (neighbour, _)| neighbour);
            // A dry run, with zeros for the entries.
            for (neighbour, known) in &mut neighbours {
                if known.is_some() {
                    continue;
                }
                let before = stale.wanted.len();
                let other = self.node[*neighbour as usize];
                let dissimilarity = self.dissimilarity(node, other, &mut |i, j| {
                    stale.wanted.push((i, j));
                    0.0
                });
                if stale.wanted.len() == before {
                    *known = Some(dissimilarity);
                }
            }
            stale.neighbours.append(&mut neighbours);
            stale.ends.push(stale.neighbours.len());
        }
        stale
    }

    /// Updates the candidates and nearest neighbours of these slots.
    fn refresh(&mut self, slots: &[u32], matrix: &dyn Dissimilarities) -> Result<()> {
        let this = &*self;
        let stale = of_parts(slots, STALE_PER_TASK, |slots| this.stale(slots));
        let wanted: Vec<&[(u32, u32)]> = stale.iter().map(|some| &some.wanted[..]).collect();
        let mut entries = matrix.entries(&wanted.concat())?;
        let parts = pieces(&mut entries, stale.iter().map(|some| some.wanted.len()));
        let parts: Vec<_> = stale.iter().zip(parts).collect();
        let refreshed = of_parts(&parts, 1, |part| {
            let (stale, entries) = &part[0];
            let mut entries = entries.iter();
            let mut entry = |_, _| *entries.next().expect("as wanted");
            let mut scratch = Vec::new();
            let refreshed = stale.iter().map(|(slot, neighbours)| {
                scratch.clear();
                scratch.extend(this.neighbours(slot, neighbours, &mut entry));
                this.refreshed(slot, &mut scratch)
            });
            refreshed.collect::<Vec<_>>()
        });
        let refreshed: Vec<(u32, &KnownNeighbours)> = slots
            .iter()
            .copied()
            .zip(refreshed.iter().flatten())
            .collect();
        let tasks = refreshed.par_iter().with_min_len(STALE_PER_TASK);
        let nearest = tasks.map(|(_, candidates)| match candidates.nearest() {
            Some(nearest) if this.nodes.slots(candidates.node) <= MOST_SLOTS => {
                this.slot_of(nearest)
            }
            _ => NONE,
        });
        let nearest: Vec<u32> = nearest.collect();
        for (&slot, nearest) in slots.iter().zip(nearest) {
            self.nearest[slot as usize] = nearest;
        }
        on_slots(
            &mut self.candidates,
            1,
            &refreshed,
            |&(slot, _)| slot,
            |&(_, candidates), place| place[0] = *candidates,
        );
        Ok(())
    }

    /// The known neighbours of a slot; `entry` is the dissimilarity of the clusters that were in
    /// two slots after the last pass.
    fn neighbours<'n>(
        &'n self,
        slot: u32,
        neighbours: &'n [(u32, Option<f64>)],
        entry: &'n mut impl FnMut(u32, u32) -> f64,
    ) -> impl Iterator<Item = Neighbour> + 'n {
        let node = self.node[slot as usize];
        neighbours.iter().map(move |&(slot, known)| Neighbour {
            dissimilarity: known
                .unwrap_or_else(|| self.dissimilarity(node, self.node[slot as usize], entry)),
            slot,
        })
    }

    /// The new candidates of a slot, given its known neighbours.
    fn refreshed(&self, slot: u32, neighbours: &mut Vec<Neighbour>) -> KnownNeighbours {
        let node = self.node[slot as usize];
        let (first, second) = self.candidates_of(slot);
        let mut lower_bound = match second {
            Some(second) => self.lower_bound(node, first.lower_bound, second.lower_bound),
            None => first.lower_bound,
        };
        neighbours.retain(|neighbour| *neighbour <= lower_bound);
        neighbours.sort_unstable();
        let most = NearestClusters::of_each(self.node.len());
        if neighbours.len() > most {
            neighbours.truncate(most);
            lower_bound = neighbours[most - 1];
        }
        let known = |neighbour: &Neighbour| KnownNeighbour {
            dissimilarity: neighbour.dissimilarity,
            node: self.node[neighbour.slot as usize],
        };
        KnownNeighbours::with(node, neighbours.iter().map(known), lower_bound)
    }

    /// The lower bound of a union whose parts have these lower bounds.
    fn lower_bound(&self, node: u32, first: Neighbour, second: Neighbour) -> Neighbour {
        if self.recurrence.linkage == Linkage::Complete {
            // Of neighbours with equal dissimilarities, only those in higher slots come after the
            // bound.
            return first.max(second);
        }
        let pair = &self.nodes.union(node).expect("has parts").pair;
        Neighbour {
            dissimilarity: self.recurrence.lower_bound(
                pair,
                first.dissimilarity,
                second.dissimilarity,
            ),
            slot: first.slot.max(second.slot),
        }
    }

    /// The candidates of the node in a slot or, if the node was merged just now, the candidates of
    /// its parts.
    fn candidates_of(&self, slot: u32) -> (&KnownNeighbours, Option<&KnownNeighbours>) {
        let candidates = &self.candidates[slot as usize];
        match self.nodes.union(self.node[slot as usize]) {
            Some(union) if candidates.node == union.parts[0] => {
                let other = self.nodes.lowest(union.parts[1]);
                (candidates, Some(&self.candidates[other as usize]))
            }
            _ => (candidates, None),
        }
    }

    /// The dissimilarity of two nodes, as [`Contraction`] defines it.
    fn dissimilarity(&self, u: u32, v: u32, entry: &mut impl FnMut(u32, u32) -> f64) -> f64 {
        let (older, younger) = (u.min(v), u.max(v));
        let Some(union) = self.nodes.union(younger) else {
            return entry(older, younger);
        };
        self.find(u, v)
            .or_else(|| self.find(v, u))
            .unwrap_or_else(|| {
                let [first, second] = union
                    .parts
                    .map(|part| self.dissimilarity(part, older, entry));
                let size = self.nodes.size(older);
                self.recurrence.update(&union.pair, first, second, size)
            })
    }

    /// The dissimilarity of two nodes, if the second is a candidate of the first.
    fn find(&self, u: u32, v: u32) -> Option<f64> {
        let candidates = &self.candidates[self.nodes.lowest(u) as usize];
        if candidates.node != u {
            return None;
        }
        candidates.dissimilarity_of(v)
    }

    /// Whether a node was not merged away.
    fn is_current(&self, node: u32) -> bool {
        self.node[self.nodes.lowest(node) as usize] == node
    }

    /// The current slot of a node.
    fn slot_of(&self, node: u32) -> u32 {
        self.current_slot[self.nodes.lowest(node) as usize]
    }

    /// A merge of slots, by the names of their clusters.
    fn named(&self, merge: Merge) -> Merge {
        Merge {
            lower: self.names[merge.lower as usize],
            higher: self.names[merge.higher as usize],
            ..merge
        }
    }

    /// Contracts the matrix, and restarts with the remaining clusters.
    fn contract(&mut self, matrix: &mut dyn Dissimilarities, monitor: &Monitor) -> Result<()> {
        let active = |&slot: &u32| self.node[slot as usize] != NONE;
        let active: Vec<u32> = (0..self.node.len() as u32).filter(active).collect();
        let is_outdated = |&slot: &u32| {
            let candidates = &self.candidates[slot as usize];
            !candidates.are_few() && !candidates.known().all(|known| self.is_current(known.node))
        };
        let outdated: Vec<u32> = active.par_iter().copied().filter(is_outdated).collect();
        self.refresh(&outdated, matrix)?;

        let few = |new: &u32| self.candidates[active[*new as usize] as usize].are_few();
        let wanted: Vec<u32> = (0..active.len() as u32).filter(few).collect();
        let merge = |union: &UnionNode| ContractedMerge {
            lower: union.lowest,
            higher: self.nodes.lowest(union.parts[1]),
            pair: union.pair,
        };
        let merges: Vec<ContractedMerge> = self.nodes.unions.iter().map(merge).collect();
        let contraction = Contraction {
            recurrence: self.recurrence,
            sizes: &self.nodes.sizes,
            merges: &merges,
        };
        let nearest = matrix.contract(&contraction, &wanted, monitor)?;

        let mut candidates: Vec<KnownNeighbours> = active
            .par_iter()
            .map(|&slot| self.renumbered(slot, &active))
            .collect();
        for (&slot, nearest) in wanted.iter().zip(nearest.iter()) {
            candidates[slot as usize] = KnownNeighbours::new(slot, nearest, active.len());
        }
        let names = active.iter().map(|&slot| self.names[slot as usize]);
        self.names = names.collect();
        let node = |&slot: &u32| self.node[slot as usize];
        let sizes = active.iter().map(|slot| self.nodes.size(node(slot)));
        let sizes = sizes.collect();
        self.restart(sizes, candidates);
        Ok(())
    }

    /// The candidates of a slot, with each slot replaced by its index among the `active` slots.
    fn renumbered(&self, slot: u32, active: &[u32]) -> KnownNeighbours {
        // An empty slot gets the number of the next active slot below it, which keeps the order.
        let number = |slot: u32| match slot {
            NONE => NONE,
            slot => active.partition_point(|&other| other <= slot) as u32 - 1,
        };
        let candidates = &self.candidates[slot as usize];
        let known = |known: KnownNeighbour| KnownNeighbour {
            node: number(self.slot_of(known.node)),
            ..known
        };
        let lower_bound = Neighbour {
            slot: number(candidates.lower_bound.slot),
            ..candidates.lower_bound
        };
        KnownNeighbours::with(number(slot), candidates.known().map(known), lower_bound)
    }
}
