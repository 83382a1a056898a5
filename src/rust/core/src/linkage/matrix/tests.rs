//! Compares linkages of matrices with brute force, and with the crate kodama.

mod cases;

use std::cell::Cell;

use self::cases::{DissimilaritiesCase, UntiedCase};
use super::*;
use crate::cpu::Cpu;
use crate::linkage::checks::{dissimilarities, distances};
use crate::linkage::cpu::CpuDissimilarities;
use crate::linkage::dissimilarities::{Contraction, Dissimilarities, NearestClusters};
use crate::metric::{Metric, Points};
use crate::testing::shrink::{cases, for_all};
use crate::testing::{array, Random};

fn run(d: &[f64], n: usize, linkage: Linkage, sizes: Option<&[f64]>, threads: usize) -> Dendrogram {
    let recurrence = Recurrence {
        linkage,
        precision: StoredPrecision::Double,
    };
    let cpu = Cpu::new(threads).unwrap();
    let sizes = sizes.map(<[f64]>::to_vec);
    super::linkage(
        DissimilaritySource::Given(d),
        n,
        recurrence,
        sizes,
        &cpu,
        &Monitor::default(),
    )
    .unwrap()
}

/// The Lance–Williams coefficients, as in hclust: of the two parts' dissimilarities to a third
/// cluster, and of the dissimilarity of the parts.
fn coefficients(linkage: Linkage, a: f64, b: f64, c: f64) -> (f64, f64, f64) {
    match linkage {
        Linkage::Average => (a / (a + b), b / (a + b), 0.0),
        Linkage::Mcquitty => (0.5, 0.5, 0.0),
        Linkage::Median => (0.5, 0.5, -0.25),
        Linkage::Centroid => (a / (a + b), b / (a + b), -a * b / ((a + b) * (a + b))),
        Linkage::WardD | Linkage::WardD2 => {
            let all = a + b + c;
            ((a + c) / all, (b + c) / all, -c / all)
        }
        Linkage::Single | Linkage::Complete => unreachable!("these are a minimum and a maximum"),
    }
}

/// The heights and slots of the merges, by comparing all pairs at every step.
fn exhaustive(
    d: &[f64],
    n: usize,
    linkage: Linkage,
    sizes: Option<&[f64]>,
) -> Vec<(f64, usize, usize)> {
    let at = |i: usize, j: usize| i * (2 * n - 1 - i) / 2 + j - i - 1;
    let value = |i: usize, j: usize| match linkage {
        _ if i == j => 0.0,
        Linkage::WardD2 => d[at(i.min(j), i.max(j))].powi(2),
        _ => d[at(i.min(j), i.max(j))],
    };
    let mut all: Vec<Vec<f64>> = (0..n)
        .map(|i| (0..n).map(|j| value(i, j)).collect())
        .collect();
    let mut sizes = sizes.map_or(vec![1.0; n], <[f64]>::to_vec);
    let mut active: Vec<usize> = (0..n).collect();
    let mut merges = Vec::new();
    while active.len() > 1 {
        let mut least = (f64::INFINITY, 0, 0);
        for (at, &i) in active.iter().enumerate() {
            for &j in &active[at + 1..] {
                if all[i][j] < least.0 {
                    least = (all[i][j], i, j);
                }
            }
        }
        let (height, i, j) = least;
        active.retain(|&k| k != j);
        for &k in active.iter().filter(|&&k| k != i) {
            let (first, second) = (all[i][k], all[j][k]);
            let value = match linkage {
                Linkage::Single => first.min(second),
                Linkage::Complete => first.max(second),
                _ => {
                    let (a, b, both) = coefficients(linkage, sizes[i], sizes[j], sizes[k]);
                    a * first + b * second + both * height
                }
            };
            all[i][k] = value;
            all[k][i] = value;
        }
        sizes[i] += sizes[j];
        let height = if linkage == Linkage::WardD2 {
            height.sqrt()
        } else {
            height
        };
        merges.push((height, i, j));
    }
    merges
}

/// The heights and slots of a tree's merges; a cluster is in the slot of its lowest observation.
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

fn compare(found: &Dendrogram, expected: &[(f64, usize, usize)], case: &str) {
    let found = merges_of(found);
    assert_eq!(found.len(), expected.len(), "{case}");
    for (found, expected) in found.iter().zip(expected) {
        let case = format!("{case}: {found:?} is not {expected:?}");
        assert_eq!((found.1, found.2), (expected.1, expected.2), "{case}");
        assert!(
            (found.0 - expected.0).abs() <= 1e-12 * expected.0.abs(),
            "{case}"
        );
    }
}

