//! Compares linkages of points on a GPU with the CPU's.

use std::sync::Arc;

use gmhclust_core::error::Error;
use gmhclust_core::linkage::{geometric, spanning};
use gmhclust_core::metric::{Metric, Points};
use gmhclust_core::neighbours::NeighbourDevice;
use gmhclust_core::testing::{draw, Data, Random, DATA};
use gmhclust_core::{Cpu, Monitor};

use super::cuda;
use crate::{Cuda, GpuThresholds};

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_has_the_bits_of_the_cpu() {
    let cpu = Cpu::new(4).unwrap();
    // Searches among clusters copy all clusters, or seldom.
    let devices = [0, 64].map(|sweeps_per_copy| {
        let thresholds = GpuThresholds {
            sweeps_per_copy,
            ..GpuThresholds::default()
        };
        Cuda::new(None, Arc::new(Cpu::new(4).unwrap()), thresholds).unwrap()
    });
    let in_rounds = cuda(4).with_mean_linkage(usize::MAX);
    let after_searches = cuda(4).with_mean_linkage(1 << 18);
    let mut random = Random(13);
    for (round, data) in DATA.into_iter().enumerate() {
        let n = if round % 2 == 0 { 200 } else { 3000 };
        let cuda = &devices[round / 2 % 2];
        let p = 1 + random.below(20);
        let x = draw(&mut random, data, n, p);
        let ward = |on: &dyn NeighbourDevice| geometric::ward(&x, on, &Monitor::default());
        let expected = ward(&cpu);
        for cuda in [cuda, &in_rounds, &after_searches] {
            assert!(ward(cuda) == expected, "Ward, {data:?}");
        }
        let points = Points::new(Metric::Cosine { absolute: false }, &x);
        if points.constant().is_empty() {
            let average = |on: &dyn NeighbourDevice| {
                geometric::average(points.clone(), on, &Monitor::default())
            };
            let expected = average(&cpu);
            for cuda in [cuda, &in_rounds, &after_searches] {
                assert!(average(cuda) == expected, "average, {data:?}");
            }
            let mcquitty = |on: &dyn NeighbourDevice| {
                geometric::mcquitty(points.clone(), on, &Monitor::default())
            };
            let expected = mcquitty(&cpu);
            for cuda in [cuda, &in_rounds, &after_searches] {
                assert!(mcquitty(cuda) == expected, "mcquitty, {data:?}");
            }
        }
        for metric in [Metric::Euclidean, Metric::Manhattan, Metric::Maximum] {
            let points = Points::new(metric, &x);
            let tree = |on: &dyn NeighbourDevice| spanning::tree(&points, on, &Monitor::default());
            assert!(tree(cuda) == tree(&cpu), "{metric:?}, {data:?}");
            let min_points = 2 + random.below(20);
            let tree = |on: &dyn NeighbourDevice| {
                spanning::reachability_tree(&points, min_points, on, &Monitor::default())
            };
            assert!(
                tree(cuda) == tree(&cpu),
                "{min_points} points, {metric:?}, {data:?}"
            );
        }
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU; small, for compute-sanitizer"]
fn rounds_of_small_data_have_the_bits_of_the_cpu() {
    let (cpu, cuda) = (Cpu::new(2).unwrap(), cuda(2).with_mean_linkage(usize::MAX));
    for (round, data) in DATA.into_iter().enumerate() {
        let x = draw(
            &mut Random(16),
            data,
            20 + 30 * (round % 4),
            1 + 10 * (round % 3),
        );
        let ward = |on: &dyn NeighbourDevice| {
            let monitor = Monitor::default();
            let tree = geometric::ward(&x, on, &monitor).unwrap();
            let (done, expected) = monitor.progress();
            assert_eq!(done, expected, "{data:?}");
            tree
        };
        assert!(ward(&cuda) == ward(&cpu), "{data:?}");
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn rounds_of_many_clusters_have_the_bits_of_the_cpu() {
    // Most searches take large tiles, and the last ones small tiles.
    let (cpu, cuda) = (Cpu::new(4).unwrap(), cuda(4).with_mean_linkage(usize::MAX));
    for (data, n, p) in [(Data::Mixture, 20_000, 9), (Data::Counts, 9000, 40)] {
        let x = draw(&mut Random(15), data, n, p);
        let ward = |on: &dyn NeighbourDevice| geometric::ward(&x, on, &Monitor::default());
        assert!(ward(&cuda) == ward(&cpu), "{data:?}");
    }
    let stopped = Monitor::default();
    stopped.stop();
    let x = draw(&mut Random(17), Data::Mixture, 2000, 5);
    assert_eq!(geometric::ward(&x, &cuda, &stopped), Err(Error::Interrupt));
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_links_points_that_do_not_fit() {
    // All rows take 192,000 bytes.
    let cuda = cuda(4).with_memory(160_000);
    let cpu = Cpu::new(4).unwrap();
    let x = draw(&mut Random(14), Data::Mixture, 3000, 12);
    for metric in [Metric::Euclidean, Metric::Manhattan] {
        let points = Points::new(metric, &x);
        let tree = |on: &dyn NeighbourDevice| spanning::tree(&points, on, &Monitor::default());
        assert!(tree(&cuda) == tree(&cpu), "{metric:?}");
    }
    // A search among clusters needs all rows in the device's memory.
    let ward = geometric::ward(&x, &cuda, &Monitor::default());
    assert!(matches!(ward, Err(Error::Memory(_))));
}
