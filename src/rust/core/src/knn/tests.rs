//! The engine against the obvious way.

use super::*;
use crate::backend::cuda::Cuda;
use crate::cpu::Cpu;
use crate::metric::{Metric, ZeroOverZero};
use crate::testing::{cloud, correlations, dist_metrics, draw, Data, Random};
use crate::Matrix;

/// All distances, sorted.
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

fn check(points: &Points, references: usize, k: usize, backend: &dyn Backend, case: &str) {
    let found = nearest(points, references, k, backend, &Monitor::default());
    assert_eq!(found, Ok(exhaustive(points, references, k)), "{case}");
}

#[test]
fn the_nearest_are_those_of_all_distances_sorted() {
    compare_with_all_distances(&Cpu::new(2).unwrap(), 300);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_has_the_bits_of_the_cpu() {
    let cuda = Cuda::new(None, 2).unwrap().without_crossover(false);
    compare_with_all_distances(&cuda, 300);
    let mut random = Random(7);
    for metric in [dist_metrics(), correlations()].concat() {
        let points = Points::new(metric, &draw(&mut random, Data::Mixture, 3000, 20));
        let on = |backend: &dyn Backend, k: usize| {
            nearest(&points, 3000, k, backend, &Monitor::default()).unwrap()
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
    let cuda = Cuda::new(None, 2).unwrap().without_crossover(false);
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
            // Islands of near neighbours far apart, too.
            let mut values = draw(&mut random, data, 2500, 100).values().to_vec();
            for row in values.chunks_mut(100).step_by(2) {
                row.iter_mut()
                    .enumerate()
                    .for_each(|(k, v)| *v += 1e3 * (k % 2) as f64);
            }
            let x = Matrix::from_row_major(values, 2500, 100).unwrap();
            let points = Points::new(metric, &x);
            let on = |backend: &dyn Backend| {
                nearest(&points, 2500, 7, backend, &Monitor::default()).unwrap()
            };
            assert!(on(&cuda) == on(&cpu), "{data:?}, {metric:?}");
        }
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU; small, for compute-sanitizer"]
fn the_gpu_has_the_bits_of_the_cpu_on_small_data() {
    compare_with_all_distances(&Cuda::new(None, 2).unwrap().without_crossover(false), 22);
}

/// Cuda with all devices, or, saying so, none where there are fewer than two.
fn several_gpus() -> Option<Cuda> {
    let cuda = Cuda::new(None, 4).unwrap().without_crossover(false);
    if cuda.devices() < 2 {
        eprintln!("skipped: there is one GPU, and this needs two");
        return None;
    }
    Some(cuda)
}

#[test]
#[ignore = "needs two NVIDIA GPUs"]
fn the_gpus_have_the_bits_of_the_cpu_and_of_one() {
    let Some(all) = several_gpus() else {
        return;
    };
    let one = |device: usize| {
        let cuda = Cuda::new(Some(&[device]), 4).unwrap();
        cuda.without_crossover(false)
    };
    compare_with_all_distances(&all, 100);
    let mut random = Random(8);
    let x = draw(&mut random, Data::Mixture, 20_000, 30);
    for metric in [Metric::Euclidean, Metric::Pearson { absolute: false }] {
        let points = Points::new(metric, &x);
        let on = |backend: &dyn Backend, references: usize| {
            nearest(&points, references, 20, backend, &Monitor::default()).unwrap()
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
    let cuda = |memory| {
        let cuda = Cuda::new(None, 4).unwrap().without_crossover(false);
        cuda.with_memory(memory)
    };
    let cpu = Cpu::new(4).unwrap();
    let mut random = Random(9);
    for metric in [dist_metrics(), correlations()].concat() {
        let points = Points::new(metric, &draw(&mut random, Data::Mixture, 3000, 20));
        let on = |backend: &dyn Backend, references: usize, k: usize| {
            nearest(&points, references, k, backend, &Monitor::default()).unwrap()
        };
        for (references, k) in [(3000, 1), (3000, 20), (2900, 200)] {
            let expected = on(&cpu, references, k);
            // All of it takes 288,000 bytes, or 240,000 in half precision.
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
    let cuda = Cuda::new(None, 2).unwrap().without_crossover(false);
    let cuda = cuda.with_memory(32 << 10);
    let points = Points::new(
        Metric::Euclidean,
        &draw(&mut Random(4), Data::Mixture, 1540, 3),
    );
    check(&points, 1500, 5, &cuda, "in chunks");
}

fn compare_with_all_distances(backend: &dyn Backend, rounds: usize) {
    let mut random = Random(5);
    let metrics = [dist_metrics(), correlations()].concat();
    for round in 0..rounds {
        let metric = metrics[round % metrics.len()];
        let n = 2 + random.below(if round % 10 == 0 { 400 } else { 90 });
        let p = match round % 4 {
            0 => 1 + random.below(70),
            _ => 1 + random.below(8),
        };
        let x = cloud(&mut random, n, p);
        let points = Points::new(metric, &x);
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
        let space = Space::Points {
            points: &points,
            references,
        };
        if space.check().is_ok() {
            let case = format!("{round}: {metric:?}, {n} × {p}, {references}, k = {k}");
            check(&points, references, k, backend, &case);
        }
    }
}

#[test]
fn many_columns_and_many_queries() {
    let mut random = Random(6);
    for (metric, n, p) in [
        (Metric::Euclidean, 1500, 40),
        (Metric::Euclidean, 1200, 3),
        (Metric::Pearson { absolute: false }, 700, 300),
        (Metric::Manhattan, 1200, 14),
    ] {
        let x = draw(&mut random, Data::Mixture, n, p);
        let points = Points::new(metric, &x);
        for threads in [1, 2] {
            let cpu = Cpu::new(threads).unwrap();
            check(
                &points,
                n,
                20,
                &cpu,
                &format!("{metric:?}, {threads} threads"),
            );
        }
    }
}

#[test]
fn tight_groups_far_apart_are_settled_in_double_precision() {
    let mut random = Random(10);
    for (n, p) in [(700, 3), (500, 30)] {
        let mut values = draw(&mut random, Data::Plain, n, p).values().to_vec();
        for row in values.chunks_mut(p).step_by(2) {
            row.iter_mut().for_each(|v| *v += 1e9);
        }
        // Among them equal ones, and queries that are no references.
        values.copy_within(0..20 * p, 40 * p);
        let x = Matrix::from_row_major(values, n, p).unwrap();
        for metric in [Metric::Euclidean, Metric::Manhattan, Metric::Maximum] {
            let points = Points::new(metric, &x);
            for (references, k) in [(n, 1), (n, 10), (n - 70, 60)] {
                let case = format!("{metric:?}, {n} × {p}, {references}, k = {k}");
                check(&points, references, k, &Cpu::new(2).unwrap(), &case);
            }
        }
        // Nearly the same direction.
        let mut values = draw(&mut random, Data::Plain, n, p).values().to_vec();
        values.iter_mut().step_by(p).for_each(|v| *v += 1e7);
        let x = Matrix::from_row_major(values, n, p).unwrap();
        for metric in correlations() {
            let points = Points::new(metric, &x);
            check(
                &points,
                n,
                10,
                &Cpu::new(2).unwrap(),
                &format!("{metric:?}"),
            );
        }
    }
}

#[test]
fn equal_rows_are_neighbours_in_the_order_of_their_numbers() {
    let mut random = Random(11);
    for (round, metric) in [dist_metrics(), correlations()]
        .concat()
        .into_iter()
        .enumerate()
    {
        let (n, p) = (200, 4);
        let rows: Vec<f64> = (0..7 * p).map(|_| random.normal().round() + 0.5).collect();
        let mut values: Vec<f64> = (0..n)
            .flat_map(|_| {
                let row = random.below(7);
                rows[row * p..][..p].to_vec()
            })
            .collect();
        // Zeros of either sign are equal.
        for row in values.chunks_mut(p) {
            row[0] = if random.below(2) == 0 { 0.0 } else { -0.0 };
        }
        let points = Points::new(metric, &Matrix::from_row_major(values, n, p).unwrap());
        for (references, k) in [(n, 1), (n, n - 1), (n / 2, 30)] {
            let space = Space::Points {
                points: &points,
                references,
            };
            if space.check().is_ok() {
                let case = format!("{round}: {metric:?}, {references}, k = {k}");
                check(&points, references, k, &Cpu::new(2).unwrap(), &case);
            }
        }
    }
}

/// The neighbours of some rows of a matrix among all of its first `references`, in blocks of random
/// sizes. `own`: whether these rows are references.
fn in_blocks(
    x: &Matrix,
    references: usize,
    own: bool,
    k: usize,
    metric: Metric,
    backend: &dyn Backend,
    random: &mut Random,
) -> Graph {
    let p = x.columns();
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
        references..x.rows()
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
            let points = Points::from_row_major(
                metric,
                values.clone(),
                values.len() / p,
                p,
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
                own: own.then_some(queries.start as u32),
            };
            part.update(&block, backend, &Monitor::default()).unwrap();
        }
        graph.index.extend(part.index);
        graph.distance.extend(part.distance);
    }
    graph
}

#[test]
fn blocks_change_nothing() {
    compare_blocks_with_the_whole(&Cpu::new(2).unwrap(), 300);
}

#[test]
#[ignore = "needs an NVIDIA GPU; small, for compute-sanitizer"]
fn the_gpu_has_the_bits_of_the_cpu_in_blocks_on_small_data() {
    compare_blocks_with_the_whole(&Cuda::new(None, 2).unwrap().without_crossover(false), 32);
}

fn compare_blocks_with_the_whole(backend: &dyn Backend, rounds: usize) {
    let cpu = Cpu::new(2).unwrap();
    let mut random = Random(8);
    let metrics = [dist_metrics(), correlations()].concat();
    let mut compared = 0;
    for round in 0..rounds {
        let metric = metrics[round % metrics.len()];
        let n = 3 + random.below(60);
        let p = 1 + random.below(40);
        let x = cloud(&mut random, n, p);
        let own = random.below(2) == 0;
        let references = if own { n } else { 1 + random.below(n - 1) };
        let k = 1 + random.below(references - usize::from(own));
        let points = Points::new(metric, &x);
        if let Ok(whole) = nearest(&points, references, k, &cpu, &Monitor::default()) {
            let parts = in_blocks(&x, references, own, k, metric, backend, &mut random);
            let case = format!("{round}: {metric:?}, {n} × {p}, {references}, k = {k}");
            assert_eq!(parts, whole, "{case}");
            compared += 1;
        }
    }
    assert!(2 * compared > rounds, "{compared}");
}

#[test]
fn a_zero_may_be_a_query_and_a_reference() {
    // Its distance from itself is not a number, which is nothing to anybody.
    let values = vec![1.0, 2.0, 0.0, 0.0, 3.0, 1.0, 5.0, 5.0, 0.0, 0.0];
    let metric = Metric::Canberra(ZeroOverZero::Omitted);
    let points = Points::from_row_major(metric, values, 5, 2, &Monitor::default()).unwrap();
    let block = Block {
        points: &points,
        references: 4,
        first: 0,
        queries: 4..5,
        own: Some(1),
    };
    let mut graph = Graph::unknown(1, 3).unwrap();
    graph
        .update(&block, &Cpu::new(1).unwrap(), &Monitor::default())
        .unwrap();
    assert_eq!(graph.index, [0, 2, 3]);
    assert_eq!(graph.distance, [2.0; 3]);
}

#[test]
fn wrong_input_is_refused() {
    let cpu = Cpu::new(1).unwrap();
    let x = draw(&mut Random(1), Data::Plain, 5, 3);
    let message = |metric, x: &Matrix, k| {
        let points = Points::new(metric, x);
        nearest(&points, x.rows(), k, &cpu, &Monitor::default()).unwrap_err()
    };
    for k in [0, 5] {
        let error = message(Metric::Euclidean, &x, k).to_string();
        assert!(error.contains(&format!("`k` is {k}; it must be at least 1 and at most 4")));
    }
    let mut values = x.values().to_vec();
    values[3..6].fill(7.0);
    values[12..].fill(-1.0);
    let x = Matrix::from_row_major(values, 5, 3).unwrap();
    let pearson = Metric::Pearson { absolute: false };
    let error = message(pearson, &x, 1).to_string();
    assert!(error.contains("rows 2 and 5"), "{error}");
    let zeros = Matrix::from_row_major(vec![0.0; 6], 3, 2).unwrap();
    let canberra = Metric::Canberra(ZeroOverZero::Omitted);
    let error = message(canberra, &zeros, 1).to_string();
    assert!(error.contains("rows 1, 2 and 3"), "{error}");
    let points = Points::new(canberra, &zeros);
    let refused = nearest(&points, 1, 1, &cpu, &Monitor::default()).unwrap_err();
    assert!(refused
        .to_string()
        .contains("`X` is zero in row 1 and `query` in rows 1 and 2"));
    assert!(nearest(
        &Points::new(Metric::Canberra(ZeroOverZero::Zero), &zeros),
        3,
        2,
        &cpu,
        &Monitor::default()
    )
    .is_ok());
}

#[test]
fn a_stopped_search_says_so() {
    let x = draw(&mut Random(1), Data::Plain, 500, 3);
    let monitor = Monitor::default();
    monitor.stop();
    let cpu = Cpu::new(1).unwrap();
    for metric in [Metric::Euclidean, Metric::Binary] {
        let stopped = nearest(&Points::new(metric, &x), 500, 3, &cpu, &monitor);
        assert_eq!(stopped, Err(Error::Interrupt));
    }
}
