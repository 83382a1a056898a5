//! Linkages that are defined by centroids, from points, without a matrix of distances.
//!
//! [`ward`] merges, in rounds, all pairs of clusters that are each other's nearest. Ward's linkage
//! is reducible: a union is never nearer to a cluster than the nearer of its parts was. So pairs
//! of nearest neighbours stay that until they are merged, and merging all of a round gives the
//! tree that merging the nearest pair again and again gives.
//!
//! The same property saves most searches. A search of a cluster x finds its few nearest clusters
//! and a floor under the distances of all others; from then on, any cluster that holds none of
//! those found is no nearer than the floor. When x merges with y, the floor of the union follows
//! from both and Lance and Williams' formula: with d(x, z) ≥ f(x) and d(y, z) ≥ f(y),
//!
//! d²(xy, z)·(|x|+|y|+|z|) ≥ (|x|+|z|)·f(x)² + (|y|+|z|)·f(y)² − |z|·d²(x, y),
//!
//! and as neither floor is below d(x, y), the bound on d²(xy, z) is least for |z| = 1.

use super::tree::{sorted_tree, tree};
use crate::dendrogram::Dendrogram;
use crate::error::Result;
use crate::magnitude::check_magnitude;
use crate::mahalanobis::agglomerate::agglomerate_all;
use crate::mahalanobis::{AgglomerationDevice, Problem, UnionRule};
use crate::matrix::{bounding_box, middle, Matrix};
use crate::memory;
use crate::merge::Merge;
use crate::monitor::Monitor;
use crate::neighbours::{Except, NeighbourDevice, Neighbours, Request, Space};

/// How many clusters a search looks for.
const WANTED: usize = 8;

/// How many of the clusters that two searches have found are kept for a union.
const KEPT: usize = 2 * WANTED;

