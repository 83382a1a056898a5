//! Compares with plain definitions, on random data.

use std::cmp::Ordering;

use super::density::{density, Interval, WeightedSample};
use super::moments::{dot, mean, Centred};
use super::valley::{projections, Group, Valley};
use super::{Columns, CondensedTree, PopulationSearch};
use crate::testing::Random;
use crate::{Cpu, Monitor};

/// `rows` points in `columns` columns, column by column, around `centre`.
fn cloud(random: &mut Random, rows: usize, columns: usize, centre: f64) -> Vec<f64> {
    let values = (0..rows * columns).map(|_| centre + random.normal());
    values.collect()
}

fn group(points: Vec<f64>, rows: usize, members: f64) -> Group {
    Group::new(Centred::new(points, rows), members)
}

#[test]
fn sums_have_no_rest() {
    for n in 1..40 {
        let values: Vec<f64> = (0..n).map(f64::from).collect();
        let squares: f64 = values.iter().map(|v| v * v).sum();
        assert_eq!(dot(&values, &values), squares);
        assert_eq!(mean(&values), f64::from(n - 1) / 2.0);
    }
}

#[test]
fn quantiles_of_weights_are_those_of_repeated_values() {
    let weighted = WeightedSample::new(vec![3.0, 1.0, 2.0], &[2.0, 1.0, 1.0]);
    assert_eq!(weighted.quantile(0.0), 1.0);
    assert_eq!(weighted.quantile(1.0), 3.0);
    // Ranks 1/8, 3/8 and 6/8.
    assert_eq!(weighted.quantile(0.375), 2.0);
    assert_eq!(weighted.median(), 2.0 + 1.0 / 3.0);
    assert_eq!(weighted.effective_count(), 16.0 / 6.0);
    let equal = WeightedSample::equal((0..101).map(f64::from).collect());
    assert_eq!(equal.median(), 50.0);
    assert_eq!(equal.thinned(101).collect::<Vec<_>>()[..3], [0.0, 1.0, 2.0]);
}

#[test]
fn the_density_is_the_sum_of_the_kernels() {
    let random = &mut Random(5);
    let a: Vec<f64> = (0..300).map(|_| random.normal()).collect();
    let b: Vec<f64> = (0..40).map(|_| 6.0 + random.normal()).collect();
    let (width, range) = (
        0.4,
        Interval {
            from: -2.0,
            to: 8.0,
        },
    );
    let kernel = |x: f64, v: f64| (-0.5 * ((x - v) / width).powi(2)).exp();
    let (on_a, on_b) = (
        WeightedSample::equal(a.clone()),
        WeightedSample::equal(b.clone()),
    );
    let found = density([(&on_a, 1.0), (&on_b, 3.0)], width, range);
    let direct = |x: f64| {
        let sum = |values: &[f64], weight: f64| {
            let sum: f64 = values.iter().map(|&v| kernel(x, v)).sum();
            weight * sum / values.len() as f64
        };
        sum(&a, 1.0) + sum(&b, 3.0)
    };
    for (i, found) in found.iter().enumerate() {
        let x = range.from + i as f64 * (range.to - range.from) / (found_len() - 1.0);
        assert!((found - direct(x)).abs() < 2e-4, "{found} at {x}");
    }
    fn found_len() -> f64 {
        512.0
    }
}

/// The projections of the points of `a` by the definition, each with its own inverse. Without the
/// point, whose difference from the mean is d, the mean of its side moves by d / (n - 1), and the
/// covariance loses d·dᵀ·n / ((n - 1)·(n - 2)). (The factor (n - 1) / (n - 2) of the rest is left
/// out.)
fn slow_projections(a: &[Vec<f64>], b: &[Vec<f64>]) -> Vec<f64> {
    let (n, p) = (a.len() as f64, a[0].len());
    let mean = |side: &[Vec<f64>]| -> Vec<f64> {
        let sum = |j: usize| side.iter().map(|row| row[j]).sum::<f64>();
        (0..p).map(|j| sum(j) / side.len() as f64).collect()
    };
    let (mean_a, mean_b) = (mean(a), mean(b));
    let mut within = vec![vec![0.0; p + 1]; p];
    for (side, mean) in [(a, &mean_a), (b, &mean_b)] {
        for row in side {
            for i in 0..p {
                for j in 0..p {
                    let product = (row[i] - mean[i]) * (row[j] - mean[j]);
                    within[i][j] += product / (side.len() - 1) as f64;
                }
            }
        }
    }
    let project = |x: &Vec<f64>| {
        let d: Vec<f64> = (0..p).map(|j| x[j] - mean_a[j]).collect();
        let mean_a: Vec<f64> = (0..p).map(|j| mean_a[j] - d[j] / (n - 1.0)).collect();
        let mut system = within.clone();
        for i in 0..p {
            for j in 0..p {
                system[i][j] -= d[i] * d[j] * n / ((n - 1.0) * (n - 2.0));
            }
            system[i][p] = mean_a[i] - mean_b[i];
        }
        for i in 0..p {
            let pivot = system[i].clone();
            for (k, row) in system.iter_mut().enumerate() {
                let factor = if k == i { 0.0 } else { row[i] / pivot[i] };
                row.iter_mut()
                    .zip(&pivot)
                    .for_each(|(v, p)| *v -= factor * p);
            }
        }
        let along = |j: usize| system[j][p] / system[j][j];
        (0..p)
            .map(|j| (x[j] - (mean_a[j] + mean_b[j]) / 2.0) * along(j))
            .sum()
    };
    a.iter().map(project).collect()
}

