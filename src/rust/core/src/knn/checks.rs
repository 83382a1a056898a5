//! Checks of devices that search for neighbours.

use std::ops::Range;

use super::{nearest, Block, Graph, RadiusNeighbours, RangeSearch, UpdateProgress};
use crate::cpu::Cpu;
use crate::matrix::RowSlices;
use crate::metric::{Metric, Points};
use crate::monitor::Monitor;
use crate::neighbours::{NeighbourDevice, Space};
use crate::observations::Observations;
use crate::testing::rows::Rows;
use crate::testing::{array, cloud, correlations, dist_metrics, Random};

/// The graph by brute force: all distances, sorted.
fn exhaustive(points: &Points, references: usize, k: usize) -> Graph {
    let among_themselves = references == points.rows();
    let first = if among_themselves { 0 } else { references };
    let mut graph = Graph {
        k,
        index: Vec::new(),
        distance: Vec::new(),
    };
    for query in first..points.rows() {
        let mut all: Vec<(f64, u32)> = (0..references)
            .filter(|&reference| reference != query)
            .map(|reference| (points.distance(query, reference), reference as u32))
            .collect();
        all.sort_by(|a, b| a.partial_cmp(b).expect("distances are numbers"));
        graph.index.extend(all[..k].iter().map(|&(_, index)| index));
        graph
            .distance
            .extend(all[..k].iter().map(|&(distance, _)| distance));
    }
    graph
}

/// Checks that a device gives the graph of a brute-force search.
pub fn check(
    points: &Points,
    references: usize,
    k: usize,
    device: &(impl NeighbourDevice + ?Sized),
    case: &str,
) {
    let found = nearest(points, references, k, device, &Monitor::default());
    assert_eq!(found, Ok(exhaustive(points, references, k)), "{case}");
}

/// A search for the `k` nearest references of each query.
#[derive(Debug, Clone)]
pub struct SearchCase {
    pub metric: Metric,
    /// Number of neighbours, at most the number of possible neighbours.
    pub k: usize,
    /// References have the label 0, queries 1; without queries, references are queries.
    pub rows: Rows,
}

impl SearchCase {
    /// A random search; `round` is the number of cases drawn before.
    pub fn draw(random: &mut Random, round: usize) -> Self {
        let metrics = [dist_metrics(), correlations()].concat();
        let n = 2 + random.below(if round % 10 == 0 { 400 } else { 90 });
        let p = match round % 4 {
            0 => 1 + random.below(70),
            _ => 1 + random.below(8),
        };
        let rows = Rows::of(&cloud(random, n, p));
        let references = match random.below(3) {
            0 if n > 2 => 1 + random.below(n - 1),
            _ => n,
        };
        let most = references - usize::from(references == n);
        let k = match random.below(4) {
            0 => 1,
            1 => most,
            _ => 1 + random.below(most),
        };
        Self {
            metric: metrics[round % metrics.len()],
            k,
            rows: rows.label(references..n, 1),
        }
    }

    /// The number of references, and the number of neighbours; `None` if no query can have
    /// neighbours.
    fn size(&self) -> Option<(usize, usize)> {
        let references = self.rows.labelled(0).count();
        let own = references == self.rows.count();
        let most = references.saturating_sub(usize::from(own));
        (most > 0).then(|| (references, self.k.min(most)))
    }

    /// The references, then the queries.
    fn observations(&self) -> Observations {
        self.rows.clone().sorted().observations()
    }

    /// Checks that a device gives the graph of a brute-force search.
    pub fn check(&self, device: &(impl NeighbourDevice + ?Sized)) {
        let Some((references, k)) = self.size() else {
            return;
        };
        let points = Points::new(self.metric, &self.observations());
        let space = Space::Points {
            points: &points,
            references,
        };
        if space.check().is_ok() {
            let n = self.rows.count();
            let case = format!("{:?}, {n} rows, {references}, k = {k}", self.metric);
            check(&points, references, k, device, &case);
        }
    }
}

/// Checks that a device gives the graphs of a brute-force search, for every metric and many kinds
/// of points.
pub fn compare_with_all_distances(device: &(impl NeighbourDevice + ?Sized), rounds: usize) {
    let mut random = Random::of(5);
    (0..rounds).for_each(|round| SearchCase::draw(&mut random, round).check(device));
}

/// The neighbours of some rows of a matrix among all of its first `references`, in blocks of random
/// sizes. `own` says that these rows are references.
fn in_blocks(
    x: &Observations,
    references: usize,
    own: bool,
    k: usize,
    metric: Metric,
    device: &(impl NeighbourDevice + ?Sized),
    random: &mut Random,
) -> Graph {
    let p = x.ncols();
    let rows = |range: Range<usize>| &x.values()[range.start * p..range.end * p];
    let mut cut = |all: Range<usize>| {
        let mut cuts = vec![all.start];
        while cuts[cuts.len() - 1] < all.end {
            let last = cuts[cuts.len() - 1];
            cuts.push(last + 1 + random.below(all.end - last));
        }
        cuts
    };
    let all_queries = if own {
        0..references
    } else {
        references..x.nrows()
    };
    let mut graph = Graph::unknown(0, k).unwrap();
    for queries in cut(all_queries).windows(2) {
        let queries = queries[0]..queries[1];
        let mut part = Graph::unknown(queries.len(), k).unwrap();
        for block in cut(0..references).windows(2) {
            let block = block[0]..block[1];
            let inside = own && block.start <= queries.start && queries.end <= block.end;
            let mut values = rows(block.clone()).to_vec();
            if !inside {
                values.extend(rows(queries.clone()));
            }
            let points = Points::prepare(
                metric,
                array(values.clone(), values.len() / p, p),
                &Monitor::default(),
            );
            let start = if inside {
                queries.start - block.start
            } else {
                block.len()
            };
            let block = Block {
                points: &points.unwrap(),
                references: block.len(),
                first: block.start as u32,
                queries: start..start + queries.len(),
                own: own.then(|| queries.clone().map(|row| row as u32).collect()),
            };
            part.update(
                &block,
                &mut UpdateProgress::default(),
                device,
                &Monitor::default(),
            )
            .unwrap();
        }
        graph.index.extend(part.index);
        graph.distance.extend(part.distance);
    }
    graph
}

