//! The live clusters on the CPU: means, moments, shapes and members, by slot.

use std::collections::HashMap;

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::distance::{self, ExactSum};
use super::lanes::{add_multiple, for_rows_of, groups, groups_mut, row_width};
use super::members::Members;
use super::problem::{Problem, Union};
use super::screen::{Profile, Spread};
use super::shape::{self, packed_len, Workspace};
use super::subthreshold::ShapeRule;
use crate::error::Result;
use crate::memory;
use crate::monitor::Monitor;
use crate::simd::dispatch;

/// What needs memory here.
const CLUSTERS: &str = "the clusters need";

/// From so many members on, the sums of a cluster's distances to others are kept.
const KEPT_FROM: usize = 32;

/// What a cluster has beyond its mean.
#[derive(Debug, Clone, Default)]
struct Moments {
    /// Packed scatter.
    scatter: Vec<f64>,
    /// Packed whitening factor, or empty for the identity.
    whitening: Vec<f64>,
    /// Bounds on ‖Wy‖/‖y‖ from below and above.
    low: f64,
    stretch: f64,
    /// For the screen of full distances, about the mean: E‖r‖⁴ and the vector E‖r‖²r.
    fourth: f64,
    third: Vec<f64>,
    spread: Spread,
}

/// The clusters of a problem that are not yet merged away.
pub struct Clusters<'a> {
    monitor: &'a Monitor,
    problem: &'a Problem<'a>,
    p: usize,
    /// Number of members, 0 for a cluster that was merged away.
    sizes: Vec<u32>,
    means: Vec<f64>,
    /// `None` for a single observation, and where all that counts is the mean.
    moments: Vec<Option<Box<Moments>>>,
    /// For full distances only, as all that follows. The observations of each cluster; a merge
    /// appends those of the smaller to those of the larger.
    members: Vec<Members>,
    /// How often a slot's cluster has changed.
    versions: Vec<u32>,
    /// Sums of the distances of a slot's members to other clusters, by the others' slots. They
    /// outlive a merge in which the members stay first, and then lack the new ones.
    sums: Vec<HashMap<u32, KeptSum>>,
    diagonal: f64,
    log2_terms: u32,
}

/// The sum of the distances of the first `members` members, whole blocks, to a cluster at this
/// version.
#[derive(Debug, Clone, Copy)]
struct KeptSum {
    version: u32,
    members: usize,
    sum: ExactSum,
}

/// A full distance, and the sums that went into it where they are worth keeping.
#[derive(Debug)]
pub struct Decision {
    pub distance: f64,
    sums: [Option<(u32, u32, KeptSum)>; 2],
}

/// What becomes of two clusters.
#[derive(Debug)]
pub struct United {
    size: usize,
    mean: Vec<f64>,
    mean_error: f64,
    /// `None` where all that counts is the mean, if only for what the screen needs to know.
    moments: Option<Box<Moments>>,
}

impl United {
    /// What the screen needs to know of it.
    pub fn profile(&self) -> Profile<'_> {
        profile(&self.mean, self.moments.as_deref(), self.mean_error)
    }

    /// What a union with another needs to know of it.
    pub fn part(&self) -> Part<'_> {
        Part {
            size: self.size,
            mean: &self.mean,
            moments: self.moments.as_deref(),
        }
    }
}

/// A cluster that becomes part of another.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    size: usize,
    mean: &'a [f64],
    /// `None` for a single observation, and as for [`United`].
    moments: Option<&'a Moments>,
}

impl Part<'_> {
    /// From the mean of a cluster to another.
    fn distance_to(&self, other: &Part) -> f64 {
        dispatch(ToCluster {
            x: self.mean,
            mean: other.mean,
            whitening: other.moments.map_or(&[], |m| &m.whitening),
        })
    }
}

/// What the screen needs to know of a cluster with this mean.
fn profile<'a>(mean: &'a [f64], moments: Option<&'a Moments>, mean_error: f64) -> Profile<'a> {
    let identity = Profile {
        mean,
        whitening: &[],
        low: 1.0,
        stretch: 1.0,
        spread: Spread::default(),
        mean_error,
    };
    match moments {
        Some(moments) => Profile {
            whitening: &moments.whitening,
            low: moments.low,
            stretch: moments.stretch,
            spread: moments.spread,
            ..identity
        },
        None => identity,
    }
}

