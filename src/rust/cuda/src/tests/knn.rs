//! Compares searches on GPUs with the CPU's.

use gmhclust_core::error::Error;
use gmhclust_core::knn::checks::{
    check, compare_blocks_with_the_whole, compare_with_all_distances,
    compare_within_with_all_distances,
};
use gmhclust_core::knn::nearest;
use gmhclust_core::matrix::RowSlices;
use gmhclust_core::metric::{Metric, Points};
use gmhclust_core::neighbours::NeighbourDevice;
use gmhclust_core::testing::{correlations, dist_metrics, draw, observations, Data, Random};
use gmhclust_core::{Cpu, Monitor};

use super::{cuda, cuda_on, several_gpus};

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_has_the_bits_of_the_cpu() {
    let cuda = cuda(2);
    compare_with_all_distances(&cuda, 300);
    let mut random = Random(7);
    for metric in [dist_metrics(), correlations()].concat() {
        let points = Points::new(metric, &draw(&mut random, Data::Mixture, 3000, 20));
        let on = |device: &dyn NeighbourDevice, k: usize| {
            nearest(&points, 3000, k, device, &Monitor::default()).unwrap()
        };
        let cpu = Cpu::new(4).unwrap();
        for k in [1, 20, 200] {
            assert!(on(&cuda, k) == on(&cpu, k), "{metric:?}, k = {k}");
        }
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_has_the_bits_of_the_cpu_where_half_precision_is_too_little() {
    let cuda = cuda(2);
    let cpu = Cpu::new(4).unwrap();
    let mut random = Random(8);
    let metrics = [correlations(), vec![Metric::Euclidean]].concat();
    for data in [
        Data::Plain,
        Data::Mixture,
        Data::Duplicates,
        Data::Offset,
        Data::Outliers,
    ] {
        for &metric in &metrics {
            // Also tests groups of near neighbours that are far apart.
            let mut values = draw(&mut random, data, 2500, 100).values().to_vec();
            for row in values.chunks_mut(100).step_by(2) {
                row.iter_mut()
                    .enumerate()
                    .for_each(|(k, v)| *v += 1e3 * (k % 2) as f64);
            }
            let x = observations(values, 2500, 100);
            let points = Points::new(metric, &x);
            let on = |device: &dyn NeighbourDevice| {
                nearest(&points, 2500, 7, device, &Monitor::default()).unwrap()
            };
            assert!(on(&cuda) == on(&cpu), "{data:?}, {metric:?}");
        }
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU; small, for compute-sanitizer"]
fn the_gpu_has_the_bits_of_the_cpu_on_small_data() {
    compare_with_all_distances(&cuda(2), 22);
}

#[test]
#[ignore = "needs two NVIDIA GPUs"]
fn the_gpus_have_the_bits_of_the_cpu_and_of_one() {
    let Some(all) = several_gpus() else {
        return;
    };
    let one = |device: usize| cuda_on(Some(&[device]), 4);
    compare_with_all_distances(&all, 100);
    let mut random = Random(8);
    let x = draw(&mut random, Data::Mixture, 20_000, 30);
    for metric in [Metric::Euclidean, Metric::Pearson { absolute: false }] {
        let points = Points::new(metric, &x);
        let on = |device: &dyn NeighbourDevice, references: usize| {
            nearest(&points, references, 20, device, &Monitor::default()).unwrap()
        };
        for references in [20_000, 5_000] {
            let expected = on(&Cpu::new(4).unwrap(), references);
            assert!(on(&all, references) == expected, "{metric:?}, all");
            assert!(on(&one(0), references) == expected, "{metric:?}, the first");
            assert!(
                on(&one(1), references) == expected,
                "{metric:?}, the second"
            );
            let chunks = several_gpus().unwrap().with_memory(1 << 20);
            assert!(on(&chunks, references) == expected, "{metric:?}, in chunks");
        }
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_streams_references_that_do_not_fit() {
    let cuda = |memory| cuda(4).with_memory(memory);
    let cpu = Cpu::new(4).unwrap();
    let mut random = Random(9);
    for metric in [dist_metrics(), correlations()].concat() {
        let points = Points::new(metric, &draw(&mut random, Data::Mixture, 3000, 20));
        let on = |device: &dyn NeighbourDevice, references: usize, k: usize| {
            nearest(&points, references, k, device, &Monitor::default()).unwrap()
        };
        for (references, k) in [(3000, 1), (3000, 20), (2900, 200)] {
            let expected = on(&cpu, references, k);
            // All rows take 288,000 bytes, or 240,000 in half precision.
            for memory in [160_000, 250_000] {
                let found = on(&cuda(memory), references, k);
                assert!(found == expected, "{metric:?}, {references}, {k}, {memory}");
            }
        }
    }
    let points = Points::new(Metric::Euclidean, &draw(&mut random, Data::Plain, 3000, 20));
    let error = nearest(&points, 3000, 20, &cuda(50_000), &Monitor::default());
    assert!(matches!(error, Err(Error::Memory(_))), "{error:?}");
}

#[test]
#[ignore = "needs an NVIDIA GPU; small, for compute-sanitizer"]
fn the_gpu_streams_references_that_do_not_fit_on_small_data() {
    let cuda = cuda(2).with_memory(32 << 10);
    let points = Points::new(
        Metric::Euclidean,
        &draw(&mut Random(4), Data::Mixture, 1540, 3),
    );
    check(&points, 1500, 5, &cuda, "in chunks");
}

#[test]
#[ignore = "needs an NVIDIA GPU; small, for compute-sanitizer"]
fn the_gpu_has_the_bits_of_the_cpu_in_blocks_on_small_data() {
    compare_blocks_with_the_whole(&cuda(2), 32);
}

#[test]
#[ignore = "needs an NVIDIA GPU; small, for compute-sanitizer"]
fn the_gpu_has_the_bits_of_the_cpu_within_a_radius_on_small_data() {
    compare_within_with_all_distances(&cuda(2), 32);
}
