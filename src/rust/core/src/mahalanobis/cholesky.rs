//! The square-root-free Cholesky factorisation (LDLᵀ) of a packed matrix, and the inverse of its
//! factor.
//!
//! A = L·D·Lᵀ with 1 on the diagonal of L. The usual Cholesky factor is L·√D. Each step waits for
//! the one before; without a square root in each step, the factorisation takes half the time on a
//! GPU.
//!
//! Both functions are for the covariances of clusters: few columns, double precision, and one fixed
//! order of operations per element, which the CUDA code repeats. Linear algebra libraries fix no
//! order.

use pulp::Simd;

use super::lanes::{add_multiple, for_rows_of, groups, groups_mut, row_width, WIDEST};
use super::packed::packed_len;
use crate::monitor::Monitor;

/// Number of columns of a factorisation between two checks of the monitor. Checking every column
/// would cost time in small matrices; in matrices with fewer columns than this, nothing is checked.
/// If too large, an interrupt is answered late.
const COLUMNS_BETWEEN_CHECKS: usize = 128;

fn is_stopped(monitor: Option<&Monitor>) -> bool {
    monitor.is_some_and(Monitor::stopped)
}

/// The factor L of a packed matrix and the pivots D. Returns false if the matrix is singular, that
/// is if a pivot is ≤ ε·p·max diag, and once `monitor` says stop.
#[inline(always)]
pub fn cholesky<S: Simd>(
    simd: S,
    matrix: &[f64],
    p: usize,
    factor: &mut [f64],
    pivots: &mut [f64],
    rows: &mut Vec<f64>,
    monitor: Option<&Monitor>,
) -> bool {
    for_rows_of!(
        p,
        cholesky_by_blocks::<S>(simd, matrix, p, factor, pivots, rows, monitor)
    )
}

/// The pivot at or below which a packed matrix is singular.
#[inline(always)]
fn smallest_pivot(matrix: &[f64], p: usize) -> f64 {
    let mut largest = 0.0f64;
    for i in 0..p {
        let diagonal = matrix[packed_len(i) + i];
        if diagonal > largest {
            largest = diagonal;
        }
    }
    f64::EPSILON * p as f64 * largest
}

/// As [`cholesky`], by blocks of `B` columns, so that the elements of a row are independent of each
/// other and are read and written once for a block. Each element goes through the same operations
/// in the same order as in the row-by-row algorithm.
#[inline(always)]
fn cholesky_by_blocks<S: Simd, const R: usize, const B: usize>(
    simd: S,
    matrix: &[f64],
    p: usize,
    factor: &mut [f64],
    pivots: &mut [f64],
    rows: &mut Vec<f64>,
    monitor: Option<&Monitor>,
) -> bool {
    let smallest = smallest_pivot(matrix, p);
    // The rows of the remaining matrix (only the triangle is used), then the columns of the block.
    let width = row_width::<S, R>(p);
    rows.clear();
    rows.resize((p + B) * width, 0.0);
    let (rows, columns) = rows.split_at_mut(p * width);
    for (i, row) in rows.chunks_exact_mut(width).enumerate() {
        row[..=i].copy_from_slice(&matrix[packed_len(i)..][..=i]);
    }
    for start in (0..p).step_by(B) {
        let end = p.min(start + B);
        for k in start..end {
            let pivot = rows[k * width + k];
            // False for NaN, too.
            let is_positive = pivot.partial_cmp(&smallest) == Some(std::cmp::Ordering::Greater);
            if !is_positive
                || k % COLUMNS_BETWEEN_CHECKS == COLUMNS_BETWEEN_CHECKS - 1 && is_stopped(monitor)
            {
                return false;
            }
            pivots[k] = pivot;
            factor[packed_len(k) + k] = 1.0;
            let reciprocal = 1.0 / pivot;
            let column = &mut columns[(k - start) * width..][..width];
            for i in k + 1..p {
                let row = &mut rows[i * width..][..width];
                column[i] = row[k];
                let element = column[i] * reciprocal;
                factor[packed_len(i) + k] = element;
                for later in k + 1..end {
                    row[later] = (-element).mul_add(column[later], row[later]);
                }
            }
        }
        let elements_in_group = R * S::F64_LANES;
        for group in end / elements_in_group..width / elements_in_group {
            let values: [[S::f64s; R]; B] =
                std::array::from_fn(|b| groups::<S, R>(&columns[b * width..][..width])[group]);
            for i in end.max(group * elements_in_group)..p {
                let row = &mut rows[i * width..][..width];
                let sums = &mut groups_mut::<S, R>(row)[group];
                let elements = &factor[packed_len(i) + start..][..B];
                for b in 0..B {
                    add_multiple(simd, sums, -elements[b], &values[b]);
                }
            }
        }
    }
    true
}

