//! Linkages from the dissimilarities of all pairs.

#[cfg(test)]
mod tests;

use super::condensed::{pairs, Condensed, Stored};
use super::lance_williams::{Linkage, Precision, Recurrence};
use super::{generic, rounds, single, sorted_tree, tree};
use crate::backend::cpu::CpuDissimilarities;
use crate::backend::{Backend, Merge};
use crate::dendrogram::Dendrogram;
use crate::distances::Pairs;
use crate::error::{Error, Result};
use crate::memory;
use crate::metric::Points;
use crate::monitor::Monitor;

/// Where dissimilarities come from.
#[derive(Debug, Clone, Copy)]
pub enum Origin<'a> {
    /// The dissimilarities of all pairs, in the order of R's `dist`.
    Given(&'a [f64]),
    /// Points, whose distances are the dissimilarities.
    Points(&'a Points),
}

/// The tree of `n` observations, with the heights of R's `hclust`. `sizes` are the numbers of
/// members that observations stand for; 1 where `None`.
///
/// Takes O(n²) time. The dissimilarities of points are kept at the precision that is asked for;
/// beside dissimilarities that are given, as many values again are kept at most.
///
/// # Errors
/// `Error::Input` where the numbers disagree, fewer than 2 observations are given, a size is not
/// positive and finite, or a dissimilarity is NaN or of magnitude above 1e150, or 1e30 in single
/// precision;
/// `Error::Memory` where there is not enough; `Error::Interrupt` when the monitor says stop.
pub fn linkage(
    origin: Origin,
    n: usize,
    recurrence: Recurrence,
    sizes: Option<Vec<f64>>,
    backend: &dyn Backend,
    monitor: &Monitor,
) -> Result<Dendrogram> {
    if n < 2 {
        return Err(Error::Input(format!(
            "`x` is of {n} observation(s), clustering needs at least 2"
        )));
    }
    match origin {
        Origin::Given(values) if values.len() != pairs(n) => {
            return Err(Error::Input(format!(
                "`x` has {} dissimilarities, {n} observations have {}",
                values.len(),
                pairs(n)
            )));
        }
        _ => {}
    }
    let sizes = sizes.unwrap_or_else(|| vec![1.0; n]);
    if sizes.len() != n || sizes.iter().any(|size| !(*size > 0.0 && size.is_finite())) {
        return Err(Error::Input(format!(
            "`members` must be {n} positive numbers, one for each observation"
        )));
    }
    let mut merges = backend.link(origin, recurrence, sizes, monitor)?;
    if recurrence.linkage.squares() {
        for merge in &mut merges {
            merge.height = merge.height.sqrt();
        }
    }
    if recurrence.linkage.is_reducible() {
        sorted_tree(n, merges)
    } else {
        tree(n, &merges)
    }
}

/// The merges on the CPU, on the rayon pool that it is called in; `distances` writes those of some
/// pairs of points.
///
/// # Errors
/// As [`linkage`].
pub fn merges(
    origin: Origin,
    recurrence: Recurrence,
    sizes: Vec<f64>,
    distances: impl Fn(&Points, &Pairs, &mut [f64]) -> Result<()>,
    monitor: &Monitor,
) -> Result<Vec<Merge>> {
    match recurrence.precision {
        Precision::Double => merges_of::<f64>(origin, recurrence, sizes, distances, monitor),
        Precision::Single => merges_of::<f32>(origin, recurrence, sizes, distances, monitor),
    }
}

fn merges_of<T: Stored>(
    origin: Origin,
    recurrence: Recurrence,
    sizes: Vec<f64>,
    distances: impl Fn(&Points, &Pairs, &mut [f64]) -> Result<()>,
    monitor: &Monitor,
) -> Result<Vec<Merge>> {
    let n = sizes.len();
    let linkage = recurrence.linkage;
    check_memory::<T>(origin, n, linkage)?;
    let own = || match origin {
        Origin::Given(values) => Condensed::<T>::of(values, n),
        Origin::Points(points) => Condensed::filled(n, |pairs, out| distances(points, pairs, out)),
    };
    monitor.expect(2 * pairs(n) as u64);
    match (linkage, origin) {
        (Linkage::Single, Origin::Given(values)) => {
            let edges = single::spanning_tree(values, n, recurrence.precision, monitor)?;
            Ok(single::merges(n, edges))
        }
        (Linkage::Single | Linkage::Median | Linkage::Centroid, _) => {
            generic::merges(recurrence, sizes, &mut own()?, monitor)
        }
        (_, Origin::Given(values)) => {
            let mut matrix = CpuDissimilarities::<T>::given(values, n, linkage.squares());
            rounds::merges(recurrence, sizes, &mut matrix, monitor)
        }
        (_, Origin::Points(_)) => {
            let mut matrix = CpuDissimilarities::own(own()?, linkage.squares());
            rounds::merges(recurrence, sizes, &mut matrix, monitor)
        }
    }
}

/// That there is memory for linkage, the dissimilarities included.
///
/// # Errors
/// `Error::Memory` says how much it needs.
fn check_memory<T>(origin: Origin, n: usize, linkage: Linkage) -> Result<()> {
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
