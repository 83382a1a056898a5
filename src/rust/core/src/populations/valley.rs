//! The density valley between two groups of points.
//!
//! Both groups are projected on the line that separates them best, Fisher's linear discriminant
//! (S_A + S_B)⁻¹·(m_A − m_B), for the covariances S and the means m of both groups. The depth of
//! the valley is the lowest density between the medians of both, divided by the lower of the two
//! peaks beside it: 0 for an empty valley, 1 for none.
//!
//! * Both sides have the same weight ([`Valley::balanced`]), so that a large side does not drown a
//!   small one.
//! * The line is estimated, so with many columns it separates any two samples. Each point is
//!   projected on the line of all other points (leave-one-out), by the Sherman–Morrison formula.
//!   Only the divisor of its side's covariance stays that of all points.
//! * A tree may assign doubtful points to either side. So before the projection, points are
//!   reassigned once, by the posterior of two normal distributions.

use super::density::{density, Interval, WeightedSample};
use super::moments::{Centred, Factor};
use crate::mahalanobis::packed::packed_len;

/// Largest number of points of a side; the depth of a valley hardly changes with more.
pub const ENOUGH_POINTS: usize = 2000;

/// Smallest number of points of a side before the reassignment. With fewer points, the line follows
/// their noise.
const LEAST_POINTS: usize = 4;
/// Smallest number of points of a side after the reassignment.
const LEAST_POINTS_LEFT: usize = 5;
/// Largest number of columns per point of a side. With fewer points, the line follows their noise:
/// the row `small` of `inst/benchmarks/populations.R --clouds` (300 points in 20 columns) lost
/// tails of 5 or 6 points.
const COLUMNS_PER_POINT: usize = 2;

/// Smallest number of points of both sides together, per column. With fewer, there is a line that
/// separates any two samples of one cluster.
const POINTS_PER_COLUMN: usize = 2;

/// Distance beyond both medians, in spreads, up to which the density is computed. If too small, a
/// peak may lie beyond.
const SPREADS_BEYOND: f64 = 4.0;

/// Weight, in points per column, of the covariance of all points together in the covariance of each
/// side. With it, the covariance of a side with fewer points than columns has an inverse, and the
/// reassignment does not follow the noise of these points.
const SHARED_POINTS: f64 = 0.1;

/// Smallest width of the kernel, as a share of the range: two points that are nearer count as one.
const LEAST_WIDTH: f64 = 1e-3;

/// A group of points of a tree.
#[derive(Debug)]
pub struct Group {
    /// The number of members that the points stand for.
    pub members: f64,
    pub points: Centred,
    /// The number of members that each point stands for.
    weights: Vec<f64>,
}

impl Group {
    /// A group of points that each stand for an equal part of the `members`.
    pub fn new(points: Centred, members: f64) -> Self {
        let weights = vec![members / points.count as f64; points.count];
        Self {
            members,
            points,
            weights,
        }
    }
}

/// Depths of a valley: ratios of the density in the valley to that of the lower peak. A smaller
/// number is a deeper valley: from 0, empty, to 1, none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Valley {
    /// The depth with the same weight for both sides.
    pub balanced: f64,
    /// The depth with the numbers of members as weights, and the narrower of both sides' kernels.
    pub weighted: f64,
}

impl Valley {
    /// No valley.
    pub const NONE: Self = Self {
        balanced: 1.0,
        weighted: 1.0,
    };

    /// The valley between two groups of points in the same columns, whose unit is about their
    /// standard deviation. Too few points count as having no valley. Takes O(m·p²) time for m
    /// points.
    pub fn between(a: &Group, b: &Group) -> Self {
        let least = a.points.count.min(b.points.count);
        let all = a.points.count + b.points.count;
        let columns = a.points.columns();
        if least < LEAST_POINTS.max(columns / COLUMNS_PER_POINT)
            || all < POINTS_PER_COLUMN * columns
        {
            return Self::NONE;
        }
        let (a, b) = match reassign(a, b) {
            Reassignment::None => (a, b),
            Reassignment::Done(ref sides) => return Self::on_line(&sides.0, &sides.1),
            Reassignment::TooFewLeft => return Self::NONE,
        };
        Self::on_line(a, b)
    }

