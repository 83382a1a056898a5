//! The shape of a cluster, and bounds on the distances to it.

use pulp::{Simd, WithSimd};

use super::moments::Moments;
use crate::mahalanobis::distance;
use crate::mahalanobis::lanes::{add_multiple, for_rows_of, groups, groups_mut, row_width};
use crate::mahalanobis::options::Distance;
use crate::mahalanobis::packed::{frobenius_norm, packed_len, trace};
use crate::mahalanobis::screen::Spread;
use crate::mahalanobis::shape::{self, Workspace};
use crate::mahalanobis::subthreshold::ShapeRule;
use crate::monitor::Monitor;

/// A kernel that computes the shape of a cluster under a rule, and the spread for the screen.
pub struct Reshape<'a> {
    pub monitor: &'a Monitor,
    pub rule: &'a ShapeRule,
    pub distance: Distance,
    pub members: usize,
    pub p: usize,
    pub moments: &'a mut Moments,
}

impl WithSimd for Reshape<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let mut workspace = Workspace::new(self.monitor);
        let moments = self.moments;
        let mut whitening = std::mem::take(&mut moments.whitening);
        if self.rule.may_have_shape(self.members) {
            whitening.resize(packed_len(self.p), 0.0);
        }
        let scale = shape::whitening(
            simd,
            self.rule,
            self.members,
            &moments.scatter,
            self.p,
            &mut workspace,
            &mut whitening,
        );
        if let Some(scale) = scale {
            moments.stretch = distance::stretch(&whitening);
            let effective = workspace.effective_covariance();
            moments.low = lower_stretch(simd, effective, self.p, scale, moments.stretch);
            moments.whitening = whitening;
        } else {
            moments.low = 1.0;
            moments.stretch = 1.0;
        }
        if self.distance == Distance::FullMahalanobis {
            moments.spread = spread(moments, self.members as f64, self.p);
        }
    }
}

/// Smallest fourth moment that a bound uses. Smaller fourth moments belong to members at distances
/// below 1e-72; they and the squares of second moments may have lost digits to underflow. If too
/// small, a bound could exceed its distance.
const LEAST_FOURTH: f64 = 1e-290;

/// Bounds on the central moments of a cluster of `size` members.
#[inline(always)]
fn spread(moments: &Moments, size: f64, p: usize) -> Spread {
    let variance = trace(&moments.scatter, p) / size;
    let is_usable = variance == 0.0 || moments.fourth >= LEAST_FOURTH;
    Spread {
        variance,
        // An infinite fourth moment makes the bound 0.
        fourth: if is_usable {
            moments.fourth
        } else {
            f64::INFINITY
        },
        largest: frobenius_norm(&moments.scatter, p) / size,
        third: norm(&moments.third),
    }
}

/// ‖v‖, also where squares overflow or underflow.
#[inline(always)]
fn norm(v: &[f64]) -> f64 {
    let square: f64 = v.iter().map(|x| x * x).sum();
    if (1e-290..1e290).contains(&square) {
        return square.sqrt();
    }
    let longest = v.iter().fold(0.0f64, |longest, x| longest.max(x.abs()));
    if longest == 0.0 {
        return 0.0;
    }
    let square: f64 = v.iter().map(|x| (x / longest) * (x / longest)).sum();
    longest * square.sqrt()
}

/// A lower bound on ‖Wy‖/‖y‖, given the effective covariance, the scale of W, and its stretch.
#[inline(always)]
fn lower_stretch<S: Simd>(simd: S, effective: &[f64], p: usize, scale: f64, stretch: f64) -> f64 {
    let longest = largest_eigenvalue_bound(simd, effective, p).sqrt();
    // The second term covers the rounding of the inverted factor.
    let lost = 8.0 * p as f64 * f64::EPSILON * stretch;
    let low = (scale / longest) * (1.0 - 1e-6)
        - lost * (1.0 + stretch * trace(effective, p).sqrt() / scale);
    low.max(0.0)
}

/// An upper bound on the largest eigenvalue of a packed positive matrix A: ‖A^k‖_F^(1/k) for k = 8,
/// 2 or 1. The power k is lower for more columns p, since a squaring takes p³ operations.
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
    let trace = trace(matrix, p);
    // Rows padded with zeros.
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
    // Underflow in the powers is far below the rounding, which 1e-9 covers.
    trace * norm * (1.0 + 1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn norms_neither_overflow_nor_underflow() {
        for scale in [1e-200, 1e-100, 1.0, 1e100, 1e200] {
            let found = norm(&[3.0 * scale, 4.0 * scale]);
            assert!((found / scale - 5.0).abs() < 1e-12, "{scale:e}: {found:e}");
        }
        assert_eq!(norm(&[0.0, 0.0]), 0.0);
    }

    #[test]
    fn a_fourth_moment_that_may_have_lost_digits_gives_no_bound() {
        let mut moments = Moments::zero(1, true);
        assert_eq!(spread(&moments, 2.0, 1).fourth, 0.0);
        moments.scatter[0] = 1e-160;
        moments.fourth = 1e-320;
        let tiny = spread(&moments, 2.0, 1);
        assert_eq!(tiny.mean_norm(1e-160), 0.0);
    }
}
