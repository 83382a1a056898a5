//! The slow, obvious version, for tests: it compares all pairs of clusters at every step. Tests
//! hold the fast version against it.

use super::distance::{self, ExactSum};
use super::options::Distance;
use super::packed::packed_len;
use super::problem::Problem;
use super::shape;
use super::subthreshold::Subthreshold;
use crate::matrix::RowSlices;
use crate::merge::Merge;

/// How the reference computes its distances.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Source {
    /// The functions of this crate and merged scatters: the same bits as the fast version.
    Merged,
    /// The definition, straight from the observations: independent of everything in this crate.
    Observations,
}

struct Cluster {
    members: Vec<u32>,
    mean: Vec<f64>,
    scatter: Vec<f64>,
    /// Packed whitening factor ([`Source::Merged`]) or p × p matrix M ([`Source::Observations`]);
    /// empty for the identity.
    shape: Vec<f64>,
}

/// The merges of `problem` by exhaustive search.
pub fn agglomerate(problem: &Problem, source: Source) -> Vec<Merge> {
    let p = problem.x.ncols();
    let mut clusters: Vec<Option<Cluster>> = (0..problem.clusters())
        .map(|slot| {
            let mut rows = problem.rows_of(slot);
            let mut mean = rows.next().expect("clusters have members").to_vec();
            let mut scatter = vec![0.0; packed_len(p)];
            for (count, row) in (1..).zip(rows) {
                shape::merge(count, &mut mean, &mut scatter, 1, row, &[]);
            }
            Some(Cluster {
                members: problem.members_of(slot).collect(),
                mean,
                scatter,
                shape: Vec::new(),
            })
        })
        .collect();
    let mut all_full_size = false;
    let mut merges = Vec::new();
    let log2_terms = distance::log2_ceil(problem.members.len());
    let diagonal = problem.bounding_box().diagonal();
    while merges.len() + 1 < clusters.len() {
        all_full_size |= clusters
            .iter()
            .flatten()
            .all(|c| c.members.len() as f64 >= problem.options.threshold);
        for cluster in clusters.iter_mut().flatten() {
            if source == Source::Observations {
                cluster.mean = observed_mean(problem, cluster);
            }
            cluster.shape = match source {
                Source::Merged => merged_shape(problem, cluster, all_full_size),
                Source::Observations => observed_shape(problem, cluster, all_full_size),
            };
        }
        let distance = |a: &Cluster, b: &Cluster| match source {
            Source::Merged => merged_distance(problem, a, b, diagonal, log2_terms),
            Source::Observations => observed_distance(problem, a, b),
        };
        let merge = nearest_pair(&clusters, distance).expect("two clusters are left");
        let gone = clusters[merge.higher as usize].take().expect("is active");
        let kept = clusters[merge.lower as usize].as_mut().expect("is active");
        shape::merge(
            kept.members.len(),
            &mut kept.mean,
            &mut kept.scatter,
            gone.members.len(),
            &gone.mean,
            &gone.scatter,
        );
        kept.members.extend(&gone.members);
        merges.push(merge);
    }
    merges
}

/// The merge of the two nearest clusters; ties go to the lower slots.
fn nearest_pair(
    clusters: &[Option<Cluster>],
    distance: impl Fn(&Cluster, &Cluster) -> f64,
) -> Option<Merge> {
    let mut best: Option<Merge> = None;
    for (i, a) in clusters.iter().enumerate() {
        for (j, b) in clusters.iter().enumerate().skip(i + 1) {
            let (Some(a), Some(b)) = (a, b) else { continue };
            let height = distance(a, b);
            if best.is_none_or(|best| height < best.height) {
                best = Some(Merge {
                    lower: i as u32,
                    higher: j as u32,
                    height,
                });
            }
        }
    }
    best
}

fn merged_shape(problem: &Problem, cluster: &Cluster, all_full_size: bool) -> Vec<f64> {
    let p = problem.x.ncols();
    let mut whitening = vec![0.0; packed_len(p)];
    let shaped = shape::whitening(
        pulp::Scalar::new(),
        &problem.options.shape_rule(all_full_size),
        cluster.members.len(),
        &cluster.scatter,
        p,
        &mut shape::Workspace::default(),
        &mut whitening,
    );
    if shaped.is_some() {
        whitening
    } else {
        Vec::new()
    }
}

fn merged_distance(
    problem: &Problem,
    a: &Cluster,
    b: &Cluster,
    diagonal: f64,
    log2_terms: u32,
) -> f64 {
    let directed = |from: &Cluster, to: &Cluster| {
        if problem.options.distance == Distance::Centroid || from.members.len() == 1 {
            return distance::to_cluster(&from.mean, &to.mean, &to.shape);
        }
        let quanta = distance::quanta(distance::stretch(&to.shape), diagonal, log2_terms);
        let mut sum = ExactSum::default();
        for &member in &from.members {
            let x = problem.x.row_slice(member as usize);
            sum.add(distance::to_cluster(x, &to.mean, &to.shape), &quanta);
        }
        sum.mean(from.members.len())
    };
    distance::average(directed(a, b), directed(b, a))
}

