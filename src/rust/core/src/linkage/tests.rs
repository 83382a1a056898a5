//! Compares linkages of points with plain algorithms.

mod of_means;

use super::{geometric, spanning};
use crate::cpu::Cpu;
use crate::dendrogram::Dendrogram;
use crate::error::Error;
use crate::matrix::RowSlices;
use crate::metric::{Metric, Points};
use crate::neighbours::{NeighbourLists, Space};

use crate::testing::rows::Rows;
use crate::testing::shrink::{cases, for_all, with_each, Shrink, Simpler};
use crate::testing::{cloud, correlations, dist_metrics, draw, observations, Data, Random};
use crate::{Monitor, Observations};

/// Kruskal's algorithm over all edges in their order.
fn all_edges_tree(points: &Points) -> Vec<(f64, u32, u32)> {
    all_reachability_edges_tree(points, &vec![f64::NEG_INFINITY; points.rows()])
}

/// The same by mutual reachability distances, for these core distances.
fn all_reachability_edges_tree(points: &Points, cores: &[f64]) -> Vec<(f64, u32, u32)> {
    let n = points.rows();
    let mut edges: Vec<(f64, f64, u32, u32)> = (0..n)
        .flat_map(|j| (0..j).map(move |i| (i, j)))
        .map(|(i, j)| {
            let distance = points.distance(i, j);
            (
                distance.max(cores[i]).max(cores[j]),
                distance,
                i as u32,
                j as u32,
            )
        })
        .collect();
    edges.sort_by(|a, b| a.partial_cmp(b).expect("distances are numbers"));
    let mut components: Vec<usize> = (0..n).collect();
    edges.retain(|&(_, _, i, j)| {
        let [a, b] = [i, j].map(|point| components[point as usize]);
        components
            .iter_mut()
            .filter(|c| **c == b)
            .for_each(|c| *c = a);
        a != b
    });
    edges
        .into_iter()
        .map(|(weight, _, i, j)| (weight, i, j))
        .collect()
}

/// By point, the distance to its (k − 1)-th nearest other point.
fn all_core_distances(points: &Points, k: usize) -> Vec<f64> {
    let n = points.rows();
    (0..n).map(|i| all_neighbours(points, i)[k - 2].0).collect()
}

/// All other points, nearest first.
fn all_neighbours(points: &Points, i: usize) -> Vec<(f64, u32)> {
    let others = (0..points.rows()).filter(|&j| j != i);
    let mut found: Vec<_> = others.map(|j| (points.distance(i, j), j as u32)).collect();
    found.sort_by(|a, b| a.partial_cmp(b).expect("distances are numbers"));
    found
}

fn spanning_tree(points: &Points, threads: usize) -> Vec<(f64, u32, u32)> {
    let cpu = Cpu::new(threads).unwrap();
    let edges = spanning::tree(points, &cpu, &Monitor::default()).unwrap();
    ends_of(&edges)
}

fn ends_of(edges: &[spanning::Edge]) -> Vec<(f64, u32, u32)> {
    let ends = edges.iter().map(|e| (e.weight, e.lower, e.higher));
    ends.collect()
}

#[derive(Debug, Clone)]
struct TreeCase {
    metric: Metric,
    threads: usize,
    rows: Rows,
}

impl TreeCase {
    /// A case with the next metric, and one or two threads in turns.
    fn new(round: usize, rows: Rows) -> Self {
        let metrics = [dist_metrics(), correlations()].concat();
        Self {
            metric: metrics[round % metrics.len()],
            threads: 1 + round % 2,
            rows,
        }
    }