impl Moments {
    /// A copy, but for what follows from the others and a rule.
    fn without_shape(&self) -> Box<Self> {
        Box::new(Self {
            scatter: self.scatter.clone(),
            fourth: self.fourth,
            third: self.third.clone(),
            ..Self::default()
        })
    }
}

impl<'a> Clusters<'a> {
    /// The problem's clusters at the start, with shapes under `rule`. Once `monitor` says stop, what
    /// takes long ends early, with shapes and distances of no meaning.
    ///
    /// # Errors
    /// `Error::Memory` where there is not enough, `Error::Interrupt` when `monitor` says stop.
    pub fn new(problem: &'a Problem<'a>, rule: &ShapeRule, monitor: &'a Monitor) -> Result<Self> {
        let p = problem.x.columns();
        let n = problem.clusters();
        let mut clusters = Self {
            monitor,
            problem,
            p,
            sizes: memory::collected(CLUSTERS, (0..n).map(|s| problem.members_of(s).len() as u32))?,
            means: memory::zeros("the means of the clusters need", n * p)?,
            moments: memory::filled(CLUSTERS, n, None)?,
            members: Vec::new(),
            versions: memory::filled(CLUSTERS, if problem.options.quick { 0 } else { n }, 0)?,
            sums: memory::filled(
                CLUSTERS,
                if problem.options.quick { 0 } else { n },
                HashMap::new(),
            )?,
            diagonal: problem.diagonal(),
            log2_terms: distance::log2_ceil(problem.members.len()),
        };
        if !problem.options.quick {
            clusters.members = memory::room(CLUSTERS, n)?;
            clusters.members.resize_with(n, Members::default);
            let slots = clusters.members.par_iter_mut().enumerate();
            slots.try_for_each(|(slot, members)| {
                *members = Members::new(problem.x, problem.members_of(slot))?;
                Ok(())
            })?;
        }
        let slots = clusters.means.par_chunks_mut(p).zip(&mut clusters.moments);
        slots.enumerate().for_each(|(slot, (mean, moments))| {
            *moments = dispatch(TakeIn {
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
                full: !self.problem.options.quick,
                members: self.sizes[slot as usize] as usize,
                p: self.p,
                moments,
            });
        }
    }

    /// Number of members of a slot's cluster, 0 when it was merged away.
    pub fn size(&self, slot: u32) -> usize {
        self.sizes[slot as usize] as usize
    }

    /// The slots of live clusters in increasing order.
    pub fn live(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.sizes.len() as u32).filter(|&slot| self.size(slot) > 0)
    }

    fn mean(&self, slot: u32) -> &[f64] {
        &self.means[slot as usize * self.p..][..self.p]
    }

