//! The shape of a cluster, and bounds on the distances to it.

use pulp::{Simd, WithSimd};

use super::moments::Moments;
use crate::mahalanobis::distance;
use crate::mahalanobis::lanes::{add_multiple, groups, groups_mut, row_width};
use crate::mahalanobis::options::Distance;
use crate::mahalanobis::packed::{frobenius_norm, packed_len, trace};
use crate::mahalanobis::screen::{Spread, LEAST_FOURTH};
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
            moments.least_stretch = lower_stretch(simd, effective, self.p, scale, moments.stretch);
            moments.whitening = whitening;
        } else {
            moments.least_stretch = 1.0;
            moments.stretch = 1.0;
        }
        if self.distance == Distance::FullMahalanobis {
            moments.spread = spread(moments, self.members as f64, self.p);
        }
    }
}

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
        largest_eigenvalue: frobenius_norm(&moments.scatter, p) / size,
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
    let least_stretch = (scale / longest) * (1.0 - 1e-6)
        - lost * (1.0 + stretch * trace(effective, p).sqrt() / scale);
    least_stretch.max(0.0)
}

/// An upper bound on the largest eigenvalue of a packed positive matrix A. The eigenvalues of A^k
/// have mean m and variance s², and the largest of p numbers is at most m + s·√(p−1) (Wolkowicz
/// and Styan 1980, "Bounds for eigenvalues using traces", doi:10.1016/0024-3795(80)90258-X). The
/// power k is 8, 2 or 1: lower for more columns, since a squaring takes p³ operations.
#[inline(always)]
fn largest_eigenvalue_bound<S: Simd>(simd: S, matrix: &[f64], p: usize) -> f64 {
    match p.div_ceil(S::F64_LANES) {
        1 => largest_eigenvalue_bound_by_rows::<S, 1>(simd, matrix, p),
        2 => largest_eigenvalue_bound_by_rows::<S, 2>(simd, matrix, p),
        _ => largest_eigenvalue_bound_by_rows::<S, 4>(simd, matrix, p),
    }
}

#[inline(always)]
fn largest_eigenvalue_bound_by_rows<S: Simd, const R: usize>(
    simd: S,
    matrix: &[f64],
    p: usize,
) -> f64 {
    let squarings = match p {
        0..=24 => 3,
        25..=52 => 1,
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
    for _ in 0..squarings {
        let mut square = vec![0.0f64; p * width];
        // The square is symmetric: of each row, the groups up to the diagonal are enough.
        for i in (0..p - p % 2).step_by(2) {
            square_rows::<S, R, 2>(simd, &power, p, i, &mut square[i * width..]);
        }
        if p % 2 == 1 {
            square_rows::<S, R, 1>(simd, &power, p, p - 1, &mut square[(p - 1) * width..]);
        }
        for i in 0..p {
            for j in (i + 1).next_multiple_of(R * S::F64_LANES)..p {
                square[i * width + j] = square[j * width + i];
            }
        }
        power = square;
    }
    let mut squares = simd.splat_f64s(0.0);
    for values in groups::<S, 1>(&power) {
        squares = simd.mul_add_f64s(values[0], values[0], squares);
    }
    let mean_square = simd.reduce_sum_f64s(squares) / p as f64;
    let diagonal = power.iter().step_by(width + 1).take(p);
    let mean = diagonal.sum::<f64>() / p as f64;
    // The second term covers the rounding of both sums, where their difference is small.
    let variance = (mean_square - mean * mean).max(0.0) + 1e-11 * mean_square;
    let mut largest = mean + (variance * (p - 1) as f64).sqrt();
    for _ in 0..squarings {
        largest = largest.sqrt();
    }
    // Underflow in the powers is far below the rounding, which 1e-9 covers.
    trace * largest * (1.0 + 1e-9)
}

/// `N` rows of the square of a symmetric p × p matrix, from row `first` on: their groups of `R`
/// registers up to the diagonal of the last row. Rows are padded with zeros to whole groups.
#[inline(always)]
fn square_rows<S: Simd, const R: usize, const N: usize>(
    simd: S,
    matrix: &[f64],
    p: usize,
    first: usize,
    out: &mut [f64],
) {
    let in_row = row_width::<S, R>(p) / (R * S::F64_LANES);
    let last_group = (first + N - 1) / (R * S::F64_LANES);
    let (others, out) = (groups::<S, R>(matrix), groups_mut::<S, R>(out));
    let factors: [&[f64]; N] =
        std::array::from_fn(|n| &matrix[(first + n) * row_width::<S, R>(p)..][..p]);
    for group in 0..=last_group {
        let mut sums = [[simd.splat_f64s(0.0); R]; N];
        for (k, other) in others.chunks_exact(in_row).enumerate().take(p) {
            for n in 0..N {
                add_multiple(simd, &mut sums[n], factors[n][k], &other[group]);
            }
        }
        for n in 0..N {
            out[n * in_row + group] = sums[n];
        }
    }
}

#[cfg(test)]
mod tests {
    use pulp::Scalar;

    use super::*;
    use crate::simd::dispatch;
    use crate::testing::Random;

    #[test]
    fn norms_neither_overflow_nor_underflow() {
        for scale in [1e-200, 1e-100, 1.0, 1e100, 1e200] {
            let found = norm(&[3.0 * scale, 4.0 * scale]);
            assert!((found / scale - 5.0).abs() < 1e-12, "{scale:e}: {found:e}");
        }
        assert_eq!(norm(&[0.0, 0.0]), 0.0);
    }

    struct Bound<'a>(&'a [f64], usize);

    impl WithSimd for Bound<'_> {
        type Output = f64;

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) -> f64 {
            largest_eigenvalue_bound(simd, self.0, self.1)
        }
    }

    #[test]
    fn the_largest_eigenvalue_is_below_its_bound() {
        let mut random = Random::of(3);
        for p in [1, 2, 3, 8, 9, 16, 17, 24, 25, 31, 33, 40, 52, 53, 70] {
            // The eigenvalues are 2, and once `largest`.
            for largest in [2.0, 2.000_001, 3.0, 100.0, 1e8] {
                let direction: Vec<f64> = (0..p).map(|_| random.normal()).collect();
                let square: f64 = direction.iter().map(|x| x * x).sum();
                let mut matrix = vec![0.0; packed_len(p)];
                for i in 0..p {
                    for j in 0..=i {
                        let ridge = if i == j { 2.0 } else { 0.0 };
                        let share = direction[i] * direction[j] / square;
                        matrix[packed_len(i) + j] = ridge + (largest - 2.0) * share;
                    }
                }
                for bound in [
                    dispatch(Bound(&matrix, p)),
                    Bound(&matrix, p).with_simd(Scalar::new()),
                ] {
                    // With one eigenvalue unlike the others, the bound is that eigenvalue.
                    let excess = bound / largest - 1.0;
                    assert!((0.0..1e-4).contains(&excess), "{p}, {largest}: {excess:e}");
                }
            }
        }
    }

    #[test]
    fn a_fourth_moment_that_may_have_lost_digits_gives_no_bound() {
        let mut moments = Moments::zero(1, true);
        assert_eq!(spread(&moments, 2.0, 1).fourth, 0.0);
        moments.scatter[0] = 1e-160;
        moments.fourth = 1e-320;
        let tiny = spread(&moments, 2.0, 1);
        assert_eq!(tiny.mean_norm(1e-160), 0.0);
        // The square of this square is subnormal.
        assert_eq!(Spread::default().mean_norm(2.7e-162), 0.0);
    }
}
