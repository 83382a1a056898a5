//! Compares the metrics with the plain definitions, and with known answers.

use super::reference;
use super::*;
use ndarray::{s, ArrayView2, ShapeBuilder};

use crate::error::Result;
use crate::matrix::RowSlices;
use crate::testing::rows::Rows;
use crate::testing::shrink::{cases, for_all};
use crate::testing::{array, correlations, dist_metrics, observations, values, Random};
use crate::{matrix, Error, Monitor, Observations};

const RULES: [ZeroOverZero; 3] = [ZeroOverZero::Omitted, ZeroOverZero::Zero, ZeroOverZero::One];

/// Whether two distances have the same bits, or are both NA, or both NaN but not NA.
fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan() && is_na(a) == is_na(b))
}

/// Whether a value is NA: R distinguishes NA from NaN by the lower half of the bits.
fn is_na(value: f64) -> bool {
    value.is_nan() && value.to_bits() as u32 == form::NA.to_bits() as u32
}

/// The points, and all pairs of their numbers, in either order.
fn points_of(rows: &Rows, metric: Metric) -> (Points, Vec<(usize, usize)>) {
    let n = rows.count();
    let points = Points::prepare(metric, rows.array(), &Monitor::default());
    let pairs = (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
    (points.unwrap(), pairs.collect())
}

#[test]
fn the_metrics_of_dist_have_the_bits_of_the_slow_version() {
    let draw = |random: &mut Random, round: usize| {
        let everything = [
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            -0.0,
            f64::MAX,
            f64::MIN,
            f64::MIN_POSITIVE,
            1e-310,
        ];
        let holes = [&[][..], &everything[..1], &everything[..3], &everything][round % 4];
        let (n, p) = (2 + random.below(5), 1 + random.below(20));
        Rows::new(&values(random, n * p, holes), n)
    };
    for_all(200, cases(draw), |rows| {
        for metric in dist_metrics() {
            let (points, pairs) = points_of(&rows, metric);
            for (i, j) in pairs {
                let [a, b] = [i, j].map(|row| &rows.rows[row].values);
                let expected = reference::distance(&metric, a, b);
                let distance = points.distance(i, j);
                // The root of NA may be a quiet or a signalling NaN, depending on the compiler.
                let same = distance.to_bits() == expected.to_bits();
                assert!(
                    same || is_na(distance) && is_na(expected),
                    "{metric:?} of {a:?} and {b:?}: {distance} is not {expected}",
                );
            }
        }
    });
}

#[test]
fn correlations_are_those_of_the_slow_version_to_rounding() {
    let draw = |random: &mut Random, round: usize| {
        let holes = [&[][..], &[f64::NAN]][round % 2];
        let (n, p) = (2 + random.below(5), 2 + random.below(20));
        Rows::new(&values(random, n * p, holes), n)
    };
    for_all(200, cases(draw), |rows| {
        for metric in correlations() {
            let (points, pairs) = points_of(&rows, metric);
            for (i, j) in pairs.into_iter().filter(|(i, j)| j < i) {
                let [a, b] = [i, j].map(|row| &rows.rows[row].values);
                let expected = reference::distance(&metric, a, b);
                let distance = points.distance(i, j);
                assert!(
                    (distance - expected).abs() < 1e-9 || same(distance, expected),
                    "{metric:?} of {a:?} and {b:?}: {distance} is not {expected}",
                );
                assert!(distance.is_nan() || (0.0..=2.0).contains(&distance));
                assert!(same(distance, points.distance(j, i)));
            }
        }
    });
}

#[test]
fn correlations_far_from_zero_and_at_any_scale_keep_their_digits() {
    let (a, b) = ([1.0, 2.0, 4.0, 3.0], [2.0, 1.0, 4.0, 7.0]);
    let correlate = |shift: f64, scale: f64| {
        let values = a.iter().chain(&b).map(|v| (v + shift) * scale).collect();
        let metric = Metric::Pearson { absolute: false };
        Points::prepare(metric, array(values, 2, 4), &Monitor::default())
            .unwrap()
            .distance(0, 1)
    };
    let expected = correlate(0.0, 1.0);
    let huge = 2f64.powi(1000);
    for (shift, scale) in [
        (1e15, 1.0),
        (0.0, huge),
        (0.0, 1.0 / huge),
        (-1e9, 1.0 / huge),
    ] {
        assert!(
            (correlate(shift, scale) - expected).abs() < 1e-14,
            "{shift} {scale}"
        );
    }
}

#[test]
fn constant_rows_have_no_correlation_and_are_known() {
    let values = vec![1.0, 2.0, 3.0, 0.1, 0.1, 0.1, 0.0, 0.0, 0.0, 5.0, 1.0, 2.0];
    let constant = |metric, values: &[f64]| {
        let points =
            Points::prepare(metric, array(values.to_vec(), 4, 3), &Monitor::default()).unwrap();
        for (i, j) in (0..4).flat_map(|i| (0..i).map(move |j| (i, j))) {
            let is_constant = points.constant().contains(&i) || points.constant().contains(&j);
            assert_eq!(points.distance(i, j).is_nan(), is_constant, "{i} {j}");
        }
        points.constant().to_vec()
    };
    let absolute = false;
    assert_eq!(constant(Metric::Pearson { absolute }, &values), [1, 2]);
    assert_eq!(constant(Metric::Spearman { absolute }, &values), [1, 2]);
    assert_eq!(constant(Metric::Cosine { absolute }, &values), [2]);
    let mut holes = values;
    holes[3] = f64::NAN;
    assert_eq!(constant(Metric::Pearson { absolute }, &holes), [1, 2]);
    assert_eq!(constant(Metric::Euclidean, &[1.0; 12]), [0usize; 0]);
}

#[test]
fn too_few_common_coordinates_are_na_and_no_row_is_blamed() {
    let nan = f64::NAN;
    let is_missing = |metric: Metric, values: &[f64]| {
        let columns = values.len() / 2;
        let points = Points::prepare(
            metric,
            array(values.to_vec(), 2, columns),
            &Monitor::default(),
        )
        .unwrap();
        assert_eq!(points.constant(), [0usize; 0], "{metric:?}");
        is_na(points.distance(0, 1))
    };
    for metric in dist_metrics().into_iter().chain(correlations()) {
        let needs_two = metric.fewest_coordinates() == 2;
        assert_eq!(
            is_missing(metric, &[1.0, nan, 2.0, 4.0, 5.0, nan]),
            needs_two,
            "{metric:?}"
        );
        assert_eq!(
            is_missing(metric, &[1.0, nan, 2.0, 4.0]),
            needs_two,
            "{metric:?}"
        );
        assert_eq!(is_missing(metric, &[1.0, 2.0]), needs_two, "{metric:?}");
        assert!(is_missing(metric, &[1.0, nan, nan, 1.0]), "{metric:?}");
        assert!(is_missing(metric, &[nan, nan, 2.0, 1.0]), "{metric:?}");
        assert!(is_missing(metric, &[]), "{metric:?}");
    }
}

#[test]
fn points_are_the_same_from_values_and_from_a_matrix() {
    let by_column = [1.0, 4.0, 2.0, 0.0, 3.0, 6.0];
    let by_column = ArrayView2::from_shape((2, 3).f(), &by_column).unwrap();
    let by_row = matrix::stacked(&[by_column], 3).unwrap();
    assert_eq!(by_row.values(), [1.0, 2.0, 3.0, 4.0, 0.0, 6.0]);
    let matrix = Observations::copied(by_column).unwrap();
    for metric in dist_metrics().into_iter().chain(correlations()) {
        let points = Points::prepare(metric, by_row.clone(), &Monitor::default()).unwrap();
        assert_eq!(points, Points::new(metric, &matrix));
    }
    let wrong = matrix::stacked(&[by_column, by_row.slice(s![.., 1..])], 3);
    assert!(matches!(wrong, Err(Error::Input(_))));
}

#[test]
fn metrics_are_known_by_name_and_wrong_choices_refused() {
    let omitted = ZeroOverZero::Omitted;
    let parse = |name, p, absolute, zero| Metric::new("method", name, p, absolute, zero);
    assert_eq!(
        parse("manhattan", 2.0, false, omitted),
        Ok(Metric::Manhattan)
    );
    assert_eq!(
        parse("minkowski", 3.0, false, omitted),
        Ok(Metric::Minkowski(3.0))
    );
    let cosine = Metric::Cosine { absolute: true };
    assert_eq!(parse("cosine", 2.0, true, omitted), Ok(cosine));
    for one in RULES {
        assert_eq!(
            parse("canberra", 2.0, false, one),
            Ok(Metric::Canberra(one))
        );
    }
    let refused = |result: Result<Metric>, part: &str| match result {
        Err(Error::Input(message)) => assert!(message.contains(part), "{message}"),
        other => panic!("{other:?}"),
    };
    refused(
        parse("hamming", 2.0, false, omitted),
        "`method` is \"hamming\"",
    );
    for p in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        refused(parse("minkowski", p, false, omitted), "`p` is");
    }
    refused(parse("euclidean", 2.0, true, omitted), "`absolute` is TRUE");
    refused(
        parse("euclidean", 2.0, false, ZeroOverZero::One),
        "`zero_over_zero`",
    );
    assert_eq!(ZeroOverZero::new("zero", "1"), Ok(ZeroOverZero::One));
    assert!(matches!(
        ZeroOverZero::new("zero", "2"),
        Err(Error::Input(_))
    ));
}

