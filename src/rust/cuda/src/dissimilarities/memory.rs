//! Device memory for a linkage.

use gmhclust_core::linkage::condensed::pairs;
use gmhclust_core::linkage::dissimilarities::NearestClusters;

use super::launch::Step;

/// Smallest length of the buffer, in dissimilarities. If it is smaller, there are many small
/// launches instead of a few large launches. It is small in tests, so that small data take several
/// pieces.
const LEAST_BUFFER: usize = if cfg!(test) { 1 << 10 } else { 1 << 20 };

/// The buffer has room for 1 in this number of all dissimilarities. If it is larger, the small
/// buffer takes many launches. If it is smaller, less memory is left for the dissimilarities.
const BUFFER_SHARE: usize = 16;

/// Bytes of device memory for the linkage of `n` observations, including `coordinates` values of
/// their coordinates.
pub fn memory<T>(n: usize, coordinates: usize) -> usize {
    let search =
        NearestClusters::of_each(n) * (size_of::<f64>() + size_of::<u32>()) + size_of::<u32>();
    let contraction = size_of::<Step>() + size_of::<f64>() + 2 * size_of::<u32>();
    // Entries are looked up for the known neighbours of two merged clusters.
    let entries = 2 * NearestClusters::of_each(n) * (size_of::<u64>() + size_of::<f64>());
    pairs(n) * size_of::<T>()
        + (buffer_len(n) + coordinates) * size_of::<f64>()
        + n * (search + contraction + entries)
}

/// Number of dissimilarities of `n` clusters that are computed, moved or copied at a time. It is at
/// least the length of a row.
pub fn buffer_len(n: usize) -> usize {
    (pairs(n) / BUFFER_SHARE)
        .max(LEAST_BUFFER)
        .min(pairs(n))
        .max(n)
}
