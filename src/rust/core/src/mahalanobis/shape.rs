//! The shape of a cluster: mean and scatter, the effective covariance and its whitening factor.
//!
//! Exact distances depend on these numbers. So every sum runs in one fixed order (ascending index,
//! fused multiply-add), which the CUDA code repeats, and nothing calls `pow`, `exp` or `log`.
//!
//! Lower triangles are packed; see [`packed`](super::packed).

use pulp::Simd;

use super::cholesky::{cholesky, invert};
use super::geometric_mean::geometric_mean;
use super::packed::packed_len;
use super::subthreshold::ShapeRule;
use crate::monitor::Monitor;

/// Merges the mean and scatter of cluster `b` (`members_b`) into the mean and scatter of `a`
/// (`members_a`): S = S_a + S_b + (m_a·m_b/(m_a+m_b))·δδᵀ, c = a + (m_b/(m_a+m_b))·δ, δ = b − a. An
/// empty scatter stands for zero (a single observation).
#[inline(always)]
pub fn merge(
    members_a: usize,
    mean_a: &mut [f64],
    scatter_a: &mut [f64],
    members_b: usize,
    mean_b: &[f64],
    scatter_b: &[f64],
) {
    merge_scatters(members_a, mean_a, scatter_a, members_b, mean_b, scatter_b);
    move_towards(share(members_a, members_b), mean_a, mean_b);
}

/// As [`merge`] for the scatter only; the mean of `a` stays unchanged.
#[inline(always)]
pub fn merge_scatters(
    members_a: usize,
    mean_a: &[f64],
    scatter_a: &mut [f64],
    members_b: usize,
    mean_b: &[f64],
    scatter_b: &[f64],
) {
    let (a, b) = (members_a as f64, members_b as f64);
    let weight = a * b / (a + b);
    let mut at = 0;
    for i in 0..mean_a.len() {
        let scaled = weight * (mean_b[i] - mean_a[i]);
        for j in 0..=i {
            let both = if scatter_b.is_empty() {
                scatter_a[at]
            } else {
                scatter_a[at] + scatter_b[at]
            };
            scatter_a[at] = scaled.mul_add(mean_b[j] - mean_a[j], both);
            at += 1;
        }
    }
}

/// The share of the members of cluster `b` in the union of both.
#[inline(always)]
pub fn share(members_a: usize, members_b: usize) -> f64 {
    members_b as f64 / (members_a as f64 + members_b as f64)
}

/// Moves a mean by this share of the way to another mean.
#[inline(always)]
pub fn move_towards(share: f64, mean: &mut [f64], other: &[f64]) {
    for (mean, other) in mean.iter_mut().zip(other) {
        *mean = share.mul_add(other - *mean, *mean);
    }
}

/// Working memory of [`whitening`], one per thread.
#[derive(Debug, Default)]
pub struct Workspace<'a> {
    /// Checked between columns of a factorisation.
    monitor: Option<&'a Monitor>,
    effective: Vec<f64>,
    factor: Vec<f64>,
    pivots: Vec<f64>,
    rows: Vec<f64>,
}

impl<'a> Workspace<'a> {
    /// A workspace with a monitor. Once `monitor` says stop, a computation ends early, with a
    /// meaningless shape.
    pub fn new(monitor: &'a Monitor) -> Self {
        Self {
            monitor: Some(monitor),
            ..Self::default()
        }
    }

    /// The effective covariance E of the last [`whitening`] that returned a factor, packed.
    pub fn effective_covariance(&self) -> &[f64] {
        &self.effective
    }

    /// The factor and the pivots of the effective covariance; false as in [`cholesky`].
    #[inline(always)]
    fn factorise<S: Simd>(&mut self, simd: S, p: usize) -> bool {
        cholesky(
            simd,
            &self.effective,
            p,
            &mut self.factor,
            &mut self.pivots,
            &mut self.rows,
            self.monitor,
        )
    }
}

