//! The rows of clusters in single precision, from which the kernels compute lower bounds. The
//! layout is that of kernels/cluster/clusters.cuh.

use std::mem::offset_of;

use bytemuck::{Pod, Zeroable};
use gmhclust_core::mahalanobis::packed::packed_len;
use gmhclust_core::mahalanobis::screen::ClusterView;

use crate::arguments::arguments;

arguments! {
    /// The scalars of a cluster: the scalars of its [`ClusterView`], and the number of its
    /// whitening factor. Same order as enum Scalar.
    pub struct Scalars {
        error: f32,
        low: f32,
        relative: f32,
        absolute: f32,
        variance: f32,
        fourth: f32,
        largest: f32,
        third: f32,
        shape: u32,
    }

    /// The kernels' second argument. The pointers are device addresses.
    pub struct Clusters {
        pub rows: u64,
        pub factors: u64,
        pub dimensions: u32,
        pub full_distances: u32,
    }
}

/// Index of the scalar `low`, `least_stretch` of the view.
pub const LOW: usize = offset_of!(Scalars, low) / size_of::<u32>();
/// Number of scalars of a cluster.
pub const SCALARS: usize = size_of::<Scalars>() / size_of::<u32>();

/// Number of words of a query before the coordinates of its mean.
pub const COORDINATES: usize = SCALARS;

/// Number of values of a ball after the coordinates of its centre.
pub const BALL_SCALARS: usize = 2;

// SAFETY: 32-bit numbers without padding between them, for which all bits are valid.
unsafe impl Zeroable for Scalars {}
// SAFETY: the same.
unsafe impl Pod for Scalars {}

impl Scalars {
    /// The scalars of a cluster. `shape` is the number of its whitening factor.
    pub fn new(view: &ClusterView, shape: u32) -> Self {
        Self {
            error: view.error,
            low: view.least_stretch,
            relative: view.relative,
            absolute: view.mean_error_factor,
            variance: view.variance,
            fourth: view.fourth,
            largest: view.largest_eigenvalue,
            third: view.third,
            shape,
        }
    }
}

/// Converts a packed whitening factor with `p` columns from row order to column order.
pub fn by_columns(whitening: &[f32], p: usize) -> Vec<f32> {
    let column = |j: usize| (j..p).map(move |i| whitening[packed_len(i) + j]);
    (0..p).flat_map(column).collect()
}

/// Number of words of a lower triangle with `p` rows, each padded to a multiple of four words.
pub fn padded_len(p: usize) -> usize {
    (1..=p).map(|row: usize| row.next_multiple_of(4)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{check, constants};

    #[test]
    fn rows_are_laid_out_as_the_kernels_read_them() {
        let names = [
            "ERROR", "LOW", "RELATIVE", "ABSOLUTE", "VARIANCE", "FOURTH", "LARGEST", "THIRD",
            "SHAPE",
        ];
        let word = |field: &(&'static str, usize, usize)| (field.1 / size_of::<u32>()) as u64;
        let mut constants = constants![SCALARS, COORDINATES, BALL_SCALARS].to_vec();
        constants.extend(
            names
                .into_iter()
                .zip(Scalars::layout().fields.iter().map(word)),
        );
        check(
            "cluster/clusters.cuh",
            &[],
            &[Clusters::layout()],
            &constants,
        );
    }

    #[test]
    fn factors_are_packed_by_columns() {
        let rows = [11.0, 21.0, 22.0, 31.0, 32.0, 33.0];
        assert_eq!(by_columns(&rows, 3), [11.0, 21.0, 31.0, 22.0, 32.0, 33.0]);
        assert_eq!([1, 4, 5, 9].map(padded_len), [4, 16, 24, 60]);
    }
}
