//! Shared helpers of the tests of devices for linkage with a matrix.

use super::condensed::pairs;
use crate::testing::Random;

/// Dissimilarities of all pairs: random numbers, or distances of random points.
pub fn dissimilarities(random: &mut Random, n: usize, of_points: bool) -> Vec<f64> {
    if !of_points {
        return (0..pairs(n)).map(|_| 1.0 + random.uniform()).collect();
    }
    let points: Vec<[f64; 3]> = (0..n)
        .map(|_| [(); 3].map(|()| random.normal() + 4.0 * random.below(3) as f64))
        .collect();
    distances(&points)
}

/// The distances of all pairs of points, in the order of R's `dist`.
pub fn distances(points: &[[f64; 3]]) -> Vec<f64> {
    let distance = |a: &[f64; 3], b: &[f64; 3]| {
        let squares = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b));
        squares.sum::<f64>().sqrt()
    };
    let rows = points.iter().enumerate();
    rows.flat_map(|(i, a)| points[i + 1..].iter().map(move |b| distance(a, b)))
        .collect()
}
