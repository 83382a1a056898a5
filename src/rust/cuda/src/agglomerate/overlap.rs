//! Tells whether the clusters of a problem overlap.

use gmhclust_core::mahalanobis::Problem;

use crate::policy;

/// Largest number of clusters that are compared. If there are more, these are evenly spaced.
const CLUSTERS: usize = 64;
/// Largest number of members of a cluster from which its moments are estimated. If there are more,
/// these are evenly spaced.
const MEMBERS: usize = 256;

/// Whether most pairs of clusters overlap so much that lower bounds on full Mahalanobis distances
/// rule out hardly any pair. An example is random groups of the same cells, such as samples: all
/// pairs have almost the same distance.
pub fn overlap(problem: &Problem) -> bool {
    let (p, count) = (problem.x.ncols(), problem.clusters());
    if problem.members.len() < policy::OVERLAP_MEMBERS * count {
        return false;
    }
    let looked_at = evenly_spaced(count, CLUSTERS);
    let moments: Vec<Vec<[f64; 2]>> = looked_at.map(|slot| moments(problem, slot)).collect();
    let square = |a: &[[f64; 2]], b: &[[f64; 2]]| -> f64 {
        let terms = a
            .iter()
            .zip(b)
            .map(|(&[mean, variance], &[other, of_other])| {
                let both = variance + of_other;
                if both > 0.0 {
                    (mean - other).powi(2) / (0.5 * both)
                } else {
                    0.0
                }
            });
        terms.sum()
    };
    let (mut pairs, mut near) = (0, 0);
    for (index, a) in moments.iter().enumerate() {
        for b in &moments[..index] {
            pairs += 1;
            near += usize::from(square(a, b) < policy::OVERLAP_SHARE * p as f64);
        }
    }
    2 * near > pairs
}

/// At most `most` evenly spaced numbers below `count`.
fn evenly_spaced(count: usize, most: usize) -> impl Iterator<Item = usize> {
    (0..count).step_by(count.div_ceil(most))
}

/// The mean and the variance of each column over at most [`MEMBERS`] members of a cluster.
fn moments(problem: &Problem, slot: usize) -> Vec<[f64; 2]> {
    let indices = problem.indices_of(slot);
    let some = || evenly_spaced(indices.len(), MEMBERS);
    let looked_at = || some().map(|nth| problem.row(indices.start + nth));
    let count = looked_at().count() as f64;
    let of_column = |k: usize| {
        let values = || looked_at().map(|row| row[k]);
        let mean = values().sum::<f64>() / count;
        let variance = values().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        [mean, variance]
    };
    (0..problem.x.ncols()).map(of_column).collect()
}

#[cfg(test)]
mod tests {
    use gmhclust_core::mahalanobis::{Distance, Options, RowNumbers, Subthreshold, UnionRule};
    use gmhclust_core::testing::{observations, Random};

    use super::*;

    /// Whether 100 clusters of `size` members each overlap. In each column, each cluster is `apart`
    /// standard deviations from the cluster before.
    fn overlap_at(size: usize, apart: f64) -> bool {
        let (n, p) = (100 * size, 3);
        let mut random = Random(5);
        let value = |at: usize| random.normal() + apart * (at / (size * p)) as f64;
        let x = observations((0..n * p).map(value).collect(), n, p);
        let problem = Problem {
            x: &x,
            members: RowNumbers::Consecutive(0..n as u32),
            starts: Some((0..=100).map(|slot| slot * size).collect()),
            options: Options {
                threshold: 5.0,
                subthreshold: Subthreshold::Mahal,
                distance: Distance::FullMahalanobis,
                normalize: false,
                apriori_intra: true,
            },
            union: UnionRule::Shape,
        };
        overlap(&problem)
    }

    #[test]
    fn random_groups_overlap_and_separate_ones_do_not() {
        assert!(overlap_at(50, 0.0));
        assert!(!overlap_at(50, 1.0));
        assert!(!overlap_at(1, 0.0));
        assert!(!overlap_at(2, 0.0));
    }
}
