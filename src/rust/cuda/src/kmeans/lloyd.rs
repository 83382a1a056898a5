//! The argument of the kernels that assign observations to centers.

use std::ops::Range;

use super::launch::TILE;
use crate::arguments::arguments;
use gmhclust_core::kmeans::frame::Frame;
use gmhclust_core::kmeans::margin::{Margin, UNDERFLOW};
use gmhclust_core::single_precision::TINY;

/// Number of pairs of coordinates that a launch compares, in a fraction of a second. If it is
/// larger, an interrupt is answered late.
pub const BATCH_COORDINATES: usize = 1 << 40;

arguments! {
    /// As in kmeans/launch.cuh.
    pub struct Lloyd {
        pub x: u64,
        pub centers: u64,
        pub cluster: u64,
        pub changed: u64,
        pub open: u64,
        pub open_count: u64,
        pub single_observations: u64,
        pub errors: u64,
        pub single_centers: u64,
        pub halves: u64,
        pub norms: u64,
        pub origin: u64,
        pub unit: f64,
        pub smallest: f64,
        pub share: f64,
        pub tiny: f64,
        pub rounding: f64,
        pub margin: f64,
        pub underflow: f64,
        pub rows: u32,
        pub columns: u32,
        pub clusters: u32,
        pub first: u32,
        pub last: u32,
        pub offset: u32,
    }
}

impl Lloyd {
    /// The kernels' argument with sizes and the constants of bounds. All addresses are 0.
    pub fn new(frame: &Frame, n: usize, clusters: usize, assigned: &Range<usize>) -> Self {
        let columns = frame.origin.len();
        Self {
            x: 0,
            centers: 0,
            cluster: 0,
            changed: 0,
            open: 0,
            open_count: 0,
            single_observations: 0,
            errors: 0,
            single_centers: 0,
            halves: 0,
            norms: 0,
            origin: 0,
            unit: frame.scale,
            smallest: TINY,
            share: frame.share,
            tiny: frame.tiny(),
            rounding: frame.rounding(),
            margin: Margin::new(columns).0,
            underflow: UNDERFLOW,
            rows: n as u32,
            columns: columns as u32,
            clusters: clusters as u32,
            first: assigned.start as u32,
            last: assigned.end as u32,
            offset: 0,
        }
    }

    /// Number of observations to assign.
    pub fn assigned(&self) -> usize {
        (self.last - self.first) as usize
    }

    /// Number of tiles of the observations to assign.
    pub fn tiles(&self) -> usize {
        self.assigned().div_ceil(TILE)
    }

    /// Number of tiles of the centers.
    pub fn tiles_of_centers(&self) -> usize {
        (self.clusters as usize).div_ceil(TILE)
    }
}
