//! Tiles, threads and layouts against one distance at a time.

use super::*;
use crate::backend::Backend;
use crate::cpu::Cpu;
use crate::error::Error;
use crate::metric::form::NA;
use crate::metric::{Metric, Points, ZeroOverZero};
use crate::monitor::Monitor;
use crate::testing::{correlations, dist_metrics, values, Random};

/// The bits of the distances of `pairs`.
fn bits(points: &Points, pairs: &Pairs, threads: usize) -> Vec<u64> {
    bits_on(&Cpu::new(threads).unwrap(), points, pairs)
}

fn bits_on(backend: &dyn Backend, points: &Points, pairs: &Pairs) -> Vec<u64> {
    let mut out = vec![-1.0; pairs.count()];
    let monitor = Monitor::default();
    backend
        .distances(points, pairs, &mut out, &monitor)
        .unwrap();
    assert_eq!(monitor.progress(), (out.len() as u64, out.len() as u64));
    out.into_iter().map(to_bits).collect()
}

/// Of all NaN but NA the same bits: they may differ by sign.
fn to_bits(distance: f64) -> u64 {
    if distance.is_nan() && distance.to_bits() as u32 != NA.to_bits() as u32 {
        f64::NAN.to_bits()
    } else {
        distance.to_bits()
    }
}

fn expected_bits(points: &Points, pairs: &[(usize, usize)]) -> Vec<u64> {
    pairs
        .iter()
        .map(|&(i, j)| to_bits(points.distance(i, j)))
        .collect()
}

fn random_points(random: &mut Random, metric: Metric, n: usize, p: usize, holes: bool) -> Points {
    let nan: &[f64] = if holes { &[f64::NAN] } else { &[] };
    Points::from_row_major(
        metric,
        values(random, n * p, nan),
        n,
        p,
        &Monitor::default(),
    )
    .unwrap()
}

#[test]
fn tiles_have_the_bits_of_one_distance_at_a_time() {
    let mut random = Random(4);
    for round in 0..24 {
        let n = [0, 1, 2, 3, 15, 16, 17, 18, 31, 33, 64, 65, 70, 97, 130][random.below(15)];
        let p = [0, 1, 2, 7, 40][random.below(5)];
        let within: Vec<_> = (0..n)
            .flat_map(|j| (j + 1..n).map(move |i| (i, j)))
            .collect();
        let first = random.below(n + 1);
        let across: Vec<_> = (first..n)
            .flat_map(|j| (0..first).map(move |i| (i, j)))
            .collect();
        for metric in dist_metrics().into_iter().chain(correlations()) {
            let points = random_points(&mut random, metric, n, p, round % 2 == 1);
            for threads in [1, 3] {
                let what = format!("{metric:?}, {n} x {p}, {first} first, {threads} threads");
                let all = Pairs::within(n);
                assert_eq!(
                    bits(&points, &all, threads),
                    expected_bits(&points, &within),
                    "{what}"
                );
                let some = Pairs::across(first, n - first);
                assert_eq!(
                    bits(&points, &some, threads),
                    expected_bits(&points, &across),
                    "{what}"
                );
            }
        }
    }
}

/// Holds the GPU to the CPU's bits, for all metrics, with and without missing values.
fn compare_with_the_gpu(rounds: usize, largest: usize) {
    let cuda = crate::backend::cuda::Cuda::new(None, 2).unwrap();
    let mut random = Random(6);
    for round in 0..rounds {
        let n = random.below(largest);
        let p = [1, 2, 16, 17, 40][random.below(5)];
        let first = random.below(n + 1);
        for metric in dist_metrics().into_iter().chain(correlations()) {
            let points = random_points(&mut random, metric, n, p, round % 2 == 1);
            for pairs in [Pairs::within(n), Pairs::across(first, n - first)] {
                let what = format!("{metric:?}, {n} x {p}, {pairs:?}");
                assert_eq!(
                    bits_on(&cuda, &points, &pairs),
                    bits(&points, &pairs, 2),
                    "{what}"
                );
            }
        }
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_has_the_bits_of_the_cpu() {
    compare_with_the_gpu(20, 500);
    // Several pieces.
    compare_with_the_gpu(2, 4000);
}

#[test]
#[ignore = "needs an NVIDIA GPU; small, for compute-sanitizer"]
fn the_gpu_has_the_bits_of_the_cpu_on_small_data() {
    compare_with_the_gpu(4, 150);
}

/// Two numbers whose difference over their sum is as near to the middle between two doubles as a
/// quotient can be.
fn hard_to_divide(random: &mut Random) -> [f64; 2] {
    loop {
        let bits = |random: &mut Random| random.below(1 << 26) as u128;
        let sum = 1 << 52 | bits(random) << 26 | bits(random) | 1;
        // The inverse of `sum` modulo 2⁵⁴, by Newton's method.
        let inverse = (0..6).fold(1u128, |i, _| {
            i.wrapping_mul(2u128.wrapping_sub(sum.wrapping_mul(i)))
        });
        // Times the sum one more, or one less, than a multiple of 2⁵⁴.
        let middle = [inverse, inverse.wrapping_neg()][random.below(2)] % (1 << 54);
        let difference = (middle * sum + (1 << 53)) >> 54;
        assert_eq!((middle * sum).abs_diff(difference << 54), 1);
        if middle >= 1 << 53 && (sum + difference) % 2 == 0 {
            return [sum + difference, sum - difference].map(|twice| (twice / 2) as f64);
        }
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_divides_like_the_cpu() {
    let cuda = crate::backend::cuda::Cuda::new(None, 2).unwrap();
    let mut random = Random(7);
    let power = |random: &mut Random, most: usize| {
        2f64.powi(random.below(2 * most + 1) as i32 - most as i32)
    };
    for round in 0..40 {
        let n = if round < 5 { 4000 } else { 500 };
        let value = |random: &mut Random| match round % 5 {
            0 => random.normal() * power(random, 400),
            1 => random.below(50) as f64,
            // Mantissas of almost all ones, and of hardly any.
            2 => {
                let few = 1.0 + f64::EPSILON * random.below(40) as f64;
                let many = 2.0 - f64::EPSILON * random.below(40) as f64;
                [few, many, -few, -many][random.below(4)] * power(random, 2)
            }
            _ => random.uniform() * f64::from(random.below(20) > 0),
        };
        let p = [1, 1, 1, 1, 7][round % 5];
        let values: Vec<f64> = match round % 5 {
            3 => (0..n / 2)
                .flat_map(|_| hard_to_divide(&mut random))
                .collect(),
            _ => (0..n * p).map(|_| value(&mut random)).collect(),
        };
        for convention in [ZeroOverZero::Omitted, ZeroOverZero::Zero, ZeroOverZero::One] {
            let metric = Metric::Canberra(convention);
            let points =
                Points::from_row_major(metric, values.clone(), n, p, &Monitor::default()).unwrap();
            let pairs = Pairs::within(n);
            assert_eq!(
                bits_on(&cuda, &points, &pairs),
                bits(&points, &pairs, 2),
                "{round}"
            );
        }
    }
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
    let points = Points::from_row_major(
        Metric::Manhattan,
        vec![0.0, 1.0, 3.0, 7.0],
        4,
        1,
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
    let mut random = Random(6);
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
    let mut random = Random(5);
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
