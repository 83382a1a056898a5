use pulp::{Scalar, WithSimd};

use super::assign::tests::answers;
use super::reference::{distance_and_log_determinant, mean_and_covariance};
use super::*;
use crate::cpu::Cpu;
use crate::matrix::RowSlices;
use crate::monitor::Monitor;
use crate::testing::{draw, Data, Random, DATA};

/// A matrix in column-major order, and the population of each row.
struct Case {
    values: Vec<f64>,
    rows: Vec<Vec<f64>>,
    population: Vec<i32>,
    k: usize,
}

fn case(seed: u64, data: Data, n: usize, p: usize, k: usize) -> Case {
    let mut random = Random(seed + 1);
    let x = draw(&mut random, data, n, p);
    let rows: Vec<Vec<f64>> = (0..n).map(|i| x.row_slice(i).to_vec()).collect();
    // Each population has a member.
    let number = |i: usize| if i < k { i + 1 } else { random.below(k + 1) };
    Case {
        values: (0..p)
            .flat_map(|j| rows.iter().map(move |row| row[j]))
            .collect(),
        population: (0..n).map(number).map(|number| number as i32).collect(),
        rows,
        k,
    }
}

impl Case {
    fn fit(&self, threads: usize) -> Result<Fitted> {
        let used: Vec<usize> = (0..self.rows[0].len()).collect();
        let x = Columns::new(&self.values, self.rows.len(), &used)?;
        let cpu = Cpu::new(threads)?;
        fit(&x, &self.population, self.k, &cpu, &Monitor::default())
    }

    /// The rows of a population.
    fn members(&self, number: usize) -> Vec<&[f64]> {
        let rows = self.rows.iter().zip(&self.population);
        let own = rows.filter(|(_, &of)| of as usize == number);
        own.map(|(row, _)| &row[..]).collect()
    }
}

fn mixture(components: &Components, ends: &[usize]) -> Mixture {
    Mixture::new(components, ends.to_vec()).unwrap()
}

#[test]
fn means_and_covariances_are_those_of_the_definition() {
    let mut regular = 0;
    for (seed, data) in DATA.into_iter().enumerate() {
        for (n, p, k) in [(400, 1, 1), (300, 3, 4), (1000, 9, 2), (700, 17, 3)] {
            let case = case(seed as u64, data, n, p, k);
            let found = case.fit(2).unwrap();
            let components = &found.components;
            for c in 0..k {
                let members = case.members(c + 1);
                assert_eq!(components.sizes[c], members.len() as f64);
                let (mean, covariance) = mean_and_covariance(&members);
                for i in 0..p {
                    let error = (components.means[c * p + i] - mean[i]).abs();
                    let scale = covariance[i][i].sqrt() + mean[i].abs();
                    assert!(error <= 1e-13 * scale, "{data:?}, {p}: mean {c}, {i}");
                }
                let Shape::Covariances(all) = &components.shape else {
                    continue;
                };
                if found.singular.contains(&c) {
                    continue;
                }
                regular += 1;
                for i in 0..p {
                    for j in 0..=i {
                        let value = all[c * packed_len(p) + packed_len(i) + j];
                        let scale = (covariance[i][i] * covariance[j][j]).sqrt();
                        let error = (value - covariance[i][j]).abs();
                        assert!(error <= 1e-12 * scale, "{data:?}, {p}: {c}, {i}, {j}");
                    }
                }
            }
        }
    }
    assert!(regular > 50);
}