    /// What the screen needs to know of a slot's cluster.
    pub fn profile(&self, slot: u32) -> Profile<'_> {
        let (mean, size) = (self.mean(slot), self.size(slot));
        let moments = self.moments[slot as usize].as_deref();
        profile(mean, moments, self.mean_error(mean, size))
    }

    /// At most how far the mean of that many members, which merges have rounded once a member or
    /// less often, is from theirs, where their distances count.
    fn mean_error(&self, mean: &[f64], size: usize) -> f64 {
        if self.problem.options.quick || size == 1 {
            return 0.0;
        }
        let square: f64 = mean.iter().map(|value| value * value).sum();
        4.0 * size as f64 * f64::EPSILON * square.sqrt()
    }

    /// A lower bound on the distance from what the screen knows, in double precision.
    pub fn bound(&self, a: u32, b: u32) -> f64 {
        let (a, b) = (self.profile(a), self.profile(b));
        let differences = a.mean.iter().zip(b.mean).map(|(a, b)| a - b);
        let square: f64 = differences.map(|d| d * d).sum();
        let centroids = square.sqrt();
        let directed = |from: &Profile, to: &Profile| {
            let norm = centroids.max(from.spread.mean_norm(square));
            let norm = norm * (1.0 - 1e-9) - from.mean_error;
            let rounding = distance::quanta(to.stretch, self.diagonal, self.log2_terms).rounding();
            (to.low * norm - rounding).max(0.0)
        };
        distance::average(directed(&a, &b), directed(&b, &a))
    }

    /// The distance that decides.
    pub fn decide(&self, a: u32, b: u32) -> Decision {
        let (a_to_b, first) = self.directed(a, b);
        let (b_to_a, second) = self.directed(b, a);
        Decision {
            distance: distance::average(a_to_b, b_to_a),
            sums: [first.map(|sum| (a, b, sum)), second.map(|sum| (b, a, sum))],
        }
    }

    /// Keeps the sums of a decision for the next one.
    pub fn keep(&mut self, decision: Decision) -> f64 {
        for (from, to, sum) in decision.sums.into_iter().flatten() {
            self.sums[from as usize].insert(to, sum);
        }
        decision.distance
    }

    /// From the mean (CMD), or on average from the members (FMD), of one cluster to another.
    fn directed(&self, from: u32, to: u32) -> (f64, Option<KeptSum>) {
        if self.problem.options.quick || self.size(from) == 1 {
            return (self.part(from).distance_to(&self.part(to)), None);
        }
        let target = self.profile(to);
        let quanta = distance::quanta(target.stretch, self.diagonal, self.log2_terms);
        let members = &self.members[from as usize];
        let mut kept = self.kept_sum(from, to);
        let sums = members.sums(self.problem.x, kept.members, &target, &quanta, self.monitor);
        kept.sum.combine(&sums.in_blocks);
        kept.members = members.in_blocks();
        let mut sum = kept.sum;
        sum.combine(&sums.others);
        let worth_keeping = members.len() >= KEPT_FROM;
        (sum.mean(members.len()), worth_keeping.then_some(kept))
    }

    /// What is kept of the sum of the distances from one cluster's members to another.
    fn kept_sum(&self, from: u32, to: u32) -> KeptSum {
        let version = self.versions[to as usize];
        let kept = self.sums[from as usize].get(&to);
        let kept = kept.filter(|kept| kept.version == version);
        kept.copied().unwrap_or(KeptSum {
            version,
            members: 0,
            sum: ExactSum::default(),
        })
    }

    /// About how many operations it takes to decide a full distance.
    pub fn operations_to_decide(&self, a: u32, b: u32) -> usize {
        let directed = |from: u32, to: u32| {
            let rest = self.size(from) - self.kept_sum(from, to).members;
            rest * self.p.max(self.profile(to).whitening.len())
        };
        directed(a, b) + directed(b, a)
    }

    /// What a union needs to know of a slot's cluster.
    pub fn part(&self, slot: u32) -> Part<'_> {
        Part {
            size: self.size(slot),
            mean: self.mean(slot),
            moments: self.moments[slot as usize].as_deref(),
        }
    }

    /// The centroid distance between a part and a slot's cluster.
    pub fn centroid_distance(&self, part: Part, slot: u32) -> f64 {
        let other = self.part(slot);
        distance::average(part.distance_to(&other), other.distance_to(&part))
    }

    /// Whether a union with another would need what a part of several members lacks.
    pub fn lacks_moments(&self, part: Part, other: Part, rule: &ShapeRule) -> bool {
        part.moments.is_none() && self.needs_moments(part.size + other.size, rule)
    }

    /// Whether the screen needs to know more than the mean of a union of so many members.
    fn needs_moments(&self, size: usize, rule: &ShapeRule) -> bool {
        self.has_moments() && (!self.problem.options.quick || rule.may_have_shape(size))
    }

    /// One cluster of two, with its shape under `rule`: `lower` is the one in the lower slot.
    pub fn united(&self, lower: Part, higher: Part, rule: &ShapeRule) -> United {
        let size = lower.size + higher.size;
        let mut mean = lower.mean.to_vec();
        dispatch(MoveTowards {
            share: match self.problem.union {
                Union::Shape | Union::Mean => shape::share(lower.size, higher.size),
                Union::Midpoint => 0.5,
            },
            mean: &mut mean,
            other: higher.mean,
        });
        let moments = self.needs_moments(size, rule).then(|| {
            let moments = lower.moments.map(Moments::without_shape);
            self.united_moments(moments, lower, higher, rule)
        });
        United {
            size,
            mean_error: self.mean_error(&mean, size),
            mean,
            moments,
        }
    }

    /// Whether clusters of several members have more than a mean.
    fn has_moments(&self) -> bool {
        self.problem.has_shapes()
    }

    /// The moments of one cluster of two, made of `moments`, those of the lower, which may be none.
    fn united_moments(
        &self,
        moments: Option<Box<Moments>>,
        lower: Part,
        higher: Part,
        rule: &ShapeRule,
    ) -> Box<Moments> {
        let p = self.p;
        let full = !self.problem.options.quick;
        let mut moments = moments.unwrap_or_else(|| {
            Box::new(Moments {
                scatter: vec![0.0; packed_len(p)],
                third: vec![0.0; if full { p } else { 0 }],
                ..Moments::default()
            })
        });
        dispatch(Unite {
            full,
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
            full,
            members: lower.size + higher.size,
            p,
            moments: &mut moments,
        });
        moments
    }

    /// Puts what became of two clusters, under `rule`, in the lower slot.
    pub fn replace(&mut self, lower: u32, higher: u32, united: United, rule: &ShapeRule) {
        let mut moments = united.moments;
        if self.has_moments() && moments.is_none() {
            let known = self.moments[lower as usize].take();
            let parts = (self.part(lower), self.part(higher));
            moments = Some(self.united_moments(known, parts.0, parts.1, rule));
        }
        let (lower, higher) = (lower as usize, higher as usize);
        self.means[lower * self.p..][..self.p].copy_from_slice(&united.mean);
        self.moments[lower] = moments;
        self.moments[higher] = None;
        self.sizes[lower] = united.size as u32;
        self.sizes[higher] = 0;
        if self.problem.options.quick {
            return;
        }
        // The smaller is copied into the larger, so that n log n copies suffice.
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

    /// Forgets all sums, for clusters that get other shapes.
    pub fn forget_sums(&mut self) {
        self.sums.iter_mut().for_each(HashMap::clear);
    }
}