#[test]
fn trees_are_those_of_all_pairs_at_every_step() {
    let draw = |random: &mut Random, round: usize| {
        let n = 2 + random.below(if round % 9 == 0 { 280 } else { 60 });
        let d = dissimilarities(random, n, round % 2 == 0);
        let sizes = (0..n).map(|_| 1.0 + random.below(9) as f64).collect();
        let sizes = (round % 3 == 0).then_some(sizes);
        UntiedCase(DissimilaritiesCase { n, d, sizes })
    };
    for_all(90, cases(draw), |UntiedCase(case)| {
        let (n, sizes) = (case.n, case.sizes.as_deref());
        for linkage in Linkage::ALL {
            let tree = run(&case.d, n, linkage, sizes, 1 + n % 2);
            let expected = exhaustive(&case.d, n, linkage, sizes);
            compare(&tree, &expected, linkage.name());
        }
    });
}

#[test]
fn trees_are_those_of_kodama() {
    use kodama::Method;
    let methods = [
        (Linkage::Single, Method::Single),
        (Linkage::Complete, Method::Complete),
        (Linkage::Average, Method::Average),
        (Linkage::Mcquitty, Method::Weighted),
        (Linkage::WardD2, Method::Ward),
    ];
    let mut random = Random::of(22);
    for n in [2, 3, 50, 700] {
        let d = dissimilarities(&mut random, n, true);
        for (linkage, method) in methods {
            let expected = kodama::linkage(&mut d.clone(), n, method);
            let tree = run(&d, n, linkage, None, 2);
            for (step, height) in expected.steps().iter().zip(&tree.height) {
                let case = format!("{linkage:?}: {height} is not {}", step.dissimilarity);
                assert!((height / step.dissimilarity - 1.0).abs() < 1e-12, "{case}");
            }
        }
    }
}

#[test]
fn ties_change_no_heights_of_single_and_complete_and_no_bits_with_threads() {
    for_all(44, cases(DissimilaritiesCase::tied), |case| {
        let (n, d) = (case.n, case.d);
        for linkage in Linkage::ALL {
            let tree = run(&d, n, linkage, None, 1);
            assert_eq!(tree, run(&d, n, linkage, None, 3), "{linkage:?}");
            if linkage.is_reducible() {
                assert!(tree.height.is_sorted(), "{linkage:?}");
            }
            if matches!(linkage, Linkage::Single | Linkage::Complete) {
                let expected = exhaustive(&d, n, linkage, None);
                let heights: Vec<f64> = expected.iter().map(|merge| merge.0).collect();
                assert_eq!(tree.height, heights, "{linkage:?}");
                // Complete linkage is reducible also with ties, so its merges are the same, too.
                if linkage == Linkage::Complete {
                    compare(&tree, &expected, "complete");
                }
            }
        }
    });
}

#[test]
fn chains_and_large_matrices() {
    let place = |i: i32| f64::from(i).powi(2) + 0.3 * f64::from(i).sin();
    let points: Vec<[f64; 3]> = (0..400).map(|i| [place(i), 0.0, 0.0]).collect();
    let d = distances(&points);
    for linkage in Linkage::ALL {
        let tree = run(&d, 400, linkage, None, 2);
        compare(&tree, &exhaustive(&d, 400, linkage, None), linkage.name());
    }
    let mut random = Random::of(24);
    let d = dissimilarities(&mut random, 1500, true);
    for linkage in Linkage::ALL {
        assert_eq!(
            run(&d, 1500, linkage, None, 1),
            run(&d, 1500, linkage, None, 3),
            "{linkage:?}"
        );
    }
}

#[test]
fn single_precision_rounds_what_it_keeps() {
    let mut random = Random::of(25);
    let d: Vec<f64> = dissimilarities(&mut random, 200, true);
    let cpu = Cpu::new(2).unwrap();
    for linkage in Linkage::ALL {
        let recurrence = Recurrence {
            linkage,
            precision: StoredPrecision::Single,
        };
        let single = super::linkage(
            DissimilaritySource::Given(&d),
            200,
            recurrence,
            None,
            &cpu,
            &Monitor::default(),
        )
        .unwrap();
        let double = run(&d, 200, linkage, None, 2);
        let heights = |tree: &Dendrogram| {
            let mut heights = tree.height.clone();
            heights.sort_by(f64::total_cmp);
            heights
        };
        for (a, b) in heights(&single).iter().zip(heights(&double)) {
            assert!((a / b - 1.0).abs() < 1e-4, "{linkage:?}: {a} is not {b}");
        }
    }
}

