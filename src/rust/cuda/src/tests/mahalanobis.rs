//! Compares Mahalanobis-average clustering on GPUs with the CPU's.

use gmhclust_core::mahalanobis::checks::{apriori, options, run};
use gmhclust_core::mahalanobis::{Distance, Options};
use gmhclust_core::testing::{draw, Data, Random, DATA};
use gmhclust_core::Cpu;

use super::{cuda, cuda_on, several_gpus};

/// Checks that GPU and CPU give the same bits, on every kind of data.
fn compare_with_the_gpu(rounds: usize, largest: usize) {
    let cuda = [
        cuda(4).without_blocks(),
        cuda(4),
        cuda(4).with_large_blocks(),
    ];
    let cpu = Cpu::new(4).unwrap();
    let mut random = Random(99);
    for round in 0..rounds {
        let data = DATA[round % DATA.len()];
        // A search for ties at 0 that result from rounding takes O(n³) time.
        let most = match data {
            Data::Minute => largest.min(400),
            _ => largest,
        };
        let n = 2 + random.below(most - 1);
        let p = match round % 7 {
            0 => 1 + random.below(90),
            _ => 1 + random.below(20),
        };
        let x = draw(&mut random, data, n, p);
        let options = options(&mut random, n);
        let labels = apriori(&mut random, n);
        let expected = run(&x, labels.as_deref(), &options, &cpu);
        for cuda in &cuda {
            let gpu = run(&x, labels.as_deref(), &options, cuda);
            assert_eq!(gpu, expected, "{data:?}, {n} × {p}, {options:?}");
        }
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_has_the_bits_of_the_cpu() {
    compare_with_the_gpu(200, 400);
    compare_with_the_gpu(20, 4000);
}

#[test]
#[ignore = "needs an NVIDIA GPU; small, for compute-sanitizer"]
fn the_gpu_has_the_bits_of_the_cpu_on_small_data() {
    compare_with_the_gpu(14, 60);
}

/// A search goes on to further balls than those next to its query.
#[test]
#[ignore = "needs an NVIDIA GPU; small, for compute-sanitizer"]
fn a_block_searches_all_balls_like_the_cpu_on_small_data() {
    // A block has 8 warps, and the balls of a cluster are more.
    let (n, p) = (640, 3);
    let mut random = Random(99);
    let labels: Vec<u32> = (0..n).map(|i| 1 + u32::from(i % 2 == 0)).collect();
    let x = draw(&mut random, Data::Mixture, n, p);
    let options = Options {
        threshold: 20.0,
        distance: Distance::Centroid,
        ..options(&mut random, n)
    };
    let expected = run(&x, Some(&labels), &options, &Cpu::new(4).unwrap());
    for cuda in [cuda(4), cuda(4).with_large_blocks()] {
        assert_eq!(run(&x, Some(&labels), &options, &cuda), expected);
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn a_block_merges_thousands_of_observations_like_the_cpu() {
    let p = 5;
    let mut random = Random(97);
    for data in [Data::Mixture, Data::Plain] {
        for distance in Distance::ALL {
            // Enough for chunks of positions that are longer than a warp; with centroid distances,
            // also for more balls than a search lists at a time.
            let n = match distance {
                Distance::Centroid => 32_000,
                Distance::FullMahalanobis => 11_000,
            };
            let x = draw(&mut random, data, n, p);
            let labels: Vec<u32> = (0..n as u32).map(|i| 1 + u32::from(i % 9 > 4)).collect();
            let options = Options {
                threshold: 100.0,
                distance,
                ..options(&mut random, n)
            };
            let expected = run(&x, Some(&labels), &options, &Cpu::new(4).unwrap());
            for cuda in [cuda(4), cuda(4).with_large_blocks()] {
                let found = run(&x, Some(&labels), &options, &cuda);
                assert_eq!(found, expected, "{data:?}, {options:?}");
            }
        }
    }
}

/// The shared memory of a block is almost all that a block may have without asking for more.
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn a_block_merges_observations_in_as_many_columns_as_it_can() {
    let (n, p) = (300, 64);
    let mut random = Random(96);
    let labels: Vec<u32> = (0..n).map(|i| 1 + u32::from(i % 3 == 0)).collect();
    let x = draw(&mut random, Data::Mixture, n, p);
    for distance in Distance::ALL {
        let options = Options {
            threshold: 80.0,
            distance,
            ..options(&mut random, n)
        };
        let expected = run(&x, Some(&labels), &options, &Cpu::new(4).unwrap());
        let found = run(&x, Some(&labels), &options, &cuda(4));
        assert_eq!(found, expected, "{options:?}");
    }
}

#[test]
#[ignore = "needs two NVIDIA GPUs"]
fn the_gpus_have_the_bits_of_the_cpu_and_of_one() {
    let Some(all) = several_gpus() else {
        return;
    };
    let (first, second) = (cuda_on(Some(&[0]), 4), cuda_on(Some(&[1]), 4));
    let mut random = Random(98);
    for n in [400, 4000, 12_000] {
        let x = draw(&mut random, Data::Mixture, n, 10);
        // There are many apriori clusters, so that every device gets some.
        let labels: Vec<u32> = (0..n).map(|_| random.below(n / 40) as u32).collect();
        let options = options(&mut random, n);
        let expected = run(&x, Some(&labels), &options, &Cpu::new(4).unwrap());
        for (cuda, which) in [
            (&all, "all"),
            (&first, "the first"),
            (&second, "the second"),
        ] {
            assert_eq!(
                run(&x, Some(&labels), &options, cuda),
                expected,
                "{n}, {which}"
            );
        }
    }
}
