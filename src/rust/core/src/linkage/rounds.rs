//! Reducible linkages: rounds in which all clusters merge that are each other's nearest.
//!
//! No round looks at all dissimilarities. Of each cluster a few nearest ones are known, found while
//! the device had all dissimilarities going by, and a floor: no other cluster is nearer than that.
//! When clusters merge, the dissimilarities of these few to the new cluster are looked up, and for
//! the others the floors still hold, as the linkage is reducible. Rounds go on until too many
//! clusters have nothing left above their floors, so that no pair is known to be each other's
//! nearest. Then the device replaces what has merged by what it became, in one pass over the
//! dissimilarities, and finds the nearest ones anew.
//!
//! Each such pass is over a matrix that is smaller by a share of its rows at least; what makes less
//! progress (chains of ever larger clusters, or many equal dissimilarities) is left to
//! [`super::chain`]. So time is O(n²) whatever the data.

use std::collections::HashMap;

use rayon::prelude::*;

use super::condensed::pairs;
use super::dissimilarities::{Contraction, Dissimilarities, Fusion, Nearest, Neighbour, NEAREST};
use super::lance_williams::{Linkage, Recurrence, Union};
use crate::error::Result;
use crate::merge::Merge;
use crate::monitor::Monitor;

/// A pass over all dissimilarities is worth its time if this share of the clusters merged since the
/// last one.
const LEAST_PROGRESS: f64 = 1.0 / 16.0;

/// Clusters of more slots than this wait for the next pass: what is looked up for them grows with
/// their number.
const MOST_SLOTS: u32 = 64;

/// Of a cluster with fewer known neighbours than this, a pass finds the nearest ones anew.
const FEWEST_KNOWN: usize = NEAREST / 3;

/// No slot or node.
const NONE: u32 = u32::MAX;

/// The merges of all clusters of `matrix` to one, whose sizes are `sizes`, each merge after those
/// that made its parts. The clusters of a merge go by the lowest slot in each.
///
/// Takes O(n²) time.
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
    let mut rounds = Rounds::new(recurrence, sizes, &nearest);
    loop {
        let clusters = rounds.sizes.len();
        rounds.run(matrix, monitor)?;
        if rounds.made.len() + 1 == clusters {
            return Ok(rounds.merges);
        }
        rounds.contract(matrix, monitor)?;
        let left = rounds.sizes.len();
        monitor.advance((pairs(clusters) - pairs(left)) as u64);
        if ((clusters - left) as f64) < LEAST_PROGRESS * clusters as f64 {
            let rest = matrix.chain(recurrence, &rounds.sizes, monitor)?;
            let rest = rest.into_iter().map(|merge| rounds.named(merge));
            rounds.merges.extend(rest.collect::<Vec<_>>());
            return Ok(rounds.merges);
        }
    }
}

/// A cluster that came to be between two passes over the dissimilarities: its parts, by node.
#[derive(Debug, Clone, Copy)]
struct Made {
    parts: [u32; 2],
    union: Union,
    /// How many slots it holds, and the lowest.
    slots: u32,
    lowest: u32,
}

/// A node and how far it is.
#[derive(Debug, Clone, Copy)]
struct Known {
    dissimilarity: f64,
    node: u32,
}

/// What is known of the neighbours of a node.
#[derive(Debug, Clone)]
struct View {
    node: u32,
    /// Some of them may have become part of others since.
    known: Vec<Known>,
    /// All that are not known come after this.
    floor: Neighbour,
}

/// After all others.
const LAST: Neighbour = Neighbour {
    dissimilarity: f64::INFINITY,
    slot: NONE,
};

impl View {
    /// Of a slot whose nearest neighbours these are, of `n` clusters.
    fn new(slot: u32, nearest: &[Neighbour], n: usize) -> Self {
        let known = |neighbour: &Neighbour| Known {
            dissimilarity: neighbour.dissimilarity,
            node: neighbour.slot,
        };
        let floor = match nearest.last() {
            Some(last) if nearest.len() + 1 < n => *last,
            _ => LAST,
        };
        Self {
            node: slot,
            known: nearest.iter().map(known).collect(),
            floor,
        }
    }

    /// Whether so little is known that a pass should find more.
    fn is_short(&self) -> bool {
        self.known.len() < FEWEST_KNOWN && self.floor != LAST
    }
}

/// A slot to be looked at again.
struct Outlook<'a> {
    slot: u32,
    /// The view of its node or, where that was merged in this round, those of its parts.
    views: Vec<&'a View>,
    /// The slots that what these know is in now, in increasing order, and how dissimilar it is, if
    /// nothing has changed since.
    neighbours: Vec<(u32, Option<f64>)>,
}

