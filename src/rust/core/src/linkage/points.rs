//! Linkages of observations by their distances, with or without a matrix.

use super::device::LinkageDevice;
use super::dissimilarity_source::DissimilaritySource;
use super::lance_williams::{Linkage, Recurrence};
use super::{geometric, matrix, spanning};
use crate::dendrogram::Dendrogram;
use crate::error::Result;
use crate::mahalanobis::AgglomerationDevice;
use crate::matrix::stacked_on_threads;
use crate::metric::{Metric, Points};
use crate::monitor::Monitor;
use crate::neighbours::{check_defined, NeighbourDevice, NeighbourLists};
use crate::observations::Observations;

/// An algorithm that needs no matrix of distances.
enum MatrixFree {
    SpanningTree,
    Ward,
    Average,
    Mcquitty,
    Centroid,
    Median,
}

impl MatrixFree {
    /// The algorithm for a linkage by distances of this metric, if there is one.
    fn new(linkage: Linkage, metric: &Metric, with_members: bool) -> Option<Self> {
        match (linkage, metric) {
            // Single linkage does not depend on members.
            (Linkage::Single, _) => Some(Self::SpanningTree),
            _ if with_members => None,
            (Linkage::WardD2, Metric::Euclidean) => Some(Self::Ward),
            (Linkage::Average, metric) if geometric::has_means(metric) => Some(Self::Average),
            (Linkage::Mcquitty, metric) if geometric::has_means(metric) => Some(Self::Mcquitty),
            (Linkage::Centroid, Metric::Euclidean) => Some(Self::Centroid),
            (Linkage::Median, Metric::Euclidean) => Some(Self::Median),
            _ => None,
        }
    }
}

/// Whether [`linkage`] needs a matrix of distances, whose memory grows with the square of the
/// number of observations. `with_members` says that numbers of members are given.
pub fn needs_matrix(linkage: Linkage, metric: &Metric, with_members: bool) -> bool {
    MatrixFree::new(linkage, metric, with_members).is_none()
}