    /// Compares the tree with Kruskal's tree of all edges, if all distances are numbers.
    fn check(&self) {
        let points = Points::new(self.metric, &self.rows.observations());
        let space = Space::Points {
            points: &points,
            references: points.rows(),
        };
        if space.check().is_err() {
            return;
        }
        let n = points.rows();
        assert_eq!(
            spanning_tree(&points, self.threads),
            all_edges_tree(&points)
        );
        let cpu = Cpu::new(self.threads).unwrap();
        let known = |k: usize| {
            let mut lists = NeighbourLists::default();
            (0..n).for_each(|i| lists.push(&all_neighbours(&points, i)[..k]));
            lists
        };
        let from = |min_points: usize, lists: &NeighbourLists| {
            let monitor = Monitor::default();
            spanning::tree_from_neighbours(&points, min_points, lists, &cpu, &monitor)
        };
        if n > 2 {
            let mut short = known(1);
            short.push(&[]);
            assert!(matches!(from(1, &short), Err(Error::Input(_))));
            assert!(matches!(from(3, &known(1)), Err(Error::Input(_))));
        }
        for k in [1, 8, n - 1].into_iter().filter(|k| (1..n).contains(k)) {
            let (edges, _) = from(1, &known(k)).unwrap();
            assert_eq!(ends_of(&edges), all_edges_tree(&points), "{k} known");
        }
        for k in [2, 5, 20, n].into_iter().filter(|&k| (2..=n).contains(&k)) {
            let (edges, cores) =
                spanning::reachability_tree(&points, k, &cpu, &Monitor::default()).unwrap();
            assert_eq!(cores, all_core_distances(&points, k), "{k} points");
            assert_eq!(
                ends_of(&edges),
                all_reachability_edges_tree(&points, &cores),
                "{k} points"
            );
            let known = known((k - 1).max(8).min(n - 1));
            assert_eq!(from(k, &known), Ok((edges, Some(cores))), "{k} points");
        }
    }
}

impl Shrink for TreeCase {
    fn simpler(&self) -> Simpler<Self> {
        let rows = with_each(self, self.rows.simpler(), |case, rows| case.rows = rows);
        let alone = (self.threads > 1).then_some(1);
        let threads = with_each(self, alone.into_iter(), |case, one| case.threads = one);
        let euclidean = (self.metric != Metric::Euclidean).then_some(Metric::Euclidean);
        let metric = with_each(self, euclidean.into_iter(), |case, one| case.metric = one);
        Box::new(threads.chain(metric).chain(rows))
    }
}

#[test]
fn the_spanning_tree_is_that_of_all_edges() {
    let draw = |random: &mut Random, round: usize| {
        let n = 2 + random.below(if round % 10 == 0 { 400 } else { 60 });
        let p = 1 + random.below(if round % 4 == 0 { 50 } else { 6 });
        TreeCase::new(round, Rows::of(&cloud(random, n, p)))
    };
    for_all(200, cases(draw), |case| case.check());
}

#[test]
fn equal_points_join_first_unless_others_are_as_near() {
    let draw = |random: &mut Random, round: usize| {
        let (n, p) = (2 + random.below(80), 1 + random.below(4));
        // Some differences are so small that their powers are zero, or that cosines are equal.
        let values = [
            0.0,
            -0.0,
            1e-200,
            2e-200,
            1.0,
            1.0 + 1e-12,
            1.0 + 2e-12,
            4.0,
        ];
        let first = random.below(values.len());
        let some = &values[first..(first + 3).min(values.len())];
        let values: Vec<f64> = (0..n * p).map(|_| some[random.below(some.len())]).collect();
        TreeCase::new(round, Rows::new(&values, n))
    };
    for_all(300, cases(draw), |case| case.check());
}

#[test]
fn tight_groups_far_apart_have_the_tree_of_all_edges() {
    let mut random = Random::of(14);
    let mut values = draw(&mut random, Data::Plain, 900, 3).values().to_vec();
    for row in values.chunks_mut(3).step_by(2) {
        row.iter_mut().for_each(|v| *v += 1e9);
    }
    let x = observations(values, 900, 3);
    for metric in [Metric::Euclidean, Metric::Manhattan] {
        let points = Points::new(metric, &x);
        assert_eq!(spanning_tree(&points, 2), all_edges_tree(&points));
    }
}

#[test]
fn clusters_far_apart_and_many_points() {
    let mut random = Random::of(12);
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
    let x = observations(vec![10.0, 0.0, 1.0, 10.5, 3.0], 5, 1);
    let points = Points::new(Metric::Euclidean, &x);
    let cpu = Cpu::new(1).unwrap();
    let tree = spanning::single(&points, &cpu, &Monitor::default()).unwrap();
    assert_eq!(tree.height, [0.5, 1.0, 2.0, 7.0]);
    assert_eq!(tree.merge, [[-1, -4], [-2, -3], [-5, 2], [1, 3]]);
    assert_eq!(tree.order, [1, 4, 5, 2, 3]);
}

/// The smallest distance of any two clusters, and these clusters.
fn nearest_pair(squares: &[Vec<f64>], active: &[usize]) -> (f64, usize, usize) {
    let pairs = active
        .iter()
        .flat_map(|&i| active.iter().map(move |&j| (i, j)));
    let apart = pairs
        .filter(|(i, j)| i < j)
        .map(|(i, j)| (squares[i][j].sqrt(), i, j));
    apart
        .min_by(|a, b| a.partial_cmp(b).expect("numbers"))
        .expect("two clusters")
}

