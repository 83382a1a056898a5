//! The plain definitions: R's `dist` (src/library/stats/src/distance.c) and the definitions of the
//! correlations. Tests compare the fast versions with them.

use super::catalogue::Metric;
use super::form::NA;
use super::zero_over_zero::ZeroOverZero;

/// The distance of two observations as they were given.
pub fn distance(metric: &Metric, a: &[f64], b: &[f64]) -> f64 {
    let both: Vec<(f64, f64)> = a
        .iter()
        .zip(b)
        .map(|(&a, &b)| (a, b))
        .filter(|(a, b)| !a.is_nan() && !b.is_nan())
        .collect();
    let of_differences = |term: &dyn Fn(f64) -> f64| {
        let differences = both.iter().map(|(a, b)| a - b).filter(|d| !d.is_nan());
        summed(differences.map(term), a.len())
    };
    let (a_both, b_both): (Vec<f64>, Vec<f64>) = both.iter().copied().unzip();
    match *metric {
        Metric::Euclidean => of_differences(&|d| d * d).sqrt(),
        Metric::Manhattan => of_differences(&f64::abs),
        Metric::Minkowski(p) => power(of_differences(&|d| power(d.abs(), p)), 1.0 / p),
        Metric::Maximum => {
            let differences = both.iter().map(|(a, b)| (a - b).abs());
            differences
                .filter(|d| !d.is_nan())
                .reduce(f64::max)
                .unwrap_or(NA)
        }
        Metric::Canberra(rule) => {
            let terms = both.iter().filter_map(|&(a, b)| canberra(a, b, rule));
            summed(terms, a.len())
        }
        Metric::Binary => binary(&both),
        Metric::Pearson { absolute } => one_minus(pearson(&a_both, &b_both), absolute),
        Metric::Spearman { absolute } => {
            one_minus(pearson(&ranks(&a_both), &ranks(&b_both)), absolute)
        }
        Metric::Cosine { absolute } => {
            let cosine = dot(&a_both, &b_both)
                / (dot(&a_both, &a_both).sqrt() * dot(&b_both, &b_both).sqrt());
            let known = !both.is_empty();
            one_minus(if known { cosine } else { NA }, absolute)
        }
    }
}

/// R's `R_pow` (src/main/arithmetic.c), of a base that is not negative.
fn power(base: f64, exponent: f64) -> f64 {
    if exponent == 2.0 {
        base * base
    } else {
        base.powf(exponent)
    }
}

/// The sum of the terms, scaled up to `columns` terms.
fn summed(terms: impl Iterator<Item = f64>, columns: usize) -> f64 {
    let (mut count, mut sum) = (0, 0.0);
    for term in terms {
        count += 1;
        sum += term;
    }
    if count == 0 {
        NA
    } else if count == columns {
        sum
    } else {
        sum / (count as f64 / columns as f64)
    }
}

fn canberra(a: f64, b: f64, rule: ZeroOverZero) -> Option<f64> {
    let sum = a.abs() + b.abs();
    let difference = (a - b).abs();
    if sum > f64::MIN_POSITIVE || difference > f64::MIN_POSITIVE {
        let term = difference / sum;
        if !term.is_nan() {
            return Some(term);
        }
        return (!difference.is_finite() && difference == sum).then_some(1.0);
    }
    match rule {
        ZeroOverZero::Omitted => None,
        ZeroOverZero::Zero => Some(0.0),
        ZeroOverZero::One => Some(1.0),
    }
}

fn binary(both: &[(f64, f64)]) -> f64 {
    let finite = || both.iter().filter(|(a, b)| a.is_finite() && b.is_finite());
    if finite().count() == 0 {
        return NA;
    }
    let some = finite().filter(|(a, b)| *a != 0.0 || *b != 0.0).count();
    let differ = finite().filter(|(a, b)| (*a != 0.0) != (*b != 0.0)).count();
    if some == 0 {
        0.0
    } else {
        differ as f64 / some as f64
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn pearson(a: &[f64], b: &[f64]) -> f64 {
    if a.len() < 2 {
        return NA;
    }
    let centred = |values: &[f64]| -> Vec<f64> {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.iter().map(|v| v - mean).collect()
    };
    let is_constant = |values: &[f64]| values.iter().all(|v| *v == values[0]);
    if is_constant(a) || is_constant(b) {
        return f64::NAN;
    }
    let (a, b) = (centred(a), centred(b));
    dot(&a, &b) / (dot(&a, &a).sqrt() * dot(&b, &b).sqrt())
}

/// The rank of each value: one plus the number of smaller values, plus half the number of other
/// equal values.
fn ranks(values: &[f64]) -> Vec<f64> {
    let smaller = |v: f64| values.iter().filter(|w| **w < v).count() as f64;
    let equal = |v: f64| values.iter().filter(|w| **w == v).count() as f64;
    values
        .iter()
        .map(|&v| 1.0 + smaller(v) + 0.5 * (equal(v) - 1.0))
        .collect()
}

fn one_minus(similarity: f64, absolute: bool) -> f64 {
    1.0 - if absolute {
        similarity.abs()
    } else {
        similarity
    }
}
