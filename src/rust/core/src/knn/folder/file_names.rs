//! The names of a block's files.

use std::ops::RangeInclusive;

/// Number of rows.
pub fn count(rows: &RangeInclusive<usize>) -> usize {
    rows.end() + 1 - rows.start()
}

/// The file of a block's indices, given its first and last row from 1.
pub fn index_file(rows: &RangeInclusive<usize>) -> String {
    format!("index-{:010}-{:010}.npy", rows.start(), rows.end())
}

/// The file of a block's distances.
pub fn distance_file(rows: &RangeInclusive<usize>) -> String {
    format!("distance-{:010}-{:010}.npy", rows.start(), rows.end())
}

/// The file of a block's checksums.
pub fn sums_file(rows: &RangeInclusive<usize>) -> String {
    format!("rows-{:010}-{:010}.sha256", rows.start(), rows.end())
}
