//! The clusters of a problem that are not merged away.

use std::collections::HashMap;

use rayon::prelude::*;

use super::initial::InitialMoments;
use super::merged::{MergedCluster, MoveTowards, UniteMoments};
use super::moments::{profile, Moments};
use super::part::Part;
use super::reshape::Reshape;
use crate::error::Result;
use crate::mahalanobis::distance::{self, ExactSum, Quanta};
use crate::mahalanobis::members::ClusterMembers;
use crate::mahalanobis::options::Distance;
use crate::mahalanobis::problem::{Problem, UnionRule};
use crate::mahalanobis::screen::Profile;
use crate::mahalanobis::shape;
use crate::mahalanobis::subthreshold::ShapeRule;
use crate::memory;
use crate::monitor::Monitor;
use crate::simd::dispatch;

/// First words of a memory error, before the number of bytes.
const CLUSTERS: &str = "the clusters need";

/// The means, moments, shapes and members of the active clusters, by slot, in double precision.
pub struct Clusters<'a> {
    pub(super) monitor: &'a Monitor,
    pub(super) problem: &'a Problem<'a>,
    pub(super) p: usize,
    /// Number of members, 0 for a cluster that was merged away.
    sizes: Vec<u32>,
    means: Vec<f64>,
    /// By slot; `None` for a single observation, and where only the mean is needed.
    moments: Vec<Option<Box<Moments>>>,
    /// The observations of each cluster. A merge appends the members of the smaller cluster to the
    /// members of the larger one. This field and the next two are for full Mahalanobis distances,
    /// and empty otherwise.
    pub(super) members: Vec<ClusterMembers>,
    /// By slot, the number of changes of its cluster.
    pub(super) versions: Vec<u32>,
    /// By slot, the sums of the distances from its members to other clusters, by the slots of
    /// these. A sum stays valid after a merge that appends members; it then lacks the appended
    /// members.
    pub(super) sums: Vec<HashMap<u32, KeptSum>>,
    /// Number of sums that were kept since the last check of the available memory.
    pub(super) new_sums: usize,
    /// The diagonal of the bounding box of the observations.
    pub(super) diagonal: f64,
    pub(super) log2_terms: u32,
}

/// The sum of the distances from a cluster's first `members` members, which are whole blocks, to
/// another cluster at this version.
#[derive(Debug, Clone, Copy)]
pub struct KeptSum {
    pub version: u32,
    pub members: usize,
    pub sum: ExactSum,
}

impl<'a> Clusters<'a> {
    /// The problem's clusters at the start, with shapes under `rule`; `diagonal` is the diagonal of
    /// the problem's bounding box. Once `monitor` says stop, long computations end early, with
    /// meaningless shapes and distances.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory, `Error::Interrupt` when `monitor` says stop.
    pub fn new(
        problem: &'a Problem<'a>,
        diagonal: f64,
        rule: &ShapeRule,
        monitor: &'a Monitor,
    ) -> Result<Self> {
        let p = problem.x.ncols();
        let n = problem.clusters();
        let with_members = match problem.options.distance {
            Distance::Centroid => 0,
            Distance::FullMahalanobis => n,
        };
        let mut clusters = Self {
            monitor,
            problem,
            p,
            sizes: memory::collected(CLUSTERS, (0..n).map(|s| problem.size_of(s) as u32))?,
            means: memory::zeros("the means of the clusters need", n * p)?,
            moments: memory::filled(CLUSTERS, n, None)?,
            members: memory::room(CLUSTERS, with_members)?,
            versions: memory::filled(CLUSTERS, with_members, 0)?,
            sums: memory::filled(CLUSTERS, with_members, HashMap::new())?,
            new_sums: 0,
            diagonal,
            log2_terms: distance::log2_ceil(problem.members.len()),
        };
        clusters
            .members
            .resize_with(with_members, ClusterMembers::default);
        let slots = clusters.members.par_iter_mut().enumerate();
        slots.try_for_each(|(slot, members)| {
            let rows = memory::collected(CLUSTERS, problem.members_of(slot))?;
            *members = ClusterMembers::new(problem.x, rows)?;
            Ok(())
        })?;
        let slots = clusters.means.par_chunks_mut(p).zip(&mut clusters.moments);
        slots.enumerate().for_each(|(slot, (mean, moments))| {
            *moments = dispatch(InitialMoments {
                monitor,
                problem,
                slot,
                mean,
            });
        });
        for slot in 0..n {
            clusters.reshape(slot as u32, rule);
        }
        monitor.check()?;
        Ok(clusters)
    }

