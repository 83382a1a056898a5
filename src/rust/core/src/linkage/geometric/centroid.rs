//! Centroid and median linkage of points.

use super::centred::centred;
use crate::dendrogram::Dendrogram;
use crate::error::Result;
use crate::linkage::tree::tree;
use crate::mahalanobis::agglomerate::work;
use crate::mahalanobis::{AgglomerationDevice, Problem, UnionRule};
use crate::monitor::Monitor;
use crate::observations::Observations;

/// Centroid linkage (UPGMC) of the rows of `x`: the distance of two clusters is the distance of
/// their centroids. Heights are the square roots of the heights of R's `hclust(dist(x)^2,
/// "centroid")`; they need not increase. Of several nearest pairs, the pair with the lower slots
/// merges.
///
/// Takes O(n²p) time in practice and O(np) memory.
///
/// # Errors
/// As [`ward`](super::ward()).
pub fn centroid(
    x: &Observations,
    device: &(impl AgglomerationDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Dendrogram> {
    by_centres(x, UnionRule::Mean, device, monitor)
}

/// Median linkage (WPGMC) of the rows of `x`: the centre of a union is the midpoint of its parts'
/// centres. Otherwise as [`centroid`], for `hclust(dist(x)^2, "median")`.
///
/// # Errors
/// As [`centroid`].
pub fn median(
    x: &Observations,
    device: &(impl AgglomerationDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Dendrogram> {
    by_centres(x, UnionRule::Midpoint, device, monitor)
}

/// Repeatedly merges the nearest pair of centres.
fn by_centres(
    x: &Observations,
    union: UnionRule,
    device: &(impl AgglomerationDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Dendrogram> {
    let x = Observations::new(device.cpu().install(|| centred(x))?)?;
    let problem = Problem::of_centroids(&x, union);
    monitor.expect(work(problem.clusters()));
    let merges = device.agglomerate(&[problem], monitor)?;
    tree(x.nrows(), &merges[0])
}
