//! Compares searches with brute force.

use std::cell::Cell;

use super::checks::{check, compare_within_with_all_distances, BlocksCase, SearchCase};
use super::*;
use crate::cpu::Cpu;
use crate::error::Error;
use crate::matrix::RowSlices;
use crate::metric::{Metric, Points, ZeroOverZero};
use crate::monitor::Monitor;
use crate::neighbours::Space;
use crate::testing::shrink::{cases, for_all, smaller, with_each, Shrink, Simpler};
use crate::testing::{
    array, correlations, dist_metrics, draw, observations, Data, FailingDevice, Random,
};
use crate::Observations;

impl Shrink for SearchCase {
    fn simpler(&self) -> Simpler<Self> {
        let rows = with_each(self, self.rows.simpler(), |case, rows| case.rows = rows);
        let k = with_each(self, smaller(self.k, 1), |case, k| case.k = k);
        let euclidean = (self.metric != Metric::Euclidean).then_some(Metric::Euclidean);
        let metric = with_each(self, euclidean.into_iter(), |case, one| case.metric = one);
        Box::new(metric.chain(rows).chain(k))
    }
}

impl Shrink for BlocksCase {
    fn simpler(&self) -> Simpler<Self> {
        with_each(self, self.search.simpler(), |case, one| case.search = one)
    }
}

#[test]
fn the_nearest_are_those_of_all_distances_sorted() {
    let cpu = Cpu::new(2).unwrap();
    for_all(300, cases(SearchCase::draw), |case| case.check(&cpu));
}