    fn on_line(a: &Group, b: &Group) -> Self {
        let (on_a, on_b) = projections(&a.points, &b.points);
        let (on_a, on_b) = (
            WeightedSample::new(on_a, &a.weights),
            WeightedSample::new(on_b, &b.weights),
        );
        let (at_a, at_b) = (on_a.median(), on_b.median());
        let between = Interval {
            from: at_a.min(at_b),
            to: at_a.max(at_b),
        };
        if !(between.from < between.to && (between.to - between.from).is_finite()) {
            return Self::NONE;
        }
        let least = on_a.effective_count().min(on_b.effective_count()).round() as usize;
        let balanced = on_a.thinned(least).chain(on_b.thinned(least)).collect();
        let wide = WeightedSample::equal(balanced).kernel_width();
        let narrow = on_a.kernel_width().min(on_b.kernel_width()).min(wide);
        if wide.is_nan() || wide <= 0.0 {
            return Self::NONE;
        }
        let beyond = SPREADS_BEYOND * on_a.spread().max(on_b.spread());
        let (range_a, range_b) = (on_a.range(), on_b.range());
        let range = Interval {
            from: range_a.from.min(range_b.from).max(between.from - beyond),
            to: range_a.to.max(range_b.to).min(between.to + beyond),
        };
        let depth = |a_weight: f64, b_weight: f64, width: f64| {
            let width = width.max(LEAST_WIDTH * (range.to - range.from));
            let density = density([(&on_a, a_weight), (&on_b, b_weight)], width, range);
            depth_of(&density, range, between)
        };
        Self {
            balanced: depth(1.0, 1.0, wide),
            weighted: depth(a.members, b.members, narrow),
        }
    }
}

/// The depth of the valley within `between`, given the density at evenly spaced points of `range`.
fn depth_of(density: &[f64], range: Interval, between: Interval) -> f64 {
    let step = (range.to - range.from) / (density.len() - 1) as f64;
    let first = ((between.from - range.from) / step).ceil().max(0.0) as usize;
    let last = ((between.to - range.from) / step).floor() as usize;
    let last = last.min(density.len() - 1);
    if last < first + 2 {
        return 1.0;
    }
    let lowest = (first..=last).fold(first, |least, i| {
        if density[i] < density[least] {
            i
        } else {
            least
        }
    });
    let peak = |part: &[f64]| part.iter().copied().fold(0.0, f64::max);
    let lower_peak = peak(&density[..=lowest]).min(peak(&density[lowest..]));
    if lower_peak > 0.0 {
        density[lowest] / lower_peak
    } else {
        1.0
    }
}

enum Reassignment {
    /// Each point stays on its side.
    None,
    Done(Box<(Group, Group)>),
    TooFewLeft,
}

/// Reassigns each point to the side with the higher posterior density, of two normal distributions.
fn reassign(a: &Group, b: &Group) -> Reassignment {
    let p = a.points.columns();
    let shared = covariance_of_all(&a.points, &b.points);
    let (Some(by_a), Some(by_b)) = (
        log_densities(a, b, &shared, true),
        log_densities(a, b, &shared, false),
    ) else {
        return Reassignment::None;
    };
    let to_a: Vec<bool> = by_a.iter().zip(&by_b).map(|(a, b)| a > b).collect();
    let count_a = a.points.count;
    if to_a
        .iter()
        .enumerate()
        .all(|(i, &to_a)| to_a == (i < count_a))
    {
        return Reassignment::None;
    }
    let left = to_a.iter().filter(|&&to_a| to_a).count();
    if left.min(to_a.len() - left) < LEAST_POINTS_LEFT.max(p / COLUMNS_PER_POINT) {
        return Reassignment::TooFewLeft;
    }
    let side = |is_a: bool| {
        let mut points = Vec::with_capacity(p * to_a.len());
        for j in 0..p {
            for (group, from) in [(a, &to_a[..count_a]), (b, &to_a[count_a..])] {
                let mean = group.points.mean[j];
                let column = group.points.column(j).iter().zip(from);
                points.extend(
                    column
                        .filter(|(_, &to_a)| to_a == is_a)
                        .map(|(v, _)| v + mean),
                );
            }
        }
        let mut weights = Vec::with_capacity(to_a.len());
        for (group, from) in [(a, &to_a[..count_a]), (b, &to_a[count_a..])] {
            let some = group.weights.iter().zip(from);
            weights.extend(
                some.filter(|(_, &to_a)| to_a == is_a)
                    .map(|(weight, _)| weight),
            );
        }
        Group {
            members: weights.iter().sum(),
            points: Centred::new(points, weights.len()),
            weights,
        }
    };
    Reassignment::Done(Box::new((side(true), side(false))))
}