#[test]
fn offsets_cost_no_digits() {
    let mut moved = case(3, Data::Plain, 500, 4, 2);
    // Values and offset are multiples of a power of two, so that their sums are exact.
    let unit = (1u64 << 20) as f64;
    let at = |value: &f64| (value * unit).round() / unit;
    moved.values = moved.values.iter().map(at).collect();
    let near = moved.fit(1).unwrap();
    moved
        .values
        .iter_mut()
        .for_each(|value| *value += (1u64 << 30) as f64);
    let far = moved.fit(1).unwrap();
    let (Shape::Covariances(near), Shape::Covariances(far)) =
        (near.components.shape, far.components.shape)
    else {
        panic!("both are regular");
    };
    for (near, far) in near.iter().zip(&far) {
        assert!((near - far).abs() <= 1e-13, "{near} {far}");
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    for (n, p, k) in [(20_000, 3, 2), (9_000, 30, 5), (50, 100, 4)] {
        let case = case(5, Data::Mixture, n, p, k);
        let one = case.fit(1).unwrap();
        for threads in [2, 3, 8] {
            assert_eq!(case.fit(threads).unwrap(), one, "{threads}, {p}");
        }
        let all: Vec<usize> = (1..=k).collect();
        let mixture = mixture(&one.components, &all);
        let expected = answers(&mixture, &case.values, n, 1);
        for threads in [2, 5] {
            assert!(answers(&mixture, &case.values, n, threads) == expected);
        }
    }
}

#[test]
fn distances_and_posteriors_are_those_of_the_definition() {
    for (seed, data) in DATA.into_iter().enumerate() {
        for (n, p, ends) in [
            (130, 1, vec![1]),
            (200, 2, vec![1, 2, 3]),
            (501, 7, vec![2, 3, 6]),
            (900, 20, vec![1, 3]),
        ] {
            let components = *ends.last().unwrap();
            let case = case(seed as u64, data, n, p, components);
            let fitted = case.fit(1).unwrap().components;
            let found = answers(&mixture(&fitted, &ends), &case.values, n, 2);
            for (row, x) in case.rows.iter().enumerate() {
                let all: Vec<(f64, f64)> = (0..components)
                    .map(|c| distance_and_log_determinant(&fitted, c, x))
                    .collect();
                let logs: Vec<f64> = (all.iter().zip(&fitted.sizes))
                    .map(|((squared, log_det), size)| size.ln() - log_det / 2.0 - squared / 2.0)
                    .collect();
                let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = logs.iter().map(|log| (log - top).exp()).sum();
                let mut start = 0;
                for (k, &end) in ends.iter().enumerate() {
                    let least = all[start..end]
                        .iter()
                        .map(|a| a.0)
                        .fold(f64::INFINITY, f64::min);
                    let distance = found.distance[k * n + row];
                    // Gaussian elimination loses digits if a covariance is nearly singular.
                    let tolerance = 1e-6 * (1.0 + least);
                    assert!(
                        (distance.powi(2) - least).abs() <= tolerance,
                        "{data:?}, {p}: {distance} {least}"
                    );
                    let own = logs[start..end]
                        .iter()
                        .map(|log| (log - top).exp())
                        .sum::<f64>();
                    let posterior = found.posterior[k * n + row];
                    let is_certain = tolerance > 1e-3;
                    assert!(
                        is_certain || (posterior - own / total).abs() <= 2.0 * tolerance,
                        "{data:?}, {p}: {posterior} {}",
                        own / total
                    );
                    start = end;
                }
            }
        }
    }
}

#[test]
fn a_singular_population_has_the_pooled_covariance() {
    // Population 2 has a constant column, population 3 fewer members than columns.
    let mut case = case(7, Data::Plain, 300, 3, 2);
    let n = case.rows.len();
    for row in 0..n {
        if row >= n - 3 {
            case.population[row] = 3;
        } else if case.population[row] == 2 {
            case.values[row] = 0.1;
            case.rows[row][0] = 0.1;
        }
    }
    case.k = 3;
    let found = case.fit(1).unwrap();
    assert_eq!(found.singular, [1, 2]);
    let Shape::Covariances(all) = &found.components.shape else {
        panic!("the pooled covariance has an inverse");
    };
    let parts: Vec<(f64, Vec<Vec<f64>>)> = (1..=3)
        .map(|number| {
            let members = case.members(number);
            (members.len() as f64 - 1.0, mean_and_covariance(&members).1)
        })
        .collect();
    let freedom: f64 = parts.iter().map(|part| part.0).sum();
    for i in 0..3 {
        for j in 0..=i {
            let sum: f64 = parts.iter().map(|(weight, of)| weight * of[i][j]).sum();
            for c in [1, 2] {
                let value = all[c * packed_len(3) + packed_len(i) + j];
                assert!((value - sum / freedom).abs() <= 1e-12, "{c}, {i}, {j}");
            }
        }
    }
}

#[test]
fn without_a_pooled_covariance_all_populations_have_one_variance() {
    let variance_of = |case: &Case| {
        let found = case.fit(2).unwrap();
        let Shape::Variance(variance) = found.components.shape else {
            panic!("no covariance has an inverse");
        };
        (variance, found.singular)
    };
    // Fewer members than columns, and a column that is constant in each population.
    let wide = case(8, Data::Plain, 30, 60, 2);
    let mut constant = case(9, Data::Plain, 100, 2, 2);
    for row in 0..100 {
        let value = f64::from(constant.population[row]);
        constant.values[row] = value;
        constant.rows[row][0] = value;
    }
    for case in [wide, constant] {
        let (found, singular) = variance_of(&case);
        assert_eq!(singular, [0, 1]);
        let mut squares = 0.0;
        let mut freedom = 0.0;
        for number in 1..=2 {
            let members = case.members(number);
            let (_, covariance) = mean_and_covariance(&members);
            let weight = members.len() as f64 - 1.0;
            squares += weight * (0..covariance.len()).map(|i| covariance[i][i]).sum::<f64>();
            freedom += weight * covariance.len() as f64;
        }
        assert!((found - squares / freedom).abs() <= 1e-12 * found);
    }
    // Without any spread, distances are Euclidean distances between points.
    let mut points = case(10, Data::Plain, 3, 2, 3);
    points.population = vec![1, 2, 3];
    assert_eq!(variance_of(&points), (1.0, vec![0, 1, 2]));
}

#[test]
fn units_of_columns_do_not_make_a_covariance_singular() {
    let mut case = case(11, Data::Plain, 200, 3, 1);
    for row in 0..200 {
        case.values[row] *= 1e-12;
        case.values[200 + row] *= 1e12;
    }
    assert_eq!(case.fit(1).unwrap().singular, Vec::<usize>::new());
}

#[test]
fn covariances_that_overflow_and_models_that_do_not_fit_are_refused() {
    let mut large = case(12, Data::Plain, 20, 2, 1);
    large.values.iter_mut().for_each(|value| *value *= 1e200);
    assert!(matches!(large.fit(1), Err(Error::Input(_))));
    let mut empty = case(12, Data::Plain, 20, 2, 2);
    empty.population.fill(1);
    assert!(matches!(empty.fit(1), Err(Error::Input(_))));

    let sound = Components {
        columns: 2,
        means: vec![0.0; 4],
        sizes: vec![5.0, 6.0],
        shape: Shape::Covariances(vec![1.0, 0.0, 1.0, 1.0, 0.5, 1.0]),
    };
    assert!(Mixture::new(&sound, vec![1, 2]).is_ok());
    let change = |change: fn(&mut Components)| {
        let mut other = sound.clone();
        change(&mut other);
        matches!(Mixture::new(&other, vec![1, 2]), Err(Error::Input(_)))
    };
    assert!(change(|of| of.sizes[1] = 0.0));
    assert!(change(|of| of.means[1] = f64::NAN));
    assert!(change(|of| of.means.truncate(3)));
    assert!(change(|of| of.columns = 3));
    assert!(change(|of| of.shape = Shape::Covariances(vec![1.0; 6])));
    assert!(change(|of| of.shape = Shape::Variance(0.0)));
    for ends in [vec![], vec![1], vec![2, 1], vec![0, 2], vec![2, 3]] {
        assert!(Mixture::new(&sound, ends).is_err());
    }
}

#[test]
fn factors_have_the_bits_of_a_processor_without_wide_registers() {
    let p = 19;
    let case = case(13, Data::Mixture, 900, p, 1);
    let Shape::Covariances(all) = case.fit(1).unwrap().components.shape else {
        panic!("it is regular");
    };
    let mut wide = vec![0.0; packed_len(p)];
    let mut scalar = wide.clone();
    let task = |out| Whitening {
        scaled: &all,
        factor: vec![0.0; packed_len(p)],
        pivots: vec![0.0; p],
        rows: Vec::new(),
        out,
    };
    assert!(dispatch(task(&mut wide)));
    assert!(task(&mut scalar).with_simd(Scalar::new()));
    assert!(wide == scalar);
}
