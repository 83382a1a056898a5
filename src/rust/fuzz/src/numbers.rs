//! Fuzzes all algorithms, with small data of arbitrary values.

use std::sync::OnceLock;

use gmhclust_core::cut::cut;
use gmhclust_core::dendrogram::{crossings, Dendrogram};
use gmhclust_core::distances::{DistanceDevice, Pairs};
use gmhclust_core::kmeans::{self, Start};
use gmhclust_core::knn::{RangeSearch, Search};
use gmhclust_core::linkage::{
    matrix, points, spanning, DissimilaritySource, Linkage, Recurrence, StoredPrecision,
};
use gmhclust_core::mahalanobis::{self, Distance, Options, Subthreshold};
use gmhclust_core::metric::catalogue::NAMES;
use gmhclust_core::metric::{Metric, Points, ZeroOverZero};
use gmhclust_core::{Cpu, Error, Monitor, Observations, Result};
use ndarray::Array2;

use crate::bytes::Bytes;

/// Values at which arithmetic changes: limits, and numbers whose squares, cubes or fourth powers
/// are limits.
const VALUES: [f64; 24] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    0.5,
    3.0,
    1.0 + f64::EPSILON,
    1e-8,
    1e8,
    1e16,
    -1e16,
    1e38,
    1e-38,
    1e77,
    -1e77,
    1e154,
    1e-154,
    1e155,
    1e-162,
    f64::MAX,
    f64::MIN,
    f64::MIN_POSITIVE,
    5e-324,
];

/// Runs an algorithm and checks the properties of every result.
pub fn check(input: &[u8]) {
    let mut input = Bytes(input);
    let outcome = match input.number(0, 7) {
        0 => distances(&mut input),
        1 => nearest(&mut input),
        2 => within(&mut input),
        3 => spanning_tree(&mut input),
        4 => linkage_of_points(&mut input),
        5 => linkage_of_distances(&mut input),
        6 => centers(&mut input),
        _ => clusters(&mut input),
    };
    match outcome {
        Ok(()) | Err(Error::Input(_)) => (),
        Err(error) => panic!("{error}"),
    }
}

fn cpu() -> &'static Cpu {
    static CPU: OnceLock<Cpu> = OnceLock::new();
    CPU.get_or_init(|| Cpu::new(1).expect("one thread"))
}

fn value(input: &mut Bytes) -> f64 {
    match input.byte() {
        255 => f64::from_bits(input.bits()),
        254 => f64::from(input.byte()) - 128.0,
        choice => VALUES[usize::from(choice) % VALUES.len()],
    }
}

/// Data of 1 to 20 rows and 1 to 5 columns. Rows may repeat.
fn data(input: &mut Bytes) -> Array2<f64> {
    let (n, p) = (input.number(1, 20), input.number(1, 5));
    let distinct = input.number(1, n);
    let x: Vec<f64> = (0..distinct * p).map(|_| value(input)).collect();
    Array2::from_shape_fn((n, p), |(i, j)| x[i % distinct * p + j])
}

fn metric(input: &mut Bytes) -> Result<Metric> {
    let name = input.one_of(&NAMES);
    let p = value(input);
    let zero_over_zero = ZeroOverZero::new("zero_over_zero", input.one_of(&["omit", "0", "1"]))?;
    Metric::new("metric", name, p, input.flag(), zero_over_zero)
}

/// Prepared points of finite values.
fn prepared(input: &mut Bytes) -> Result<Points> {
    let metric = metric(input)?;
    let x = Observations::new(data(input))?;
    Points::prepare(metric, x.view().to_owned(), &Monitor::default())
}

fn distances(input: &mut Bytes) -> Result<()> {
    let metric = metric(input)?;
    let x = data(input);
    let n = x.nrows();
    let first = input.number(1, n);
    let pairs = if first < n {
        Pairs::across(first, n - first)
    } else {
        Pairs::within(n)
    };
    // Missing and infinite values are allowed here.
    let points = Points::prepare(metric, x, &Monitor::default())?;
    let mut out = vec![0.0; pairs.count()];
    cpu().distances(&points, &pairs, &mut out, &Monitor::default())?;
    assert!(out.iter().all(|d| d.is_nan() || *d >= 0.0), "{out:?}");
    Ok(())
}

fn assert_among(index: &[u32], references: usize) {
    assert!(index.iter().all(|&index| (index as usize) < references));
}

fn nearest(input: &mut Bytes) -> Result<()> {
    let points = prepared(input)?;
    let references = input.number(1, points.rows());
    let k = input.number(1, 20);
    let mut search = Search::new(&points, references, k, cpu())?;
    search.run(cpu(), &Monitor::default())?;
    let graph = search.into_graph();
    assert_among(&graph.index, references);
    assert!(graph
        .distance
        .chunks(k)
        .all(|row| row.windows(2).all(|pair| pair[0] <= pair[1])));
    Ok(())
}