/// The covariance of the points of both sides together.
fn covariance_of_all(a: &Centred, b: &Centred) -> Vec<f64> {
    let (m_a, m_b) = (a.count as f64, b.count as f64);
    let delta: Vec<f64> = a.mean.iter().zip(&b.mean).map(|(a, b)| a - b).collect();
    let between = m_a * m_b / (m_a + m_b);
    let mut shared = Vec::with_capacity(a.scatter.len());
    for i in 0..delta.len() {
        for j in 0..=i {
            let at = packed_len(i) + j;
            let sum = a.scatter[at] + b.scatter[at] + between * delta[i] * delta[j];
            shared.push(sum / (m_a + m_b - 1.0));
        }
    }
    shared
}

/// The logarithm of the density of side a (or b) times its number of members, at the points of a,
/// then of b; `None` if the side's covariance is singular.
fn log_densities(a: &Group, b: &Group, shared: &[f64], of_a: bool) -> Option<Vec<f64>> {
    /// Regularisation: added to variances, so that rounding makes none negative. The columns are
    /// scaled to a standard deviation of about 1.
    const RIDGE: f64 = 1e-9;

    let side = if of_a { a } else { b };
    let p = side.points.columns();
    let points = side.points.count as f64;
    let prior = SHARED_POINTS * p as f64;
    let sums = side.points.scatter.iter().zip(shared);
    let covariance = sums.map(|(scatter, shared)| (scatter + prior * shared) / (points + prior));
    let mut covariance: Vec<f64> = covariance.collect();
    for i in 0..p {
        let diagonal = packed_len(i) + i;
        covariance[diagonal] += RIDGE;
    }
    let factor = Factor::of(&covariance, p)?;
    let log_determinant: f64 = factor.pivots.iter().map(|pivot| pivot.ln()).sum();
    let constant = side.members.ln() - log_determinant / 2.0;
    let mut found = Vec::with_capacity(a.points.count + b.points.count);
    for group in [a, b] {
        let mut z = group.points.points.clone();
        let means = group.points.mean.iter().zip(&side.points.mean);
        for (column, (own, of_side)) in z.chunks_exact_mut(group.points.count).zip(means) {
            let shift = own - of_side;
            column.iter_mut().for_each(|value| *value += shift);
        }
        factor.solve(&mut z, group.points.count);
        let squares = factor.products(&z, group.points.count, None);
        found.extend(squares.into_iter().map(|square| constant - square / 2.0));
    }
    Some(found)
}

/// The projections of the points of a and of b on Fisher's line, each on the line of all other
/// points, measured from the midpoint of the two means.
pub(super) fn projections(a: &Centred, b: &Centred) -> (Vec<f64>, Vec<f64>) {
    /// Regularisation, for columns that are constant within both sides: this share of the sum of
    /// both covariances and of δδᵀ is added to that sum, where δ is the difference of the means.
    const RIDGE: f64 = 1e-6;
    /// Regularisation, added to variances. The columns are scaled to a standard deviation of about
    /// 1.
    const RIDGE_OF_UNIT: f64 = 1e-10;

    let p = a.columns();
    let delta: Vec<f64> = a.mean.iter().zip(&b.mean).map(|(a, b)| a - b).collect();
    let (per_a, per_b) = (1.0 / (a.count - 1) as f64, 1.0 / (b.count - 1) as f64);
    let mut within = Vec::with_capacity(a.scatter.len());
    for i in 0..p {
        for j in 0..=i {
            let at = packed_len(i) + j;
            let sum = a.scatter[at] * per_a + b.scatter[at] * per_b;
            let mut value = sum + RIDGE * (sum + delta[i] * delta[j]);
            if i == j {
                value += RIDGE_OF_UNIT;
            }
            within.push(value);
        }
    }
    let factor = Factor::of(&within, p).unwrap_or_else(|| Factor::of_diagonal(&within, p));
    let mut e = delta;
    factor.solve(&mut e, 1);
    let square = factor.products(&e, 1, None)[0];
    let project = |side: &Centred, sign: f64| {
        let n = side.count as f64;
        let mut z = side.points.clone();
        factor.solve(&mut z, side.count);
        let own = factor.products(&z, side.count, None);
        let along = factor.products(&z, side.count, Some(&e));
        // Without the point, the mean moves by d / (n - 1), and the scatter loses d·dᵀ·n / (n - 1).
        let r = 1.0 / (n - 1.0);
        let s = n / ((n - 1.0) * (n - 2.0));
        let one = |(q, along): (f64, f64)| {
            let u = sign * along;
            let direct = (1.0 + r / 2.0) * (u - r * q) + square / 2.0 - r * u / 2.0;
            let rest = ((1.0 + r / 2.0) * q + u / 2.0) * (u - r * q);
            sign * (direct + s * rest / (1.0 - s * q).max(1e-3))
        };
        own.into_iter().zip(along).map(one).collect()
    };
    (project(a, 1.0), project(b, -1.0))
}
