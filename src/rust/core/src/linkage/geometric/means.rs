//! Ward's, average and McQuitty linkage of points, by the means of clusters.

use rayon::prelude::*;

use super::centred::centred;
use super::near_clusters::{NearClusters, ROUND_OF_METRIC, WANTED};
use super::reciprocal_merges::ReciprocalMerges;
use crate::dendrogram::Dendrogram;
use crate::distinct::Distinct;
use crate::error::Result;
use crate::linkage::tree::sorted_tree;
use crate::memory;
use crate::merge::Merge;
use crate::metric::{Metric, Points};
use crate::monitor::Monitor;
use crate::neighbours::{
    Exclusion, MeanLinkage, NeighbourDevice, NeighbourRequest, RemainingClusters, Space,
};
use crate::observations::Observations;

/// Ward's linkage of the rows of `x`: the tree and the heights of R's `hclust(dist(x), "ward.D2")`,
/// √(2ab/(a+b)) times the distance of the centroids of two clusters with a and b members (Ward
/// 1963, doi:10.1080/01621459.1963.10500845). If pairs tie, the tree is one of several valid ones.
///
/// Takes O(n²p) time, mostly in the first search, unless many distances tie, and O(np) memory.
///
/// # Errors
/// `Error::Input` for values so large that powers of their distances overflow; otherwise the errors
/// of the device.
pub fn ward(
    x: &Observations,
    device: &(impl NeighbourDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Dendrogram> {
    check_memory("Ward's linkage", x.nrows(), x.ncols())?;
    let points = device
        .cpu()
        .install(|| Points::prepare(Metric::Euclidean, centred(x)?, monitor))?;
    by_means(points, MeanLinkage::Ward, device, monitor)
}

/// Average linkage (UPGMA) of points of a metric that [`has_means`]: the tree of R's `hclust(d,
/// "average")`, with heights that differ by rounding, about 1e-15. The mean of 1 − u·v over the
/// members u and v of two clusters is 1 − α·β, for the means α and β of their rows of unit length.
/// If pairs tie, the tree is one of several valid ones.
///
/// Takes O(n²p) time, mostly in the first search, unless many distances tie, and O(np) memory.
///
/// # Errors
/// The errors of the device.
pub fn average(
    points: Points,
    device: &(impl NeighbourDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Dendrogram> {
    check_memory("average linkage", points.rows(), points.columns())?;
    by_means(points, MeanLinkage::Average, device, monitor)
}

/// McQuitty's linkage (WPGMA), as [`average`], for R's `hclust(d, "mcquitty")`: the mean of a union
/// is the midpoint of its parts' means (McQuitty 1966, doi:10.1177/001316446602600402).
///
/// # Errors
/// As [`average`].
pub fn mcquitty(
    points: Points,
    device: &(impl NeighbourDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Dendrogram> {
    check_memory("McQuitty's linkage", points.rows(), points.columns())?;
    by_means(points, MeanLinkage::Mcquitty, device, monitor)
}

/// Whether the mean distance of two clusters follows from the means of their rows: it does for
/// correlations and the cosine, but not for their magnitudes.
pub fn has_means(metric: &Metric) -> bool {
    matches!(
        metric,
        Metric::Pearson { absolute: false }
            | Metric::Spearman { absolute: false }
            | Metric::Cosine { absolute: false }
    )
}

/// Checks that there is memory for n observations of p columns.
fn check_memory(what: &str, n: usize, p: usize) -> Result<()> {
    memory::check_working(what, n, 550 + 28 * p)
}

/// The tree of points. Their rows are centred for Ward's linkage, and of unit length for the
/// others.
fn by_means(
    points: Points,
    linkage: MeanLinkage,
    device: &(impl NeighbourDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Dendrogram> {
    let n = points.rows();
    // The progress units are the queries of the first search, and the merges.
    monitor.expect(2 * n as u64 - 1);
    device.cpu().install(|| {
        let (points, equal) = without_duplicates(points, monitor)?;
        if points.rows() == 1 {
            monitor.advance(1);
            return sorted_tree(n, equal.merges);
        }
        let mut all = equal.merges;
        for merge in merges_of_distinct(&points, &equal.sizes, linkage, device, monitor)? {
            all.push(Merge {
                lower: equal.first[merge.lower as usize],
                higher: equal.first[merge.higher as usize],
                ..merge
            });
        }
        sorted_tree(n, all)
    })
}

/// The merges of the clusters of some distinct points, given the numbers of their members.
fn merges_of_distinct(
    points: &Points,
    sizes: &[f64],
    linkage: MeanLinkage,
    device: &(impl NeighbourDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Vec<Merge>> {
    let (n, columns) = (points.rows(), points.columns());
    let prefers_merges_of_means = device.prefers_merges_of_means(n, columns);
    if prefers_merges_of_means {
        let clusters = RemainingClusters {
            linkage,
            columns,
            means: points.values(),
            sizes,
            half_variances: &memory::zeros(memory::COPY_OF_OBSERVATIONS, n)?,
            nearest: None,
        };
        if let Some(merges) = device.merges_of_means(&clusters, monitor)? {
            return Ok(merges);
        }
    }
    let near = near_points(points, linkage, device, monitor)?;
    let space = Space::Clusters {
        points,
        sizes,
        linkage,
    };
    let mut clusters = device.references(space, monitor)?;
    let merges = ReciprocalMerges::new(points, sizes, linkage, near, &mut *clusters, monitor)?;
    // A device that has given up `merges_of_means` is not asked again.
    merges.all((!prefers_merges_of_means).then_some(device))
}

/// The distinct points, and the merges of equal points.
struct Equal {
    /// By distinct point: the first of the points equal to it.
    first: Vec<u32>,
    /// By distinct point: the number of points equal to it.
    sizes: Vec<f64>,
    /// The merges of equal points, with room for all merges.
    merges: Vec<Merge>,
}

/// The distinct points, and the merges of equal points. Equal points would form cycles of nearest
/// neighbours.
fn without_duplicates(points: Points, monitor: &Monitor) -> Result<(Points, Equal)> {
    const WHAT: &str = "the clusters of a linkage need";

    let n = points.rows();
    let distinct = Distinct::new(points.values(), points.columns(), monitor)?;
    let mut equal = Equal {
        first: memory::room(WHAT, distinct.count())?,
        sizes: memory::room(WHAT, distinct.count())?,
        merges: memory::room(WHAT, n - 1)?,
    };
    for number in 0..distinct.count() {
        let rows = distinct.rows(number);
        equal.first.push(rows[0]);
        equal.sizes.push(rows.len() as f64);
        equal.merges.extend(rows[1..].iter().map(|&higher| Merge {
            lower: rows[0],
            higher,
            height: 0.0,
        }));
    }
    // These merges need no search.
    monitor.advance(2 * equal.merges.len() as u64);
    let points = if distinct.count() < n {
        points.select(&equal.first)?
    } else {
        points
    };
    Ok((points, equal))
}

/// The nearest other points of each point, by the metric. Apart from rounding, no distance of the
/// linkage is below the metric's.
fn near_points(
    points: &Points,
    linkage: MeanLinkage,
    device: &(impl NeighbourDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Vec<NearClusters>> {
    let n = points.rows();
    let queries = memory::collected("the neighbours need", 0..n as u32)?;
    let mut near = memory::room("the neighbours need", n)?;
    let space = Space::Points {
        points,
        references: n,
    };
    // 1 − u·v is off by the rounding of a sum.
    let rounding = match linkage {
        MeanLinkage::Ward => 0.0,
        MeanLinkage::Average | MeanLinkage::Mcquitty => {
            4.0 * f64::EPSILON * (8.0 + points.columns() as f64)
        }
    };
    let mut references = device.references(space, monitor)?;
    let request = NeighbourRequest {
        queries: &queries,
        wanted: WANTED,
        limits: None,
        exclusion: Exclusion::Itself,
    };
    references.nearest_in_blocks(&request, &mut |lists| {
        let of_query = |query: usize| {
            let mut found = NearClusters::nearest(lists.of(query), ROUND_OF_METRIC);
            found.lower_bound -= rounding;
            found
        };
        near.par_extend((0..lists.len()).into_par_iter().map(of_query));
        monitor.advance(lists.len() as u64);
        Ok(())
    })?;
    Ok(near)
}