/// `out` = `scale` · (L·√D)⁻¹ for the packed factor L and the pivots D. Ends early once `monitor`
/// says stop.
#[inline(always)]
pub fn invert<S: Simd>(
    simd: S,
    factor: &[f64],
    pivots: &[f64],
    scale: f64,
    rows: &mut Vec<f64>,
    out: &mut [f64],
    monitor: Option<&Monitor>,
) {
    for_rows_of!(
        pivots.len(),
        invert_by_blocks::<S>(simd, factor, pivots, scale, rows, out, monitor)
    );
}

/// As [`invert`], by blocks of `B` rows. Zeros follow each row of the triangle; adding multiples of
/// them changes nothing.
#[inline(always)]
fn invert_by_blocks<S: Simd, const R: usize, const B: usize>(
    simd: S,
    factor: &[f64],
    pivots: &[f64],
    scale: f64,
    rows: &mut Vec<f64>,
    out: &mut [f64],
    monitor: Option<&Monitor>,
) {
    let (p, width) = (pivots.len(), R * S::F64_LANES);
    rows.clear();
    rows.resize((p * width).next_multiple_of(WIDEST), 0.0);
    for first in (0..p).step_by(width) {
        let mut start = first;
        while start < p {
            let end = if start + B <= p { start + B } else { start + 1 };
            if (start..end).any(|i| i % COLUMNS_BETWEEN_CHECKS == COLUMNS_BETWEEN_CHECKS - 1)
                && is_stopped(monitor)
            {
                return;
            }
            if end == start + B {
                invert_rows::<S, R, B>(simd, factor, first, start, rows);
            } else {
                invert_rows::<S, R, 1>(simd, factor, first, start, rows);
            }
            for i in start..end {
                let inverse = &rows[i * width..][..width];
                let root = 1.0 / pivots[i].sqrt();
                let columns = first..(first + width).min(i + 1);
                for (out, inverse) in out[packed_len(i)..][columns].iter_mut().zip(inverse) {
                    *out = *inverse * root * scale;
                }
            }
            start = end;
        }
    }
}

