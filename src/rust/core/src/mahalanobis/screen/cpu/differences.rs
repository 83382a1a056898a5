//! The differences between the mean of a query and the means of a register of clusters.
//!
//! `rows` are the rows of a block as registers, and `part` is the index of a register in each row.
//! `DOUBLE` says that coordinates have second parts.

use pulp::Simd;

use super::layout::LANES;
use crate::mahalanobis::screen::view::ClusterView;

/// The squared distances between the means.
#[inline(always)]
pub fn squared_distance<S: Simd, const DOUBLE: bool>(
    simd: S,
    query: &ClusterView,
    rows: &[S::f32s],
    part: usize,
) -> S::f32s {
    // With iterators, the loop has no bounds checks.
    let registers = LANES / S::F32_LANES;
    let (first, second) = rows.split_at(query.mean.len() * registers);
    let firsts = query.mean.iter().zip(first.chunks_exact(registers));
    // There are two alternating sums, since each addition waits for the addition before.
    let (mut sum, mut next_sum) = (simd.splat_f32s(0.0), simd.splat_f32s(0.0));
    if DOUBLE {
        let seconds = query.rest.iter().zip(second.chunks_exact(registers));
        for ((mean, row), (rest, other)) in firsts.zip(seconds) {
            let difference = simd.sub_f32s(simd.splat_f32s(*mean), row[part]);
            let rest = simd.sub_f32s(simd.splat_f32s(*rest), other[part]);
            let difference = simd.add_f32s(difference, rest);
            let added = simd.mul_add_e_f32s(difference, difference, sum);
            (sum, next_sum) = (next_sum, added);
        }
    } else {
        for (mean, row) in firsts {
            let difference = simd.sub_f32s(simd.splat_f32s(*mean), row[part]);
            let added = simd.mul_add_e_f32s(difference, difference, sum);
            (sum, next_sum) = (next_sum, added);
        }
    }
    simd.add_f32s(sum, next_sum)
}

/// The differences of the means, one register per dimension.
#[inline(always)]
pub fn differences<S: Simd, const DOUBLE: bool>(
    simd: S,
    query: &ClusterView,
    rows: &[S::f32s],
    part: usize,
    differences: &mut [S::f32s],
) {
    let registers = LANES / S::F32_LANES;
    let (first, second) = rows.split_at(query.mean.len() * registers);
    let firsts = query.mean.iter().zip(first.chunks_exact(registers));
    for (difference, (mean, row)) in differences.iter_mut().zip(firsts) {
        *difference = simd.sub_f32s(simd.splat_f32s(*mean), row[part]);
    }
    if DOUBLE {
        let seconds = query.rest.iter().zip(second.chunks_exact(registers));
        for (difference, (rest, other)) in differences.iter_mut().zip(seconds) {
            let rest = simd.sub_f32s(simd.splat_f32s(*rest), other[part]);
            *difference = simd.add_f32s(*difference, rest);
        }
    }
}
