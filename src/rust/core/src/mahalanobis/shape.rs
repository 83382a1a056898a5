//! The shape of a cluster: mean and scatter, the effective covariance and its whitening factor.
//!
//! Everything here decides, so every sum runs in one fixed order (ascending index, fused
//! multiply-add) that the CUDA code repeats, and nothing calls `pow`, `exp` or `log`.
//!
//! Lower triangles are packed row by row: element (i, j), j ≤ i, is at i(i+1)/2 + j.

use pulp::Simd;

use super::lanes::{add_multiple, for_rows_of, groups, groups_mut, row_width, WIDEST};
use super::subthreshold::{ShapeRule, Subthreshold};
use crate::monitor::Monitor;

/// Columns of a factorisation between two looks at the monitor: matrices of fewer are done without.
const COLUMNS_BETWEEN_CHECKS: usize = 128;

/// Number of elements of a packed lower triangle of `p` rows.
pub const fn packed_len(p: usize) -> usize {
    p * (p + 1) / 2
}

/// Merges mean and scatter of cluster `b` (`members_b`) into those of `a` (`members_a`):
/// S = S_a + S_b + (m_a·m_b/(m_a+m_b))·δδᵀ, c = a + (m_b/(m_a+m_b))·δ, δ = b − a.
/// An empty scatter stands for zero (a single observation).
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

/// As [`merge`], but for the mean, which stays that of `a`.
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

/// The share of the members that cluster `b` has in the union of both.
#[inline(always)]
pub fn share(members_a: usize, members_b: usize) -> f64 {
    members_b as f64 / (members_a as f64 + members_b as f64)
}

/// Moves a mean by this share of the way to another.
#[inline(always)]
pub fn move_towards(share: f64, mean: &mut [f64], other: &[f64]) {
    for (mean, other) in mean.iter_mut().zip(other) {
        *mean = share.mul_add(other - *mean, *mean);
    }
}

/// Work space of [`whitening`]; one for each thread.
#[derive(Debug, Default)]
pub struct Workspace<'a> {
    /// Asked between two columns of a factorisation.
    monitor: Option<&'a Monitor>,
    effective: Vec<f64>,
    factor: Vec<f64>,
    pivots: Vec<f64>,
    rows: Vec<f64>,
}

impl<'a> Workspace<'a> {
    /// For work that ends early, with a shape of no meaning, once `monitor` says stop.
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
}

/// The whitening factor W (packed lower triangle, d(x → C) = ‖W(x−c)‖) of a cluster of `members`
/// with this packed `scatter`, goes to `out`, scaled to determinant 1 while normalising. Returns
/// that scale.
///
/// Returns `None`, and leaves `out` alone, when the shape is the identity: where the rule says so
/// or where the effective covariance is singular.
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
    let Workspace {
        monitor,
        effective,
        factor,
        pivots,
        rows,
    } = work;
    let stopped = || monitor.is_some_and(Monitor::stopped);
    effective.clear();
    effective.extend(scatter.iter().map(|s| s / (members as f64 - 1.0)));
    factor.resize(packed_len(p), 0.0);
    pivots.resize(p, 0.0);
    if weight < 1.0 {
        let f = if rule.subthreshold == Subthreshold::Mahal
            && members > p
            && cholesky(simd, effective, p, factor, pivots, rows, &stopped)
        {
            geometric_mean(pivots)
        } else {
            1.0
        };
        let ridge = (1.0 - weight) * f;
        let mut at = 0;
        for i in 0..p {
            for j in 0..=i {
                let rest = if i == j { ridge } else { 0.0 };
                effective[at] = weight.mul_add(effective[at], rest);
                at += 1;
            }
        }
    }
    if !cholesky(simd, effective, p, factor, pivots, rows, &stopped) {
        return None;
    }
    let scale = if rule.normalizing {
        geometric_mean(pivots).sqrt()
    } else {
        1.0
    };
    invert(simd, factor, p, scale, rows, out, &stopped);
    Some(scale)
}

/// The Cholesky factor of a packed matrix and its squared pivots; false when it is singular, that
/// is when a squared pivot is ≤ ε·p·max diag, and once `stopped` says so.
#[inline(always)]
fn cholesky<S: Simd>(
    simd: S,
    matrix: &[f64],
    p: usize,
    factor: &mut [f64],
    pivots: &mut [f64],
    rows: &mut Vec<f64>,
    stopped: &dyn Fn() -> bool,
) -> bool {
    for_rows_of!(
        p,
        cholesky_by_columns::<S>(simd, matrix, p, factor, pivots, rows, stopped)
    )
}