fn within(input: &mut Bytes) -> Result<()> {
    let points = prepared(input)?;
    let n = points.rows();
    let references = input.number(1, n);
    let queries: Vec<u32> = if references < n {
        (references as u32..n as u32).collect()
    } else {
        (0..n as u32).collect()
    };
    let radius = value(input);
    let mut search = RangeSearch::new(&points, references, queries, &[radius])?;
    search.run(cpu(), &Monitor::default())?;
    let found = search.into_neighbours();
    assert_among(&found.index, references);
    assert!(found.distance.iter().all(|&distance| distance <= radius));
    Ok(())
}

fn spanning_tree(input: &mut Bytes) -> Result<()> {
    let points = prepared(input)?;
    let min_points = input.number(1, points.rows() + 1);
    let monitor = Monitor::default();
    let edges = if min_points == 1 {
        spanning::tree(&points, cpu(), &monitor)?
    } else {
        let (edges, cores) = spanning::reachability_tree(&points, min_points, cpu(), &monitor)?;
        let at_least = |edge: &spanning::Edge, end: u32| edge.weight >= cores[end as usize];
        assert!(edges
            .iter()
            .all(|edge| at_least(edge, edge.lower) && at_least(edge, edge.higher)));
        edges
    };
    assert_eq!(edges.len(), points.rows() - 1);
    assert!(edges
        .windows(2)
        .all(|pair| pair[0].weight <= pair[1].weight));
    Ok(())
}

fn recurrence(input: &mut Bytes) -> Recurrence {
    Recurrence {
        linkage: input.one_of(&Linkage::ALL),
        precision: if input.flag() {
            StoredPrecision::Single
        } else {
            StoredPrecision::Double
        },
    }
}

fn members(input: &mut Bytes, n: usize) -> Option<Vec<f64>> {
    // The function requires positive finite numbers.
    let positive = |value: f64| {
        if value.is_finite() && value != 0.0 {
            value.abs()
        } else {
            1.0
        }
    };
    input
        .flag()
        .then(|| (0..n).map(|_| positive(value(input))).collect())
}

fn linkage_of_points(input: &mut Bytes) -> Result<()> {
    let (recurrence, metric) = (recurrence(input), metric(input)?);
    let x = Observations::new(data(input))?;
    let members = members(input, x.nrows());
    let tree = points::linkage(&x, metric, recurrence, members, cpu(), &Monitor::default())?;
    check_tree(&tree, x.nrows());
    Ok(())
}

fn linkage_of_distances(input: &mut Bytes) -> Result<()> {
    let recurrence = recurrence(input);
    let n = input.number(2, 12);
    let values: Vec<f64> = (0..n * (n - 1) / 2).map(|_| value(input)).collect();
    let members = members(input, n);
    let source = DissimilaritySource::Given(&values);
    let tree = matrix::linkage(source, n, recurrence, members, cpu(), &Monitor::default())?;
    check_tree(&tree, n);
    Ok(())
}

fn centers(input: &mut Bytes) -> Result<()> {
    let x = Observations::new(data(input))?;
    let k = input.number(1, x.nrows());
    let draws: Vec<f64> = (0..k).map(|_| f64::from(input.byte()) / 256.0).collect();
    let found = kmeans::cluster(
        &(&x).into(),
        Start::Draws(&draws),
        10,
        cpu(),
        &Monitor::default(),
    )?;
    assert!(found.cluster.iter().all(|&cluster| (cluster as usize) < k));
    assert_eq!(found.sizes.iter().sum::<usize>(), x.nrows());
    Ok(())
}

fn clusters(input: &mut Bytes) -> Result<()> {
    let options = Options {
        threshold: value(input),
        subthreshold: input.one_of(&Subthreshold::ALL),
        distance: Distance::ALL[usize::from(input.flag())],
        normalize: input.flag(),
        apriori_intra: input.flag(),
    };
    let x = Observations::new(data(input))?;
    let with_labels = input.flag();
    let labels: Vec<u32> = (0..x.nrows())
        .map(|_| u32::from(input.byte() % 4))
        .collect();
    let labels = with_labels.then_some(&labels[..]);
    let found = mahalanobis::cluster(&x, labels, &options, cpu(), &Monitor::default())?;
    check_tree(&found.dendrogram, x.nrows());
    Ok(())
}

/// Checks that every cluster except the last is merged once, that heights are finite, and no
/// branches cross.
fn check_tree(tree: &Dendrogram, n: usize) {
    assert_eq!(
        (tree.merge.len(), tree.height.len(), tree.order.len()),
        (n - 1, n - 1, n)
    );
    let mut merged: Vec<i32> = tree.merge.concat();
    merged.sort_unstable();
    let expected: Vec<i32> = (-(n as i32)..0).chain(1..n as i32 - 1).collect();
    assert_eq!(merged, expected);
    for (row, pair) in (1..).zip(&tree.merge) {
        assert!(pair[0] < row && pair[1] < row);
    }
    assert!(
        tree.height.iter().all(|height| height.is_finite()),
        "{:?}",
        tree.height
    );
    assert_eq!(crossings(&tree.merge, &tree.order), Ok(Vec::new()));
    for clusters in 1..=n {
        let cut = cut(&tree.merge, clusters).expect("there are as many");
        assert_eq!(cut.into_iter().max(), Some(clusters as i32));
    }
}
