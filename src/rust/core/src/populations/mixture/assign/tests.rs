use pulp::Scalar;

use super::super::{Components, Shape};
use super::*;
use crate::mahalanobis::packed::packed_len;
use crate::testing::Random;

/// All kinds of results for a matrix in column-major order.
#[derive(Debug, PartialEq)]
pub struct Answers {
    pub distance: Vec<f64>,
    pub posterior: Vec<f64>,
    by_distance: Vec<i32>,
    by_posterior: Vec<i32>,
}

fn numbers(mixture: &Mixture, values: &[f64], n: usize, wanted: Wanted) -> (Vec<i32>, Vec<f64>) {
    let used: Vec<usize> = (0..mixture.columns).collect();
    let x = Columns::new(values, n, &used).unwrap();
    let (of_integers, of_doubles) = wanted.columns(mixture.populations());
    let (mut integers, mut doubles) = (vec![-1; n * of_integers], vec![-1.0; n * of_doubles]);
    let (cpu, monitor) = (Cpu::new(2).unwrap(), Monitor::default());
    let found = assign(
        mixture,
        &x,
        wanted,
        &mut integers,
        &mut doubles,
        &cpu,
        &monitor,
    );
    assert_eq!(found, Ok(true));
    (integers, doubles)
}

pub fn answers(mixture: &Mixture, values: &[f64], n: usize, threads: usize) -> Answers {
    let used: Vec<usize> = (0..mixture.columns).collect();
    let x = Columns::new(values, n, &used).unwrap();
    let (cpu, monitor) = (Cpu::new(threads).unwrap(), Monitor::default());
    let run = |wanted: Wanted| {
        let (of_integers, of_doubles) = wanted.columns(mixture.populations());
        let (mut integers, mut doubles) = (vec![-1; n * of_integers], vec![-1.0; n * of_doubles]);
        let found = assign(
            mixture,
            &x,
            wanted,
            &mut integers,
            &mut doubles,
            &cpu,
            &monitor,
        );
        assert_eq!(found, Ok(true));
        (integers, doubles)
    };
    let class = |by| {
        let limit = f64::INFINITY;
        run(Wanted::Class { by, limit }).0
    };
    Answers {
        distance: run(Wanted::All(Measure::Distance)).1,
        posterior: run(Wanted::All(Measure::Posterior)).1,
        by_distance: class(Measure::Distance),
        by_posterior: class(Measure::Posterior),
    }
}

/// Components about random points; every second one has a twin.
fn some_mixture(random: &mut Random, p: usize, ends: Vec<usize>) -> Mixture {
    let count = *ends.last().unwrap();
    let mut components = Components {
        columns: p,
        means: Vec::new(),
        sizes: Vec::new(),
        shape: Shape::Variance(1.0),
    };
    let mut covariances = Vec::new();
    for c in 0..count {
        if c % 2 == 1 {
            let means = &mut components.means;
            means.extend_from_within(means.len() - p..);
            covariances.extend_from_within(covariances.len() - packed_len(p)..);
            components.sizes.push(components.sizes[c - 1]);
            continue;
        }
        components
            .means
            .extend((0..p).map(|_| 3.0 * random.normal()));
        components.sizes.push((1 + random.below(1000)) as f64);
        for i in 0..p {
            covariances.extend((0..i).map(|_| 0.2 * random.uniform()));
            covariances.push(p as f64 * (0.5 + random.uniform()));
        }
    }
    components.shape = Shape::Covariances(covariances);
    Mixture::new(&components, ends).unwrap()
}

fn points(random: &mut Random, n: usize, p: usize) -> Vec<f64> {
    (0..n * p).map(|_| 3.0 * random.normal()).collect()
}

#[test]
fn classes_are_the_first_best_populations() {
    let mut random = Random(3);
    let n = 3 * ROWS_PER_TASK + 77;
    let mixture = some_mixture(&mut random, 5, vec![1, 2, 4, 5, 6]);
    let values = points(&mut random, n, 5);
    let found = answers(&mixture, &values, n, 2);
    let best = |row: usize, of: &[f64], sign: f64| {
        let value = |k: usize| sign * of[k * n + row];
        let first = (1..5).fold(0, |best, k| if value(k) < value(best) { k } else { best });
        first as i32 + 1
    };
    let mut of_twins = 0;
    for row in 0..n {
        assert_eq!(found.by_distance[row], best(row, &found.distance, 1.0));
        assert_eq!(found.by_posterior[row], best(row, &found.posterior, -1.0));
        of_twins += usize::from(found.by_distance[row] == 1);
        // Populations 1 and 2, 4 and 5 are twins.
        assert_ne!(found.by_distance[row], 2);
        assert_ne!(found.by_posterior[row], 5);
    }
    assert!(of_twins > 100);
}

#[test]
fn observations_beyond_the_limit_are_in_no_population() {
    let mut random = Random(4);
    let (n, p) = (1000, 4);
    let mixture = some_mixture(&mut random, p, vec![1, 3]);
    let values = points(&mut random, n, p);
    let all = answers(&mixture, &values, n, 1);
    for (by, class) in [
        (Measure::Distance, &all.by_distance),
        (Measure::Posterior, &all.by_posterior),
    ] {
        let limit = 4.0;
        let (found, _) = numbers(&mixture, &values, n, Wanted::Class { by, limit });
        let mut none = 0;
        for row in 0..n {
            let own = all.distance[(class[row] as usize - 1) * n + row];
            let expected = if own > 2.0 { 0 } else { class[row] };
            assert_eq!(found[row], expected);
            none += usize::from(expected == 0);
        }
        assert!(0 < none && none < n);
    }
}

