//! Lower bounds from the whitening factor of one cluster in a block.

use pulp::Simd;

use super::layout::{Layout, Row, LANES};
use crate::mahalanobis::packed::packed_len;
use crate::mahalanobis::screen::view::ClusterView;
use crate::simd::singles;
use crate::single_precision::LOST_IN_NORM;

/// Number of registers of W's rows that are multiplied together, since each sum waits for its last
/// addition.
const PARTS: usize = 4;

/// The whitening factor W of the cluster to which distances are measured.
#[derive(Debug, Clone)]
pub struct WhitenedTarget {
    /// The columns of W, each padded to whole rows of lanes.
    columns: Vec<Row>,
    relative: f32,
    mean_error_factor: f32,
}

impl WhitenedTarget {
    /// The whitening factor of a cluster. `None` for the identity.
    pub fn new(view: &ClusterView) -> Option<Self> {
        if view.whitening.is_empty() {
            return None;
        }
        let p = view.mean.len();
        let groups = p.div_ceil(LANES);
        let mut columns = vec![[0.0; LANES]; p * groups];
        for i in 0..p {
            for j in 0..=i {
                columns[j * groups + i / LANES][i % LANES] = view.whitening[packed_len(i) + j];
            }
        }
        Some(Self {
            columns,
            relative: view.relative,
            mean_error_factor: view.mean_error_factor,
        })
    }

    /// A lower bound on ‖Wδ‖ for the difference δ between a query and this cluster, which is in
    /// lane `lane` of a block's rows. `distance` is ‖δ‖, `error` is the sum of both errors, and
    /// `scratch` has a number for each dimension.
    #[inline(always)]
    pub fn bound<S: Simd>(
        &self,
        simd: S,
        layout: &Layout,
        query: &ClusterView,
        (block, lane): (&[Row], usize),
        (distance, error): (f32, f32),
        scratch: &mut [f32],
    ) -> f32 {
        let p = layout.dimensions;
        // The remainder equals `lane`. It saves a bounds check.
        let lane = lane % LANES;
        for (k, difference) in scratch[..p].iter_mut().enumerate() {
            *difference = query.mean[k] - block[k][lane];
            if layout.is_double {
                *difference += query.rest[k] - block[p + k][lane];
            }
        }
        let in_column = p.div_ceil(LANES) * (LANES / S::F32_LANES);
        let columns = singles::<S>(self.columns.as_flattened());
        let mut square = simd.splat_f32s(0.0);
        let mut first = 0;
        while first < in_column {
            let last = p.min((first + PARTS) * S::F32_LANES);
            let (scratch, columns) = (&scratch[..last], columns.chunks_exact(in_column));
            let added = match in_column - first {
                1 => squares_of_rows::<S, 1>(simd, first, scratch, columns),
                2 => squares_of_rows::<S, 2>(simd, first, scratch, columns),
                3 => squares_of_rows::<S, 3>(simd, first, scratch, columns),
                _ => squares_of_rows::<S, PARTS>(simd, first, scratch, columns),
            };
            square = simd.add_f32s(square, added);
            first += PARTS;
        }
        let norm = simd.reduce_sum_f32s(square).sqrt();
        let lost = self.mean_error_factor * error + LOST_IN_NORM;
        (norm - self.relative * distance - lost).max(0.0)
    }
}

/// The sum of the squares of the product's elements in `N` registers of rows, from register `first`
/// on.
#[inline(always)]
fn squares_of_rows<S: Simd, const N: usize>(
    simd: S,
    first: usize,
    differences: &[f32],
    columns: std::slice::ChunksExact<'_, S::f32s>,
) -> S::f32s {
    let mut products = [simd.splat_f32s(0.0); N];
    for (difference, column) in differences.iter().zip(columns) {
        let difference = simd.splat_f32s(*difference);
        let column = &column[first..][..N];
        for n in 0..N {
            products[n] = simd.mul_add_e_f32s(column[n], difference, products[n]);
        }
    }
    let mut square = simd.splat_f32s(0.0);
    for product in products {
        square = simd.mul_add_e_f32s(product, product, square);
    }
    square
}