/// Mean and moments of a slot's cluster at the start.
struct TakeIn<'a> {
    monitor: &'a Monitor,
    problem: &'a Problem<'a>,
    slot: usize,
    mean: &'a mut [f64],
}

impl WithSimd for TakeIn<'_> {
    type Output = Option<Box<Moments>>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Self::Output {
        let Self {
            monitor,
            problem,
            slot,
            mean,
        } = self;
        let p = mean.len();
        let members = problem.members_of(slot);
        if members.len() == 1 || !problem.has_shapes() {
            mean.copy_from_slice(problem.x.row(members[0] as usize));
            for (count, &member) in members.iter().enumerate().skip(1) {
                let share = shape::share(count, 1);
                shape::move_towards(share, mean, problem.x.row(member as usize));
            }
            return None;
        }
        let mut moments = Moments {
            scatter: vec![0.0; packed_len(p)],
            ..Moments::default()
        };
        problem.moments(slot, mean, &mut moments.scatter, monitor);
        if !problem.options.quick {
            moments.third = vec![0.0; p];
            for &member in members {
                let x = problem.x.row(member as usize);
                let square: f64 = x.iter().zip(&*mean).map(|(x, c)| (x - c) * (x - c)).sum();
                moments.fourth += square * square / members.len() as f64;
                for k in 0..p {
                    moments.third[k] += square * (x[k] - mean[k]) / members.len() as f64;
                }
            }
        }
        Some(Box::new(moments))
    }
}

struct ToCluster<'a> {
    x: &'a [f64],
    mean: &'a [f64],
    whitening: &'a [f64],
}

impl WithSimd for ToCluster<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> f64 {
        distance::to_cluster(self.x, self.mean, self.whitening)
    }
}

struct MoveTowards<'a> {
    share: f64,
    mean: &'a mut [f64],
    other: &'a [f64],
}

impl WithSimd for MoveTowards<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        shape::move_towards(self.share, self.mean, self.other);
    }
}

struct Reshape<'a> {
    monitor: &'a Monitor,
    rule: &'a ShapeRule,
    full: bool,
    members: usize,
    p: usize,
    moments: &'a mut Moments,
}

impl WithSimd for Reshape<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Reshape {
            monitor,
            rule,
            full,
            members,
            p,
            moments,
        } = self;
        let mut workspace = Workspace::new(monitor);
        let mut whitening = std::mem::take(&mut moments.whitening);
        if rule.may_have_shape(members) {
            whitening.resize(packed_len(p), 0.0);
        }
        match shape::whitening(
            simd,
            rule,
            members,
            &moments.scatter,
            p,
            &mut workspace,
            &mut whitening,
        ) {
            Some(scale) => {
                let stretch = distance::stretch(&whitening);
                let effective = workspace.effective_covariance();
                let trace: f64 = (0..p).map(|i| effective[packed_len(i) + i]).sum();
                let longest = largest_eigenvalue_bound(simd, effective, p).sqrt();
                // The second term covers what inverting the factor loses to rounding.
                let lost = 8.0 * p as f64 * f64::EPSILON * stretch;
                moments.low = (scale / longest) * (1.0 - 1e-6)
                    - lost * (1.0 + stretch * trace.sqrt() / scale);
                moments.low = moments.low.max(0.0);
                moments.stretch = stretch;
                moments.whitening = whitening;
            }
            None => {
                moments.low = 1.0;
                moments.stretch = 1.0;
            }
        }
        if full {
            let size = members as f64;
            let trace: f64 = (0..p).map(|i| moments.scatter[packed_len(i) + i]).sum();
            let third: f64 = moments.third.iter().map(|t| t * t).sum();
            moments.spread = Spread {
                variance: trace / size,
                fourth: moments.fourth,
                largest: frobenius_norm(&moments.scatter, p) / size,
                third: third.sqrt(),
            };
        }
    }
}

