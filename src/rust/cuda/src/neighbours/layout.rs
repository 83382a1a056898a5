//! The formats of rows, keys and tiles that the host and kernels/neighbours.cu share.
//!
//! A row is the view of a point: its coordinates, then [`SCALARS`] scalars. A key is a candidate:
//! the bits of its lower bound, then the bits of its position, so that keys compare as bounds do.

use gmhclust_core::neighbours::single::{RowFrame, ViewPrecision};
use gmhclust_core::neighbours::Exclusion;

use super::halves;

/// Number of queries that a thread block compares at a time, and number of references. As in
/// neighbours/launch.cuh.
pub const TILE: usize = 128;

/// Largest number of candidates of a query that are collected at a time. The shared memory of the
/// kernel `narrow` has no room for more. As in neighbours/launch.cuh.
pub const MOST_ROOM: usize = 4096;

/// Largest number of candidates of a query that a sweep may keep: the kernel `decide` has shared
/// memory for no more. The CPU searches for queries that need more. As in neighbours/decision.cuh.
pub const MOST_CANDIDATES: usize = 1024;

/// Number of threads of a warp. As in base.cuh.
pub const WARP: u32 = 32;

/// Number of scalars of a row, after its coordinates. As in sweep.cuh.
pub const SCALARS: usize = 4;

/// The group of queries that exclude no reference.
pub const NO_GROUP: u32 = u32::MAX;

/// Number of candidates that are collected for a query before the nearest `capacity` of them are
/// kept.
pub fn room(capacity: usize) -> usize {
    (8 * capacity).next_power_of_two().clamp(TILE, MOST_ROOM)
}

/// Number of values of a row's coordinates: one for each coordinate in single precision, or one for
/// each two coordinates in half precision.
pub fn coordinate_values(frame: &RowFrame) -> usize {
    match frame.precision() {
        ViewPrecision::Single => frame.columns(),
        ViewPrecision::Half => halves::packed_len(frame),
    }
}

/// Number of values of a row.
pub fn row_len(frame: &RowFrame) -> usize {
    coordinate_values(frame) + SCALARS
}

/// The smallest key that is above all keys with a bound of at most `limit`.
pub fn first_beyond(limit: f32) -> u64 {
    (u64::from(limit.to_bits()) + 1) << 32
}

/// The lower bound of a key.
pub fn bound(key: u64) -> f32 {
    f32::from_bits((key >> 32) as u32)
}

/// The position of a key.
pub fn position(key: u64) -> usize {
    key as u32 as usize
}

/// The group of a reference, or of a query that is a reference. A query excludes its own group.
pub fn group(exclusion: Exclusion, index: u32) -> u32 {
    match exclusion {
        Exclusion::Nothing => 0,
        Exclusion::Itself => index,
        Exclusion::Group(groups) => groups[index as usize],
    }
}