#[test]
fn distances_side_by_side_have_the_bits_of_single_ones() {
    let mut random = Random::of(23);
    for holes in [&[][..], &[f64::NAN, f64::INFINITY][..]] {
        for metric in [dist_metrics(), correlations()].concat() {
            let (n, p) = (12, 1 + random.below(40));
            let values = values(&mut random, n * p, holes);
            let points = Points::prepare(metric, array(values, n, p), &Monitor::default()).unwrap();
            for i in 0..n {
                let others = std::array::from_fn(|_| random.below(n));
                let together = points.distances(i, &others);
                for (&j, distance) in others.iter().zip(together) {
                    let single = points.distance(i, j);
                    assert!(same(distance, single), "{metric:?}");
                }
            }
        }
    }
}

#[test]
fn matrices_of_any_layout_are_stacked() {
    let mut random = Random::of(24);
    for (n, m, p) in [(1, 0, 3), (5, 2, 1), (5000, 130, 3), (130, 300, 20)] {
        let rows = values(&mut random, (n + m) * p, &[]);
        let columns = |rows: &[f64]| {
            let mut columns = vec![0.0; rows.len()];
            matrix::column_major_on_threads(rows, p, &mut columns, |value| value);
            let slow = |i: usize| rows[i % (rows.len() / p) * p + i / (rows.len() / p)];
            assert_eq!(columns, (0..rows.len()).map(slow).collect::<Vec<_>>());
            columns
        };
        let parts = [columns(&rows[..n * p]), columns(&rows[n * p..])];
        let views = [(n, &parts[0]), (m, &parts[1])]
            .map(|(rows, values)| ArrayView2::from_shape((rows, p).f(), values).unwrap());
        let rows = array(rows, n + m, p);
        assert_eq!(matrix::stacked(&views, p).unwrap(), rows);
        assert_eq!(matrix::stacked_on_threads(&views, p).unwrap(), rows);
        // In standard layout, and in another layout.
        let backwards = rows.slice(s![..;-1, ..]);
        for view in [rows.view(), backwards] {
            assert_eq!(matrix::stacked(&[view], p).unwrap(), view);
        }
    }
}

