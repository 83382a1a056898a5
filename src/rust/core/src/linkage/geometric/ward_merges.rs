//! The merges of Ward's linkage, by reciprocal nearest neighbours.
//!
//! In every round, all pairs of reciprocal nearest neighbours merge. Ward's linkage is reducible: a
//! union is never nearer to a cluster than the nearer of its parts. So reciprocal pairs stay
//! reciprocal until they merge, and the result is the tree that merging the nearest of all pairs
//! each time would give.
//!
//! The same property saves most searches. A search finds a few nearest clusters of a cluster, and a
//! lower bound on the distances of all others. The bound stays valid for every cluster that
//! contains none of the clusters found. Unions inherit the bounds of their parts
//! ([`NearClusters::unite`]).

use super::near_clusters::NearClusters;
use crate::error::Result;
use crate::matrix::{bounding_box, RowSlices};
use crate::memory;
use crate::merge::Merge;
use crate::monitor::Monitor;
use crate::neighbours::{Except, NeighbourRequest, Neighbours};
use crate::observations::Observations;

/// Number of clusters that a search finds. A larger number makes searches slower and rarer. Apart
/// from ties, the tree does not depend on it.
const WANTED: usize = 8;

/// Number of its parts' near clusters that a union keeps. Apart from ties, the tree does not depend
/// on it.
const KEPT: usize = 2 * WANTED;

/// The start of memory errors: what needs the memory.
const CLUSTERS: &str = "the clusters of a linkage need";

/// The merges so far, and the remaining clusters.
pub struct WardMerges<'a> {
    neighbours: &'a mut dyn Neighbours,
    monitor: &'a Monitor,
    /// Number of members, by slot; 0 for an empty slot.
    sizes: Vec<f64>,
    /// By empty slot: the slot that its cluster was merged into.
    merged_into: Vec<u32>,
    near: Vec<NearClusters>,
    /// The nearest cluster and its distance, by slot.
    nearest: Vec<(f64, u32)>,
    /// By slot: the slots that had it as their nearest.
    followers: Vec<Vec<u32>>,
    /// An upper bound on the change of a distance between single observations by the rounding of
    /// centroids in one round.
    rounding: f64,
    rounds: f64,
    merges: Vec<Merge>,
}

impl<'a> WardMerges<'a> {
    /// The state with one cluster for each row of `x`.
    pub fn new(
        x: &Observations,
        neighbours: &'a mut dyn Neighbours,
        monitor: &'a Monitor,
    ) -> Result<Self> {
        let n = x.nrows();
        let rows = x.values().chunks_exact(x.ncols());
        let (least, greatest) = bounding_box(rows, x.ncols());
        let spans = least.iter().zip(&greatest).map(|(l, g)| g - l);
        let diagonal = spans.map(|span| span * span).sum::<f64>().sqrt();
        Ok(Self {
            neighbours,
            monitor,
            sizes: memory::filled(CLUSTERS, n, 1.0)?,
            merged_into: memory::collected(CLUSTERS, 0..n as u32)?,
            near: memory::filled(CLUSTERS, n, NearClusters::unknown())?,
            nearest: memory::filled(CLUSTERS, n, (f64::NAN, u32::MAX))?,
            followers: memory::filled(CLUSTERS, n, Vec::new())?,
            rounding: 8.0 * f64::EPSILON * diagonal,
            rounds: 0.0,
            merges: memory::room(CLUSTERS, n - 1)?,
        })
    }

    /// All merges, each after the merges of its parts.
    pub fn into_merges(self) -> Vec<Merge> {
        self.merges
    }

    /// Number of remaining clusters.
    fn clusters(&self) -> usize {
        self.sizes.len() - self.merges.len()
    }

    /// Merges equal observations, which would otherwise form cycles of nearest neighbours.
    pub fn merge_duplicates(&mut self, x: &Observations) -> Result<()> {
        let order = |&i: &u32, &j: &u32| {
            let (a, b) = (x.row_slice(i as usize), x.row_slice(j as usize));
            let pairs = a.iter().zip(b).map(|(a, b)| a.total_cmp(b));
            pairs.fold(std::cmp::Ordering::Equal, |all, one| all.then(one))
        };
        let mut slots = memory::collected(CLUSTERS, 0..x.nrows() as u32)?;
        slots.sort_by(order);
        let mut groups: Vec<&[u32]> = slots.chunk_by(|i, j| order(i, j).is_eq()).collect();
        groups.sort_unstable_by_key(|equal| equal[0]);
        for equal in groups {
            for &higher in &equal[1..] {
                self.merge(equal[0], higher, 0.0)?;
            }
        }
        // These merges need no search.
        self.monitor.advance(2 * self.merges.len() as u64);
        Ok(())
    }