/// ‖A‖_F of a packed symmetric matrix.
#[inline(always)]
fn frobenius_norm(matrix: &[f64], p: usize) -> f64 {
    let mut all = 0.0f64;
    let mut diagonal = 0.0f64;
    for value in matrix {
        all += value * value;
    }
    for i in 0..p {
        let value = matrix[packed_len(i) + i];
        diagonal += value * value;
    }
    (2.0 * all - diagonal).max(0.0).sqrt()
}

/// An upper bound on the largest eigenvalue of a packed positive matrix A: ‖A^k‖_F^(1/k) for a
/// power k = 1, 2 or 8 (fewer squarings where they cost more).
#[inline(always)]
fn largest_eigenvalue_bound<S: Simd>(simd: S, matrix: &[f64], p: usize) -> f64 {
    for_rows_of!(p, largest_eigenvalue_bound_by_rows::<S>(simd, matrix, p))
}

#[inline(always)]
fn largest_eigenvalue_bound_by_rows<S: Simd, const R: usize>(
    simd: S,
    matrix: &[f64],
    p: usize,
) -> f64 {
    let squarings = match p {
        0..=24 => 3,
        25..=256 => 1,
        _ => 0,
    };
    let mut trace = 0.0;
    for i in 0..p {
        trace += matrix[packed_len(i) + i];
    }
    // Rows with zeros after them.
    let width = row_width::<S, R>(p);
    let mut power = vec![0.0f64; p * width];
    for i in 0..p {
        for j in 0..=i {
            let value = matrix[packed_len(i) + j] / trace;
            power[i * width + j] = value;
            power[j * width + i] = value;
        }
    }
    let mut square = vec![0.0f64; p * width];
    for _ in 0..squarings {
        let others = groups::<S, R>(&power);
        let in_row = others.len() / p;
        for (at, square) in groups_mut::<S, R>(&mut square).iter_mut().enumerate() {
            let factors = &power[at / in_row * width..][..p];
            let mut sums = [simd.splat_f64s(0.0); R];
            for (k, factor) in factors.iter().enumerate() {
                add_multiple(simd, &mut sums, *factor, &others[k * in_row + at % in_row]);
            }
            *square = sums;
        }
        std::mem::swap(&mut power, &mut square);
    }
    let mut squares = simd.splat_f64s(0.0);
    for values in groups::<S, 1>(&power) {
        squares = simd.mul_add_f64s(values[0], values[0], squares);
    }
    let mut norm = simd.reduce_sum_f64s(squares).sqrt();
    for _ in 0..squarings {
        norm = norm.sqrt();
    }
    // What underflows in the powers is far below the rounding that 1e-9 covers.
    trace * norm * (1.0 + 1e-9)
}

struct Unite<'a> {
    full: bool,
    size_a: usize,
    mean_a: &'a [f64],
    moments_a: &'a mut Moments,
    size_b: usize,
    mean_b: &'a [f64],
    moments_b: Option<&'a Moments>,
}

impl WithSimd for Unite<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Unite {
            full,
            size_a,
            mean_a,
            moments_a,
            size_b,
            mean_b,
            moments_b,
        } = self;
        let scatter_b = moments_b.map_or(&[][..], |m| &m.scatter);
        if full {
            let (a, b) = (size_a as f64, size_b as f64);
            let third_b = moments_b.map_or(&[][..], |m| &m.third);
            let fourth_b = moments_b.map_or(0.0, |m| m.fourth);
            let toward_b: Vec<f64> = mean_b.iter().zip(mean_a).map(|(b, a)| b - a).collect();
            let shift_a: Vec<f64> = toward_b.iter().map(|d| -d * b / (a + b)).collect();
            let shift_b: Vec<f64> = toward_b.iter().map(|d| d * a / (a + b)).collect();
            let from_a = shifted(
                a,
                &moments_a.scatter,
                &moments_a.third,
                moments_a.fourth,
                &shift_a,
            );
            let from_b = shifted(b, scatter_b, third_b, fourth_b, &shift_b);
            moments_a.fourth = (a * from_a.0 + b * from_b.0) / (a + b);
            for (third, (x, y)) in moments_a
                .third
                .iter_mut()
                .zip(from_a.1.iter().zip(&from_b.1))
            {
                *third = (a * x + b * y) / (a + b);
            }
        }
        shape::merge_scatters(
            size_a,
            mean_a,
            &mut moments_a.scatter,
            size_b,
            mean_b,
            scatter_b,
        );
    }
}

