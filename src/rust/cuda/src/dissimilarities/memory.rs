//! Memory of the device for a linkage.

use gmhclust_core::linkage::condensed::pairs;
use gmhclust_core::linkage::dissimilarities::NearestClusters;

use super::launch::Step;

/// Least length of the buffer beside all dissimilarities. With less, large launches become many
/// small ones. Tests need several pieces of small data.
const LEAST_BUFFER: usize = if cfg!(test) { 1 << 10 } else { 1 << 20 };

/// The length of the buffer is 1 in this many of all dissimilarities.
const BUFFER_SHARE: usize = 16;

/// Bytes on the device that linkage of `n` observations takes, with `coordinates` of the
/// observations.
pub fn memory<T>(n: usize, coordinates: usize) -> usize {
    let search =
        NearestClusters::of_each(n) * (size_of::<f64>() + size_of::<u32>()) + size_of::<u32>();
    let contraction = size_of::<Step>() + size_of::<f64>() + 2 * size_of::<u32>();
    // All that two merged clusters know.
    let entries = 2 * NearestClusters::of_each(n) * (size_of::<u64>() + size_of::<f64>());
    pairs(n) * size_of::<T>()
        + (buffer_len(n) + coordinates) * size_of::<f64>()
        + n * (search + contraction + entries)
}

/// Dissimilarities of `n` clusters that are computed, moved or sent at a time: at least a row.
pub fn buffer_len(n: usize) -> usize {
    (pairs(n) / BUFFER_SHARE)
        .max(LEAST_BUFFER)
        .min(pairs(n))
        .max(n)
}