/// As [`cholesky`]: column after column, so that the elements of a row are independent of each
/// other; what is done to each of them, and in which order, is as if it were row after row.
#[inline(always)]
fn cholesky_by_columns<S: Simd, const R: usize>(
    simd: S,
    matrix: &[f64],
    p: usize,
    factor: &mut [f64],
    pivots: &mut [f64],
    rows: &mut Vec<f64>,
    stopped: &dyn Fn() -> bool,
) -> bool {
    let mut largest = 0.0f64;
    for i in 0..p {
        let diagonal = matrix[packed_len(i) + i];
        if diagonal > largest {
            largest = diagonal;
        }
    }
    let smallest = f64::EPSILON * p as f64 * largest;
    // What is left of the rows; what comes to lie beside the triangle means nothing. After them, the
    // present column.
    let width = row_width::<S, R>(p);
    rows.clear();
    rows.resize((p + 1) * width, 0.0);
    let (rows, column) = rows.split_at_mut(p * width);
    for (i, row) in rows.chunks_exact_mut(width).enumerate() {
        row[..=i].copy_from_slice(&matrix[packed_len(i)..][..=i]);
    }
    for k in 0..p {
        let pivot = rows[k * width + k];
        // A pivot that is not a number is refused, too.
        let is_positive = pivot.partial_cmp(&smallest) == Some(std::cmp::Ordering::Greater);
        if !is_positive || k % COLUMNS_BETWEEN_CHECKS == COLUMNS_BETWEEN_CHECKS - 1 && stopped() {
            return false;
        }
        let root = pivot.sqrt();
        pivots[k] = pivot;
        for i in k + 1..p {
            column[i] = rows[i * width + k] / root;
        }
        column[k] = root;
        for i in k..p {
            factor[packed_len(i) + k] = column[i];
        }
        let elements_in_group = R * S::F64_LANES;
        for group in (k + 1) / elements_in_group..width / elements_in_group {
            let values = groups::<S, R>(column)[group];
            for i in (k + 1).max(group * elements_in_group)..p {
                let row = &mut rows[i * width..][..width];
                let sums = &mut groups_mut::<S, R>(row)[group];
                add_multiple(simd, sums, -column[i], &values);
            }
        }
    }
    true
}

/// `out` = `scale` · L⁻¹ for the packed lower triangle L; ends early once `stopped` says so.
#[inline(always)]
fn invert<S: Simd>(
    simd: S,
    factor: &[f64],
    p: usize,
    scale: f64,
    rows: &mut Vec<f64>,
    out: &mut [f64],
    stopped: &dyn Fn() -> bool,
) {
    for_rows_of!(
        p,
        invert_by_rows::<S>(simd, factor, p, scale, rows, out, stopped)
    );
}

/// As [`invert`]. Zeros follow each row of the triangle; to add multiples of them changes nothing.
#[inline(always)]
fn invert_by_rows<S: Simd, const R: usize>(
    simd: S,
    factor: &[f64],
    p: usize,
    scale: f64,
    rows: &mut Vec<f64>,
    out: &mut [f64],
    stopped: &dyn Fn() -> bool,
) {
    let width = R * S::F64_LANES;
    rows.clear();
    rows.resize((p * width).next_multiple_of(WIDEST), 0.0);
    for first in (0..p).step_by(width) {
        for i in first..p {
            if i % COLUMNS_BETWEEN_CHECKS == COLUMNS_BETWEEN_CHECKS - 1 && stopped() {
                return;
            }
            let row = &factor[packed_len(i)..][..=i];
            let inverses = groups_mut::<S, R>(rows);
            let mut sums = [simd.splat_f64s(0.0); R];
            for (value, above) in row[first..i].iter().zip(&inverses[first..i]) {
                add_multiple(simd, &mut sums, *value, above);
            }
            let divisor = simd.splat_f64s(row[i]);
            for sum in &mut sums {
                *sum = simd.div_f64s(simd.neg_f64s(*sum), divisor);
            }
            inverses[i] = sums;
            let inverse = &mut rows[i * width..][..width];
            if i < first + width {
                inverse[i - first] = 1.0 / row[i];
            }
            let columns = first..(first + width).min(i + 1);
            for (out, inverse) in out[packed_len(i)..][columns].iter_mut().zip(inverse) {
                *out = *inverse * scale;
            }
        }
    }
}