#[test]
fn what_cannot_be_used_is_refused() {
    let cpu = Cpu::new(1).unwrap();
    let refused = |d: &[f64], n, linkage, sizes: Option<Vec<f64>>, what: &str| {
        let recurrence = Recurrence {
            linkage,
            precision: StoredPrecision::Double,
        };
        match super::linkage(
            DissimilaritySource::Given(d),
            n,
            recurrence,
            sizes,
            &cpu,
            &Monitor::default(),
        ) {
            Err(Error::Input(message)) => assert!(message.contains(what), "{message}"),
            other => panic!("{linkage:?}: {other:?}"),
        }
    };
    for linkage in Linkage::ALL {
        refused(&[], 1, linkage, None, "at least 2");
        refused(&[1.0], 3, linkage, None, "1 dissimilarities");
        refused(
            &[1.0, f64::NAN, 2.0],
            3,
            linkage,
            None,
            "NA/NaN/Inf between observations 1 and 3",
        );
        refused(
            &[1.0, 2.0, f64::INFINITY],
            3,
            linkage,
            None,
            "NA/NaN/Inf between observations 2 and 3",
        );
        refused(&[1.0], 2, linkage, Some(vec![1.0, 0.0]), "`members`");
    }
}

#[test]
fn distances_that_cannot_be_used_are_refused() {
    let cpu = Cpu::new(2).unwrap();
    let refused = |metric, values: Vec<f64>, precision| {
        let n = values.len() / 2;
        let points = Points::prepare(metric, array(values, n, 2), &Monitor::default()).unwrap();
        for linkage in Linkage::ALL {
            let recurrence = Recurrence { linkage, precision };
            let (source, monitor) = (DissimilaritySource::Points(&points), Monitor::default());
            match super::linkage(source, n, recurrence, None, &cpu, &monitor) {
                Err(Error::Input(message)) => assert!(message.contains("between"), "{message}"),
                other => panic!("{recurrence:?}: {other:?}"),
            }
        }
    };
    let constant = vec![1.0, 2.0, 3.0, 3.0, 4.0, 1.0];
    let metric = Metric::Pearson { absolute: false };
    refused(metric, constant, StoredPrecision::Double);
    let far = vec![1.0, 2.0, 1e200, 3.0, 4.0, 1.0];
    refused(Metric::Manhattan, far, StoredPrecision::Double);
    // Too large for single precision only.
    let far = vec![1.0, 2.0, 1e31, 3.0, 4.0, 1.0];
    refused(Metric::Manhattan, far, StoredPrecision::Single);
}

#[test]
fn a_stopped_linkage_says_so() {
    let d = dissimilarities(&mut Random::of(2), 100, true);
    let cpu = Cpu::new(1).unwrap();
    let monitor = Monitor::default();
    monitor.stop();
    for linkage in Linkage::ALL {
        let recurrence = Recurrence {
            linkage,
            precision: StoredPrecision::Double,
        };
        let source = DissimilaritySource::Given(&d);
        let stopped = super::linkage(source, 100, recurrence, None, &cpu, &monitor);
        assert_eq!(stopped, Err(Error::Interrupt), "{linkage:?}");
    }
}

#[test]
fn points_have_the_tree_of_their_distances() {
    let mut random = Random::of(26);
    let (n, p) = (130, 3);
    let values = (0..n * p).map(|_| random.normal()).collect();
    let points =
        Points::prepare(Metric::Manhattan, array(values, n, p), &Monitor::default()).unwrap();
    let rows = (0..n).flat_map(|j| (j + 1..n).map(move |i| (i, j)));
    let distances: Vec<f64> = rows.map(|(i, j)| points.distance(i, j)).collect();
    let cpu = Cpu::new(2).unwrap();
    for linkage in Linkage::ALL {
        for precision in [StoredPrecision::Double, StoredPrecision::Single] {
            let recurrence = Recurrence { linkage, precision };
            let tree = |source| {
                super::linkage(source, n, recurrence, None, &cpu, &Monitor::default()).unwrap()
            };
            let (own, given) = (
                tree(DissimilaritySource::Points(&points)),
                tree(DissimilaritySource::Given(&distances)),
            );
            assert_eq!(own, given, "{recurrence:?}");
        }
    }
}

/// Counts the dissimilarities that are read.
struct Counted<'a> {
    matrix: CpuDissimilarities<'a, f64>,
    clusters: usize,
    count: Cell<usize>,
}

impl Counted<'_> {
    fn add(&self, more: usize) {
        self.count.set(self.count.get() + more);
    }
}

