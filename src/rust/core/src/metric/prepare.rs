//! Makes rows such that a correlation is a dot product: ranked, centred, of unit length.

use super::Metric;

/// Makes the values of a row what `metric` compares; whether the row has a direction, which a
/// constant row under a correlation (a row of zeros under the cosine) has not: it becomes NaN.
///
/// Sums are sequential, so that the bits do not depend on who prepares the row.
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

/// 0 or 1 by whether a value is zero; R takes infinite values as missing here.
fn binary(row: &mut [f64]) {
    for value in row {
        *value = if !value.is_finite() {
            f64::NAN
        } else {
            f64::from(u8::from(*value != 0.0))
        };
    }
}

/// Ranks from 1, ties having the mean of theirs; `row` has no NaN.
fn rank(row: &mut [f64]) {
    let mut sorted: Vec<(f64, u32)> = row.iter().copied().zip(0..).collect();
    sorted.sort_unstable_by(|a, b| a.0.partial_cmp(&b.0).expect("no value is NaN"));
    let mut before = 0;
    for ties in sorted.chunk_by(|a, b| a.0 == b.0) {
        let mean = before as f64 + 0.5 * (ties.len() + 1) as f64;
        for &(_, at) in ties {
            row[at as usize] = mean;
        }
        before += ties.len();
    }
}

/// Divides a row by a power of two such that it is at most about 1: that loses no digit, and keeps
/// the squares of tiny and huge values representable. NaN is missing, and stays.
pub fn scale(row: &mut [f64]) {
    let largest = row.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    let exponent = ((largest.to_bits() >> 52) as i64 - 1023).clamp(-1000, 1000);
    let scale = f64::from_bits(((1023 - exponent) as u64) << 52);
    row.iter_mut().for_each(|v| *v *= scale);
}

/// Centres a row where `centred`, and divides it by its length; false where that is 0.
fn unit(row: &mut [f64], centred: bool) -> bool {
    scale(row);
    if centred {
        // The first value goes first, so that a constant row becomes zeros, and one far from zero
        // keeps its digits.
        let first = row.first().copied().unwrap_or(0.0);
        row.iter_mut().for_each(|v| *v -= first);
        let mean = row.iter().sum::<f64>() / row.len() as f64;
        row.iter_mut().for_each(|v| *v -= mean);
    }
    let length = row.iter().map(|v| v * v).sum::<f64>().sqrt();
    row.iter_mut().for_each(|v| *v /= length);
    length != 0.0
}
