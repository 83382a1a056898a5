//! Compares linkages of points on a GPU with the CPU's.

use std::sync::Arc;

use gmhclust_core::error::Error;
use gmhclust_core::linkage::{geometric, spanning};
use gmhclust_core::metric::{Metric, Points};
use gmhclust_core::neighbours::NeighbourDevice;
use gmhclust_core::testing::{draw, Data, Random, DATA};
use gmhclust_core::{Cpu, Monitor};

use super::cuda;
use crate::{Cuda, Handover};

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_has_the_bits_of_the_cpu() {
    let cpu = Cpu::new(4).unwrap();
    // Searches among clusters copy all clusters, or seldom.
    let devices = [0, 64].map(|sweeps_per_copy| {
        let handover = Handover {
            sweeps_per_copy,
            ..Handover::default()
        };
        Cuda::new(None, Arc::new(Cpu::new(4).unwrap()), handover).unwrap()
    });
    let mut random = Random(13);
    for (round, data) in DATA.into_iter().enumerate() {
        let n = if round % 2 == 0 { 200 } else { 3000 };
        let cuda = &devices[round / 2 % 2];
        let p = 1 + random.below(20);
        let x = draw(&mut random, data, n, p);
        let ward = |on: &dyn NeighbourDevice| geometric::ward(&x, on, &Monitor::default());
        assert!(ward(cuda) == ward(&cpu), "Ward, {data:?}");
        let points = Points::new(Metric::Cosine { absolute: false }, &x);
        if points.constant().is_empty() {
            let average = |on: &dyn NeighbourDevice| {
                geometric::average(points.clone(), on, &Monitor::default())
            };
            assert!(average(cuda) == average(&cpu), "average, {data:?}");
            let mcquitty = |on: &dyn NeighbourDevice| {
                geometric::mcquitty(points.clone(), on, &Monitor::default())
            };
            assert!(mcquitty(cuda) == mcquitty(&cpu), "mcquitty, {data:?}");
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
