//! The host memory of linkage with a matrix.

use super::condensed::{pairs, room_for_doubles};
use super::dissimilarity_source::DissimilaritySource;
use super::lance_williams::Linkage;
use crate::error::Result;
use crate::memory;

/// Bytes per observation in addition to the matrix: its nearest clusters, twice, and rows of the
/// matrix for each thread: 32 bytes, and 8 for each slot of a union. Measured with 2 threads: 1,000
/// to 2,000; many threads need more. If too low, memory may run out during the linkage.
const PER_OBSERVATION: f64 = 2000.0;

/// Checks that there is memory for linkage, in addition to given dissimilarities.
///
/// The need depends on the data: the first contraction makes a matrix of the remaining clusters,
/// with 0.4 to 0.9 of the former size, and keeps some of the former columns. The factors are from
/// inst/benchmarks/results/2026-11-26-cpu-memory.csv, rows `linkage` and `dist`; data in one column
/// needed up to 1.22 times as much. The contraction itself checks its memory.
///
/// # Errors
/// `Error::Memory`, which says how much memory is needed.
pub fn check_memory<T>(source: DissimilaritySource, n: usize, linkage: Linkage) -> Result<()> {
    // The columns are doubles in either precision.
    let is_single = size_of::<T>() < size_of::<f64>();
    // In units of the stored matrix.
    let own = match (linkage, source) {
        (Linkage::Single, DissimilaritySource::Given(_)) => 0.0,
        (Linkage::Single | Linkage::Median | Linkage::Centroid, _) => 1.0,
        (_, DissimilaritySource::Given(_)) if is_single => 1.5,
        (_, DissimilaritySource::Given(_)) => 0.8,
        (_, DissimilaritySource::Points(_)) if is_single => 2.3,
        (_, DissimilaritySource::Points(_)) => 1.8,
    };
    let matrix = pairs(n) as f64 * size_of::<T>() as f64;
    let distances = match source {
        DissimilaritySource::Points(_) if is_single => room_for_doubles(n),
        _ => 0.0,
    };
    // These distances are freed before the contraction.
    let most = (matrix + distances).max(own * matrix);
    memory::check(
        &format!("{} linkage of {n} observations needs", linkage.name()),
        if own == 0.0 { 0.0 } else { most } + PER_OBSERVATION * n as f64,
    )
}