/// Writes the whitening factor W (packed lower triangle, d(x → C) = ‖W(x−c)‖) of a cluster of
/// `members` with this packed `scatter` to `out`, scaled to determinant 1 while normalising.
/// Returns the scale.
///
/// Returns `None` and does not change `out` if the shape is the identity: by the rule, or because
/// the effective covariance is singular.
#[inline(always)]
pub fn whitening<S: Simd>(
    simd: S,
    rule: &ShapeRule,
    members: usize,
    scatter: &[f64],
    p: usize,
    work: &mut Workspace,
    out: &mut [f64],
) -> Option<f64> {
    if !rule.may_have_shape(members) {
        return None;
    }
    let weight = rule.weight(members);
    if weight == 1.0 && members <= p {
        return None;
    }
    work.effective.clear();
    work.effective
        .extend(scatter.iter().map(|s| s / (members as f64 - 1.0)));
    work.factor.resize(packed_len(p), 0.0);
    work.pivots.resize(p, 0.0);
    if weight < 1.0 {
        let scales = rule.subthreshold.scales_the_identity() && members > p;
        let f = if scales && work.factorise(simd, p) {
            geometric_mean(&work.pivots)
        } else {
            1.0
        };
        mix_with_identity(weight, f, p, &mut work.effective);
    }
    if !work.factorise(simd, p) {
        return None;
    }
    let scale = if rule.normalizing {
        geometric_mean(&work.pivots).sqrt()
    } else {
        1.0
    };
    invert(
        simd,
        &work.factor,
        &work.pivots,
        scale,
        &mut work.rows,
        out,
        work.monitor,
    );
    Some(scale)
}

/// Replaces a packed covariance A by w·A + (1−w)·f·I for `weight` w.
#[inline(always)]
fn mix_with_identity(weight: f64, f: f64, p: usize, covariance: &mut [f64]) {
    let ridge = (1.0 - weight) * f;
    let mut at = 0;
    for i in 0..p {
        for j in 0..=i {
            let rest = if i == j { ridge } else { 0.0 };
            covariance[at] = weight.mul_add(covariance[at], rest);
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use pulp::Scalar;

    use super::*;
    use crate::mahalanobis::subthreshold::Subthreshold;

    #[test]
    fn whitening_inverts_the_covariance() {
        let p = 3;
        let points: Vec<[f64; 3]> = (0..20)
            .map(|i| {
                let t = i as f64;
                [t.sin() * 3.0, t.cos() + t.sin(), (t * t).cos() * 0.1]
            })
            .collect();
        let mut mean = points[0].to_vec();
        let mut scatter = vec![0.0; packed_len(p)];
        for (m, point) in points.iter().enumerate().skip(1) {
            merge(m, &mut mean, &mut scatter, 1, point, &[]);
        }
        let rule = ShapeRule {
            threshold: 5.0,
            subthreshold: Subthreshold::EuclidMahal,
            normalizing: false,
            all_full_size: true,
        };
        let mut w = vec![0.0; packed_len(p)];
        assert!(whitening(
            Scalar::new(),
            &rule,
            20,
            &scatter,
            p,
            &mut Workspace::default(),
            &mut w
        )
        .is_some());
        // W · cov · Wᵀ = I
        let at = |m: &[f64], i: usize, j: usize| m[packed_len(i.max(j)) + i.min(j)];
        let lower = |i: usize, j: usize| if j <= i { at(&w, i, j) } else { 0.0 };
        for i in 0..p {
            for j in 0..p {
                let mut sum = 0.0;
                for k in 0..p {
                    for l in 0..p {
                        sum += lower(i, k) * at(&scatter, k, l) / 19.0 * lower(j, l);
                    }
                }
                let expected = if i == j { 1.0 } else { 0.0 };
                assert!((sum - expected).abs() < 1e-12);
            }
        }
    }
}