#[test]
fn the_top_are_the_best_in_their_order() {
    let mut random = Random(5);
    let (n, p) = (500, 3);
    let mixture = some_mixture(&mut random, p, vec![1, 2, 3, 4, 6]);
    let values = points(&mut random, n, p);
    let all = answers(&mixture, &values, n, 1);
    for (measure, of, sign) in [
        (Measure::Distance, &all.distance, 1.0),
        (Measure::Posterior, &all.posterior, -1.0),
    ] {
        for count in [1, 2, 5] {
            let wanted = Wanted::Top { measure, count };
            let (index, value) = numbers(&mixture, &values, n, wanted);
            for row in 0..n {
                let mut order: Vec<usize> = (0..5).collect();
                let key = |k: usize| sign * of[k * n + row];
                // A stable sort.
                order.sort_by(|&a, &b| key(a).total_cmp(&key(b)));
                for rank in 0..count {
                    assert_eq!(index[rank * n + row] as usize, order[rank] + 1);
                    assert_eq!(value[rank * n + row], of[order[rank] * n + row]);
                }
            }
        }
    }
}

#[test]
fn values_that_are_not_finite_are_found_wherever_they_are() {
    let mut random = Random(6);
    let (n, p) = (2 * ROWS_PER_TASK + 3, 2);
    let mixture = some_mixture(&mut random, p, vec![1, 2]);
    let values = points(&mut random, n, p + 1);
    // The mixture does not use the second column.
    let used = [0, 2];
    let (cpu, monitor) = (Cpu::new(2).unwrap(), Monitor::default());
    let wanted = Wanted::All(Measure::Distance);
    let is_finite = |values: &[f64]| {
        let x = Columns::new(values, n, &used).unwrap();
        let mut doubles = vec![0.0; 2 * n];
        assign(&mixture, &x, wanted, &mut [], &mut doubles, &cpu, &monitor).unwrap()
    };
    assert!(is_finite(&values));
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        for row in [0, TILE - 1, ROWS_PER_TASK, n - 1] {
            for column in 0..=p {
                let mut values = values.clone();
                values[column * n + row] = bad;
                assert_eq!(is_finite(&values), column == 1);
            }
        }
    }
}

#[test]
fn distances_that_overflow_belong_to_no_population() {
    let mixture = some_mixture(&mut Random(7), 2, vec![1, 2]);
    let values = [1e308, 0.0, -1e308, 0.0];
    let found = answers(&mixture, &values, 2, 1);
    assert_eq!([found.by_distance[0], found.by_posterior[0]], [0, 0]);
    assert_eq!([found.by_distance[1], found.by_posterior[1]], [1, 1]);
    assert_eq!([found.distance[0], found.distance[2]], [f64::INFINITY; 2]);
    assert!(found.posterior[0].is_nan() && found.posterior[2].is_nan());
    assert_eq!(found.posterior[1] + found.posterior[3], 1.0);
}

#[test]
fn no_rows_have_no_results() {
    let mixture = some_mixture(&mut Random(8), 2, vec![1]);
    let found = answers(&mixture, &[], 0, 2);
    assert!(found.distance.is_empty() && found.by_distance.is_empty());
}

#[test]
fn results_have_the_bits_of_a_processor_without_wide_registers() {
    let mut random = Random(9);
    for p in [1, 2, 5, 14, 33] {
        let mixture = some_mixture(&mut random, p, vec![1, 3, 4]);
        let n = 2 * TILE + 9;
        let values = points(&mut random, n, p);
        let used: Vec<usize> = (0..p).collect();
        let x = Columns::new(&values, n, &used).unwrap();
        for measure in [Measure::Distance, Measure::Posterior] {
            let wanted = Wanted::All(measure);
            let mut doubles = vec![0.0; 3 * n];
            let mut tile = Tile::new(&mixture).unwrap();
            let task = Task {
                first: 0,
                rows: n,
                integers: Vec::new(),
                doubles: doubles.chunks_mut(n).collect(),
            };
            let (mixture, x, tile) = (&mixture, &x, &mut tile);
            let scalar = AssignmentKernel {
                mixture,
                x,
                wanted,
                task,
                tile,
            };
            assert!(scalar.with_simd(Scalar::new()));
            assert!(numbers(mixture, &values, n, wanted).1 == doubles, "{p}");
        }
    }
}

#[test]
fn an_interrupt_stops_it() {
    let mixture = some_mixture(&mut Random(10), 2, vec![1]);
    let values = points(&mut Random(10), 100, 2);
    let x = Columns::new(&values, 100, &[0, 1]).unwrap();
    let monitor = Monitor::default();
    monitor.stop();
    let wanted = Wanted::All(Measure::Distance);
    let cpu = Cpu::new(1).unwrap();
    let found = assign(
        &mixture,
        &x,
        wanted,
        &mut [],
        &mut [0.0; 100],
        &cpu,
        &monitor,
    );
    assert_eq!(found, Err(crate::Error::Interrupt));
}
