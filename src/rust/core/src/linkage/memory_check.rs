//! The host's memory that linkage through a matrix takes.

use super::condensed::pairs;
use super::lance_williams::Linkage;
use super::origin::Origin;
use crate::error::Result;
use crate::memory;

/// That there is memory for linkage, the dissimilarities included.
///
/// # Errors
/// `Error::Memory` says how much it needs.
pub fn check_memory<T>(origin: Origin, n: usize, linkage: Linkage) -> Result<()> {
    let given = match origin {
        Origin::Given(values) => size_of_val(values),
        Origin::Points(_) => 0,
    };
    // In units of a matrix as it is stored. After the first pass of the rounds somewhat more than
    // half of one is left, in other memory; after the second a third, in memory of its own as long
    // as the first is the caller's.
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
