//! Linkages from the dissimilarities of all pairs.

#[cfg(test)]
mod tests;

use super::condensed::{pairs, Condensed, Stored};
use super::lance_williams::{Linkage, Precision, Recurrence};
use super::{generic, rounds, single, sorted_tree, tree};
use crate::backend::cpu::CpuDissimilarities;
use crate::backend::{Backend, Merge};
use crate::dendrogram::Dendrogram;
use crate::error::{Error, Result};
use crate::monitor::Monitor;

/// The tree of `n` observations whose dissimilarities are given in the order of R's `dist`, with
/// the heights of R's `hclust`. `sizes` are the numbers of members that observations stand for; 1
/// where `None`.
///
/// Takes O(n²) time and, beside the dissimilarities, as much memory again at most.
///
/// # Errors
/// `Error::Input` where the numbers disagree, fewer than 2 observations are given, a size is not
/// positive and finite, or a dissimilarity is NaN or of magnitude above 1e150;
/// `Error::Memory` where there is not enough; `Error::Interrupt` when the monitor says stop.
pub fn linkage(
    dissimilarities: &[f64],
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
    if dissimilarities.len() != pairs(n) {
        return Err(Error::Input(format!(
            "`x` has {} dissimilarities, {n} observations have {}",
            dissimilarities.len(),
            pairs(n)
        )));
    }
    let sizes = sizes.unwrap_or_else(|| vec![1.0; n]);
    if sizes.len() != n || sizes.iter().any(|size| !(*size > 0.0 && size.is_finite())) {
        return Err(Error::Input(format!(
            "`members` must be {n} positive numbers, one for each observation"
        )));
    }
    let mut merges = backend.link(dissimilarities, recurrence, sizes, monitor)?;
    if recurrence.linkage.squares() {
        for merge in &mut merges {
            merge.height = merge.height.sqrt();
        }
    }
    Ok(if recurrence.linkage.is_reducible() {
        sorted_tree(n, merges)
    } else {
        tree(n, &merges)
    })
}

/// The merges on the CPU, on the rayon pool that it is called in.
///
/// # Errors
/// As [`linkage`].
pub fn merges(
    dissimilarities: &[f64],
    recurrence: Recurrence,
    sizes: Vec<f64>,
    monitor: &Monitor,
) -> Result<Vec<Merge>> {
    if recurrence.linkage == Linkage::Single {
        let n = sizes.len();
        let edges = single::spanning_tree(dissimilarities, n, recurrence.precision, monitor)?;
        return Ok(single::merges(n, edges));
    }
    match recurrence.precision {
        Precision::Double => merges_of::<f64>(dissimilarities, recurrence, sizes, monitor),
        Precision::Single => merges_of::<f32>(dissimilarities, recurrence, sizes, monitor),
    }
}

fn merges_of<T: Stored>(
    dissimilarities: &[f64],
    recurrence: Recurrence,
    sizes: Vec<f64>,
    monitor: &Monitor,
) -> Result<Vec<Merge>> {
    let n = sizes.len();
    match recurrence.linkage {
        Linkage::Median | Linkage::Centroid => {
            let mut matrix = Condensed::<T>::of(dissimilarities, n)?;
            generic::merges(recurrence, sizes, &mut matrix, monitor)
        }
        _ => {
            let squares = recurrence.linkage.squares();
            let mut matrix = CpuDissimilarities::<T>::given(dissimilarities, n, squares);
            rounds::merges(recurrence, sizes, &mut matrix, monitor)
        }
    }
}