/// E‖r+u‖⁴ and E‖r+u‖²(r+u) for `shift` u, from the scatter, E‖r‖²r and E‖r‖⁴ of `size` members
/// (empty vectors stand for zero).
#[inline(always)]
fn shifted(
    size: f64,
    scatter: &[f64],
    third: &[f64],
    fourth: f64,
    shift: &[f64],
) -> (f64, Vec<f64>) {
    let p = shift.len();
    let mut product = vec![0.0f64; p];
    let mut variance = 0.0;
    if !scatter.is_empty() {
        for i in 0..p {
            let row = &scatter[packed_len(i)..][..=i];
            for j in 0..i {
                product[i] += row[j] * shift[j] / size;
                product[j] += row[j] * shift[i] / size;
            }
            product[i] += row[i] * shift[i] / size;
            variance += row[i] / size;
        }
    }
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let square = dot(shift, shift);
    let moment = fourth
        + 4.0 * dot(shift, &product)
        + 4.0 * dot(shift, third)
        + 2.0 * variance * square
        + square * square;
    let vector = (0..p)
        .map(|k| third.get(k).unwrap_or(&0.0) + (variance + square) * shift[k] + 2.0 * product[k])
        .collect();
    (moment, vector)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mahalanobis::forest::frame;
    use crate::mahalanobis::screen::cpu::CpuScreen;
    use crate::mahalanobis::screen::{Precision, Request, Screen};
    use crate::mahalanobis::{Options, Subthreshold};
    use crate::testing::{draw, Random, DATA};

    #[test]
    fn bounds_are_below_the_distances_on_data_of_every_sort() {
        let mut random = Random(41);
        for round in 0..3 * DATA.len() {
            let data = DATA[round % DATA.len()];
            let (n, p) = (240, 1 + random.below(4));
            let x = draw(&mut random, data, n, p);
            let mut starts = vec![0];
            while starts[starts.len() - 1] < n {
                let size = 1 + random.below(2) * random.below(12);
                starts.push((starts[starts.len() - 1] + size).min(n));
            }
            let options = Options {
                threshold: 6.0,
                subthreshold: Subthreshold::Mahal,
                quick: random.below(4) == 0,
                normalize: true,
                apriori_intra: true,
            };
            let problem = Problem {
                starts,
                ..Problem::of_observations(&x, (0..n as u32).collect(), options)
            };
            let rule = options.shape_rule(false);
            let monitor = Monitor::default();
            let clusters = Clusters::new(&problem, &rule, &monitor).unwrap();
            let live = 0..problem.clusters() as u32;
            for precision in [Precision::Single, Precision::Double] {
                let mut frame = frame(&problem);
                frame.precision = precision;
                let mut screen = CpuScreen::new(live.len(), frame.clone());
                let view = |slot| frame.view(&clusters.profile(slot));
                for slot in live.clone() {
                    screen.push(slot, &view(slot)).unwrap();
                }
                for slot in live.clone() {
                    let request = Request {
                        view: &view(slot),
                        end: slot as usize,
                        capacity: live.len(),
                        limit: f64::INFINITY,
                        is_tight: false,
                        skip: &[],
                    };
                    let found = screen.sweep(&[request], &mut || ()).unwrap().swap_remove(0);
                    assert_eq!(found.bounds.len(), slot as usize);
                    for (bound, other) in found.bounds {
                        let distance = clusters.decide(slot, other).distance;
                        let double = clusters.bound(slot, other);
                        let case = format!("{data:?}, {n} x {p}, {options:?}, {precision:?}");
                        assert!(bound <= distance, "{bound} is not below {distance}: {case}");
                        assert!(
                            double <= distance,
                            "{double} is not below {distance}: {case}"
                        );
                    }
                }
            }
        }
    }
}