/// `B` rows of L⁻¹ for the packed factor L, from row `start` on, in the columns of one group of `R`
/// registers, which begins with column `first`. `rows` has the rows above.
#[inline(always)]
fn invert_rows<S: Simd, const R: usize, const B: usize>(
    simd: S,
    factor: &[f64],
    first: usize,
    start: usize,
    rows: &mut [f64],
) {
    let width = R * S::F64_LANES;
    let factors: [&[f64]; B] =
        std::array::from_fn(|b| &factor[packed_len(start + b)..][first..start + b]);
    let mut sums = [[simd.splat_f64s(0.0); R]; B];
    let above = &groups::<S, R>(rows)[first..start];
    for (k, above) in above.iter().enumerate() {
        for b in 0..B {
            add_multiple(simd, &mut sums[b], -factors[b][k], above);
        }
    }
    for b in 0..B {
        let i = start + b;
        let inverses = groups_mut::<S, R>(rows);
        for (value, above) in factors[b][start - first..].iter().zip(&inverses[start..i]) {
            add_multiple(simd, &mut sums[b], -*value, above);
        }
        inverses[i] = sums[b];
        if i < first + width {
            rows[i * width + i - first] = 1.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use pulp::{Scalar, WithSimd};

    use super::*;
    use crate::simd::dispatch;

    /// Computes the factor of a packed matrix, its pivots, and 0.7 times the inverse of L·√D.
    struct FactorsOfMatrix<'a> {
        matrix: &'a [f64],
        p: usize,
    }

    type Found = Option<(Vec<f64>, Vec<f64>, Vec<f64>)>;

    impl WithSimd for FactorsOfMatrix<'_> {
        type Output = Found;

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) -> Found {
            let Self { matrix, p } = self;
            let (mut factor, mut pivots) = (vec![0.0; packed_len(p)], vec![0.0; p]);
            let (mut rows, mut inverse) = (Vec::new(), vec![0.0; packed_len(p)]);
            cholesky(simd, matrix, p, &mut factor, &mut pivots, &mut rows, None).then(|| {
                invert(simd, &factor, &pivots, 0.7, &mut rows, &mut inverse, None);
                (factor, pivots, inverse)
            })
        }
    }

    #[test]
    fn factors_have_the_bits_of_the_plain_version() {
        for p in [1, 2, 7, 8, 9, 16, 31, 32, 33, 34, 35, 40, 70, 129] {
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
            plain_inverse(&factor, &pivots, p, 0.7, &mut inverse);
            let plain = Some((factor, pivots, inverse));
            let mut singular = matrix.clone();
            singular[packed_len(p) - 1] = -1.0;
            let both: [fn(FactorsOfMatrix) -> Found; 2] = [
                |factors| dispatch(factors),
                |factors| factors.with_simd(Scalar::new()),
            ];
            for found in both {
                let matrix = &matrix[..];
                assert!(found(FactorsOfMatrix { matrix, p }) == plain, "{p}");
                let matrix = &singular[..];
                assert!(found(FactorsOfMatrix { matrix, p }).is_none(), "{p}");
            }
        }
    }

    /// [`cholesky`] row by row.
    fn plain_cholesky(matrix: &[f64], p: usize, factor: &mut [f64], pivots: &mut [f64]) -> bool {
        let smallest = smallest_pivot(matrix, p);
        let mut columns = vec![0.0; packed_len(p)];
        for i in 0..p {
            let row = &mut factor[packed_len(i)..][..=i];
            for j in 0..=i {
                let mut sum = matrix[packed_len(i) + j];
                for k in 0..j {
                    sum = (-row[k]).mul_add(columns[packed_len(j) + k], sum);
                }
                if j < i {
                    columns[packed_len(i) + j] = sum;
                    row[j] = sum * (1.0 / pivots[j]);
                } else {
                    // Rejects a pivot that is NaN, too.
                    if sum.partial_cmp(&smallest) != Some(std::cmp::Ordering::Greater) {
                        return false;
                    }
                    pivots[i] = sum;
                    row[i] = 1.0;
                }
            }
        }
        true
    }

    /// [`invert`] row by row.
    fn plain_inverse(factor: &[f64], pivots: &[f64], p: usize, scale: f64, out: &mut [f64]) {
        for i in 0..p {
            let row = &factor[packed_len(i)..][..=i];
            let (done, rest) = out.split_at_mut(packed_len(i));
            let inverse = &mut rest[..=i];
            inverse.fill(0.0);
            for k in 0..i {
                let above = &done[packed_len(k)..][..=k];
                for (sum, value) in inverse.iter_mut().zip(above) {
                    *sum = (-row[k]).mul_add(*value, *sum);
                }
            }
            inverse[i] = 1.0;
        }
        for i in 0..p {
            for value in &mut out[packed_len(i)..][..=i] {
                *value = *value * (1.0 / pivots[i].sqrt()) * scale;
            }
        }
    }
}
