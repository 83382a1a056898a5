//! Packed lower triangles: element (i, j), j ≤ i, is at i(i+1)/2 + j.

/// Number of elements of a packed lower triangle of `p` rows, and index of the first element of row
/// `p`.
pub const fn packed_len(p: usize) -> usize {
    p * (p + 1) / 2
}

/// The trace of a packed triangle of `p` rows.
#[inline(always)]
pub fn trace(matrix: &[f64], p: usize) -> f64 {
    (0..p).map(|i| matrix[packed_len(i) + i]).sum()
}

/// ‖A‖_F of a packed symmetric matrix.
#[inline(always)]
pub fn frobenius_norm(matrix: &[f64], p: usize) -> f64 {
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