/// A search in blocks.
#[derive(Debug, Clone)]
pub struct BlocksCase {
    pub search: SearchCase,
    /// The seed of the random sizes of blocks.
    pub seed: u64,
}

impl BlocksCase {
    /// A random search in blocks; `round` is the number of cases drawn before.
    pub fn draw(random: &mut Random, round: usize) -> Self {
        let metrics = [dist_metrics(), correlations()].concat();
        let n = 3 + random.below(60);
        let p = 1 + random.below(40);
        let rows = Rows::of(&cloud(random, n, p));
        let own = random.below(2) == 0;
        let references = if own { n } else { 1 + random.below(n - 1) };
        let search = SearchCase {
            metric: metrics[round % metrics.len()],
            k: 1 + random.below(references - usize::from(own)),
            rows: rows.label(references..n, 1),
        };
        let seed = 1 + random.below(1 << 30) as u64;
        Self { search, seed }
    }

    /// Checks that a device gives, in blocks, the graph that the CPU gives for the whole. Returns
    /// whether the CPU gives a graph.
    pub fn check(&self, device: &(impl NeighbourDevice + ?Sized), cpu: &Cpu) -> bool {
        let Some((references, k)) = self.search.size() else {
            return false;
        };
        let (x, metric) = (self.search.observations(), self.search.metric);
        let points = Points::new(metric, &x);
        let Ok(whole) = nearest(&points, references, k, cpu, &Monitor::default()) else {
            return false;
        };
        let own = references == x.nrows();
        let mut random = Random(self.seed);
        let parts = in_blocks(&x, references, own, k, metric, device, &mut random);
        let size = format!("{} rows, {references}, k = {k}", x.nrows());
        assert_eq!(parts, whole, "{metric:?}, {size}");
        true
    }
}

/// Checks that a device gives, in blocks, the CPU's graphs of the whole.
pub fn compare_blocks_with_the_whole(device: &(impl NeighbourDevice + ?Sized), rounds: usize) {
    let cpu = Cpu::new(2).unwrap();
    let mut random = Random::of(8);
    let mut check = |round: &usize| BlocksCase::draw(&mut random, *round).check(device, &cpu);
    let compared = (0..rounds).filter(|round| check(round)).count();
    assert!(2 * compared > rounds, "{compared}");
}

/// All references within the radius of each query, by brute force.
fn exhaustive_within(
    points: &Points,
    references: usize,
    queries: &[u32],
    radii: &[f64],
) -> RadiusNeighbours {
    let mut within = RadiusNeighbours::default();
    for (i, &query) in queries.iter().enumerate() {
        let radius = radii[if radii.len() == 1 { 0 } else { i }];
        let mut near: Vec<(f64, u32)> = (0..references as u32)
            .filter(|&reference| reference != query)
            .map(|reference| {
                (
                    points.distance(query as usize, reference as usize),
                    reference,
                )
            })
            .filter(|&(distance, _)| distance <= radius)
            .collect();
        near.sort_by(|a, b| a.partial_cmp(b).expect("distances are numbers"));
        within.index.extend(near.iter().map(|&(_, index)| index));
        within
            .distance
            .extend(near.iter().map(|&(distance, _)| distance));
        within.ends.push(within.index.len());
    }
    within
}

/// Compares the range searches of a device with brute force. Radii are distances of pairs, so that
/// some references are exactly at the radius.
pub fn compare_within_with_all_distances(device: &(impl NeighbourDevice + ?Sized), rounds: usize) {
    let mut random = Random::of(14);
    let metrics = [dist_metrics(), correlations()].concat();
    let mut found = 0;
    for round in 0..rounds {
        let metric = metrics[round % metrics.len()];
        let n = 2 + random.below(if round % 10 == 0 { 700 } else { 120 });
        let p = match round % 4 {
            0 => 1 + random.below(70),
            _ => 1 + random.below(8),
        };
        let points = Points::new(metric, &cloud(&mut random, n, p));
        let references = match random.below(3) {
            0 if n > 2 => 1 + random.below(n - 1),
            _ => n,
        };
        let space = Space::Points {
            points: &points,
            references,
        };
        if space.check().is_err() {
            continue;
        }
        let queries: Vec<u32> = match random.below(3) {
            0 => (0..random.below(9))
                .map(|_| random.below(n) as u32)
                .collect(),
            _ => (0..n as u32).collect(),
        };
        let count = if random.below(2) == 0 {
            1
        } else {
            queries.len()
        };
        let radii: Vec<f64> = (0..count)
            .map(|_| match random.below(8) {
                0 => 0.0,
                1 => f64::INFINITY,
                _ => {
                    let radius = points.distance(random.below(n), random.below(n));
                    if radius.is_nan() {
                        1.0
                    } else {
                        radius
                    }
                }
            })
            .collect();
        let case = format!("{round}: {metric:?}, {n} × {p}, {references}, {radii:?}");
        let mut search = RangeSearch::new(&points, references, queries.clone(), &radii).unwrap();
        search.run(device, &Monitor::default()).unwrap();
        let within = search.into_neighbours();
        found += within.index.len();
        let expected = exhaustive_within(&points, references, &queries, &radii);
        assert_eq!(within, expected, "{case}");
    }
    assert!(found > 100 * rounds, "{found}");
}
