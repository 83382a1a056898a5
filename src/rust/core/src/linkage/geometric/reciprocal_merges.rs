//! Merges of clusters by reciprocal nearest neighbours, without a matrix of distances:
//! `linkage::reciprocal` does the same with a matrix, where a cluster's neighbours are read from
//! its row and not searched for.
//!
//! In every round, all pairs of reciprocal nearest neighbours merge. The linkages are reducible: a
//! union is never nearer to a cluster than the nearer of its parts. So reciprocal pairs stay
//! reciprocal until they merge, and the result is the tree that merging the nearest of all pairs
//! each time would give.
//!
//! The same property saves most searches. A search finds a few nearest clusters of a cluster, and a
//! lower bound on the distances of all others. The bound stays valid for every cluster that
//! contains none of the clusters found. Unions inherit the bounds of their parts
//! ([`bound_of_union`]).

use rayon::prelude::*;

use super::near_clusters::{bound_of_union, NearClusters, WANTED};
use super::nearest::{Nearest, CLUSTERS, NONE};
use crate::error::{Error, Result};
use crate::matrix::bounding_box_on_threads;
use crate::memory;
use crate::merge::Merge;
use crate::metric::Points;
use crate::monitor::Monitor;
use crate::neighbours::{
    ClusterMeans, Exclusion, MeanLinkage, NeighbourDevice, NeighbourRequest, Neighbours,
};
use crate::tasks::on_slots;

/// Number of clusters per task of a thread, where a cluster takes a few reads, and where it takes
/// some distances. Only the time depends on them.
const CLUSTERS_PER_TASK: usize = 64;
const EXAMINED_PER_TASK: usize = 16;

/// Number of clusters whose near clusters are examined together. Only memory and time depend on it.
const CLUSTERS_AT_A_TIME: usize = 1 << 14;

/// Largest number of searches per merge of a round. If a round needs more searches, a cluster is
/// searched only when its nearest cluster is needed. Rounds need more if distances tie: all tied
/// clusters share one nearest cluster, and each merge of it would repeat the searches of them all.
/// Apart from ties, the tree does not depend on it.
pub const SEARCHES_PER_MERGE: usize = 32;

/// The merges so far, and the remaining clusters.
pub struct ReciprocalMerges<'a> {
    linkage: MeanLinkage,
    neighbours: &'a mut dyn Neighbours,
    monitor: &'a Monitor,
    /// Number of members, by slot; 0 for an empty slot.
    sizes: Vec<f64>,
    /// By empty slot: the slot that its cluster was merged into.
    merged_into: Vec<u32>,
    near: Vec<NearClusters>,
    /// By slot: the last round that changed its cluster. Rounds count from 1.
    changed_in: Vec<u32>,
    nearest: Nearest,
    /// An upper bound on the distance by which rounding moves two means in a round.
    rounding_per_round: f64,
    round: u32,
    merges: Vec<Merge>,
}

/// Share by which a lower bound is reduced, for the rounding of [`bound_of_union`] in all unions
/// since the search. Each union adds a relative error below 8·2⁻⁵³, so the share covers 100,000
/// unions in a row without a search. If too small, a cluster could merge with one that is not its
/// nearest; if too large, more searches are needed.
const BOUND_MARGIN: f64 = 1e-10;

/// A cluster whose nearest cluster has to be found, or has just been found; and the slot of the
/// cluster that was merged into it in this round, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Changed {
    slot: u32,
    part: u32,
}

/// A copy of the remaining clusters, with numbers in place of slots.
struct CopiedClusters {
    clusters: ClusterMeans,
    /// By number: the slot; the distance of the nearest cluster; and the number of that cluster.
    slots: Vec<u32>,
    distances: Vec<f64>,
    nearest: Vec<u32>,
}

/// A changed cluster after its near clusters were examined.
struct Settled {
    slot: u32,
    near: NearClusters,
    /// The distance and the slot of the nearest cluster; `None` if only a search can find them.
    nearest: Option<(f64, u32)>,
}

