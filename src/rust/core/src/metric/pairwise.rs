//! Spearman's correlation of data with missing values. Ranks are taken among the coordinates that
//! neither observation lacks, so they differ from pair to pair.

use pulp::Scalar;

use super::form::{one_minus, NA};

/// A row, and the indices of its coordinates by increasing value, missing coordinates last.
#[derive(Debug, Clone, Copy)]
pub struct Ordered<'a> {
    pub row: &'a [f64],
    pub order: &'a [u32],
}

/// Writes the indices of a row's coordinates by increasing value, missing coordinates last.
pub fn order(row: &[f64], order: &mut [u32]) {
    (0..).zip(order.iter_mut()).for_each(|(k, at)| *at = k);
    let value = |k: u32| row[k as usize];
    order.sort_unstable_by(|&k, &l| {
        let by_value = value(k).partial_cmp(&value(l));
        by_value.unwrap_or_else(|| value(k).is_nan().cmp(&value(l).is_nan()))
    });
}

/// The distance of two rows; NA if they share fewer than 2 coordinates.
pub fn distance(a: Ordered<'_>, b: Ordered<'_>, absolute: bool) -> f64 {
    let (ranks_a, count) = centred_ranks(a, b.row);
    let (ranks_b, _) = centred_ranks(b, a.row);
    if count < 2 {
        return NA;
    }
    let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
    let lengths = dot(&ranks_a, &ranks_a).sqrt() * dot(&ranks_b, &ranks_b).sqrt();
    one_minus(Scalar, dot(&ranks_a, &ranks_b) / lengths, absolute)
}

/// The ranks of a row's coordinates among those that `other` does not lack, and the number of these
/// coordinates. The ranks are doubled and centred, which makes them whole numbers of mean 0; 0
/// marks a missing coordinate.
fn centred_ranks(of: Ordered<'_>, other: &[f64]) -> (Vec<f64>, usize) {
    let Ordered { row, order } = of;
    let both = |&&k: &&u32| !row[k as usize].is_nan() && !other[k as usize].is_nan();
    let common: Vec<usize> = order.iter().filter(both).map(|&k| k as usize).collect();
    let mut ranks = vec![0.0; row.len()];
    let mut before = 0.0;
    for ties in common.chunk_by(|&k, &l| row[k] == row[l]) {
        let tied = ties.len() as f64;
        for &k in ties {
            ranks[k] = 2.0 * before + tied - common.len() as f64;
        }
        before += tied;
    }
    (ranks, common.len())
}
