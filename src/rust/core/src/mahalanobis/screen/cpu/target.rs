//! Lower bounds from the whitening factor of one cluster in a block.

use pulp::Simd;

use super::layout::{Layout, Row, LANES};
use crate::mahalanobis::packed::packed_len;
use crate::mahalanobis::screen::view::ClusterView;
use crate::simd::singles;

/// The whitening factor W of the cluster to which distances are measured.
#[derive(Debug, Clone)]
pub struct WhitenedTarget {
    /// The columns of W, each padded to whole rows of lanes.
    columns: Vec<Row>,
    relative: f32,
    absolute: f32,
}

impl WhitenedTarget {
    /// The whitening factor of a cluster; `None` for the identity.
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
            absolute: view.absolute,
        })
    }

    /// A lower bound on ‖Wδ‖ for the difference δ between a query and this cluster, which is in
    /// this `lane` of a block's rows. `distance` is ‖δ‖, `error` the sum of both errors.
    #[inline(always)]
    pub fn bound<S: Simd>(
        &self,
        simd: S,
        layout: &Layout,
        query: &ClusterView,
        (block, lane): (&[Row], usize),
        distance: f32,
        error: f32,
    ) -> f32 {
        let p = layout.dimensions;
        // The remainder equals `lane`, and saves a bounds check.
        let lane = lane % LANES;
        let groups = p.div_ceil(LANES);
        let registers = LANES / S::F32_LANES;
        let columns = singles::<S>(self.columns.as_flattened());
        let mut square = simd.splat_f32s(0.0);
        for part in 0..groups * registers {
            let mut whitened = simd.splat_f32s(0.0);
            let last = p.min((part + 1) * S::F32_LANES);
            for k in 0..last {
                let mut difference = query.mean[k] - block[k][lane];
                if layout.is_double {
                    difference += query.rest[k] - block[p + k][lane];
                }
                let difference = simd.splat_f32s(difference);
                let column = columns[k * groups * registers + part];
                whitened = simd.mul_add_e_f32s(column, difference, whitened);
            }
            square = simd.mul_add_e_f32s(whitened, whitened, square);
        }
        let norm = simd.reduce_sum_f32s(square).sqrt();
        (norm - self.relative * distance - self.absolute * error).max(0.0)
    }
}
