//! Linkage with a matrix of dissimilarities.

#[cfg(test)]
mod tests;

use super::condensed::{pairs, CondensedMatrix, Stored};
use super::device::LinkageDevice;
use super::dissimilarity_source::DissimilaritySource;
use super::lance_williams::{Linkage, Recurrence, StoredPrecision};
use super::memory_check::check_memory;
use super::tree::{sorted_tree, tree};
use super::{generic, reciprocal, single};
use crate::dendrogram::Dendrogram;
use crate::error::{Error, Result};
use crate::merge::Merge;
use crate::monitor::Monitor;

/// Largest number of members of an observation; the smallest is its reciprocal. The product of two
/// sums of members and a dissimilarity of 1e150 does not overflow: 1e60² · 1e150 = 1e270 leaves
/// room for 2³¹ observations. No product of two sums underflows to 0.
const LARGEST_SIZE: f64 = 1e60;

/// The tree of `n` observations, with the heights of R's `hclust`. `sizes` are R's `members`, the
/// number of members of each observation; `None` for 1 each.
///
/// Takes O(n²) time; median and centroid linkage take O(n³) in the worst case, and O(n²) in
/// practice. For the memory see [`check_memory`](super::memory_check::check_memory).
///
/// # Errors
/// `Error::Input` if the numbers disagree, fewer than 2 observations are given, a size is not from
/// 1e-60 to 1e60, a dissimilarity (with ward.D2: its square) is NaN or of magnitude above 1e150
/// (1e30 in single precision), or a height overflows; `Error::Memory` if there is not enough
/// memory; `Error::Interrupt` when the monitor says stop.
pub fn linkage(
    source: DissimilaritySource,
    n: usize,
    recurrence: Recurrence,
    sizes: Option<Vec<f64>>,
    device: &(impl LinkageDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Dendrogram> {
    if n < 2 {
        return Err(Error::Input(format!(
            "`x` has {n} observation(s); clustering needs at least 2"
        )));
    }
    match source {
        DissimilaritySource::Given(values) if values.len() != pairs(n) => {
            return Err(Error::Input(format!(
                "`x` has {} dissimilarities, {n} observations have {}",
                values.len(),
                pairs(n)
            )));
        }
        _ => {}
    }
    let sizes = sizes.unwrap_or_else(|| vec![1.0; n]);
    let is_usable = |size: &f64| (1.0 / LARGEST_SIZE..=LARGEST_SIZE).contains(size);
    if sizes.len() != n || !sizes.iter().all(is_usable) {
        return Err(Error::Input(format!(
            "`members` must be {n} positive numbers, one for each observation, from {:e} to \
             {LARGEST_SIZE:e}",
            1.0 / LARGEST_SIZE
        )));
    }
    let mut merges = merges(source, recurrence, sizes, device, monitor)?;
    if recurrence.linkage.squares() {
        for merge in &mut merges {
            merge.height = merge.height.sqrt();
        }
    }
    let tree = if recurrence.linkage.is_reducible() {
        device.cpu().install(|| sorted_tree(n, merges))
    } else {
        tree(n, &merges)
    };
    tree?.finite("x")
}

/// The merges, each after the merges of its parts.
fn merges(
    source: DissimilaritySource,
    recurrence: Recurrence,
    sizes: Vec<f64>,
    device: &(impl LinkageDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Vec<Merge>> {
    if recurrence.linkage.merges_reciprocal_pairs() {
        let n = sizes.len();
        monitor.expect(2 * pairs(n) as u64);
        let mut matrix = device.dissimilarities(source, n, recurrence, monitor)?;
        let cpu = device.cpu();
        return cpu.install(|| reciprocal::merges(recurrence, sizes, &mut *matrix, monitor));
    }
    match recurrence.precision {
        StoredPrecision::Double => one_by_one::<f64>(source, recurrence, sizes, device, monitor),
        StoredPrecision::Single => one_by_one::<f32>(source, recurrence, sizes, device, monitor),
    }
}

/// The merges of linkages that merge the nearest pair each time, on the CPU.
fn one_by_one<T: Stored>(
    source: DissimilaritySource,
    recurrence: Recurrence,
    sizes: Vec<f64>,
    device: &(impl LinkageDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Vec<Merge>> {
    let n = sizes.len();
    check_memory::<T>(source, n, recurrence.linkage)?;
    monitor.expect(2 * pairs(n) as u64);
    device.cpu().install(|| match (recurrence.linkage, source) {
        (Linkage::Single, DissimilaritySource::Given(values)) => {
            let edges = single::spanning_tree(values, n, recurrence.precision, monitor)?;
            Ok(single::merges(n, edges))
        }
        _ => {
            let mut matrix = CondensedMatrix::<T>::from_source(source, n, device, monitor)?;
            generic::merges(recurrence, sizes, &mut matrix, monitor)
        }
    })
}