/// The geometric mean of positive numbers, within a few units in the last place, from additions,
/// multiplications and divisions only, so that it is the same on every device.
#[inline(always)]
pub fn geometric_mean(values: &[f64]) -> f64 {
    let mut mantissa = 1.0;
    let mut exponent = 0i64;
    for &value in values {
        let (m, e) = split(value);
        let (m, carry) = split(mantissa * m);
        mantissa = m;
        exponent += e + carry;
    }
    let count = values.len() as i64;
    let whole = exponent.div_euclid(count);
    let part = (exponent.rem_euclid(count) as f64 + log2_of_mantissa(mantissa)) / count as f64;
    scale_by_power_of_two(exp2_of_fraction(part), whole)
}

/// `value` = mantissa · 2^exponent with the mantissa in [1, 2).
#[inline(always)]
fn split(value: f64) -> (f64, i64) {
    const MANTISSA: u64 = (1 << 52) - 1;
    const TWO_TO_54: f64 = 18_014_398_509_481_984.0;
    let (value, shift) = if value < f64::MIN_POSITIVE {
        (value * TWO_TO_54, 54)
    } else {
        (value, 0)
    };
    let bits = value.to_bits();
    let exponent = (bits >> 52) as i64 - 1023 - shift;
    (f64::from_bits((bits & MANTISSA) | (1023 << 52)), exponent)
}

/// `value`·2^`exponent`, in two steps so that neither factor leaves the range of doubles.
#[inline(always)]
fn scale_by_power_of_two(value: f64, exponent: i64) -> f64 {
    let power = |e: i64| f64::from_bits(((e + 1023) as u64) << 52);
    let half = exponent / 2;
    value * power(half) * power(exponent - half)
}

/// log₂ of a number in [1, 2): 2/ln 2 · artanh((x−1)/(x+1)) by its series.
#[inline(always)]
fn log2_of_mantissa(x: f64) -> f64 {
    // Around 1 the series converges fastest: take the upper part of the interval from below.
    let (x, offset) = if x > std::f64::consts::SQRT_2 {
        (x * 0.5, 1.0)
    } else {
        (x, 0.0)
    };
    let z = (x - 1.0) / (x + 1.0);
    let square = z * z;
    let mut sum = 1.0 / 23.0;
    for odd in [21.0, 19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        sum = square.mul_add(sum, 1.0 / odd);
    }
    (2.0 * std::f64::consts::LOG2_E * z).mul_add(sum, offset)
}

/// 2^x for x in [0, 1], by the exponential series around the middle.
#[inline(always)]
fn exp2_of_fraction(x: f64) -> f64 {
    let y = (x - 0.5) * std::f64::consts::LN_2;
    let mut sum = 1.0;
    for k in (1..=16).rev() {
        sum = (y / k as f64).mul_add(sum, 1.0);
    }
    std::f64::consts::SQRT_2 * sum
}

#[cfg(test)]
mod tests {
    use pulp::{Scalar, WithSimd};

    use super::*;
    use crate::simd::dispatch;

    #[test]
    fn geometric_mean_agrees_with_logarithms() {
        for values in [
            vec![2.0],
            vec![1e-300, 1e300, 7.0],
            vec![4.0; 14],
            vec![1e-310, 3.0],
            (1..600).map(|i| i as f64 * 1e-8).collect(),
        ] {
            let logarithms: f64 = values.iter().map(|v: &f64| v.ln()).sum();
            let expected = (logarithms / values.len() as f64).exp();
            let got = geometric_mean(&values);
            assert!(
                (got / expected - 1.0).abs() < 1e-13,
                "{got} is not {expected}"
            );
        }
        assert!((geometric_mean(&[8.0, 2.0]) - 4.0).abs() < 1e-15);
    }

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