/// Ward's linkage of the rows of `x`: the tree and the heights of R's
/// `hclust(dist(x), "ward.D2")`, √(2ab/(a+b)) times the distance of the centroids of two clusters
/// with a and b members (Ward 1963, doi:10.1080/01621459.1963.10500845). Where several pairs are
/// the nearest, it is one of the trees that there are.
///
/// Takes O(n²p) time, mostly in the first search, and O(np) memory.
///
/// # Errors
/// `Error::Input` for values so large that powers of their distances overflow; what the backend
/// returns otherwise.
pub fn ward(
    x: &Matrix,
    device: &(impl NeighbourDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Dendrogram> {
    let n = x.rows();
    memory::check_working("Ward's linkage", n, 450 + 16 * x.columns())?;
    let x = &centred(x)?;
    // The first search, and the merges.
    monitor.expect(2 * n as u64 - 1);
    let merges = device.cpu().install(|| {
        let mut neighbours = device.references(Space::Clusters(x), monitor)?;
        let mut rounds = Rounds::new(x, &mut *neighbours, monitor)?;
        rounds.merge_duplicates(x)?;
        rounds.run()?;
        Ok(rounds.merges)
    })?;
    sorted_tree(n, merges)
}

/// Centroid linkage of the rows of `x`: distances are those of the centroids. The heights are the
/// square roots of those of R's `hclust(dist(x)^2, "centroid")`; they need not increase. Where
/// several pairs are the nearest, that with the lower slots is merged.
///
/// Takes O(n²p) time in practice and O(np) memory.
///
/// # Errors
/// As [`ward`].
pub fn centroid(
    x: &Matrix,
    device: &(impl AgglomerationDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Dendrogram> {
    by_means(x, UnionRule::Mean, device, monitor)
}

/// Median linkage of the rows of `x`, in which a union's centre is the middle between those of its
/// parts. Otherwise as [`centroid`], for `hclust(dist(x)^2, "median")`.
pub fn median(
    x: &Matrix,
    device: &(impl AgglomerationDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Dendrogram> {
    by_means(x, UnionRule::Midpoint, device, monitor)
}

fn by_means(
    x: &Matrix,
    union: UnionRule,
    device: &(impl AgglomerationDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Dendrogram> {
    let x = centred(x)?;
    let merges = agglomerate_all(&[Problem::of_centroids(&x, union)], device, monitor)?;
    tree(x.rows(), &merges[0])
}

/// The rows relative to their middle, so that means of them keep their digits.
fn centred(x: &Matrix) -> Result<Matrix> {
    check_magnitude(x)?;
    let middle = middle(x.values(), x.columns());
    let mut values = memory::copied(memory::OBSERVATIONS, x.values())?;
    for row in values.chunks_exact_mut(x.columns()) {
        row.iter_mut().zip(&middle).for_each(|(v, m)| *v -= m);
    }
    Matrix::from_row_major(values, x.rows(), x.columns())
}

/// What needs memory here.
const CLUSTERS: &str = "the clusters of a linkage need";

/// What is known of the clusters near a cluster.
#[derive(Debug, Clone)]
struct Known {
    /// Slots of near clusters when they were found.
    found: Vec<u32>,
    /// No cluster that holds none of those found is nearer.
    floor: f64,
}

/// Clusters on their way to one.
struct Rounds<'a> {
    neighbours: &'a mut dyn Neighbours,
    monitor: &'a Monitor,
    /// Number of members, by slot; 0 for an empty slot.
    sizes: Vec<f64>,
    /// The slot that an empty slot's cluster was merged into.
    merged_into: Vec<u32>,
    known: Vec<Known>,
    /// The nearest cluster and its distance, by slot.
    nearest: Vec<(f64, u32)>,
    /// Slots that have had a slot as their nearest.
    followers: Vec<Vec<u32>>,
    /// More than what rounding of centroids can change a distance of single observations in a
    /// round.
    rounding: f64,
    rounds: f64,
    merges: Vec<Merge>,
}

impl<'a> Rounds<'a> {
    fn new(x: &Matrix, neighbours: &'a mut dyn Neighbours, monitor: &'a Monitor) -> Result<Self> {
        let n = x.rows();
        let nothing = Known {
            found: Vec::new(),
            floor: 0.0,
        };
        let rows = x.values().chunks_exact(x.columns());
        let (least, greatest) = bounding_box(rows, x.columns());
        let spans = least.iter().zip(&greatest).map(|(l, g)| g - l);
        let diagonal = spans.map(|span| span * span).sum::<f64>().sqrt();
        Ok(Self {
            neighbours,
            monitor,
            sizes: memory::filled(CLUSTERS, n, 1.0)?,
            merged_into: memory::collected(CLUSTERS, 0..n as u32)?,
            known: memory::filled(CLUSTERS, n, nothing)?,
            nearest: memory::filled(CLUSTERS, n, (f64::NAN, u32::MAX))?,
            followers: memory::filled(CLUSTERS, n, Vec::new())?,
            rounding: 8.0 * f64::EPSILON * diagonal,
            rounds: 0.0,
            merges: memory::room(CLUSTERS, n - 1)?,
        })
    }

    /// Number of clusters.
    fn live(&self) -> usize {
        self.sizes.len() - self.merges.len()
    }

    /// Merges equal observations, which would otherwise take turns in being each other's nearest.
    fn merge_duplicates(&mut self, x: &Matrix) -> Result<()> {
        let order = |&i: &u32, &j: &u32| {
            let (a, b) = (x.row(i as usize), x.row(j as usize));
            let pairs = a.iter().zip(b).map(|(a, b)| a.total_cmp(b));
            pairs.fold(std::cmp::Ordering::Equal, |all, one| all.then(one))
        };
        let mut slots = memory::collected(CLUSTERS, 0..x.rows() as u32)?;
        slots.sort_by(order);
        let mut groups: Vec<&[u32]> = slots.chunk_by(|i, j| order(i, j).is_eq()).collect();
        groups.sort_unstable_by_key(|equal| equal[0]);
        for equal in groups {
            for &higher in &equal[1..] {
                self.merge(equal[0], higher, 0.0)?;
            }
        }
        // Neither do these need a search.
        self.monitor.advance(2 * self.merges.len() as u64);
        Ok(())
    }

    /// Merges what is left to one cluster.
    fn run(&mut self) -> Result<()> {
        let mut changed = self.all();
        for some in changed.chunks(self.neighbours.batch()) {
            self.search(some)?;
            self.monitor.advance(some.len() as u64);
        }
        while self.live() > 1 {
            let pairs = self.reciprocal(&changed);
            if pairs.is_empty() {
                // Where distances tie, a new cluster may be as near as the nearest that others know
                // of, and these form a circle. After a search of all, the first of the nearest
                // pairs is reciprocal.
                changed = self.all();
                self.search(&changed)?;
                continue;
            }
            changed.clear();
            for &(lower, higher) in &pairs {
                let (height, _) = self.nearest[lower as usize];
                self.unite_known(lower, higher, height);
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

    /// The pairs of clusters that are each other's nearest, one of each pair among `slots`.
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

    /// Puts what is known of the union of two clusters, which are about to be merged, in the lower
    /// slot.
    fn unite_known(&mut self, lower: u32, higher: u32, height: f64) {
        let [a, b] = [lower, higher].map(|slot| self.sizes[slot as usize]);
        let other = std::mem::take(&mut self.known[higher as usize].found);
        let other_floor = self.known[higher as usize].floor;
        let known = &mut self.known[lower as usize];
        known.found.extend(other);
        let sum = (a + 1.0) * (known.floor * known.floor) + (b + 1.0) * (other_floor * other_floor)
            - height * height;
        known.floor = (sum / (a + b + 1.0)).sqrt();
    }

    /// Finds the nearest cluster of each of these, by what is known where that is enough.
    fn settle(&mut self, slots: &[u32]) -> Result<()> {
        let mut pairs = Vec::new();
        for &slot in slots {
            let found = std::mem::take(&mut self.known[slot as usize].found);
            let mut others: Vec<u32> = found.iter().map(|&other| self.now(other)).collect();
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
            let known = &mut self.known[slot as usize];
            if near.len() > KEPT {
                known.floor = known.floor.min(near[KEPT].0);
                near.truncate(KEPT);
            }
            known.found = near.iter().map(|&(_, other)| other).collect();
            // What rounding can have done to centroids since the floor was found.
            let rounding = self.rounding * self.rounds * (2.0 * self.sizes[slot as usize]).sqrt();
            let floor = known.floor * (1.0 - 1e-10) - rounding;
            match near.first() {
                Some(&nearest) if nearest.0 < floor => self.set_nearest(slot, nearest),
                _ => to_search.push(slot),
            }
        }
        self.search(&to_search)
    }

    /// The slot of the cluster that a slot's observations are in by now.
    fn now(&mut self, mut slot: u32) -> u32 {
        while self.merged_into[slot as usize] != slot {
            let into = self.merged_into[slot as usize];
            self.merged_into[slot as usize] = self.merged_into[into as usize];
            slot = into;
        }
        slot
    }

    fn set_nearest(&mut self, slot: u32, nearest: (f64, u32)) {
        self.nearest[slot as usize] = nearest;
        self.followers[nearest.1 as usize].push(slot);
    }

    /// Searches the nearest clusters of each of these.
    fn search(&mut self, slots: &[u32]) -> Result<()> {
        for queries in slots.chunks(self.neighbours.batch()) {
            self.monitor.check()?;
            let nearest = self.neighbours.nearest(&Request {
                queries,
                wanted: WANTED,
                limits: None,
                except: Except::Itself,
            })?;
            for (&slot, near) in queries.iter().zip(nearest.iter()) {
                let (Some(&first), Some(&(last, _))) = (near.first(), near.last()) else {
                    // The only cluster that is left.
                    continue;
                };
                self.known[slot as usize] = Known {
                    found: near.iter().map(|&(_, other)| other).collect(),
                    floor: if near.len() == WANTED {
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