fn observed_mean(problem: &Problem, cluster: &Cluster) -> Vec<f64> {
    let m = cluster.members.len() as f64;
    (0..problem.x.ncols())
        .map(|k| {
            let sum: f64 = cluster
                .members
                .iter()
                .map(|&i| problem.x.row_slice(i as usize)[k])
                .sum();
            sum / m
        })
        .collect()
}

/// M of the definition, p × p, or empty for the identity.
fn observed_shape(problem: &Problem, cluster: &Cluster, all_full_size: bool) -> Vec<f64> {
    let p = problem.x.ncols();
    let m = cluster.members.len();
    let options = &problem.options;
    let is_full_size = m as f64 >= options.threshold;
    let w = match m {
        0..=2 => 0.0,
        _ => (m as f64 / options.threshold).min(1.0),
    };
    let mahal = matches!(
        options.subthreshold,
        Subthreshold::Mahal | Subthreshold::Mahal0
    );
    let euclid = options.subthreshold == Subthreshold::Euclid && !all_full_size;
    if m <= 2 || euclid || (!mahal && !is_full_size) || (w == 1.0 && m <= p) {
        return Vec::new();
    }
    let mean = &cluster.mean;
    let mut e = vec![vec![0.0; p]; p];
    for &member in &cluster.members {
        let x = problem.x.row_slice(member as usize);
        for (i, row) in e.iter_mut().enumerate() {
            for (j, value) in row.iter_mut().enumerate() {
                *value += (x[i] - mean[i]) * (x[j] - mean[j]) / (m as f64 - 1.0);
            }
        }
    }
    if w < 1.0 {
        let f = match (options.subthreshold, inverse_and_determinant(&e)) {
            (Subthreshold::Mahal, Some((_, determinant))) if m > p => {
                determinant.powf(1.0 / p as f64)
            }
            _ => 1.0,
        };
        for (i, row) in e.iter_mut().enumerate() {
            for (j, value) in row.iter_mut().enumerate() {
                *value = w * *value + if i == j { (1.0 - w) * f } else { 0.0 };
            }
        }
    }
    let Some((inverse, determinant)) = inverse_and_determinant(&e) else {
        return Vec::new();
    };
    let normalizing = options.normalize || !all_full_size;
    let nu = if normalizing {
        determinant.powf(-1.0 / p as f64)
    } else {
        1.0
    };
    inverse.iter().flatten().map(|v| v / nu).collect()
}

/// The inverse and the determinant by Gauss–Jordan elimination of a symmetric positive matrix.
/// Without row exchanges, the pivots are the squared diagonal of the Cholesky factor. `None` if a
/// pivot fails the definition's test.
fn inverse_and_determinant(matrix: &[Vec<f64>]) -> Option<(Vec<Vec<f64>>, f64)> {
    let p = matrix.len();
    let largest = (0..p).map(|i| matrix[i][i]).fold(0.0, f64::max);
    let mut left = matrix.to_vec();
    let mut right: Vec<Vec<f64>> = (0..p)
        .map(|i| (0..p).map(|j| if i == j { 1.0 } else { 0.0 }).collect())
        .collect();
    let mut determinant = 1.0;
    for k in 0..p {
        let pivot = left[k][k];
        if pivot <= f64::EPSILON * p as f64 * largest {
            return None;
        }
        determinant *= pivot;
        for j in 0..p {
            left[k][j] /= pivot;
            right[k][j] /= pivot;
        }
        for i in (0..p).filter(|&i| i != k) {
            let factor = left[i][k];
            for j in 0..p {
                left[i][j] -= factor * left[k][j];
                right[i][j] -= factor * right[k][j];
            }
        }
    }
    Some((right, determinant))
}

fn observed_distance(problem: &Problem, a: &Cluster, b: &Cluster) -> f64 {
    let to = |x: &[f64], cluster: &Cluster| {
        let p = cluster.mean.len();
        let delta: Vec<f64> = x.iter().zip(&cluster.mean).map(|(x, c)| x - c).collect();
        if cluster.shape.is_empty() {
            return delta.iter().map(|d| d * d).sum::<f64>().sqrt();
        }
        let mut square = 0.0;
        for i in 0..p {
            for j in 0..p {
                square += delta[i] * cluster.shape[i * p + j] * delta[j];
            }
        }
        square.max(0.0).sqrt()
    };
    let directed = |from: &Cluster, target: &Cluster| {
        if problem.options.distance == Distance::Centroid {
            return to(&from.mean, target);
        }
        let sum: f64 = from
            .members
            .iter()
            .map(|&i| to(problem.x.row_slice(i as usize), target))
            .sum();
        sum / from.members.len() as f64
    };
    0.5 * (directed(a, b) + directed(b, a))
}
