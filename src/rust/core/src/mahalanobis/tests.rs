//! Compares the algorithm with the reference, and with worked cases.

mod cases;

use std::cell::Cell;

use self::cases::{ClusteringCase, UntiedClustering};
use super::agglomerate::merges_on_cpu;
use super::checks::{options, run};
use super::reference::{self, Source};
use super::screen::cpu::counting;
use super::*;
use crate::cpu::{Cpu, Device};
use crate::error::{Error, Result};
use crate::merge::Merge;
use crate::monitor::Monitor;
use crate::observations::Observations;
use crate::testing::shrink::{cases, for_all};
use crate::testing::{draw, observations, Data, Random, DATA};

/// The reference as a device.
struct Exhaustive {
    source: Source,
    cpu: Cpu,
}

fn exhaustive(source: Source) -> Exhaustive {
    let cpu = Cpu::new(1).unwrap();
    Exhaustive { source, cpu }
}

impl Device for Exhaustive {
    fn name(&self) -> &'static str {
        "exhaustive"
    }

    fn cpu(&self) -> &Cpu {
        &self.cpu
    }
}

impl AgglomerationDevice for Exhaustive {
    fn agglomerate(&self, problems: &[Problem<'_>], _: &Monitor) -> Result<Vec<Vec<Merge>>> {
        let merges = |problem| reference::agglomerate(problem, self.source);
        Ok(problems.iter().map(merges).collect())
    }
}

#[test]
fn the_fast_version_has_the_bits_of_the_slow_one() {
    let cpu = Cpu::new(2).unwrap();
    let draw = |random: &mut Random, round: usize| {
        let n = 2 + random.below(if round % 20 < 10 { 40 } else { 199 });
        let p = 1 + random.below(20);
        ClusteringCase::draw(random, DATA[round % DATA.len()], n, p)
    };
    for_all(400, cases(draw), |case| {
        let (x, labels, options) = (case.observations(), case.apriori(), &case.options);
        let slow = run(&x, labels.as_deref(), options, &exhaustive(Source::Merged));
        let fast = run(&x, labels.as_deref(), options, &cpu);
        assert_eq!(fast, slow);
    });
}

/// The number of searches of a clustering plus the number of candidates that they find.
fn candidates(x: &Observations, options: &Options) -> usize {
    let problem = Problem::of_observations(x, 0..x.nrows() as u32, *options);
    // The count of a new thread is 0.
    Cpu::new(1).unwrap().install(|| {
        merges_on_cpu(&problem, &Monitor::default()).unwrap();
        counting::count()
    })
}

#[test]
fn ties_and_outliers_make_no_more_candidates() {
    let mut random = Random::of(23);
    let (n, p) = (1_500, 3);
    for distance in [Distance::Centroid, Distance::FullMahalanobis] {
        let options = Options {
            threshold: 0.5 * n as f64,
            subthreshold: Subthreshold::Mahal,
            distance,
            normalize: false,
            apriori_intra: true,
        };
        let plain = candidates(&draw(&mut random, Data::Plain, n, p), &options);
        for data in [
            Data::Duplicates,
            Data::Grid,
            Data::ZeroInflated,
            Data::Counts,
            Data::AllEqual,
            Data::Saturated,
            Data::HeavyTails,
            Data::Islands,
        ] {
            let tied = candidates(&draw(&mut random, data, n, p), &options);
            assert!(2 * tied < 3 * plain, "{data:?}: {tied}, plain: {plain}");
        }
    }
}

#[test]
fn more_columns_than_can_be_factorised_are_refused_with_advice() {
    let wide = |n: usize, p: usize, subthreshold| {
        let x = draw(&mut Random::of(5), Data::Plain, n, p);
        let options = Options {
            threshold: 0.5 * n as f64,
            subthreshold,
            distance: Distance::Centroid,
            normalize: false,
            apriori_intra: true,
        };
        let cpu = Cpu::new(2).unwrap();
        cluster(&x, None, &options, &cpu, &Monitor::default())
    };
    for kind in [Subthreshold::Mahal, Subthreshold::Mahal0] {
        let refused = wide(128, 12_625, kind).unwrap_err().to_string();
        assert!(refused.contains("128 rows and 12625 columns"), "{refused}");
        assert!(refused.contains("observations go in rows"), "{refused}");
    }
    for kind in [Subthreshold::Euclid, Subthreshold::EuclidMahal] {
        assert!(wide(40, 12_625, kind).is_ok());
    }
}

#[test]
fn a_factorisation_of_many_columns_ends_when_it_is_told_to() {
    // Takes hours unless it is interrupted.
    let x = draw(&mut Random::of(6), Data::Plain, 60, 5_000);
    let options = Options {
        threshold: 30.0,
        subthreshold: Subthreshold::Mahal,
        distance: Distance::Centroid,
        normalize: false,
        apriori_intra: true,
    };
    let monitor = Monitor::default();
    let stopped = std::thread::scope(|scope| {
        let work = scope.spawn(|| cluster(&x, None, &options, &Cpu::new(2).unwrap(), &monitor));
        while monitor.progress().0 == 0 {
            std::thread::yield_now();
        }
        monitor.stop();
        work.join().unwrap()
    });
    assert_eq!(stopped, Err(Error::Interrupt));
}

#[test]
fn groups_beyond_the_limit_change_nothing() {
    let cpu = Cpu::new(2).unwrap();
    let mut random = Random::of(11);
    for round in 0..2 {
        let n = 513 + random.below(40);
        let p = 1 + random.below(6);
        let x = draw(&mut random, Data::Mixture, n, p);
        let options = Options {
            distance: Distance::ALL[usize::from(round % 2 == 0)],
            ..options(&mut random, n)
        };
        let fast = run(&x, None, &options, &cpu);
        let slow = run(&x, None, &options, &exhaustive(Source::Merged));
        assert_eq!(fast, slow, "{n}, {options:?}");
    }
}

/// The merges in each apriori cluster, found as if by three machines, each with its own clusters
/// only.
fn merges_elsewhere(
    case: &ClusteringCase,
    partition: &AprioriPartition,
    cpu: &Cpu,
) -> Vec<Vec<Merge>> {
    let (x, labels) = (case.observations(), case.rows.labels());
    let mut random = Random(case.seed);
    let clusters = 0..partition.clusters();
    let machine: Vec<usize> = clusters.map(|_| random.below(3)).collect();
    let mut inner = vec![Vec::new(); machine.len()];
    for here in 0..3 {
        let chosen = |c: &usize| machine[*c] == here;
        let some: Vec<usize> = (0..machine.len()).filter(chosen).collect();
        let members = some.iter().flat_map(|&c| partition.members(c));
        let mut rows: Vec<u32> = members.copied().collect();
        rows.sort_unstable();
        if rows.is_empty() {
            continue;
        }
        let theirs: Vec<u32> = rows.iter().map(|&row| labels[row as usize]).collect();
        let x = x.take_rows(&rows).unwrap();
        let theirs = AprioriPartition::by_label(&theirs).unwrap();
        let mut clusterer = Clusterer::new(&x, Some(theirs), &case.options, cpu).unwrap();
        clusterer.merge_within(cpu, &Monitor::default()).unwrap();
        for (c, merges) in some.into_iter().zip(clusterer.into_inner().unwrap()) {
            inner[c] = merges;
        }
    }
    inner
}

#[test]
fn apriori_clusters_that_are_clustered_elsewhere_make_the_same_tree() {
    let cpu = Cpu::new(2).unwrap();
    let compared = Cell::new(0);
    let draw = |random: &mut Random, round: usize| {
        let n = 4 + random.below(120);
        let p = 1 + random.below(6);
        ClusteringCase::draw(random, DATA[round % DATA.len()], n, p)
    };
    for_all(200, cases(draw), |case| {
        let (x, labels, options) = (case.observations(), case.rows.labels(), &case.options);
        let Some(partition) = AprioriPartition::new(&labels).unwrap() else {
            return;
        };
        let inner = merges_elsewhere(&case, &partition, &cpu);
        let above = |inner: &[Vec<Merge>]| {
            let inner = inner.to_vec();
            let clusterer =
                Clusterer::from_inner_merges(&x, partition.clone(), inner, options, &cpu)?;
            clusterer.run(&cpu, &Monitor::default())
        };
        let whole = run(&x, Some(&labels), options, &cpu);
        assert_eq!(above(&inner).unwrap(), whole);
        compared.set(compared.get() + 1);

        let mut wrong = inner.clone();
        wrong[0][0].higher = u32::MAX;
        let mut short = inner.clone();
        short.pop();
        let mut twice = inner;
        if twice[0].len() > 1 {
            twice[0][1] = twice[0][0];
        } else {
            twice[0].clear();
        }
        for inner in [wrong, short, twice] {
            assert!(matches!(above(&inner), Err(Error::Input(_))));
        }
    });
    assert!(compared.get() > 50, "{}", compared.get());
}

#[test]
fn decisions_agree_with_the_definition() {
    let cpu = Cpu::new(1).unwrap();
    let draw = |random: &mut Random, round: usize| {
        let n = 2 + random.below(80);
        let p = 1 + random.below(8);
        let data = [Data::Plain, Data::Mixture][round % 2];
        UntiedClustering(ClusteringCase::draw(random, data, n, p))
    };
    for_all(100, cases(draw), |UntiedClustering(case)| {
        let (x, labels) = (case.observations(), case.apriori());
        let by_definition = exhaustive(Source::Observations);
        let fast = run(&x, labels.as_deref(), &case.options, &cpu);
        let slow = run(&x, labels.as_deref(), &case.options, &by_definition);
        assert_eq!(fast.dendrogram.merge, slow.dendrogram.merge);
        for (a, b) in fast.dendrogram.height.iter().zip(&slow.dendrogram.height) {
            // Covariances of few members are nearly singular, and multiply rounding errors.
            assert!((a - b).abs() <= 1e-7 * b, "{a} is not {b}");
        }
    });
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let mut random = Random::of(3);
    let x = draw(&mut random, Data::Mixture, 4200, 5);
    for distance in [Distance::Centroid, Distance::FullMahalanobis] {
        let options = Options {
            threshold: 50.0,
            subthreshold: Subthreshold::Mahal,
            distance,
            normalize: false,
            apriori_intra: true,
        };
        let one = run(&x, None, &options, &Cpu::new(1).unwrap());
        assert_eq!(one, run(&x, None, &options, &Cpu::new(4).unwrap()));
    }
}

#[test]
fn distances_that_take_long_are_decided_on_all_threads() {
    // Clusters of many members, in the same place: many bounds are below the next merge's height.
    let mut random = Random::of(17);
    let x = draw(&mut random, Data::Mixture, 9_000, 12);
    let labels: Vec<u32> = (0..9_000).map(|i| 1 + i % 30).collect();
    let options = Options {
        threshold: 900.0,
        subthreshold: Subthreshold::Mahal,
        distance: Distance::FullMahalanobis,
        normalize: false,
        apriori_intra: false,
    };
    let slow = run(&x, Some(&labels), &options, &exhaustive(Source::Merged));
    let fast = run(&x, Some(&labels), &options, &Cpu::new(4).unwrap());
    assert!(fast == slow);
}

#[test]
fn more_threads_than_groups_of_clusters_change_nothing() {
    // Enough columns for threads to share a sweep of a few groups of 256 clusters, 16 of them
    // complete.
    let x = draw(&mut Random::of(11), Data::Plain, 4_351, 61);
    let mut options = options(&mut Random::of(12), 4_351);
    options.distance = Distance::Centroid;
    options.subthreshold = Subthreshold::EuclidMahal;
    let one = run(&x, None, &options, &Cpu::new(1).unwrap());
    assert!(one == run(&x, None, &options, &Cpu::new(15).unwrap()));
}

#[test]
fn a_stopped_computation_says_so() {
    let x = draw(&mut Random::of(1), Data::Plain, 500, 3);
    let monitor = Monitor::default();
    monitor.stop();
    let options = options(&mut Random::of(5), 500);
    let stopped = cluster(&x, None, &options, &Cpu::new(1).unwrap(), &monitor);
    assert_eq!(stopped, Err(Error::Interrupt));
}

#[derive(serde::Deserialize)]
struct Fixture {
    x: Vec<Vec<f64>>,
    threshold: f64,
    subthreshold: String,
    quick: bool,
    normalize: bool,
    merge: Vec<[i32; 2]>,
    height: Vec<f64>,
    apriori: Option<Vec<u32>>,
    apriori_intra: Option<bool>,
    apriori_merges: Option<usize>,
    apriori_labels: Option<Vec<u32>>,
}

#[test]
fn the_worked_cases_come_out_as_worked() {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../tests/testthat/fixtures/mhca"
    );
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let fixture: Fixture =
            serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let p = fixture.x[0].len();
        let x = observations(fixture.x.concat(), fixture.x.len(), p);
        let options = Options {
            threshold: fixture.threshold,
            subthreshold: Subthreshold::new(&fixture.subthreshold).unwrap(),
            distance: Distance::ALL[usize::from(fixture.quick)],
            normalize: fixture.normalize,
            apriori_intra: fixture.apriori_intra.unwrap_or(true),
        };
        let result = run(
            &x,
            fixture.apriori.as_deref(),
            &options,
            &Cpu::new(2).unwrap(),
        );
        assert_eq!(result.dendrogram.merge, fixture.merge, "{path:?}");
        for (a, b) in result.dendrogram.height.iter().zip(&fixture.height) {
            assert!(
                (a - b).abs() <= 1e-9 * b.max(1e-300),
                "{a} is not {b}: {path:?}"
            );
        }
        assert_eq!(result.apriori_merges, fixture.apriori_merges.unwrap_or(0));
        assert_eq!(
            result.apriori_labels,
            fixture.apriori_labels.unwrap_or_default()
        );
        count += 1;
    }
    assert_eq!(count, 32);
}
