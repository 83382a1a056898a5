//! The host memory of linkage by a matrix.

use super::condensed::pairs;
use super::lance_williams::Linkage;
use super::origin::Origin;
use crate::error::Result;
use crate::memory;

/// Checks that there is memory for linkage, the dissimilarities included.
///
/// # Errors
/// `Error::Memory` says how much it needs.
pub fn check_memory<T>(origin: Origin, n: usize, linkage: Linkage) -> Result<()> {
    let given = match origin {
        Origin::Given(values) => size_of_val(values),
        Origin::Points(_) => 0,
    };
    // In units of the stored matrix. The first contraction leaves somewhat more than half of it, in
    // new memory; the second a third, in new memory as long as the first matrix is the caller's.
    let own = match (linkage, origin) {
        (Linkage::Single, Origin::Given(_)) => 0.0,
        (Linkage::Single | Linkage::Median | Linkage::Centroid, _) => 1.0,
        (_, Origin::Given(_)) => 0.9,
        (_, Origin::Points(_)) => 1.6,
    };
    memory::check(
        &format!("{} linkage of {n} observations needs", linkage.name()),
        given as f64 + own * pairs(n) as f64 * size_of::<T>() as f64,
    )
}
