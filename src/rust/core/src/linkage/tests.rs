//! Linkages from points against the obvious ways.

use super::spanning;
use crate::backend::cpu::Cpu;
use crate::backend::neighbours::Space;
use crate::error::Error;
use crate::metric::{Metric, Points};
use crate::testing::{cloud, correlations, dist_metrics, draw, Data, Random};
use crate::{Matrix, Monitor};

/// Kruskal's algorithm over all edges in their order.
fn all_edges_tree(points: &Points) -> Vec<(f64, u32, u32)> {
    let n = points.rows();
    let mut edges: Vec<(f64, u32, u32)> = (0..n)
        .flat_map(|j| (0..j).map(move |i| (i, j)))
        .map(|(i, j)| (points.distance(i, j), i as u32, j as u32))
        .collect();
    edges.sort_by(|a, b| a.partial_cmp(b).expect("distances are numbers"));
    let mut components: Vec<usize> = (0..n).collect();
    edges.retain(|&(_, i, j)| {
        let [a, b] = [i, j].map(|point| components[point as usize]);
        components
            .iter_mut()
            .filter(|c| **c == b)
            .for_each(|c| *c = a);
        a != b
    });
    edges
}

fn spanning_tree(points: &Points, threads: usize) -> Vec<(f64, u32, u32)> {
    let cpu = Cpu::new(threads).unwrap();
    let edges = spanning::tree(points, &cpu, &Monitor::default()).unwrap();
    edges
        .iter()
        .map(|e| (e.weight, e.lower, e.higher))
        .collect()
}

#[test]
fn the_spanning_tree_is_that_of_all_edges() {
    let mut random = Random(11);
    let metrics = [dist_metrics(), correlations()].concat();
    for round in 0..200 {
        let metric = metrics[round % metrics.len()];
        let n = 2 + random.below(if round % 10 == 0 { 400 } else { 60 });
        let p = 1 + random.below(if round % 4 == 0 { 50 } else { 6 });
        let points = Points::new(metric, &cloud(&mut random, n, p));
        let space = Space::Points {
            points: &points,
            references: n,
        };
        if space.check().is_ok() {
            let tree = spanning_tree(&points, 1 + round % 2);
            assert_eq!(
                tree,
                all_edges_tree(&points),
                "{round}: {metric:?}, {n} × {p}"
            );
        }
    }
}

#[test]
fn clusters_far_apart_and_many_points() {
    let mut random = Random(12);
    for data in [Data::Mixture, Data::Plain, Data::Duplicates] {
        let x = draw(&mut random, data, 1500, 3);
        let points = Points::new(Metric::Euclidean, &x);
        assert_eq!(
            spanning_tree(&points, 2),
            all_edges_tree(&points),
            "{data:?}"
        );
    }
}

#[test]
fn single_linkage_joins_what_the_edges_join() {
    let x = Matrix::from_row_major(vec![10.0, 0.0, 1.0, 10.5, 3.0], 5, 1).unwrap();
    let points = Points::new(Metric::Euclidean, &x);
    let cpu = Cpu::new(1).unwrap();
    let tree = spanning::single(&points, &cpu, &Monitor::default()).unwrap();
    assert_eq!(tree.height, [0.5, 1.0, 2.0, 7.0]);
    assert_eq!(tree.merge, [[-1, -4], [-2, -3], [-5, 2], [1, 3]]);
    assert_eq!(tree.order, [1, 4, 5, 2, 3]);
}

#[test]
fn a_stopped_tree_says_so() {
    let x = draw(&mut Random(1), Data::Plain, 100, 3);
    let monitor = Monitor::default();
    monitor.stop();
    let points = Points::new(Metric::Euclidean, &x);
    let stopped = spanning::tree(&points, &Cpu::new(1).unwrap(), &monitor);
    assert_eq!(stopped, Err(Error::Interrupt));
}
