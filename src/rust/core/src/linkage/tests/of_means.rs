//! Average and McQuitty linkage by the means of clusters, and the work of linkage by means.

use super::*;
use crate::testing::FailingDevice;

const AVERAGE: Formula =
    |[a, b, _], [from_a, from_b, _]| ((a * from_a.sqrt() + b * from_b.sqrt()) / (a + b)).powi(2);
const MCQUITTY: Formula = |_, [from_a, from_b, _]| (0.5 * (from_a.sqrt() + from_b.sqrt())).powi(2);

/// Average and McQuitty linkage, with their formulas.
type OfMeans = (
    fn(Points, &Cpu, &Monitor) -> crate::Result<Dendrogram>,
    Formula,
);
const OF_MEANS: [OfMeans; 2] = [
    (geometric::average, AVERAGE),
    (geometric::mcquitty, MCQUITTY),
];

#[test]
fn trees_of_mean_correlations_are_those_of_lance_and_williams() {
    let cpus = [1, 2].map(|threads| Cpu::new(threads).unwrap());
    let draw = |random: &mut Random, round: usize| {
        let sorts = [Data::Plain, Data::Mixture, Data::Huge, Data::HeavyTails];
        let n = 2 + random.below(if round % 10 == 0 { 250 } else { 50 });
        let p = 6 + random.below(30);
        Untied(Rows::of(&draw(random, sorts[round % sorts.len()], n, p)))
    };
    for_all(60, cases(draw), |Untied(rows)| {
        let cpu = &cpus[rows.count() % 2];
        let absolute = false;
        for metric in [Metric::Pearson { absolute }, Metric::Cosine { absolute }] {
            let points = Points::new(metric, &rows.observations());
            for (link, formula) in OF_MEANS {
                let tree = link(points.clone(), cpu, &Monitor::default()).unwrap();
                let expected = lance_williams_of(&points, formula, nearest_pair);
                compare_from(0.01, &merges_of(&tree), &expected, metric.name());
            }
        }
    });
}

#[test]
fn where_correlations_tie_one_of_the_nearest_pairs_merges() {
    let mut random = Random::of(15);
    let absolute = false;
    let metrics = [
        Metric::Pearson { absolute },
        Metric::Spearman { absolute },
        Metric::Cosine { absolute },
    ];
    for round in 0..24 {
        let data = [Data::Plain, Data::Duplicates, Data::Counts, Data::Outliers][round % 4];
        let p = 4 + round / 2;
        let mut x = draw(&mut random, data, 20 + 6 * round, p);
        if round % 5 == 0 {
            // All pairs are equally far, or nearly equal.
            let noise = [0.0, 1e-12, 1e-9][round / 5 % 3];
            let (n, p) = (90, 45);
            let mut value = |i: usize| {
                let (row, column) = (i / p, i % p);
                let is_one = row % p == column;
                (1.0 + row as f64) * f64::from(u8::from(is_one)) + noise * random.normal()
            };
            x = observations((0..n * p).map(&mut value).collect(), n, p);
        }
        let metric = metrics[round % 3];
        let points = Points::new(metric, &x);
        // Rows without a direction are refused.
        let has_direction = |i: &u32| points.constant().binary_search(&(*i as usize)).is_err();
        let rows: Vec<u32> = (0..points.rows() as u32).filter(has_direction).collect();
        let points = points.select(&rows).unwrap();
        for (link, formula) in OF_MEANS {
            let trees = [1, 2].map(|threads| {
                let cpu = Cpu::new(threads).unwrap();
                link(points.clone(), &cpu, &Monitor::default()).unwrap()
            });
            assert_eq!(trees[0], trees[1]);
            let merges = merges_of(&trees[0]);
            let mut next = merges.iter();
            lance_williams_of(&points, formula, |squares, active| {
                let &(height, i, j) = next.next().expect("n - 1 merges");
                let (least, ..) = nearest_pair(squares, active);
                let case = format!("{round}: {height} is not {least}");
                assert!((height - least).abs() <= 1e-12, "{case}");
                assert!((squares[i][j].sqrt() - least).abs() <= 1e-12, "{case}");
                (height, i, j)
            });
        }
    }
}

#[test]
fn a_tree_of_means_does_all_the_work_that_it_announced() {
    for data in [Data::Plain, Data::Duplicates, Data::AllEqual] {
        let x = draw(&mut Random::of(17), data, 100, 3);
        let monitor = Monitor::default();
        geometric::ward(&x, &Cpu::new(2).unwrap(), &monitor).unwrap();
        assert_eq!(monitor.progress(), (199, 199), "{data:?}");
    }
}

#[test]
fn trees_of_tied_distances_need_few_searches() {
    // All unions are as far from the others as their parts are.
    let n = 400;
    let values = (0..n * n).map(|i| f64::from(u8::from(i % (n + 1) == 0)));
    let x = observations(values.collect(), n, n);
    let points = Points::new(Metric::Cosine { absolute: false }, &x);
    let device = FailingDevice::after(usize::MAX, Error::Interrupt);
    let tree = geometric::average(points, &device, &Monitor::default()).unwrap();
    assert!(tree.height.iter().all(|&height| height == 1.0));
    let searches = device.queries().len();
    assert!(searches <= 8 * n, "{searches} searches");
}