/// A Lance–Williams formula for squared distances, given the sizes a, b and c of three clusters,
/// the distances from the first two to the third, and the distance between the first two.
type Formula = fn([f64; 3], [f64; 3]) -> f64;

const WARD: Formula = |[a, b, c], [from_a, from_b, between]| {
    ((a + c) * from_a + (b + c) * from_b - c * between) / (a + b + c)
};
const CENTROID: Formula = |[a, b, _], [from_a, from_b, between]| {
    (a * from_a + b * from_b - a * b / (a + b) * between) / (a + b)
};
const MEDIAN: Formula = |_, [from_a, from_b, between]| (from_a + from_b) / 2.0 - between / 4.0;

/// The merges by a formula over all squared Euclidean distances. `choose` selects each pair, given
/// the squares and the slots of active clusters.
fn lance_williams(
    x: &Observations,
    formula: Formula,
    choose: impl FnMut(&[Vec<f64>], &[usize]) -> (f64, usize, usize),
) -> Vec<(f64, usize, usize)> {
    lance_williams_of(&Points::new(Metric::Euclidean, x), formula, choose)
}

/// As [`lance_williams`], by the distances of points.
fn lance_williams_of(
    points: &Points,
    formula: Formula,
    mut choose: impl FnMut(&[Vec<f64>], &[usize]) -> (f64, usize, usize),
) -> Vec<(f64, usize, usize)> {
    let n = points.rows();
    let mut squares: Vec<Vec<f64>> = (0..n)
        .map(|i| (0..n).map(|j| points.distance(i, j).powi(2)).collect())
        .collect();
    let mut sizes = vec![1.0; n];
    let mut active: Vec<usize> = (0..n).collect();
    let mut merges = Vec::new();
    while active.len() > 1 {
        let (height, i, j) = choose(&squares, &active);
        active.retain(|&k| k != j);
        for &k in active.iter().filter(|&&k| k != i) {
            let members = [i, j, k].map(|slot| sizes[slot]);
            let square = formula(members, [squares[i][k], squares[j][k], squares[i][j]]).max(0.0);
            squares[i][k] = square;
            squares[k][i] = square;
        }
        sizes[i] += sizes[j];
        merges.push((height, i, j));
    }
    merges
}

/// Fails unless the merges are the same, and the heights are the same up to rounding.
fn compare(found: &[(f64, usize, usize)], expected: &[(f64, usize, usize)], case: &str) {
    compare_from(0.0, found, expected, case);
}

/// As [`compare`], where heights below `least` may differ as much as one of this height.
fn compare_from(
    least: f64,
    found: &[(f64, usize, usize)],
    expected: &[(f64, usize, usize)],
    case: &str,
) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        let case = format!("{case}: {found:?} is not {expected:?}");
        assert_eq!((found.1, found.2), (expected.1, expected.2), "{case}");
        let rounding = 1e-12 * expected.0.max(least);
        assert!((found.0 - expected.0).abs() <= rounding, "{case}");
    }
}

/// The slots and heights of a tree's merges; a cluster is in the slot of its first observation.
fn merges_of(tree: &Dendrogram) -> Vec<(f64, usize, usize)> {
    let mut slots: Vec<usize> = Vec::new();
    let mut merges = Vec::new();
    for (row, &height) in tree.merge.iter().zip(&tree.height) {
        let [a, b] = row.map(|id| match id {
            ..=0 => -(id + 1) as usize,
            _ => slots[id as usize - 1],
        });
        merges.push((height, a.min(b), a.max(b)));
        slots.push(a.min(b));
    }
    merges
}

fn ward(x: &Observations, threads: usize) -> Dendrogram {
    geometric::ward(x, &Cpu::new(threads).unwrap(), &Monitor::default()).unwrap()
}

/// Points whose values are not shrunk, since whole numbers have ties.
#[derive(Debug, Clone)]
struct Untied(Rows);

impl Shrink for Untied {
    fn simpler(&self) -> Simpler<Self> {
        Box::new(self.0.fewer().map(Self))
    }
}