/// All that is known between two passes over the dissimilarities.
///
/// Nodes 0, 1, … are the clusters in the slots after the last pass, and those that came to be since
/// follow in that order.
struct Rounds {
    recurrence: Recurrence,
    /// All so far.
    merges: Vec<Merge>,
    /// By slot: what merges call the cluster there.
    names: Vec<u32>,
    /// By slot: the size of its first node.
    sizes: Vec<f64>,
    made: Vec<Made>,
    /// By slot: the node there now, or `NONE`.
    node: Vec<u32>,
    /// By slot: where its first node is now.
    now_in: Vec<u32>,
    /// By slot: of the node there now, or of one of before.
    views: Vec<View>,
    /// By slot: the slot of the nearest neighbour, or `NONE` where it is not known.
    head: Vec<u32>,
}

impl Rounds {
    fn new(recurrence: Recurrence, sizes: Vec<f64>, nearest: &Nearest) -> Self {
        let n = sizes.len();
        let slots = 0..n as u32;
        let views = slots.clone().zip(nearest.iter());
        let views = views.map(|(slot, nearest)| View::new(slot, nearest, n));
        let mut rounds = Self {
            recurrence,
            merges: Vec::with_capacity(n - 1),
            names: slots.collect(),
            sizes: Vec::new(),
            made: Vec::new(),
            node: Vec::new(),
            now_in: Vec::new(),
            views: Vec::new(),
            head: Vec::new(),
        };
        rounds.start(sizes, views.collect());
        rounds
    }

    /// Starts after a pass, which gave these views of all slots.
    fn start(&mut self, sizes: Vec<f64>, views: Vec<View>) {
        self.made.clear();
        self.node = (0..sizes.len() as u32).collect();
        self.now_in = self.node.clone();
        let head = |view: &View| view.known.first().map_or(NONE, |nearest| nearest.node);
        self.head = views.iter().map(head).collect();
        self.sizes = sizes;
        self.views = views;
    }

    /// Rounds until there is one cluster, or no pair is known to be each other's nearest.
    fn run(&mut self, matrix: &dyn Dissimilarities, monitor: &Monitor) -> Result<()> {
        loop {
            monitor.check()?;
            let pairs = self.reciprocal();
            if pairs.is_empty() {
                return Ok(());
            }
            let merged = self.merge(&pairs);
            let stale = self.stale(&merged);
            self.look_again(&stale, matrix)?;
        }
    }

    /// The pairs of slots that are each other's nearest, the lower first.
    fn reciprocal(&self) -> Vec<(u32, u32)> {
        let slots = 0..self.head.len() as u32;
        slots
            .zip(&self.head)
            .filter(|&(slot, &head)| {
                head != NONE && slot < head && self.head[head as usize] == slot
            })
            .map(|(slot, &head)| (slot, head))
            .collect()
    }

    /// Merges the pairs; says of each slot whether it had part in it.
    fn merge(&mut self, pairs: &[(u32, u32)]) -> Vec<bool> {
        let mut merged = vec![false; self.node.len()];
        for &(lower, higher) in pairs {
            let [a, b] = [lower, higher].map(|slot| self.node[slot as usize]);
            let height = self.find(a, b).expect("the nearest is known");
            self.merges.push(self.named(Merge {
                lower,
                higher,
                height,
            }));
            self.made.push(Made {
                parts: [a, b],
                union: Union {
                    height,
                    sizes: [self.size(a), self.size(b)],
                },
                slots: self.slots(a) + self.slots(b),
                lowest: lower,
            });
            self.node[lower as usize] = (self.sizes.len() + self.made.len() - 1) as u32;
            self.node[higher as usize] = NONE;
            self.head[higher as usize] = NONE;
            merged[lower as usize] = true;
            merged[higher as usize] = true;
        }
        let into: HashMap<u32, u32> = pairs.iter().map(|&(low, high)| (high, low)).collect();
        for now in &mut self.now_in {
            if merged[*now as usize] {
                *now = *into.get(now).unwrap_or(now);
            }
        }
        merged
    }

    /// The slots whose nearest neighbour has to be found again, `merged` being those that had part
    /// in the last round.
    fn stale(&self, merged: &[bool]) -> Vec<u32> {
        let is_stale = |&slot: &u32| {
            let head = self.head[slot as usize];
            self.node[slot as usize] != NONE
                && (merged[slot as usize] || head != NONE && merged[head as usize])
        };
        (0..self.node.len() as u32).filter(is_stale).collect()
    }