    /// Computes the shape of a slot's cluster.
    pub fn reshape(&mut self, slot: u32, rule: &ShapeRule) {
        if let Some(moments) = &mut self.moments[slot as usize] {
            dispatch(Reshape {
                monitor: self.monitor,
                rule,
                distance: self.problem.options.distance,
                members: self.sizes[slot as usize] as usize,
                p: self.p,
                moments,
            });
        }
    }

    /// Number of members of a slot's cluster; 0 if it was merged away.
    pub fn size(&self, slot: u32) -> usize {
        self.sizes[slot as usize] as usize
    }

    /// The slots of active clusters in increasing order.
    pub fn active(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.sizes.len() as u32).filter(|&slot| self.size(slot) > 0)
    }

    /// The mean of a slot's cluster.
    pub fn mean(&self, slot: u32) -> &[f64] {
        &self.means[slot as usize * self.p..][..self.p]
    }

    /// The means of the clusters in all slots, one after the other.
    pub fn means(&self) -> &[f64] {
        &self.means
    }

    /// The properties of a slot's cluster that its bounds depend on.
    pub fn profile(&self, slot: u32) -> Profile<'_> {
        let (mean, size) = (self.mean(slot), self.size(slot));
        let moments = self.moments[slot as usize].as_deref();
        profile(mean, moments, self.mean_error(mean, size))
    }

    /// An upper bound on the distance between the computed mean of a cluster of `size` members and
    /// the exact mean. Merges round the computed mean at most once per member. 0 for centroid
    /// distances, which are defined by the computed means.
    fn mean_error(&self, mean: &[f64], size: usize) -> f64 {
        if self.problem.options.distance == Distance::Centroid || size == 1 {
            return 0.0;
        }
        let square: f64 = mean.iter().map(|value| value * value).sum();
        4.0 * size as f64 * f64::EPSILON * square.sqrt()
    }

    /// The packed scatter of a slot's cluster; `None` for a single observation, and where the
    /// scatter is not needed.
    pub fn scatter(&self, slot: u32) -> Option<&[f64]> {
        let moments = self.moments[slot as usize].as_deref();
        moments.map(|moments| &moments.scatter[..])
    }

    /// For full Mahalanobis distances: the central moments E‖r‖⁴ and E‖r‖²r of a slot's cluster,
    /// and the quanta of sums of distances to the cluster. `None` for a cluster without a scatter.
    pub fn members_moments(&self, slot: u32) -> Option<(f64, &[f64], Quanta)> {
        let moments = self.moments[slot as usize].as_deref()?;
        let quanta = distance::quanta(moments.stretch, self.diagonal, self.log2_terms);
        Some((moments.fourth, &moments.third, quanta))
    }

    /// A slot's cluster as an operand of a union or a centroid distance.
    pub fn part(&self, slot: u32) -> Part<'_> {
        Part {
            size: self.size(slot),
            mean: self.mean(slot),
            moments: self.moments[slot as usize].as_deref(),
        }
    }

    /// Whether a part of several members lacks the moments that its union with another needs.
    pub fn lacks_moments(&self, part: Part, other: Part, rule: &ShapeRule) -> bool {
        part.moments.is_none() && self.needs_moments(part.size + other.size, rule)
    }

    /// Whether the screen needs more than the mean of a union of `size` members.
    fn needs_moments(&self, size: usize, rule: &ShapeRule) -> bool {
        self.problem.has_shapes()
            && match self.problem.options.distance {
                Distance::Centroid => rule.may_have_shape(size),
                Distance::FullMahalanobis => true,
            }
    }

    /// The union of two clusters, with its shape under `rule`. `lower` is the cluster in the lower
    /// slot.
    pub fn merged(&self, lower: Part, higher: Part, rule: &ShapeRule) -> MergedCluster {
        let size = lower.size + higher.size;
        let mut mean = lower.mean.to_vec();
        dispatch(MoveTowards {
            share: match self.problem.union {
                UnionRule::Shape | UnionRule::Mean => shape::share(lower.size, higher.size),
                UnionRule::Midpoint => 0.5,
            },
            mean: &mut mean,
            other: higher.mean,
        });
        let moments = self.needs_moments(size, rule).then(|| {
            let moments = lower.moments.map(Moments::without_shape);
            self.merged_moments(moments, lower, higher, rule)
        });
        MergedCluster {
            size,
            mean_error: self.mean_error(&mean, size),
            mean,
            moments,
        }
    }

    /// The moments of the union of two clusters; `moments` are the moments of the lower one, if
    /// any, and are reused for the result.
    fn merged_moments(
        &self,
        moments: Option<Box<Moments>>,
        lower: Part,
        higher: Part,
        rule: &ShapeRule,
    ) -> Box<Moments> {
        let distance = self.problem.options.distance;
        let has_third = distance == Distance::FullMahalanobis;
        let mut moments = moments.unwrap_or_else(|| Box::new(Moments::zero(self.p, has_third)));
        dispatch(UniteMoments {
            has_third,
            size_a: lower.size,
            mean_a: lower.mean,
            moments_a: &mut moments,
            size_b: higher.size,
            mean_b: higher.mean,
            moments_b: higher.moments,
        });
        dispatch(Reshape {
            monitor: self.monitor,
            rule,
            distance,
            members: lower.size + higher.size,
            p: self.p,
            moments: &mut moments,
        });
        moments
    }

    /// Puts the union of two clusters, made under `rule`, in the lower slot.
    pub fn replace(&mut self, lower: u32, higher: u32, merged: MergedCluster, rule: &ShapeRule) {
        let mut moments = merged.moments;
        if self.problem.has_shapes() && moments.is_none() {
            let known = self.moments[lower as usize].take();
            let parts = (self.part(lower), self.part(higher));
            moments = Some(self.merged_moments(known, parts.0, parts.1, rule));
        }
        let (lower, higher) = (lower as usize, higher as usize);
        self.means[lower * self.p..][..self.p].copy_from_slice(&merged.mean);
        self.moments[lower] = moments;
        self.moments[higher] = None;
        self.sizes[lower] = merged.size as u32;
        self.sizes[higher] = 0;
        if self.problem.options.distance == Distance::FullMahalanobis {
            self.append_members(lower, higher);
        }
    }

    /// Moves the members of the higher slot to the lower one.
    fn append_members(&mut self, lower: usize, higher: usize) {
        // The smaller list is copied to the larger one, so that n log n copies suffice.
        if self.members[lower].len() < self.members[higher].len() {
            self.members.swap(lower, higher);
            self.sums.swap(lower, higher);
        }
        let some = std::mem::take(&mut self.members[higher]);
        self.members[lower].append(self.problem.x, &some);
        self.sums[higher] = HashMap::new();
        self.versions[lower] += 1;
        self.versions[higher] += 1;
        let versions = &self.versions;
        self.sums[lower].retain(|&to, kept| kept.version == versions[to as usize]);
    }

    /// Drops all sums, and frees their memory.
    pub(super) fn free_sums(&mut self) {
        self.sums.fill_with(HashMap::new);
    }

    /// Drops all sums, since the clusters get other shapes; keeps the memory of the tables.
    pub fn clear_sums(&mut self) {
        self.sums.iter_mut().for_each(HashMap::clear);
    }
}