#[test]
fn many_columns_and_many_queries() {
    let mut random = Random::of(6);
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
    let mut random = Random::of(10);
    for (n, p) in [(700, 3), (500, 30)] {
        let mut values = draw(&mut random, Data::Plain, n, p).values().to_vec();
        for row in values.chunks_mut(p).step_by(2) {
            row.iter_mut().for_each(|v| *v += 1e9);
        }
        // Includes equal points, and queries that are not references.
        values.copy_within(0..20 * p, 40 * p);
        let x = observations(values, n, p);
        for metric in [Metric::Euclidean, Metric::Manhattan, Metric::Maximum] {
            let points = Points::new(metric, &x);
            for (references, k) in [(n, 1), (n, 10), (n - 70, 60)] {
                let case = format!("{metric:?}, {n} × {p}, {references}, k = {k}");
                check(&points, references, k, &Cpu::new(2).unwrap(), &case);
            }
        }
        // All points have nearly the same direction.
        let mut values = draw(&mut random, Data::Plain, n, p).values().to_vec();
        values.iter_mut().step_by(p).for_each(|v| *v += 1e7);
        let x = observations(values, n, p);
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
    let mut random = Random::of(11);
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
        let points = Points::new(metric, &observations(values, n, p));
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

#[test]
fn blocks_change_nothing() {
    let cpu = Cpu::new(2).unwrap();
    let compared = Cell::new(0);
    for_all(300, cases(BlocksCase::draw), |case| {
        let is_compared = case.check(&cpu, &cpu);
        compared.set(compared.get() + usize::from(is_compared));
    });
    assert!(compared.get() > 150, "{}", compared.get());
}

#[test]
fn queries_may_be_any_references_in_any_order() {
    let mut random = Random::of(13);
    let (n, p, k) = (90, 3, 5);
    let cpu = Cpu::new(2).unwrap();
    for data in [Data::Plain, Data::Duplicates] {
        let x = draw(&mut random, data, n, p);
        let points = Points::new(Metric::Euclidean, &x);
        let whole = nearest(&points, n, k, &cpu, &Monitor::default()).unwrap();
        let own: Vec<u32> = (0..40).map(|_| random.below(n) as u32).collect();
        let mut graph = Graph::unknown(own.len(), k).unwrap();
        for first in [0, 60] {
            let references = if first == 0 { 60 } else { n - 60 };
            let mut values = x.values()[first * p..(first + references) * p].to_vec();
            // A point that is neither a reference nor a query, then the queries.
            for &row in [&[7], &own[..]].concat().iter() {
                values.extend_from_slice(&x.values()[row as usize * p..][..p]);
            }
            let rows = references + 1 + own.len();
            let points = Points::new(Metric::Euclidean, &observations(values, rows, p));
            let block = Block {
                points: &points,
                references,
                first: first as u32,
                queries: references + 1..rows,
                own: Some(own.clone()),
            };
            graph
                .update(
                    &block,
                    &mut UpdateProgress::default(),
                    &cpu,
                    &Monitor::default(),
                )
                .unwrap();
        }
        for (i, &row) in own.iter().enumerate() {
            let of_row = row as usize * k..(row as usize + 1) * k;
            assert_eq!(graph.index[i * k..][..k], whole.index[of_row.clone()]);
            assert_eq!(graph.distance[i * k..][..k], whole.distance[of_row]);
        }
    }
}

#[test]
fn those_within_a_radius_are_those_of_all_distances() {
    compare_within_with_all_distances(&Cpu::new(2).unwrap(), 300);
}

#[test]
fn hundreds_of_neighbours_within_a_radius_are_all_found() {
    let mut random = Random::of(15);
    let n = 2000;
    let points = Points::new(Metric::Euclidean, &draw(&mut random, Data::Mixture, n, 4));
    let radius = [points.distance(0, 1).max(points.distance(2, 3))];
    let mut first = None;
    for threads in [1, 2] {
        let mut search = RangeSearch::new(&points, n, (0..n as u32).collect(), &radius).unwrap();
        search
            .run(&Cpu::new(threads).unwrap(), &Monitor::default())
            .unwrap();
        let within = search.into_neighbours();
        assert!(within.index.len() > 300 * n);
        for (query, of_query) in within.ends.iter().enumerate().step_by(77) {
            let start = if query == 0 {
                0
            } else {
                within.ends[query - 1]
            };
            let near =
                |&other: &usize| other != query && points.distance(query, other) <= radius[0];
            let mut found = within.index[start..*of_query].to_vec();
            found.sort_unstable();
            let expected: Vec<u32> = (0..n).filter(near).map(|other| other as u32).collect();
            assert_eq!(found, expected);
        }
        assert_eq!(*first.get_or_insert_with(|| within.clone()), within);
    }
}

#[test]
fn a_range_search_refuses_wrong_radii_and_can_be_stopped() {
    let points = Points::new(
        Metric::Euclidean,
        &draw(&mut Random::of(1), Data::Plain, 50, 3),
    );
    let search = |radii: &[f64]| RangeSearch::new(&points, 50, vec![0, 1, 2], radii);
    for radii in [
        &[f64::NAN][..],
        &[-1.0],
        &[1.0, -0.5, 1.0],
        &[1.0, 2.0],
        &[],
    ] {
        let refused = search(radii).unwrap_err().to_string();
        assert!(refused.starts_with("`radius` has "), "{refused}");
    }
    let monitor = Monitor::default();
    monitor.stop();
    let stopped = search(&[1.0]).unwrap().run(&Cpu::new(1).unwrap(), &monitor);
    assert_eq!(stopped, Err(Error::Interrupt));
}

#[test]
fn a_zero_may_be_a_query_and_a_reference() {
    // The distance of the row of zeros from itself is not a number, which does not matter.
    let values = vec![1.0, 2.0, 0.0, 0.0, 3.0, 1.0, 5.0, 5.0, 0.0, 0.0];
    let metric = Metric::Canberra(ZeroOverZero::Omitted);
    let points = Points::prepare(metric, array(values, 5, 2), &Monitor::default()).unwrap();
    let block = Block {
        points: &points,
        references: 4,
        first: 0,
        queries: 4..5,
        own: Some(vec![1]),
    };
    let mut graph = Graph::unknown(1, 3).unwrap();
    let (cpu, monitor) = (Cpu::new(1).unwrap(), Monitor::default());
    graph
        .update(&block, &mut UpdateProgress::default(), &cpu, &monitor)
        .unwrap();
    assert_eq!(graph.index, [0, 2, 3]);
    assert_eq!(graph.distance, [2.0; 3]);
}

#[test]
fn wrong_input_is_refused() {
    let cpu = Cpu::new(1).unwrap();
    let x = draw(&mut Random::of(1), Data::Plain, 5, 3);
    let message = |metric, x: &Observations, k| {
        let points = Points::new(metric, x);
        nearest(&points, x.nrows(), k, &cpu, &Monitor::default()).unwrap_err()
    };
    for k in [0, 5] {
        let error = message(Metric::Euclidean, &x, k).to_string();
        assert!(error.contains(&format!("`k` is {k}; it must be at least 1 and at most 4")));
    }
    let mut values = x.values().to_vec();
    values[3..6].fill(7.0);
    values[12..].fill(-1.0);
    let x = observations(values, 5, 3);
    let pearson = Metric::Pearson { absolute: false };
    let error = message(pearson, &x, 1).to_string();
    assert!(error.contains("rows 2 and 5"), "{error}");
    let zeros = observations(vec![0.0; 6], 3, 2);
    let canberra = Metric::Canberra(ZeroOverZero::Omitted);
    let error = message(canberra, &zeros, 1).to_string();
    assert!(error.contains("rows 1, 2 and 3"), "{error}");
    let points = Points::new(canberra, &zeros);
    let refused = nearest(&points, 1, 1, &cpu, &Monitor::default()).unwrap_err();
    assert!(refused
        .to_string()
        .contains("`x` is zero in row 1 and `query` in rows 1 and 2"));
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
    let x = draw(&mut Random::of(1), Data::Plain, 500, 3);
    let monitor = Monitor::default();
    monitor.stop();
    let cpu = Cpu::new(1).unwrap();
    for metric in [Metric::Euclidean, Metric::Binary] {
        let stopped = nearest(&Points::new(metric, &x), 500, 3, &cpu, &monitor);
        assert_eq!(stopped, Err(Error::Interrupt));
    }
}

#[test]
fn a_search_that_failed_goes_on_where_it_was() {
    let mut random = Random::of(12);
    let cpu = Cpu::new(2).unwrap();
    let gone = || Error::Device("gone".into());
    let failing_after = |answers| FailingDevice::after(answers, gone());
    for (data, is_distinct) in [(Data::Plain, true), (Data::Duplicates, false)] {
        let points = Points::new(Metric::Manhattan, &draw(&mut random, data, 120, 2));
        for references in [120, 60] {
            let graph = nearest(&points, references, 4, &cpu, &Monitor::default()).unwrap();
            let whole = failing_after(usize::MAX);
            nearest(&points, references, 4, &whole, &Monitor::default()).unwrap();
            let queries = graph.index.len() / 4;
            // Equal points are one query.
            assert_eq!(whole.queries().len() == queries, is_distinct);
            for answers in [0, 1, 3] {
                let case = format!("{data:?}, {references} references, {answers} answers");
                let (first, second) = (failing_after(answers), failing_after(usize::MAX));
                let monitor = Monitor::default();
                let mut search = Search::new(&points, references, 4, &cpu).unwrap();
                let failed = search.run(&first, &monitor);
                assert_eq!(failed, Err(gone()), "{case}");
                search.run(&second, &monitor).unwrap();
                assert_eq!(search.into_graph(), graph, "{case}");
                assert_eq!(first.queries().len(), 7 * answers, "{case}");
                let both = [first.queries(), second.queries()].concat();
                assert_eq!(both, whole.queries(), "{case}");
                let all = queries as u64;
                assert_eq!(monitor.progress(), (all, all), "{case}");
            }
        }
    }
}

#[test]
fn a_range_search_that_failed_goes_on_where_it_was() {
    let points = Points::new(
        Metric::Manhattan,
        &draw(&mut Random::of(16), Data::Plain, 120, 2),
    );
    let radius = [points.distance(0, 1)];
    let search = || RangeSearch::new(&points, 120, (0..120).collect(), &radius).unwrap();
    let cpu = Cpu::new(2).unwrap();
    let mut whole = search();
    whole.run(&cpu, &Monitor::default()).unwrap();
    let whole = whole.into_neighbours();
    let gone = Error::Device("gone".into());
    for answers in [0, 1, 3] {
        let monitor = Monitor::default();
        let mut search = search();
        let failed = search.run(&FailingDevice::after(answers, gone.clone()), &monitor);
        assert_eq!(failed, Err(gone.clone()));
        search.run(&cpu, &monitor).unwrap();
        assert_eq!(search.into_neighbours(), whole);
        assert_eq!(monitor.progress(), (120, 120));
    }
}