#[test]
fn trees_of_centroids_are_those_of_lance_and_williams() {
    let cpus = [1, 2].map(|threads| Cpu::new(threads).unwrap());
    let monitor = Monitor::default();
    let draw = |random: &mut Random, round: usize| {
        let sorts = [
            Data::Plain,
            Data::Mixture,
            Data::Tiny,
            Data::Huge,
            Data::Collinear,
        ];
        let n = 2 + random.below(if round % 10 == 0 { 250 } else { 50 });
        let p = 2 + random.below(12);
        Untied(Rows::of(&draw(random, sorts[round % sorts.len()], n, p)))
    };
    for_all(60, cases(draw), |Untied(rows)| {
        let x = rows.observations();
        let cpu = &cpus[rows.count() % 2];
        let ward = geometric::ward(&x, cpu, &monitor).unwrap();
        let expected = lance_williams(&x, WARD, nearest_pair);
        compare(&merges_of(&ward), &expected, "ward");
        let centroid = geometric::centroid(&x, cpu, &monitor).unwrap();
        let expected = lance_williams(&x, CENTROID, nearest_pair);
        compare(&merges_of(&centroid), &expected, "centroid");
        let median = geometric::median(&x, cpu, &monitor).unwrap();
        let expected = lance_williams(&x, MEDIAN, nearest_pair);
        compare(&merges_of(&median), &expected, "median");
    });
}

#[test]
fn where_distances_tie_ward_merges_one_of_the_nearest_pairs() {
    let mut random = Random::of(14);
    let grid = |n: usize| {
        let values = (0..n * n).flat_map(|i| [(i / n) as f64, (i % n) as f64]);
        observations(values.collect(), n * n, 2)
    };
    let line = (0..64).map(f64::from).collect();
    // All points are as far apart as their unions are.
    let simplex = |n: usize| {
        let values = (0..n * n).map(|i| f64::from(u8::from(i % (n + 1) == 0)));
        observations(values.collect(), n, n)
    };
    let mut cases = vec![
        grid(5),
        grid(12),
        simplex(7),
        simplex(40),
        observations(line, 64, 1),
        observations(vec![3.5; 40], 20, 2),
    ];
    for data in [Data::Grid, Data::Duplicates, Data::Constant] {
        cases.extend((0..8).map(|p| draw(&mut random, data, 20 + 15 * p, 1 + p / 2)));
    }
    for x in cases {
        let tree = ward(&x, 1);
        assert_eq!(tree, ward(&x, 2));
        let merges = merges_of(&tree);
        let mut next = merges.iter();
        lance_williams(&x, WARD, |squares, active| {
            let &(height, i, j) = next.next().expect("n - 1 merges");
            let (least, ..) = nearest_pair(squares, active);
            let rounding = 1e-7 * (1.0 + least);
            let case = format!("{height} is not {least}");
            assert!((height - least).abs() <= rounding, "{case}");
            assert!((squares[i][j].sqrt() - least).abs() <= rounding, "{case}");
            (height, i, j)
        });
        assert!(tree.height.is_sorted());
    }
}

#[test]
fn points_on_a_line_that_grows_apart_chain() {
    // The nearest neighbour of each union is the next point: one merge per round.
    let values = (0..600).map(|i| f64::from(i).powi(2)).collect();
    let x = observations(values, 600, 1);
    let expected = lance_williams(&x, WARD, nearest_pair);
    compare(&merges_of(&ward(&x, 2)), &expected, "600 points");
}

#[test]
fn values_that_overflow_are_refused() {
    let x = observations(vec![0.0, 1e200], 2, 1);
    let refused = geometric::ward(&x, &Cpu::new(1).unwrap(), &Monitor::default());
    assert!(matches!(refused, Err(Error::Input(message)) if message.contains("1e200")));
}

#[test]
fn a_stopped_tree_says_so() {
    let x = draw(&mut Random::of(1), Data::Plain, 100, 3);
    let monitor = Monitor::default();
    monitor.stop();
    let points = Points::new(Metric::Euclidean, &x);
    let stopped = spanning::tree(&points, &Cpu::new(1).unwrap(), &monitor);
    assert_eq!(stopped, Err(Error::Interrupt));
    let stopped = geometric::ward(&x, &Cpu::new(1).unwrap(), &monitor);
    assert_eq!(stopped, Err(Error::Interrupt));
    let points = Points::new(Metric::Cosine { absolute: false }, &x);
    let stopped = geometric::average(points, &Cpu::new(1).unwrap(), &monitor);
    assert_eq!(stopped, Err(Error::Interrupt));
}