    /// A slot to be looked at again.
    fn outlook(&self, slot: u32) -> Outlook<'_> {
        let node = self.node[slot as usize];
        let views = self.views_of(slot);
        let mut neighbours: Vec<(u32, Option<f64>)> = views
            .iter()
            .flat_map(|view| &view.known)
            .map(|known| {
                let neighbour = self.slot_of(known.node);
                let is_exact = views[0].node == node && self.is_current(known.node);
                (neighbour, is_exact.then_some(known.dissimilarity))
            })
            .filter(|&(neighbour, _)| neighbour != slot)
            .collect();
        neighbours.sort_unstable_by_key(|&(neighbour, _)| neighbour);
        neighbours.dedup_by_key(|&mut (neighbour, _)| neighbour);
        Outlook {
            slot,
            views,
            neighbours,
        }
    }

    /// Finds the neighbours of these slots again, as they are now.
    fn look_again(&mut self, slots: &[u32], matrix: &dyn Dissimilarities) -> Result<()> {
        let this = &*self;
        let outlooks: Vec<Outlook> = slots.par_iter().map(|&slot| this.outlook(slot)).collect();
        // First what has to be looked up, then the same again with that at hand.
        let wanted: Vec<Vec<(u32, u32)>> = outlooks
            .par_iter()
            .map(|outlook| {
                let mut wanted = Vec::new();
                this.neighbours(outlook, &mut |i, j| {
                    wanted.push((i, j));
                    0.0
                });
                wanted
            })
            .collect();
        let entries = matrix.entries(&wanted.concat())?;
        let mut rest = &entries[..];
        let parts: Vec<&[f64]> = wanted
            .iter()
            .map(|wanted| {
                let (part, after) = rest.split_at(wanted.len());
                rest = after;
                part
            })
            .collect();
        let views: Vec<View> = outlooks
            .par_iter()
            .zip(parts)
            .map(|(outlook, entries)| {
                let mut entries = entries.iter();
                let neighbours =
                    this.neighbours(outlook, &mut |_, _| *entries.next().expect("as wanted"));
                this.view(outlook, neighbours)
            })
            .collect();
        for (&slot, view) in slots.iter().zip(views) {
            let waits = self.slots(view.node) > MOST_SLOTS;
            self.head[slot as usize] = match view.known.first() {
                Some(nearest) if !waits => self.slot_of(nearest.node),
                _ => NONE,
            };
            self.views[slot as usize] = view;
        }
        Ok(())
    }

    /// The neighbours that are known; `entry` says how dissimilar the clusters are that were in two
    /// slots after the last pass.
    fn neighbours(
        &self,
        outlook: &Outlook,
        entry: &mut impl FnMut(u32, u32) -> f64,
    ) -> Vec<Neighbour> {
        let node = self.node[outlook.slot as usize];
        let neighbours = outlook.neighbours.iter();
        neighbours
            .map(|&(slot, known)| Neighbour {
                dissimilarity: known
                    .unwrap_or_else(|| self.dissimilarity(node, self.node[slot as usize], entry)),
                slot,
            })
            .collect()
    }

    /// The view of a slot, of these neighbours.
    fn view(&self, outlook: &Outlook, mut neighbours: Vec<Neighbour>) -> View {
        let node = self.node[outlook.slot as usize];
        let mut floor = match outlook.views[..] {
            [first, second] => self.floor(node, first.floor, second.floor),
            _ => outlook.views[0].floor,
        };
        neighbours.retain(|neighbour| *neighbour <= floor);
        neighbours.sort_unstable();
        let most = Nearest::of_each(self.node.len());
        if neighbours.len() > most {
            neighbours.truncate(most);
            floor = neighbours[most - 1];
        }
        let known = |neighbour: &Neighbour| Known {
            dissimilarity: neighbour.dissimilarity,
            node: self.node[neighbour.slot as usize],
        };
        View {
            node,
            known: neighbours.iter().map(known).collect(),
            floor,
        }
    }

    /// What all come after that are not known, of a node whose parts have these floors.
    fn floor(&self, node: u32, first: Neighbour, second: Neighbour) -> Neighbour {
        if self.recurrence.linkage == Linkage::Complete {
            // Of equally dissimilar ones only those in higher slots.
            return first.max(second);
        }
        let union = &self.made(node).expect("has parts").union;
        Neighbour {
            dissimilarity: self
                .recurrence
                .floor(union, first.dissimilarity, second.dissimilarity),
            slot: first.slot.max(second.slot),
        }
    }

    /// The view of the node in a slot or, if it has merged in this round, those of its parts.
    fn views_of(&self, slot: u32) -> Vec<&View> {
        let view = &self.views[slot as usize];
        match self.made(self.node[slot as usize]) {
            Some(made) if view.node == made.parts[0] => {
                vec![view, &self.views[self.lowest(made.parts[1]) as usize]]
            }
            _ => vec![view],
        }
    }

    /// The dissimilarity of two nodes, as [`Contraction`] defines it.
    fn dissimilarity(&self, u: u32, v: u32, entry: &mut impl FnMut(u32, u32) -> f64) -> f64 {
        let (older, younger) = (u.min(v), u.max(v));
        let Some(made) = self.made(younger) else {
            return entry(older, younger);
        };
        self.find(u, v)
            .or_else(|| self.find(v, u))
            .unwrap_or_else(|| {
                let [first, second] = made
                    .parts
                    .map(|part| self.dissimilarity(part, older, entry));
                let size = self.size(older);
                self.recurrence.update(&made.union, first, second, size)
            })
    }

    /// The dissimilarity of two nodes, if there is a view of the first that knows the second.
    fn find(&self, u: u32, v: u32) -> Option<f64> {
        let view = &self.views[self.lowest(u) as usize];
        if view.node != u {
            return None;
        }
        let known = view.known.iter().find(|known| known.node == v)?;
        Some(known.dissimilarity)
    }

    fn made(&self, node: u32) -> Option<&Made> {
        let at = (node as usize).checked_sub(self.sizes.len())?;
        Some(&self.made[at])
    }

    fn size(&self, node: u32) -> f64 {
        self.made(node)
            .map_or_else(|| self.sizes[node as usize], |made| made.union.size())
    }

    fn slots(&self, node: u32) -> u32 {
        self.made(node).map_or(1, |made| made.slots)
    }

    fn lowest(&self, node: u32) -> u32 {
        self.made(node).map_or(node, |made| made.lowest)
    }

    /// Whether a node has not become part of another one.
    fn is_current(&self, node: u32) -> bool {
        self.node[self.lowest(node) as usize] == node
    }

    /// The slot that a node is in now.
    fn slot_of(&self, node: u32) -> u32 {
        self.now_in[self.lowest(node) as usize]
    }

    /// A merge of slots under the names of their clusters.
    fn named(&self, merge: Merge) -> Merge {
        Merge {
            lower: self.names[merge.lower as usize],
            higher: self.names[merge.higher as usize],
            ..merge
        }
    }

    /// Has the matrix replace what has merged, and starts anew with the clusters that are left.
    fn contract(&mut self, matrix: &mut dyn Dissimilarities, monitor: &Monitor) -> Result<()> {
        let live = |&slot: &u32| self.node[slot as usize] != NONE;
        let live: Vec<u32> = (0..self.node.len() as u32).filter(live).collect();
        let is_outdated = |&slot: &u32| {
            let view = &self.views[slot as usize];
            !view.is_short() && !view.known.iter().all(|known| self.is_current(known.node))
        };
        let outdated: Vec<u32> = live.par_iter().copied().filter(is_outdated).collect();
        self.look_again(&outdated, matrix)?;

        let short = |new: &u32| self.views[live[*new as usize] as usize].is_short();
        let wanted: Vec<u32> = (0..live.len() as u32).filter(short).collect();
        let fusion = |made: &Made| Fusion {
            lower: made.lowest,
            higher: self.lowest(made.parts[1]),
            union: made.union,
        };
        let fusions: Vec<Fusion> = self.made.iter().map(fusion).collect();
        let contraction = Contraction {
            recurrence: self.recurrence,
            sizes: &self.sizes,
            fusions: &fusions,
        };
        let nearest = matrix.contract(&contraction, &wanted, monitor)?;

        let mut views: Vec<View> = live
            .par_iter()
            .map(|&slot| self.renumbered(slot, &live))
            .collect();
        for (&slot, nearest) in wanted.iter().zip(nearest.iter()) {
            views[slot as usize] = View::new(slot, nearest, live.len());
        }
        self.names = live.iter().map(|&slot| self.names[slot as usize]).collect();
        let sizes = live.iter().map(|&slot| self.size(self.node[slot as usize]));
        let sizes = sizes.collect();
        self.start(sizes, views);
        Ok(())
    }

    /// The view of a slot, as slots are numbered when only those in `live` are left.
    fn renumbered(&self, slot: u32, live: &[u32]) -> View {
        // Of a slot that is gone, the next live one below it: what came after it still does.
        let number = |slot: u32| match slot {
            NONE => NONE,
            slot => live.partition_point(|&other| other <= slot) as u32 - 1,
        };
        let view = &self.views[slot as usize];
        let known = |known: &Known| Known {
            node: number(self.slot_of(known.node)),
            ..*known
        };
        View {
            node: number(slot),
            known: view.known.iter().map(known).collect(),
            floor: Neighbour {
                slot: number(view.floor.slot),
                ..view.floor
            },
        }
    }
}