    /// Merges all clusters to one.
    pub fn merge_all(&mut self) -> Result<()> {
        let mut changed = self.all();
        for some in changed.chunks(self.neighbours.batch()) {
            self.search(some)?;
            self.monitor.advance(some.len() as u64);
        }
        while self.clusters() > 1 {
            let pairs = self.reciprocal(&changed);
            if pairs.is_empty() {
                // If distances tie, a new cluster may be as near as a known nearest neighbour, and
                // nearest neighbours may form a cycle. After a search for all clusters, the first
                // of the nearest pairs is reciprocal.
                changed = self.all();
                self.search(&changed)?;
                continue;
            }
            changed.clear();
            for &(lower, higher) in &pairs {
                let (height, _) = self.nearest[lower as usize];
                let sizes = [lower, higher].map(|slot| self.sizes[slot as usize]);
                let other =
                    std::mem::replace(&mut self.near[higher as usize], NearClusters::unknown());
                self.near[lower as usize].unite(other, sizes, height);
                self.merge(lower, higher, height)?;
                for slot in [lower, higher] {
                    for follower in std::mem::take(&mut self.followers[slot as usize]) {
                        let (_, nearest) = self.nearest[follower as usize];
                        if nearest == slot && self.sizes[follower as usize] > 0.0 {
                            changed.push(follower);
                        }
                    }
                }
            }
            self.monitor.advance(pairs.len() as u64);
            self.rounds += 1.0;
            changed.sort_unstable();
            changed.dedup();
            self.settle(&changed)?;
        }
        Ok(())
    }

    /// The slots of all clusters.
    fn all(&self) -> Vec<u32> {
        let slots = 0..self.sizes.len() as u32;
        slots
            .filter(|&slot| self.sizes[slot as usize] > 0.0)
            .collect()
    }

    /// The pairs of reciprocal nearest neighbours with at least one cluster among `slots`.
    fn reciprocal(&self, slots: &[u32]) -> Vec<(u32, u32)> {
        let nearest = |slot: u32| self.nearest[slot as usize].1;
        let mut pairs: Vec<(u32, u32)> = slots
            .iter()
            .map(|&slot| (slot, nearest(slot)))
            .filter(|&(slot, other)| nearest(other) == slot)
            .map(|(slot, other)| (slot.min(other), slot.max(other)))
            .collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }

    /// Merges two clusters into the lower slot.
    fn merge(&mut self, lower: u32, higher: u32, height: f64) -> Result<()> {
        self.neighbours.merge(lower, higher)?;
        self.sizes[lower as usize] += self.sizes[higher as usize];
        self.sizes[higher as usize] = 0.0;
        self.merged_into[higher as usize] = lower;
        self.merges.push(Merge {
            lower,
            higher,
            height,
        });
        Ok(())
    }

    /// Finds the nearest cluster of each of `slots`, without a search if the near clusters suffice.
    fn settle(&mut self, slots: &[u32]) -> Result<()> {
        let mut pairs = Vec::new();
        for &slot in slots {
            let found = std::mem::take(&mut self.near[slot as usize].found);
            let mut others: Vec<u32> = found
                .iter()
                .map(|&other| self.current_slot(other))
                .collect();
            others.sort_unstable();
            others.dedup();
            pairs.extend(others.iter().filter(|&&o| o != slot).map(|&o| (slot, o)));
        }
        let distances = self.neighbours.distances(&pairs)?;
        let mut start = 0;
        let mut to_search = Vec::new();
        for &slot in slots {
            let end = start
                + pairs[start..]
                    .iter()
                    .take_while(|pair| pair.0 == slot)
                    .count();
            let others = pairs[start..end].iter().map(|pair| pair.1);
            let mut near: Vec<(f64, u32)> =
                distances[start..end].iter().copied().zip(others).collect();
            start = end;
            near.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let known = &mut self.near[slot as usize];
            if near.len() > KEPT {
                known.lower_bound = known.lower_bound.min(near[KEPT].0);
                near.truncate(KEPT);
            }
            known.found = near.iter().map(|&(_, other)| other).collect();
            // Centroids have been rounded since the search that gave the bound.
            let rounding = self.rounding * self.rounds * (2.0 * self.sizes[slot as usize]).sqrt();
            let lower_bound = known.lower_bound * (1.0 - 1e-10) - rounding;
            match near.first() {
                Some(&nearest) if nearest.0 < lower_bound => self.set_nearest(slot, nearest),
                _ => to_search.push(slot),
            }
        }
        self.search(&to_search)
    }

    /// The current slot of the cluster that was in `slot`.
    fn current_slot(&mut self, mut slot: u32) -> u32 {
        while self.merged_into[slot as usize] != slot {
            let into = self.merged_into[slot as usize];
            self.merged_into[slot as usize] = self.merged_into[into as usize];
            slot = into;
        }
        slot
    }

    /// Records the nearest cluster of a slot, and its follower.
    fn set_nearest(&mut self, slot: u32, nearest: (f64, u32)) {
        self.nearest[slot as usize] = nearest;
        self.followers[nearest.1 as usize].push(slot);
    }

    /// Searches for the nearest clusters of each of `slots`.
    fn search(&mut self, slots: &[u32]) -> Result<()> {
        for queries in slots.chunks(self.neighbours.batch()) {
            self.monitor.check()?;
            let nearest = self.neighbours.nearest(&NeighbourRequest {
                queries,
                wanted: WANTED,
                limits: None,
                except: Except::Itself,
            })?;
            for (&slot, near) in queries.iter().zip(nearest.iter()) {
                let (Some(&first), Some(&(last, _))) = (near.first(), near.last()) else {
                    // There is only this cluster.
                    continue;
                };
                self.near[slot as usize] = NearClusters {
                    found: near.iter().map(|&(_, other)| other).collect(),
                    lower_bound: if near.len() == WANTED {
                        last
                    } else {
                        f64::INFINITY
                    },
                };
                self.set_nearest(slot, first);
            }
        }
        Ok(())
    }
}