#[test]
fn each_point_is_projected_on_the_line_of_the_others() {
    let random = &mut Random(9);
    let (m_a, m_b, p) = (12, 9, 3);
    let a = cloud(random, m_a, p, 0.0);
    let b = cloud(random, m_b, p, 1.5);
    let (on_a, on_b) = projections(&Centred::new(a.clone(), m_a), &Centred::new(b.clone(), m_b));
    let rows = |values: &[f64], m: usize| -> Vec<Vec<f64>> {
        let row = |i| (0..p).map(|j| values[j * m + i]).collect();
        (0..m).map(row).collect()
    };
    let (a, b) = (rows(&a, m_a), rows(&b, m_b));
    let slow_b = slow_projections(&b, &a);
    let expected = slow_projections(&a, &b)
        .into_iter()
        .chain(slow_b.iter().map(|v| -v));
    for (found, expected) in on_a.iter().chain(&on_b).zip(expected) {
        assert!(
            (found - expected).abs() < 1e-4 * (1.0 + expected.abs()),
            "{found} {expected}"
        );
    }
}

#[test]
fn far_clouds_have_a_valley_and_halves_of_one_have_none() {
    for p in [1, 2, 5, 30] {
        let random = &mut Random(p as u64);
        let near = group(cloud(random, 400, p, 0.0), 400, 4e4);
        let far = group(cloud(random, 100, p, 8.0), 100, 100.0);
        let valley = Valley::between(&near, &far);
        assert!(valley.balanced < 0.3 && valley.weighted < 0.7, "{valley:?}");
        let same = group(cloud(random, 300, p, 0.0), 300, 300.0);
        let none = Valley::between(&near, &same);
        assert!(none.balanced > 0.5, "{p} columns: {none:?}");
    }
}

#[test]
fn a_line_that_separates_noise_is_no_valley() {
    // With more columns than half of the points, some line separates any two samples.
    let random = &mut Random(2);
    let a = group(cloud(random, 60, 40, 0.0), 60, 60.0);
    let b = group(cloud(random, 60, 40, 0.0), 60, 60.0);
    assert!(Valley::between(&a, &b).balanced > 0.3);
    let few = group(cloud(random, 30, 40, 0.0), 30, 30.0);
    assert_eq!(Valley::between(&few, &few), Valley::NONE);
}

/// Four leaves ((1, 2), (3, 4)), each of which is a cluster.
const MERGE: [[i32; 2]; 3] = [[-1, -2], [-3, -4], [1, 2]];
const NODES: [i32; 7] = [7, 5, 6, 1, 2, 3, 4];
const SPLITS: [i32; 7] = [1, 2, 3, 0, 0, 0, 0];

fn by_number(a: u32, b: u32) -> Ordering {
    a.cmp(&b)
}

#[test]
fn sides_of_one_size_are_ordered_by_their_observations() {
    let order = |compare: fn(u32, u32) -> Ordering| {
        CondensedTree::new(&MERGE, &[1.0; 4], None, &NODES, &SPLITS, compare)
            .unwrap()
            .order
    };
    assert_eq!(order(by_number), [0, 1, 2, 3]);
    assert_eq!(order(|a, b| b.cmp(&a)), [3, 2, 1, 0]);
}

