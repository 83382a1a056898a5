//! Prepares rows so that a correlation is a dot product: ranks, centres and scales them to unit
//! length.

use super::catalogue::Metric;
use crate::order_key::order_key;

/// Prepares a row for `metric`. Returns whether the row has a direction: a constant row under a
/// correlation, or a row of zeros under the cosine, has none and becomes NaN.
///
/// Sums are sequential, so that the bits do not depend on the number of threads.
pub fn prepare(metric: &Metric, row: &mut [f64]) -> bool {
    match metric {
        Metric::Binary => {
            binary(row);
            true
        }
        Metric::Pearson { .. } => unit(row, true),
        Metric::Spearman { .. } => {
            rank(row);
            unit(row, true)
        }
        Metric::Cosine { .. } => unit(row, false),
        _ => true,
    }
}

/// 0 for zeros, 1 for other values; infinite values are missing, as in R.
fn binary(row: &mut [f64]) {
    for value in row {
        *value = if !value.is_finite() {
            f64::NAN
        } else {
            f64::from(u8::from(*value != 0.0))
        };
    }
}

/// Replaces values by their ranks, from 1; ties get the mean of their ranks. `row` has no NaN.
fn rank(row: &mut [f64]) {
    let order = increasing(row);
    let mut before = 0;
    while before < order.len() {
        let value = row[order[before] as u32 as usize];
        let rest = &order[before..];
        // Values that are not ranked yet are unchanged.
        let others = rest[1..].iter();
        let ties = 1 + others
            .take_while(|&&at| row[at as u32 as usize] == value)
            .count();
        let mean = before as f64 + 0.5 * (ties + 1) as f64;
        for &at in &rest[..ties] {
            row[at as u32 as usize] = mean;
        }
        before += ties;
    }
}

/// The positions of a row's values by increasing value, in the lower 32 bits. The row has no NaN.
///
/// Long rows are radix-sorted by the upper 32 bits of their keys; values with equal upper bits are
/// then sorted by comparison.
fn increasing(row: &[f64]) -> Vec<u64> {
    /// Number of values below which a comparison sort is faster. Only the time depends on it.
    const SHORT: usize = 64;
    /// Number of bytes in the upper half of a key.
    const DIGITS: usize = 4;

    let value = |entry: u64| row[entry as u32 as usize];
    let compare = |a: &u64, b: &u64| value(*a).partial_cmp(&value(*b)).expect("no value is NaN");
    if row.len() < SHORT {
        let mut order: Vec<u64> = (0..row.len() as u64).collect();
        order.sort_unstable_by(compare);
        return order;
    }
    // Radix sort by the upper halves of the keys, from the last digit on.
    let mut counts = [[0u32; 256]; DIGITS];
    let digit = |entry: u64, d: usize| (entry >> (32 + 8 * d)) as usize & 0xff;
    let mut order: Vec<u64> = Vec::with_capacity(row.len());
    for (at, &value) in (0..).zip(row) {
        let entry = order_key(value + 0.0) >> 32 << 32 | at;
        for (d, counts) in counts.iter_mut().enumerate() {
            counts[digit(entry, d)] += 1;
        }
        order.push(entry);
    }
    let mut other = vec![0; row.len()];
    for (d, places) in counts.iter_mut().enumerate() {
        // If all values have the same digit, the order stays.
        if places[digit(order[0], d)] as usize == row.len() {
            continue;
        }
        let mut before = 0;
        for place in places.iter_mut() {
            before += std::mem::replace(place, before);
        }
        for &entry in &order {
            let place = &mut places[digit(entry, d)];
            other[*place as usize] = entry;
            *place += 1;
        }
        std::mem::swap(&mut order, &mut other);
    }
    // Only few values share an upper half.
    for alike in order.chunk_by_mut(|a, b| a >> 32 == b >> 32) {
        if alike.len() > 1 {
            alike.sort_unstable_by(compare);
        }
    }
    order
}

/// Divides a row by a power of two, so that its magnitudes are at most about 1: the squares of tiny
/// and huge values stay representable, and no digit is lost. Missing values stay NaN.
pub fn scale(row: &mut [f64]) {
    let largest = row.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    let exponent = ((largest.to_bits() >> 52) as i64 - 1023).clamp(-1000, 1000);
    let scale = f64::from_bits(((1023 - exponent) as u64) << 52);
    row.iter_mut().for_each(|v| *v *= scale);
}

/// Centres a row if `centred`, and divides it by its Euclidean length; returns false if the length
/// is 0.
fn unit(row: &mut [f64], centred: bool) -> bool {
    scale(row);
    if centred {
        // Subtracting the first value first makes a constant row zeros, and keeps the digits of a
        // row far from zero.
        let first = row.first().copied().unwrap_or(0.0);
        row.iter_mut().for_each(|v| *v -= first);
        let mean = row.iter().sum::<f64>() / row.len() as f64;
        row.iter_mut().for_each(|v| *v -= mean);
    }
    let length = row.iter().map(|v| v * v).sum::<f64>().sqrt();
    row.iter_mut().for_each(|v| *v /= length);
    length != 0.0
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::{prop_oneof, Strategy};
    use proptest::sample::select;

    use super::*;
    use crate::testing::shrink::for_all;

    /// Rows of values of one kind.
    fn rows() -> impl Strategy<Value = Vec<f64>> {
        let special = [
            -0.0,
            0.0,
            f64::INFINITY,
            f64::NEG_INFINITY,
            5e-324,
            -5e-324,
            1.0,
        ];
        let near_one = [1.0, 1.0 + f64::EPSILON, 1.0 - f64::EPSILON, -1.0];
        let powers = (-1.0..1.0, -1070..1020).prop_map(|(one, power)| one * 2f64.powi(power));
        let length = || 1..=300usize;
        prop_oneof![
            // Many ties.
            vec((-4..5).prop_map(f64::from), length()),
            vec(-3.0..3.0, length()),
            // Keys that differ in their lower halves only.
            vec((0.0..1.0).prop_map(|more: f64| 1e9 + more), length()),
            vec(powers, length()),
            vec(select(special.to_vec()), length()),
            vec(select(near_one.to_vec()), length()),
        ]
    }

    #[test]
    fn ranks_are_those_of_counting() {
        for_all(300, rows(), |row| {
            let count = |test: &dyn Fn(&f64) -> bool| row.iter().filter(|v| test(v)).count() as f64;
            let expected: Vec<f64> = row
                .iter()
                .map(|v| count(&|w| w < v) + 0.5 * (count(&|w| w == v) + 1.0))
                .collect();
            let mut ranks = row.clone();
            rank(&mut ranks);
            assert_eq!(ranks, expected);
        });
    }
}