    /// The Cholesky factor of a packed matrix, its squared pivots, and 0.7 times its inverse.
    struct Factors<'a> {
        matrix: &'a [f64],
        p: usize,
    }

    type Found = Option<(Vec<f64>, Vec<f64>, Vec<f64>)>;

    impl WithSimd for Factors<'_> {
        type Output = Found;

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) -> Found {
            let Self { matrix, p } = self;
            let (mut factor, mut pivots) = (vec![0.0; packed_len(p)], vec![0.0; p]);
            let (mut rows, mut inverse) = (Vec::new(), vec![0.0; packed_len(p)]);
            cholesky(
                simd,
                matrix,
                p,
                &mut factor,
                &mut pivots,
                &mut rows,
                &|| false,
            )
            .then(|| {
                invert(simd, &factor, p, 0.7, &mut rows, &mut inverse, &|| false);
                (factor, pivots, inverse)
            })
        }
    }

    #[test]
    fn factors_have_the_bits_of_the_plain_version() {
        for p in [1, 2, 7, 8, 9, 16, 31, 40, 70, 129] {
            let value = |i: usize, k: usize| ((i * 31 + k * 17) as f64 * 0.37).sin();
            let mut matrix = vec![0.0; packed_len(p)];
            for i in 0..p {
                for j in 0..=i {
                    let products = (0..p + 3).map(|k| value(i, k) * value(j, k));
                    let ridge = if i == j { 1.0 } else { 0.0 };
                    matrix[packed_len(i) + j] = products.sum::<f64>() + ridge;
                }
            }
            let (mut factor, mut pivots) = (vec![0.0; packed_len(p)], vec![0.0; p]);
            let mut inverse = vec![0.0; packed_len(p)];
            assert!(plain_cholesky(&matrix, p, &mut factor, &mut pivots));
            plain_inverse(&factor, p, 0.7, &mut inverse);
            let plain = Some((factor, pivots, inverse));
            let mut singular = matrix.clone();
            singular[packed_len(p) - 1] = -1.0;
            let both: [fn(Factors) -> Found; 2] = [
                |factors| dispatch(factors),
                |factors| factors.with_simd(Scalar::new()),
            ];
            for found in both {
                let matrix = &matrix[..];
                assert!(found(Factors { matrix, p }) == plain, "{p}");
                let matrix = &singular[..];
                assert!(found(Factors { matrix, p }).is_none(), "{p}");
            }
        }
    }

    /// The Cholesky factor of a packed matrix and its squared pivots; false when it is singular, that
    /// is when a squared pivot is ≤ ε·p·max diag.
    fn plain_cholesky(matrix: &[f64], p: usize, factor: &mut [f64], pivots: &mut [f64]) -> bool {
        let mut largest = 0.0f64;
        for i in 0..p {
            let diagonal = matrix[packed_len(i) + i];
            if diagonal > largest {
                largest = diagonal;
            }
        }
        let smallest = f64::EPSILON * p as f64 * largest;
        for i in 0..p {
            let (done, rest) = factor.split_at_mut(packed_len(i));
            let row = &mut rest[..=i];
            for j in 0..=i {
                let mut sum = matrix[packed_len(i) + j];
                let other = if j < i {
                    &done[packed_len(j)..][..=j]
                } else {
                    &row[..=j]
                };
                for k in 0..j {
                    sum = (-row[k]).mul_add(other[k], sum);
                }
                if j < i {
                    row[j] = sum / other[j];
                } else {
                    // A pivot that is not a number is refused, too.
                    if sum.partial_cmp(&smallest) != Some(std::cmp::Ordering::Greater) {
                        return false;
                    }
                    pivots[i] = sum;
                    row[i] = sum.sqrt();
                }
            }
        }
        true
    }

    /// `out` = `scale` · L⁻¹ for the packed lower triangle L.
    fn plain_inverse(factor: &[f64], p: usize, scale: f64, out: &mut [f64]) {
        for i in 0..p {
            let row = &factor[packed_len(i)..][..=i];
            let (done, rest) = out.split_at_mut(packed_len(i));
            let inverse = &mut rest[..=i];
            inverse.fill(0.0);
            for k in 0..i {
                let above = &done[packed_len(k)..][..=k];
                for (sum, value) in inverse.iter_mut().zip(above) {
                    *sum = row[k].mul_add(*value, *sum);
                }
            }
            for sum in &mut inverse[..i] {
                *sum = -*sum / row[i];
            }
            inverse[i] = 1.0 / row[i];
        }
        for value in &mut out[..packed_len(p)] {
            *value *= scale;
        }
    }
}