#[test]
fn the_observations_of_a_cluster_lie_side_by_side() {
    let members = [1.0, 5.0, 2.0, 2.0];
    let leaf = [2, 2, 1, 4, 3, 3, 2];
    let tree =
        CondensedTree::new(&MERGE, &members, Some(&leaf), &NODES, &SPLITS, by_number).unwrap();
    // The larger side comes first: leaf 2 before 1. Of equal sides, the one with the lower
    // observation comes first: leaf 4 before 3.
    assert_eq!(tree.order, [0, 1, 6, 2, 3, 4, 5]);
    assert_eq!(tree.start, [0, 0, 4, 3, 0, 5, 4]);
    assert_eq!(tree.size, [7, 4, 3, 1, 3, 2, 1]);
    assert_eq!(tree.members, [10.0, 6.0, 4.0, 1.0, 5.0, 2.0, 2.0]);
    assert_eq!(tree.children[..4], [Some(1), Some(3), Some(5), None]);
}

#[test]
fn clusters_that_do_not_fit_are_refused() {
    let members = [1.0; 4];
    let refused = |members: &[f64], leaf: Option<&[i32]>, node: &[i32], split: &[i32]| {
        assert!(CondensedTree::new(&MERGE, members, leaf, node, split, by_number).is_err());
    };
    refused(&members[1..], None, &NODES, &SPLITS);
    refused(&members, Some(&[0]), &NODES, &SPLITS);
    refused(&members, None, &[8], &[0]);
    refused(&members, None, &NODES, &[4, 2, 3, 0, 0, 0, 0]);
    refused(&members, None, &NODES, &[-1, 2, 3, 0, 0, 0, 0]);
}

/// Four clouds of `count` points in the tree above; the first and the last are one population.
fn four_clouds(count: usize) -> (Vec<f64>, Vec<i32>) {
    let random = &mut Random(4);
    let centres = [0.0, 9.0, -9.0, 0.0];
    let mut values = Vec::new();
    for _ in 0..2 {
        for centre in centres {
            values.extend(cloud(random, count, 1, centre));
        }
    }
    let leaf = (1..=4).flat_map(|leaf| std::iter::repeat_n(leaf, count));
    (values, leaf.collect())
}

#[test]
fn a_population_may_be_in_two_places_of_the_tree() {
    let (values, leaf) = four_clouds(200);
    let tree =
        CondensedTree::new(&MERGE, &[200.0; 4], Some(&leaf), &NODES, &SPLITS, by_number).unwrap();
    let monitor = &Monitor::default();
    let x = Columns::new(&values, 800, &[0, 1]).unwrap();
    let search = PopulationSearch::new(&tree, &x, monitor);
    let run = |threads: usize| {
        let cpu = Cpu::new(threads).unwrap();
        cpu.install(|| search.find(None, false)).unwrap()
    };
    let mut found = run(1);
    found.groups.sort();
    assert_eq!(found.groups, [vec![3, 6], vec![4], vec![5]]);
    assert_eq!(found.separation.len(), 3);
    assert!(found.separation.iter().all(|one| one.valley < 0.3));
    assert_eq!(found.valleys.len(), 3);
    // The finer level has all splits with several populations below.
    assert_eq!(found.finer, [vec![3], vec![4], vec![5], vec![6]]);
    assert_eq!(run(3).separation, found.separation);
    let given = search.find(Some(vec![vec![1], vec![2]]), false).unwrap();
    assert_eq!(given.groups, [vec![1], vec![2]]);
    assert_eq!(given.separation[0].nearest, 1);
}

#[test]
fn rows_are_compared_by_their_first_values_that_differ() {
    let values = [0.0, -0.0, 0.0, 9.0, 9.0, 9.0, 2.0, 1.0, 2.0];
    let x = Columns::new(&values, 3, &[0, 2]).unwrap();
    assert_eq!(x.compare(0, 1), Ordering::Greater);
    assert_eq!(x.compare(1, 2), Ordering::Less);
    assert_eq!(x.compare(0, 2), Ordering::Equal);
    assert!(Columns::new(&values, 3, &[3]).is_err());
}

#[test]
fn a_search_stops_when_asked() {
    let (values, leaf) = four_clouds(50);
    let tree =
        CondensedTree::new(&MERGE, &[50.0; 4], Some(&leaf), &NODES, &SPLITS, by_number).unwrap();
    let monitor = Monitor::default();
    monitor.stop();
    let x = Columns::new(&values, 200, &[0, 1]).unwrap();
    let search = PopulationSearch::new(&tree, &x, &monitor);
    assert!(search.find(None, false).is_err());
    assert!(search.find(Some(vec![vec![1], vec![2]]), false).is_err());
}
