//! Compares all tiles, threads and layouts with one distance at a time.

use super::checks::{self, random_points, to_bits};
use super::*;
use crate::cpu::Cpu;
use crate::error::Error;
use crate::metric::{Metric, Points};
use crate::monitor::Monitor;
use crate::testing::rows::Rows;
use crate::testing::shrink::{cases, for_all};
use crate::testing::{array, correlations, dist_metrics, values, Random};

fn bits(points: &Points, pairs: &Pairs, threads: usize) -> Vec<u64> {
    checks::bits(&Cpu::new(threads).unwrap(), points, pairs)
}

fn expected_bits(points: &Points, pairs: &[(usize, usize)]) -> Vec<u64> {
    pairs
        .iter()
        .map(|&(i, j)| to_bits(points.distance(i, j)))
        .collect()
}

#[test]
fn tiles_have_the_bits_of_one_distance_at_a_time() {
    // For pairs of two groups, the points of the second group have the label 1.
    let draw = |random: &mut Random, round: usize| {
        let n = [0, 1, 2, 3, 15, 16, 17, 18, 31, 33, 64, 65, 70, 97, 130][random.below(15)];
        let p = [0, 1, 2, 7, 40][random.below(5)];
        let holes = [&[][..], &[f64::NAN]][round % 2];
        let rows = Rows {
            columns: p,
            ..Rows::new(&values(random, n * p, holes), n)
        };
        rows.label(random.below(n + 1)..n, 1)
    };
    for_all(24, cases(draw), |rows| {
        let rows = rows.sorted();
        let (n, p, first) = (rows.count(), rows.columns, rows.labelled(0).count());
        let within = (0..n).flat_map(|j| (j + 1..n).map(move |i| (i, j)));
        let across = (first..n).flat_map(|j| (0..first).map(move |i| (i, j)));
        let (within, across): (Vec<_>, Vec<_>) = (within.collect(), across.collect());
        for metric in dist_metrics().into_iter().chain(correlations()) {
            let points = Points::prepare(metric, rows.array(), &Monitor::default());
            let points = points.unwrap();
            for threads in [1, 3] {
                let what = format!("{metric:?}, {n} x {p}, {first} first, {threads} threads");
                let found = bits(&points, &Pairs::within(n), threads);
                assert_eq!(found, expected_bits(&points, &within), "{what}");
                let found = bits(&points, &Pairs::across(first, n - first), threads);
                assert_eq!(found, expected_bits(&points, &across), "{what}");
            }
        }
    });
}

#[test]
fn columns_follow_each_other() {
    for pairs in [
        Pairs::within(0),
        Pairs::within(1),
        Pairs::within(9),
        Pairs::across(3, 5),
    ] {
        let mut end = 0;
        for j in 0..pairs.columns() {
            let column = pairs.column(j);
            assert_eq!(column.start, end);
            end += column.rows.len();
        }
        assert_eq!(pairs.count(), end);
    }
    let large = Pairs::within(100_000);
    assert_eq!(large.count(), 4_999_950_000);
    assert_eq!(large.column(99_998).start, 4_999_949_999);
    assert_eq!(large.column(99_998).rows, 99_999..100_000);
}

#[test]
fn distances_are_in_the_order_of_dist() {
    let points = Points::prepare(
        Metric::Manhattan,
        array(vec![0.0, 1.0, 3.0, 7.0], 4, 1),
        &Monitor::default(),
    )
    .unwrap();
    let mut distances = [0.0; 6];
    let cpu = Cpu::new(1).unwrap();
    cpu.distances(
        &points,
        &Pairs::within(4),
        &mut distances,
        &Monitor::default(),
    )
    .unwrap();
    assert_eq!(distances, [1.0, 3.0, 7.0, 2.0, 6.0, 4.0]);
}

#[test]
fn parts_are_the_whole() {
    let mut random = Random::of(6);
    let points = random_points(&mut random, Metric::Euclidean, 90, 3, false);
    for pairs in [Pairs::within(90), Pairs::across(40, 50)] {
        let mut parts = Vec::new();
        for columns in [0..1, 1..30, 30..30, 30..pairs.columns()] {
            let part = pairs.part(columns);
            assert_eq!(part.columns(), part.part(0..part.columns()).columns());
            parts.extend(bits(&points, &part, 2));
        }
        assert_eq!(parts, bits(&points, &pairs, 2));
    }
}

#[test]
fn an_interrupt_stops_tiles_and_pairs() {
    let cpu = Cpu::new(2).unwrap();
    let mut random = Random::of(5);
    for holes in [false, true] {
        let metric = Metric::Spearman { absolute: false };
        let points = random_points(&mut random, metric, 40, 3, holes);
        assert_eq!(points.pairwise(), holes);
        let monitor = Monitor::default();
        monitor.stop();
        let pairs = Pairs::within(40);
        let mut out = vec![0.0; pairs.count()];
        let result = cpu.distances(&points, &pairs, &mut out, &monitor);
        assert_eq!(result, Err(Error::Interrupt));
    }
}

#[test]
fn what_no_memory_can_hold_is_refused_with_its_size() {
    let refused = |pairs: Pairs, size: &str| match pairs.check_memory() {
        Err(Error::Memory(message)) => assert!(message.contains(size), "{message}"),
        other => panic!("{other:?}"),
    };
    refused(
        Pairs::within(100_000_000),
        "all pairs of 100000000 observations need 39999999.6 GB",
    );
    refused(
        Pairs::across(1 << 30, 1 << 31),
        "1073741824 x 2147483648 observations need 18446744073.7 GB",
    );
    assert_eq!(Pairs::within(1000).check_memory(), Ok(()));
}