#[test]
fn preparing_stops_when_it_is_told_to() {
    let monitor = Monitor::default();
    monitor.stop();
    for metric in correlations() {
        for hole in [1.0, f64::NAN] {
            let values = vec![hole, 2.0, 5.0, 4.0, 3.0, 7.0];
            let points = Points::prepare(metric, array(values, 2, 3), &monitor);
            assert_eq!(points, Err(Error::Interrupt), "{metric:?}");
        }
    }
}

#[test]
fn some_of_the_points_have_the_distances_of_all() {
    let mut random = Random(5);
    for metric in [dist_metrics(), correlations()].concat() {
        let mut some = values(&mut random, 9 * 4, &[]);
        some[8..12].fill(3.0);
        let x = observations(some, 9, 4);
        let points = Points::new(metric, &x);
        if points.has_missing() {
            continue;
        }
        let rows = [7, 2, 2, 0];
        let selected = points.select(&rows).unwrap();
        for (i, &a) in rows.iter().enumerate() {
            for (j, &b) in rows.iter().enumerate() {
                let distance = points.distance(a as usize, b as usize);
                assert!(same(selected.distance(i, j), distance), "{metric:?}");
            }
        }
        let constant = if metric.is_correlation() {
            vec![1, 2]
        } else {
            vec![]
        };
        if !matches!(metric, Metric::Cosine { .. }) {
            assert_eq!(selected.constant(), constant, "{metric:?}");
        }
    }
}
