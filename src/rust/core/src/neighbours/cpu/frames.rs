//! The single-precision frames that prune references of each metric.

use rayon::prelude::*;

use super::search_space::SearchSpace;
use crate::matrix::sampled_medians;
use crate::metric::Metric;
use crate::neighbours::cluster_means::MeanLinkage;
use crate::neighbours::single::RowFrame;

/// Number of columns from which on Euclidean distances are screened by products first, which takes
/// half the arithmetic but gives looser bounds. It is the smallest number for which products were
/// faster in measurements. Only the time depends on it.
const BY_PRODUCTS_FROM: usize = 24;

/// The frames for sweeps, the fastest first and the most precise last; empty for a metric that is
/// not screened.
pub fn frames(space: &SearchSpace) -> Vec<RowFrame> {
    let columns = space.columns();
    let (metric, values) = match space {
        SearchSpace::Points(points, _) => (*points.metric(), points.values()),
        SearchSpace::Clusters(clusters) => (metric_of(clusters.linkage()), clusters.values()),
    };
    let around = |new: fn(Vec<f64>, f64) -> RowFrame| {
        let center = sampled_medians(values, columns);
        let half_extent = half_extent(values, &center);
        new(center, half_extent)
    };
    match metric {
        Metric::Euclidean => {
            let sharp = around(RowFrame::squares);
            if columns < BY_PRODUCTS_FROM {
                vec![sharp]
            } else {
                vec![sharp.by_products(), sharp]
            }
        }
        Metric::Manhattan => vec![around(RowFrame::magnitudes)],
        Metric::Maximum => vec![around(RowFrame::greatest)],
        Metric::Canberra(_) => {
            let half_extent = half_extent(values, &vec![0.0; columns]);
            vec![RowFrame::quotients(columns, half_extent)]
        }
        Metric::Pearson { absolute }
        | Metric::Spearman { absolute }
        | Metric::Cosine { absolute } => vec![RowFrame::products(columns, absolute)],
        _ => Vec::new(),
    }
}

/// The metric whose frames bound the distances of a linkage, given the sizes of clusters.
fn metric_of(linkage: MeanLinkage) -> Metric {
    match linkage {
        MeanLinkage::Ward => Metric::Euclidean,
        // For rows of unit length, the distance is one minus the product of the means, whose
        // lengths are at most 1.
        MeanLinkage::Average | MeanLinkage::Mcquitty => Metric::Cosine { absolute: false },
    }
}

/// Half the greatest distance of a coordinate of row-major values from its column's centre. The
/// distance itself can overflow.
fn half_extent(values: &[f64], center: &[f64]) -> f64 {
    let of_row = |row: &[f64]| {
        let distances = row
            .iter()
            .zip(center)
            .map(|(v, c)| (0.5 * v - 0.5 * c).abs());
        distances.fold(0.0, f64::max)
    };
    let rows = values.par_chunks_exact(center.len());
    rows.map(of_row).reduce(|| 0.0, f64::max)
}
