//! Correlations where values are missing: each pair of observations is prepared from the
//! coordinates that both have, as `cor(use = "pairwise")` of R does.

use super::form::{Angle, NA};
use super::points::pair_distance;
use super::prepare::prepare;
use super::Metric;

/// The values of a row that are there.
pub fn present(row: &[f64]) -> Vec<f64> {
    row.iter().copied().filter(|v| !v.is_nan()).collect()
}

/// The distance of two unprepared rows under a correlation, from the coordinates that both have;
/// NA where these are fewer than the 2 that a correlation, or the 1 that a cosine needs.
pub fn distance(metric: &Metric, a: &[f64], b: &[f64]) -> f64 {
    let (mut a, mut b): (Vec<f64>, Vec<f64>) = a
        .iter()
        .zip(b)
        .filter(|(a, b)| !a.is_nan() && !b.is_nan())
        .unzip();
    let (absolute, fewest) = match *metric {
        Metric::Cosine { absolute } => (absolute, 1),
        Metric::Pearson { absolute } | Metric::Spearman { absolute } => (absolute, 2),
        _ => unreachable!("only correlations are prepared pair by pair"),
    };
    if a.len() < fewest {
        return NA;
    }
    prepare(metric, &mut a);
    prepare(metric, &mut b);
    pair_distance(Angle { absolute }, &a, &b)
}