impl Dissimilarities for Counted<'_> {
    fn nearest(&mut self, monitor: &Monitor) -> Result<NearestClusters> {
        self.add(pairs(self.clusters));
        self.matrix.nearest(monitor)
    }

    fn entries(&self, pairs: &[(u32, u32)]) -> Result<Vec<f64>> {
        self.add(pairs.len());
        self.matrix.entries(pairs)
    }

    fn contract(
        &mut self,
        contraction: &Contraction,
        wanted: &[u32],
        monitor: &Monitor,
    ) -> Result<NearestClusters> {
        self.add(pairs(self.clusters));
        self.clusters -= contraction.merges.len();
        self.matrix.contract(contraction, wanted, monitor)
    }

    fn chain(
        &mut self,
        recurrence: Recurrence,
        sizes: &[f64],
        monitor: &Monitor,
    ) -> Result<Vec<Merge>> {
        // 3n searches for nearest neighbours, and n updates of two rows.
        self.add(5 * self.clusters * self.clusters);
        self.matrix.chain(recurrence, sizes, monitor)
    }
}

#[test]
fn time_is_quadratic_whatever_the_data() {
    let mut random = Random::of(27);
    let n = 1000;
    let distances_of = |place: &dyn Fn(usize) -> f64| -> Vec<f64> {
        let pairs = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j)));
        pairs.map(|(i, j)| (place(j) - place(i)).abs()).collect()
    };
    let places: Vec<f64> = (0..n).map(|_| random.normal()).collect();
    let cases = [
        (
            "one merge a round",
            distances_of(&|i| (1.02f64).powi(i as i32)),
        ),
        ("even steps", distances_of(&|i| i as f64)),
        ("random places", distances_of(&|i| places[i])),
        ("all equal", vec![1.0; pairs(n)]),
        ("all zero", vec![0.0; pairs(n)]),
        (
            "two values",
            (0..pairs(n)).map(|_| random.below(2) as f64).collect(),
        ),
        (
            "no distances",
            (0..pairs(n)).map(|_| random.uniform()).collect(),
        ),
    ];
    for (case, d) in &cases {
        for linkage in [Linkage::Complete, Linkage::Average, Linkage::WardD2] {
            let mut counted = Counted {
                matrix: CpuDissimilarities::given(d, n, linkage.squares()),
                clusters: n,
                count: Cell::new(0),
            };
            let recurrence = Recurrence {
                linkage,
                precision: StoredPrecision::Double,
            };
            let monitor = Monitor::default();
            let merges = reciprocal::merges(recurrence, vec![1.0; n], &mut counted, &monitor);
            assert_eq!(merges.unwrap().len(), n - 1);
            let each = counted.count.get() as f64 / (n * n) as f64;
            assert!(each < 12.0, "{case}, {linkage:?}: {each} times all pairs");
        }
    }
}

#[test]
fn what_no_memory_can_hold_is_refused_with_its_size() {
    let points = Points::prepare(
        Metric::Euclidean,
        array(vec![0.0; 4], 2, 2),
        &Monitor::default(),
    )
    .unwrap();
    let refused = |linkage, source, size: &str| match check_memory::<f32>(source, 1 << 26, linkage)
    {
        Err(Error::Memory(message)) => assert!(message.contains(size), "{message}"),
        other => panic!("{other:?}"),
    };
    let own = DissimilaritySource::Points(&points);
    refused(
        Linkage::Average,
        own,
        "average linkage of 67108864 observations needs 20716692.2 GB, but",
    );
    refused(Linkage::Median, own, "needs 9007333.3 GB, but");
    let given = DissimilaritySource::Given(&[]);
    refused(Linkage::WardD, given, "needs 13510932.9 GB, but");
    assert_eq!(check_memory::<f64>(given, 1 << 16, Linkage::Single), Ok(()));
}

#[test]
fn progress_comes_to_its_end() {
    let mut random = Random::of(28);
    let d = dissimilarities(&mut random, 600, true);
    let cpu = Cpu::new(2).unwrap();
    for linkage in Linkage::ALL {
        let recurrence = Recurrence {
            linkage,
            precision: StoredPrecision::Double,
        };
        let monitor = Monitor::default();
        let source = DissimilaritySource::Given(&d);
        super::linkage(source, 600, recurrence, None, &cpu, &monitor).unwrap();
        let (done, total) = monitor.progress();
        assert!(
            done <= total && done as f64 > 0.99 * total as f64,
            "{linkage:?}: {done} of {total}"
        );
    }
}
