//! Compares distances on a GPU with the CPU's.

use gmhclust_core::distances::checks::{bits, random_points};
use gmhclust_core::distances::Pairs;
use gmhclust_core::metric::{Metric, Points, ZeroOverZero};
use gmhclust_core::testing::{array, correlations, dist_metrics, Random};
use gmhclust_core::{Cpu, Monitor};

use super::cuda;

/// Checks that GPU and CPU give the same bits, for all metrics, with and without missing values.
fn compare_with_the_gpu(rounds: usize, largest: usize) {
    let (cuda, cpu) = (cuda(2), Cpu::new(2).unwrap());
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
                    bits(&cuda, &points, &pairs),
                    bits(&cpu, &points, &pairs),
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
    // The GPU computes these distances in several pieces.
    compare_with_the_gpu(2, 4000);
}

#[test]
#[ignore = "needs an NVIDIA GPU; small, for compute-sanitizer"]
fn the_gpu_has_the_bits_of_the_cpu_on_small_data() {
    compare_with_the_gpu(4, 150);
}

/// Draws two numbers. The quotient of their difference and their sum is as near to the midpoint
/// between two doubles as a quotient can be.
fn hard_to_divide(random: &mut Random) -> [f64; 2] {
    loop {
        let bits = |random: &mut Random| random.below(1 << 26) as u128;
        let sum = 1 << 52 | bits(random) << 26 | bits(random) | 1;
        // The inverse of `sum` modulo 2⁵⁴, by Newton's method.
        let inverse = (0..6).fold(1u128, |i, _| {
            i.wrapping_mul(2u128.wrapping_sub(sum.wrapping_mul(i)))
        });
        // The product of `middle` and `sum` is one more, or one less, than a multiple of 2⁵⁴.
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
    let (cuda, cpu) = (cuda(2), Cpu::new(2).unwrap());
    let mut random = Random(7);
    let power = |random: &mut Random, most: usize| {
        2f64.powi(random.below(2 * most + 1) as i32 - most as i32)
    };
    for round in 0..40 {
        let n = if round < 5 { 4000 } else { 500 };
        let value = |random: &mut Random| match round % 5 {
            0 => random.normal() * power(random, 400),
            1 => random.below(50) as f64,
            // Mantissas with hardly any ones, and mantissas with hardly any zeros.
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
                Points::prepare(metric, array(values.clone(), n, p), &Monitor::default()).unwrap();
            let pairs = Pairs::within(n);
            assert_eq!(
                bits(&cuda, &points, &pairs),
                bits(&cpu, &points, &pairs),
                "{round}"
            );
        }
    }
}