impl<'a> ReciprocalMerges<'a> {
    /// The state with one cluster of `neighbours` for each of these points, given their sizes and
    /// the clusters near them. Rows are centred, for Ward's linkage, or of unit length.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn new(
        points: &Points,
        sizes: &[f64],
        linkage: MeanLinkage,
        near: Vec<NearClusters>,
        neighbours: &'a mut dyn Neighbours,
        monitor: &'a Monitor,
    ) -> Result<Self> {
        let n = points.rows();
        let length = match linkage {
            MeanLinkage::Ward => diagonal(points),
            MeanLinkage::Average | MeanLinkage::Mcquitty => 1.0,
        };
        Ok(Self {
            linkage,
            neighbours,
            monitor,
            sizes: memory::collected(CLUSTERS, sizes.iter().copied())?,
            merged_into: memory::collected(CLUSTERS, 0..n as u32)?,
            near,
            changed_in: memory::filled(CLUSTERS, n, 1)?,
            nearest: Nearest::new(n)?,
            rounding_per_round: 8.0 * f64::EPSILON * length,
            round: 1,
            merges: memory::room(CLUSTERS, n - 1)?,
        })
    }

    /// Number of remaining clusters.
    fn clusters(&self) -> usize {
        self.sizes.len() - self.merges.len()
    }

    /// Merges all clusters to one. Returns the merges, each after the merges of its parts. Once few
    /// enough clusters remain, `device` makes the other merges by itself, if it can.
    ///
    /// # Errors
    /// The errors of the device, and `Error::Interrupt` when the monitor says stop.
    pub fn all<D: NeighbourDevice + ?Sized>(
        mut self,
        mut device: Option<&D>,
    ) -> Result<Vec<Merge>> {
        let columns = self.neighbours.clusters().columns();
        let mut changed = self.remaining()?;
        self.settle(&changed, changed.len())?;
        while self.clusters() > 1 {
            self.monitor.check()?;
            let is_ready = |device: &mut &D| {
                self.nearest.are_known() && device.prefers_merges_of_means(self.clusters(), columns)
            };
            if let Some(device) = device.take_if(is_ready) {
                if self.rest_is_merged_by(device)? {
                    break;
                }
            }
            let pairs = self.reciprocal(&changed);
            if pairs.is_empty() {
                changed = self.search_unknown()?;
                if changed.is_empty() {
                    // If distances tie, a new cluster may be as near as a known nearest neighbour,
                    // and nearest neighbours may form a cycle. After a search for all clusters, the
                    // first of the nearest pairs is reciprocal.
                    changed = self.remaining()?;
                    self.nearest.clear_reverse_neighbours();
                    let all: Vec<u32> = changed.iter().map(|changed| changed.slot).collect();
                    self.search(&all)?;
                }
                continue;
            }
            self.round += 1;
            changed = self.merge(&pairs)?;
            self.monitor.advance(pairs.len() as u64);
            self.settle(&changed, pairs.len())?;
        }
        Ok(self.merges)
    }

    /// Makes the remaining merges on a device, if it can. All nearest clusters must be known.
    fn rest_is_merged_by(&mut self, device: &(impl NeighbourDevice + ?Sized)) -> Result<bool> {
        let copied = match self.copy_of_remaining() {
            // Searches need no copy.
            Err(Error::Memory(_)) => return Ok(false),
            copied => copied?,
        };
        let nearest = (&copied.distances[..], &copied.nearest[..]);
        let clusters = copied.clusters.remaining(nearest);
        let Some(merges) = device.merges_of_means(&clusters, self.monitor)? else {
            return Ok(false);
        };
        let slot = |number: u32| copied.slots[number as usize];
        self.merges.extend(merges.into_iter().map(|merge| Merge {
            lower: slot(merge.lower),
            higher: slot(merge.higher),
            ..merge
        }));
        Ok(true)
    }

    /// A copy of the remaining clusters, whose nearest clusters must all be known.
    fn copy_of_remaining(&self) -> Result<CopiedClusters> {
        let remaining = self.remaining()?;
        let slots = memory::collected(CLUSTERS, remaining.iter().map(|changed| changed.slot))?;
        let mut number_of = memory::filled(CLUSTERS, self.sizes.len(), NONE)?;
        for (number, &slot) in (0..).zip(&slots) {
            number_of[slot as usize] = number;
        }
        let distances = slots.iter().map(|&slot| self.nearest.of(slot).0);
        let distances = memory::collected(CLUSTERS, distances)?;
        let nearest = slots.iter().map(|&slot| self.nearest.of(slot).1);
        let nearest = nearest.map(|slot| number_of[slot as usize]);
        let nearest = memory::collected(CLUSTERS, nearest)?;
        Ok(CopiedClusters {
            clusters: self.neighbours.clusters().select(&slots)?,
            slots,
            distances,
            nearest,
        })
    }

    /// All remaining clusters, as changed clusters.
    fn remaining(&self) -> Result<Vec<Changed>> {
        let mut remaining = memory::room(CLUSTERS, self.clusters())?;
        let slots = (0..).zip(&self.sizes).filter(|(_, &size)| size > 0.0);
        remaining.extend(slots.map(|(slot, _)| Changed { slot, part: NONE }));
        Ok(remaining)
    }

    /// The pairs of reciprocal nearest neighbours with a cluster among `changed`, sorted.
    fn reciprocal(&self, changed: &[Changed]) -> Vec<(u32, u32)> {
        let nearest = |slot: u32| self.nearest.of(slot).1;
        let mut pairs: Vec<(u32, u32)> = changed
            .par_iter()
            .with_min_len(CLUSTERS_PER_TASK)
            .map(|changed| (changed.slot, nearest(changed.slot)))
            .filter(|&(slot, other)| other != NONE && nearest(other) == slot)
            .map(|(slot, other)| (slot.min(other), slot.max(other)))
            .collect();
        pairs.par_sort_unstable();
        pairs.dedup();
        pairs
    }

    /// Merges pairs of clusters, each into the lower slot. Returns, sorted, the clusters whose
    /// nearest cluster is no longer known.
    fn merge(&mut self, pairs: &[(u32, u32)]) -> Result<Vec<Changed>> {
        self.neighbours.merge(pairs)?;
        // Reading the clusters takes longest, from all over the memory.
        let bounds: Vec<f64> = pairs
            .par_iter()
            .with_min_len(CLUSTERS_PER_TASK)
            .map(|&(lower, higher)| {
                let pair = [lower, higher].map(|slot| slot as usize);
                let bounds = pair.map(|slot| self.near[slot].lower_bound);
                let sizes = pair.map(|slot| self.sizes[slot]);
                bound_of_union(self.linkage, bounds, sizes, self.nearest.of(lower).0)
            })
            .collect();
        let others: Vec<u32> = pairs
            .par_iter()
            .with_min_len(CLUSTERS_PER_TASK)
            .flat_map_iter(|&(lower, higher)| {
                let pair = [lower, higher];
                let neighbours = pair.map(|slot| self.nearest.reverse_neighbours(slot));
                // The two of a pair are reverse neighbours of each other.
                let neighbours = neighbours.into_iter().flatten();
                neighbours.filter(move |neighbour| !pair.contains(neighbour))
            })
            .collect();
        let mut changed = memory::room(CLUSTERS, pairs.len() + others.len())?;
        for (&(lower, higher), bound) in pairs.iter().zip(bounds) {
            let (a, b) = (lower as usize, higher as usize);
            let (height, _) = self.nearest.of(lower);
            self.near[a].lower_bound = bound;
            self.nearest.clear_reverse_neighbours_of(lower);
            self.nearest.clear_reverse_neighbours_of(higher);
            self.sizes[a] += self.sizes[b];
            self.sizes[b] = 0.0;
            self.merged_into[b] = lower;
            self.changed_in[a] = self.round;
            self.merges.push(Merge {
                lower,
                higher,
                height,
            });
            changed.push(Changed {
                slot: lower,
                part: higher,
            });
        }
        let nearest_gone = |slot| Changed { slot, part: NONE };
        changed.extend(others.into_iter().map(nearest_gone));
        changed.par_sort_unstable();
        Ok(changed)
    }

    /// Finds the nearest cluster of each of `changed` after some merges, without a search if the
    /// near clusters suffice.
    fn settle(&mut self, changed: &[Changed], merges: usize) -> Result<()> {
        let mut to_search = Vec::new();
        for changed in changed.chunks(CLUSTERS_AT_A_TIME) {
            let settled: Vec<Settled> = changed
                .par_iter()
                .with_min_len(EXAMINED_PER_TASK)
                .map(|&changed| self.settled(changed))
                .collect();
            on_slots(
                &mut self.near,
                1,
                &settled,
                |settled| settled.slot,
                |settled, near| near[0] = settled.near,
            );
            memory::reserve(&mut to_search, CLUSTERS, settled.len())?;
            for settled in settled {
                match settled.nearest {
                    Some(nearest) => self.nearest.set(settled.slot, nearest),
                    None => to_search.push(settled.slot),
                }
            }
        }
        if to_search.len() <= SEARCHES_PER_MERGE * merges {
            return self.search(&to_search);
        }
        to_search
            .into_iter()
            .for_each(|slot| self.nearest.forget(slot));
        Ok(())
    }

    /// Searches for the nearest cluster of a cluster that lacks one, then for the nearest cluster
    /// of the cluster found, and so on, until the nearest cluster of the last one is known. Returns
    /// the clusters that were searched for; none if all nearest clusters are known.
    fn search_unknown(&mut self) -> Result<Vec<Changed>> {
        let mut searched = Vec::new();
        let mut next = self.nearest.first_unknown();
        while let Some(slot) = next {
            self.search(&[slot])?;
            searched.push(Changed { slot, part: NONE });
            let (_, nearest) = self.nearest.of(slot);
            next = Some(nearest).filter(|&nearest| self.nearest.is_unknown(nearest));
        }
        searched.sort_unstable();
        Ok(searched)
    }

    /// Examines the near clusters of a changed cluster: computes unknown distances, and finds the
    /// nearest cluster if it is certainly nearer than all other clusters.
    fn settled(&self, changed: Changed) -> Settled {
        let Changed { slot, part } = changed;
        let near = &self.near[slot as usize];
        // Clusters at known distances, and others.
        let mut sorted: Vec<(f64, u32)> = Vec::new();
        let mut others: Vec<u32> = Vec::new();
        for (distance, found) in near.found() {
            let is_known = part == NONE
                && self.merged_into[found as usize] == found
                && self.changed_in[found as usize] <= near.round();
            if is_known {
                sorted.push((distance, found));
            } else {
                others.push(self.current_slot(found));
            }
        }
        if part != NONE {
            let of_part = self.near[part as usize].found();
            others.extend(of_part.map(|(_, found)| self.current_slot(found)));
        }
        others.sort_unstable();
        others.dedup();
        others.retain(|&other| other != slot);
        let mut distances = vec![0.0; others.len()];
        self.neighbours.distances(slot, &others, &mut distances);
        sorted.extend(distances.into_iter().zip(others));
        sorted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let near = NearClusters::new(&sorted, near.lower_bound, self.round);
        let lower_bound =
            near.lower_bound * (1.0 - BOUND_MARGIN) - self.rounding(slot, near.lower_bound);
        let nearest = sorted.first().copied();
        Settled {
            slot,
            near,
            nearest: nearest.filter(|&(distance, _)| distance < lower_bound),
        }
    }

    /// An upper bound on the change of a distance of a cluster, about `distance`, by the rounding
    /// of means since the search that gave the bound. Ward's distances grow with the roots of
    /// sizes; the others are half the square of the distance of means, plus variances.
    fn rounding(&self, slot: u32, distance: f64) -> f64 {
        let of_means = self.rounding_per_round * f64::from(self.round);
        match self.linkage {
            MeanLinkage::Ward => of_means * (2.0 * self.sizes[slot as usize]).sqrt(),
            MeanLinkage::Average | MeanLinkage::Mcquitty => {
                // No distance exceeds 2; the bound may.
                of_means * ((2.0 * distance.clamp(0.0, 2.0)).sqrt() + of_means)
            }
        }
    }

    /// The current slot of the cluster that was in `slot`.
    fn current_slot(&self, mut slot: u32) -> u32 {
        while self.merged_into[slot as usize] != slot {
            slot = self.merged_into[slot as usize];
        }
        slot
    }

    /// Searches for the nearest clusters of each of `slots`.
    fn search(&mut self, slots: &[u32]) -> Result<()> {
        if slots.is_empty() {
            return Ok(());
        }
        let request = NeighbourRequest {
            queries: slots,
            wanted: WANTED,
            limits: None,
            exclusion: Exclusion::Itself,
        };
        let Self {
            neighbours,
            near,
            nearest,
            round,
            ..
        } = self;
        let mut searched = slots.iter();
        neighbours.nearest_in_blocks(&request, &mut |lists| {
            for (list, &slot) in lists.iter().zip(&mut searched) {
                near[slot as usize] = NearClusters::nearest(list, *round);
                // If there is none, this is the last cluster.
                if let Some(&first) = list.first() {
                    nearest.set(slot, first);
                }
            }
            Ok(())
        })
    }
}

/// The length of the diagonal of the points' bounding box, on the threads of the calling pool.
fn diagonal(points: &Points) -> f64 {
    let (n, columns) = (points.rows(), points.columns());
    let (least, greatest) = bounding_box_on_threads(n, |i| points.row(i), columns);
    let spans = least.iter().zip(&greatest).map(|(l, g)| g - l);
    spans.map(|span| span * span).sum::<f64>().sqrt()
}