/// The tree of the rows of `x`, by an algorithm without a matrix if there is one. `members` are the
/// numbers of members that rows stand for; `None` for 1 each.
///
/// Euclidean centroid and median linkage without `members` are geometric: their heights are
/// distances between centres (see [`geometric`]). All other trees have the heights of R's `hclust`
/// on the distances.
///
/// # Errors
/// `Error::Input`, with the numbers of the rows, if rows have no distance ([`check_defined`]);
/// otherwise as [`matrix::linkage`], [`spanning::single`] and [`geometric::ward`].
pub fn linkage(
    x: &Observations,
    metric: Metric,
    recurrence: Recurrence,
    members: Option<Vec<f64>>,
    device: &(impl AgglomerationDevice + LinkageDevice + NeighbourDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Dendrogram> {
    let points = || prepared(x, metric, device, monitor);
    match MatrixFree::new(recurrence.linkage, &metric, members.is_some()) {
        Some(MatrixFree::SpanningTree) => spanning::single(&points()?, device, monitor),
        Some(MatrixFree::Ward) => geometric::ward(x, device, monitor),
        Some(MatrixFree::Average) => geometric::average(points()?, device, monitor),
        Some(MatrixFree::Mcquitty) => geometric::mcquitty(points()?, device, monitor),
        Some(MatrixFree::Centroid) => geometric::centroid(x, device, monitor),
        Some(MatrixFree::Median) => geometric::median(x, device, monitor),
        None => {
            let points = points()?;
            let source = DissimilaritySource::Points(&points);
            matrix::linkage(source, x.nrows(), recurrence, members, device, monitor)
        }
    }
}

/// Single linkage of the rows of `x` by mutual reachability distances; see
/// [`spanning::reachability_single`].
///
/// # Errors
/// As [`linkage`] and [`spanning::reachability_tree`].
pub fn reachability_linkage(
    x: &Observations,
    metric: Metric,
    min_points: usize,
    device: &(impl NeighbourDevice + ?Sized),
    monitor: &Monitor,
) -> Result<(Dendrogram, Vec<f64>)> {
    let points = prepared(x, metric, device, monitor)?;
    spanning::reachability_single(&points, min_points, device, monitor)
}

/// Single linkage of the rows of `x`, given the nearest other rows of each row; see
/// [`spanning::single_from_neighbours`].
///
/// # Errors
/// As [`linkage`] and [`spanning::tree_from_neighbours`].
pub fn single_from_neighbours(
    x: &Observations,
    metric: Metric,
    min_points: usize,
    known: &NeighbourLists,
    device: &(impl NeighbourDevice + ?Sized),
    monitor: &Monitor,
) -> Result<(Dendrogram, Option<Vec<f64>>)> {
    let points = prepared(x, metric, device, monitor)?;
    spanning::single_from_neighbours(&points, min_points, known, device, monitor)
}

/// The rows of `x` as points of a metric, if all of them have distances.
fn prepared(
    x: &Observations,
    metric: Metric,
    device: &(impl NeighbourDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Points> {
    device.cpu().install(|| {
        let copy = stacked_on_threads(&[x.view()], x.ncols())?;
        let points = Points::prepare(metric, copy, monitor)?;
        check_defined(&points, "x")?;
        Ok(points)
    })
}

#[cfg(test)]
mod tests {
    use super::super::lance_williams::StoredPrecision;
    use super::*;
    use crate::cpu::Cpu;
    use crate::error::Error;
    use crate::matrix::RowSlices;
    use crate::metric::{Points, ZeroOverZero};
    use crate::testing::{draw, observations, Data, Random};

    fn matrix_free(metric: Metric, with_members: bool) -> Vec<&'static str> {
        let mut linkages = Linkage::ALL.to_vec();
        linkages.retain(|&linkage| !needs_matrix(linkage, &metric, with_members));
        linkages.into_iter().map(Linkage::name).collect()
    }

    #[test]
    fn single_linkage_and_euclidean_centroids_need_no_matrix() {
        let by_centroids = ["single", "median", "centroid", "ward.D2"];
        assert_eq!(matrix_free(Metric::Euclidean, false), by_centroids);
        assert_eq!(matrix_free(Metric::Manhattan, false), ["single"]);
        assert_eq!(matrix_free(Metric::Minkowski(2.0), false), ["single"]);
    }

    #[test]
    fn mean_correlations_need_no_matrix_but_their_magnitudes_do() {
        for metric in crate::testing::correlations() {
            let is_mean = geometric::has_means(&metric);
            let expected: &[&str] = if is_mean {
                &["single", "average", "mcquitty"]
            } else {
                &["single"]
            };
            assert_eq!(matrix_free(metric, false), expected, "{metric:?}");
            assert_eq!(matrix_free(metric, true), ["single"]);
            assert_eq!(is_mean, !format!("{metric:?}").contains("true"));
        }
    }

    #[test]
    fn members_need_a_matrix_but_for_single_linkage() {
        assert_eq!(matrix_free(Metric::Euclidean, true), ["single"]);
    }

    #[test]
    fn every_linkage_names_the_rows_without_a_distance() {
        let (cpu, monitor) = (Cpu::new(1).unwrap(), Monitor::default());
        let correlations = ["pearson", "spearman", "cosine"];
        let canberra = Metric::Canberra(ZeroOverZero::Omitted);
        let metrics = correlations
            .map(|name| Metric::new("metric", name, 2.0, false, ZeroOverZero::Omitted).unwrap());
        for metric in metrics.into_iter().chain([canberra]) {
            let mut x = draw(&mut Random::of(6), Data::Plain, 12, 3)
                .values()
                .to_vec();
            // Rows 6 and 9, from 1.
            x[15..18].fill(0.0);
            x[24..27].fill(0.0);
            let x = observations(x, 12, 3);
            for linkage in Linkage::ALL {
                let recurrence = Recurrence {
                    linkage,
                    precision: StoredPrecision::Double,
                };
                let found = super::linkage(&x, metric, recurrence, None, &cpu, &monitor);
                let Err(Error::Input(message)) = found else {
                    panic!("{} of {}: {found:?}", linkage.name(), metric.name());
                };
                assert!(message.starts_with("`x` is "), "{message}");
                assert!(message.contains(" in rows 6 and 9; "), "{message}");
            }
        }
    }

    #[test]
    fn every_linkage_is_done_by_its_algorithm() {
        let x = draw(&mut Random::of(5), Data::Plain, 40, 3);
        let (cpu, monitor) = (Cpu::new(1).unwrap(), Monitor::default());
        let metric = Metric::Euclidean;
        let points = Points::new(metric, &x);
        for linkage in Linkage::ALL {
            let recurrence = Recurrence {
                linkage,
                precision: StoredPrecision::Double,
            };
            let by_matrix = |members| {
                let source = DissimilaritySource::Points(&points);
                matrix::linkage(source, 40, recurrence, members, &cpu, &monitor)
            };
            let found = |members| super::linkage(&x, metric, recurrence, members, &cpu, &monitor);
            let expected = match linkage {
                Linkage::Single => spanning::single(&points, &cpu, &monitor),
                Linkage::WardD2 => geometric::ward(&x, &cpu, &monitor),
                Linkage::Centroid => geometric::centroid(&x, &cpu, &monitor),
                Linkage::Median => geometric::median(&x, &cpu, &monitor),
                _ => by_matrix(None),
            };
            assert_eq!(found(None), expected, "{}", linkage.name());
            let members: Vec<f64> = (0..40).map(|i| f64::from(1 + i % 3)).collect();
            let expected = match linkage {
                Linkage::Single => expected,
                _ => by_matrix(Some(members.clone())),
            };
            assert_eq!(found(Some(members)), expected, "{}", linkage.name());
        }
    }
}
