//! Compares the trees of a GPU with the CPU's.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

use gmhclust_core::error::{Error, Result};
use gmhclust_core::linkage::geometric;
use gmhclust_core::mahalanobis::checks::{apriori, options};
use gmhclust_core::mahalanobis::reference::{self, Source};
use gmhclust_core::mahalanobis::{
    cluster, AgglomerationDevice, Distance, Options, Problem, Subthreshold,
};
use gmhclust_core::testing::{draw, Data, Random, DATA};
use gmhclust_core::{Cpu, Merge, Monitor, Observations};
use ndarray::Array2;

use super::testing::{assert_grown, Trees};
use super::{fits, grow, MOST_COLUMNS};
use crate::device::Device;

/// Numbers of dimensions. The lengths of this array and of `DATA` are coprime.
const DIMENSIONS: [usize; 13] = [1, 2, 5, 14, 16, 17, 32, 40, 43, 52, 53, 104, 208];

/// Largest number of columns for which the first GPU makes trees, by the help of `gpu_devices()`.
fn most_columns() -> usize {
    let (_, shared_memory) = Device::shared(0).unwrap().abilities().unwrap();
    match shared_memory >> 10 {
        0..96 => 43,
        96..160 => 135,
        _ => MOST_COLUMNS,
    }
}

/// A device that makes trees with a share of the blocks of the first GPU, and does all other work
/// on the CPU.
fn trees_of_gpu(share: f64) -> Trees<'static> {
    let gpu = Device::shared(0).unwrap();
    let cpu = Cpu::new(4).unwrap();
    Trees::new(
        Cpu::new(4).unwrap(),
        move |problem, bounding_box, monitor| {
            assert!(fits(problem));
            grow(&gpu, problem, bounding_box, share, &cpu, monitor)
        },
    )
}

fn options_of(distance: Distance, threshold: f64, subthreshold: Subthreshold) -> Options {
    Options {
        threshold,
        subthreshold,
        distance,
        normalize: false,
        apriori_intra: true,
    }
}

/// Fails at the first merge that differs from the expected one in any bit.
fn assert_same<M: PartialEq + std::fmt::Debug>(
    found: impl ExactSizeIterator<Item = (M, f64)>,
    expected: impl ExactSizeIterator<Item = (M, f64)>,
    case: &str,
) {
    assert_eq!(found.len(), expected.len(), "{case}");
    for (at, (found, expected)) in found.zip(expected).enumerate() {
        let same = found.0 == expected.0 && found.1.to_bits() == expected.1.to_bits();
        assert!(same, "merge {at} is {found:?}, not {expected:?}: {case}");
    }
}

/// Compares the tree of a clustering with the CPU's.
fn compare(
    trees: &Trees<'_>,
    x: &Observations,
    labels: Option<&[u32]>,
    options: &Options,
    case: &str,
) {
    let tree = |on: &dyn AgglomerationDevice| {
        let clustering = cluster(x, labels, options, on, &Monitor::default());
        clustering.unwrap().dendrogram
    };
    let (found, expected) = (tree(trees), tree(&trees.cpu));
    assert_same(
        found.merge.into_iter().zip(found.height),
        expected.merge.into_iter().zip(expected.height),
        case,
    );
}

/// A random clustering: its data, options and apriori labels, and what it is.
type Case = (Observations, Options, Option<Vec<u32>>, String);

/// Largest number of apriori clusters of a random clustering.
const MOST_GROUPS: u32 = 6;

/// Random clusterings of every kind of data and in all numbers of dimensions.
struct Cases {
    random: Random,
    rounds: std::ops::Range<usize>,
    largest: usize,
}

impl Iterator for Cases {
    type Item = Case;

    fn next(&mut self) -> Option<Case> {
        let round = self.rounds.next()?;
        let random = &mut self.random;
        let data = DATA[round % DATA.len()];
        let p = DIMENSIONS[round % DIMENSIONS.len()].min(most_columns());
        // A search for ties at 0 that result from rounding takes O(n³) time. The CPU is slow in
        // many columns.
        let most = match data {
            Data::Minute => self.largest.min(400),
            _ if p > 52 => self.largest.min(800),
            _ => self.largest,
        };
        let n = 2 + random.below(most - 1);
        let x = draw(random, data, n, p);
        let options = options(random, n);
        let labels = apriori(random, n);
        // More groups would be very many trees of a few clusters.
        let few = |labels: Vec<u32>| labels.iter().map(|label| label % MOST_GROUPS).collect();
        let labels: Option<Vec<u32>> = labels.map(few);
        let apriori = labels.as_ref().map(|labels| labels.iter().max());
        let case = format!("{round}, {data:?}, {n} × {p}, labels up to {apriori:?}, {options:?}");
        Some((x, options, labels, case))
    }
}

/// Number of threads among which `compare_random` divides its clusterings.
const THREADS: usize = 4;

/// Compares random clusterings with the CPU's. Fails if the GPU leaves a tree to the CPU.
fn compare_random(seed: u64, rounds: usize, largest: usize, share: f64) {
    let cases = Mutex::new(Cases {
        random: Random(seed),
        rounds: 0..rounds,
        largest,
    });
    // In a function of its own, so that no thread has the lock while it compares.
    let next = || cases.lock().unwrap().next();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let trees = trees_of_gpu(share);
                while let Some((x, options, labels, case)) = next() {
                    let before = trees.counts();
                    compare(&trees, &x, labels.as_deref(), &options, &case);
                    assert_grown(before, trees.counts(), &case);
                }
                let (asked, grown) = trees.counts();
                eprintln!("up to {largest} clusters: {grown} of {asked} trees");
            });
        }
    });
}

/// As many random clusterings have every kind of data in every number of dimensions.
const ALL: usize = DATA.len() * DIMENSIONS.len();

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_grows_the_trees_of_the_cpu() {
    compare_random(71, 2 * ALL, 300, 1.0);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_grows_the_larger_trees_of_the_cpu() {
    compare_random(72, ALL, 3000, 1.0);
}

/// A share of 0: the fewest blocks that a tree gets while other trees are made.
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn few_blocks_of_the_gpu_grow_the_trees_of_the_cpu() {
    compare_random(76, ALL / 2, 3000, 0.0);
}

/// Data, their numbers of rows and columns, and the options of a small tree.
type SmallCase = (Data, usize, usize, f64, Subthreshold);

/// Compares small trees with the CPU's, with few blocks: under compute-sanitizer, blocks that wait
/// take most of the time.
fn compare_small(distance: Distance, cases: &[SmallCase]) {
    let trees = trees_of_gpu(0.0);
    let mut random = Random(73);
    for &(data, n, p, threshold, subthreshold) in cases {
        let p = p.min(most_columns());
        let options = options_of(distance, threshold, subthreshold);
        let x = draw(&mut random, data, n, p);
        let case = format!("{data:?}, {n} × {p}, {options:?}");
        compare(&trees, &x, None, &options, &case);
    }
    assert_eq!(trees.counts(), (cases.len(), cases.len()));
}

const SMALL: [SmallCase; 4] = [
    (Data::Mixture, 300, 5, 30.0, Subthreshold::Mahal),
    // All clusters are full-size before the last merge.
    (Data::Plain, 300, 14, 3.0, Subthreshold::Euclid),
    (Data::Counts, 300, 14, 90.0, Subthreshold::Mahal0),
    (Data::HeavyTails, 300, 5, 1.0, Subthreshold::EuclidMahal),
];

#[test]
#[ignore = "needs an NVIDIA GPU; small, for compute-sanitizer"]
fn the_gpu_grows_the_trees_of_the_cpu_on_small_data() {
    compare_small(Distance::Centroid, &SMALL);
}

#[test]
#[ignore = "needs an NVIDIA GPU; small, for compute-sanitizer"]
fn the_gpu_grows_trees_by_full_distances_on_small_data() {
    compare_small(Distance::FullMahalanobis, &SMALL);
}

#[test]
#[ignore = "needs an NVIDIA GPU; small, for compute-sanitizer"]
fn the_gpu_grows_wide_trees_on_small_data() {
    let case = (Data::Plain, 100, 53, 20.0, Subthreshold::Mahal);
    compare_small(Distance::Centroid, &[case]);
    compare_small(Distance::FullMahalanobis, &[case]);
}

/// Blocks copy the factor of a cluster for the distances of at least 256 members to it.
#[test]
#[ignore = "needs an NVIDIA GPU; small, for compute-sanitizer"]
fn the_gpu_sums_over_members_in_many_columns_on_small_data() {
    let trees = trees_of_gpu(0.0);
    let x = draw(&mut Random(80), Data::Plain, 700, 43);
    let options = options_of(Distance::FullMahalanobis, 100.0, Subthreshold::Mahal);
    compare(&trees, &x, None, &options, "700 × 43");
    assert_eq!(trees.counts(), (1, 1));
}

/// In many columns, far more clusters are near than a block lists at a time.
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_grows_wide_trees_of_many_near_clusters() {
    let trees = trees_of_gpu(1.0);
    let mut random = Random(81);
    for (p, distance) in [
        (64, Distance::Centroid),
        (120, Distance::Centroid),
        (64, Distance::FullMahalanobis),
    ] {
        let (n, p) = (3000, p.min(most_columns()));
        let x = draw(&mut random, Data::Plain, n, p);
        let options = options_of(distance, 300.0, Subthreshold::Mahal);
        compare(
            &trees,
            &x,
            None,
            &options,
            &format!("{n} × {p}, {options:?}"),
        );
    }
    assert_eq!(trees.counts(), (3, 3));
}

/// More pairs have the smallest distance than the priority queue has room for, and more than it
/// examines at a time.
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_grows_trees_of_a_grid() {
    let side = 150;
    let grid = |i: usize| [(i % side) as f64, (i / side) as f64];
    let mut random = Random(78);
    let mut order: Vec<usize> = (0..side * side).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, random.below(i + 1));
    }
    let x = Array2::from_shape_fn((order.len(), 2), |(i, k)| grid(order[i])[k]);
    let x = Observations::new(x).unwrap();
    let trees = trees_of_gpu(1.0);
    for (threshold, subthreshold) in [(1e9, Subthreshold::Euclid), (50.0, Subthreshold::Mahal)] {
        let options = options_of(Distance::Centroid, threshold, subthreshold);
        compare(&trees, &x, None, &options, &format!("{options:?}"));
    }
    assert_eq!(trees.counts(), (2, 2));
}

/// More clusters than a search has room for have the same bound in single precision, because they
/// are far from a single far cluster or form a far group.
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_grows_trees_of_what_single_precision_cannot_tell_apart() {
    let trees = trees_of_gpu(1.0);
    let mut random = Random(80);
    for (n, far) in [(6000, 1), (6000, 3), (3000, 1500), (20_000, 2)] {
        for distance in [Distance::Centroid, Distance::FullMahalanobis] {
            let mut x = draw(&mut random, Data::Plain, n, 5).view().to_owned();
            for mut row in x.rows_mut().into_iter().step_by(n / far).take(far) {
                row[3] += 1e10;
            }
            let x = Observations::new(x).unwrap();
            let options = options_of(distance, 0.01 * n as f64, Subthreshold::Mahal);
            compare(
                &trees,
                &x,
                None,
                &options,
                &format!("{n}, {far} far, {options:?}"),
            );
        }
    }
    assert_eq!(trees.counts(), (8, 8));
}

/// Blocks share the sums of large clusters, and the members of growing unions fill their array.
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_sums_over_many_members() {
    let trees = trees_of_gpu(1.0);
    let mut random = Random(79);
    for (data, n, p) in [(Data::HeavyTails, 6000, 3), (Data::Mixture, 12_000, 14)] {
        let x = draw(&mut random, data, n, p);
        for threshold in [20.0, 0.1 * n as f64] {
            let options = options_of(
                Distance::FullMahalanobis,
                threshold,
                Subthreshold::EuclidMahal,
            );
            compare(
                &trees,
                &x,
                None,
                &options,
                &format!("{data:?}, {options:?}"),
            );
        }
    }
    assert_eq!(trees.counts(), (4, 4));
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_grows_trees_of_centres() {
    let trees = trees_of_gpu(1.0);
    let mut random = Random(74);
    for (round, data) in DATA.into_iter().enumerate() {
        let n = if matches!(data, Data::Minute) {
            200
        } else {
            1500
        };
        let p = DIMENSIONS[round % DIMENSIONS.len()].min(most_columns());
        let x = draw(&mut random, data, n, p);
        for linkage in ["centroid", "median"] {
            let before = trees.counts();
            let tree = |on: &dyn AgglomerationDevice| {
                let tree = match linkage {
                    "centroid" => geometric::centroid(&x, on, &Monitor::default()),
                    _ => geometric::median(&x, on, &Monitor::default()),
                };
                tree.unwrap()
            };
            let (found, expected) = (tree(&trees), tree(&trees.cpu));
            assert_same(
                found.merge.into_iter().zip(found.height),
                expected.merge.into_iter().zip(expected.height),
                &format!("{linkage}, {data:?}, {n} × {p}"),
            );
            assert_grown(before, trees.counts(), &format!("{linkage}, {data:?}"));
        }
    }
}

/// A clustering unites equal observations before it asks the device for a tree, unless this would
/// change the order of merges. Here the device gets all observations.
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_merges_equal_observations_by_definition() {
    let device = Device::shared(0).unwrap();
    let cpu = Cpu::new(1).unwrap();
    let mut random = Random(75);
    let mut grown = 0;
    for round in 0..60 {
        let tied = [
            Data::Duplicates,
            Data::Grid,
            Data::ZeroInflated,
            Data::Counts,
            Data::Minute,
        ];
        let data = tied[round % tied.len()];
        let n = 2 + random.below(100);
        let x = draw(&mut random, data, n, 1 + round % 4);
        let options = options(&mut random, n);
        let problem = Problem::of_observations(&x, 0..n as u32, options);
        let bounding_box = problem.bounding_box();
        let found = grow(
            &device,
            &problem,
            &bounding_box,
            1.0,
            &cpu,
            &Monitor::default(),
        );
        let found = found.unwrap();
        let Some(found) = found else { continue };
        let expected = reference::agglomerate(&problem, Source::Merged);
        let merges = |merges: Vec<Merge>| {
            let merge = |merge: Merge| ((merge.lower, merge.higher), merge.height);
            merges.into_iter().map(merge)
        };
        let case = format!("{data:?}, {n}, {options:?}");
        assert_same(merges(found), merges(expected), &case);
        grown += 1;
    }
    assert!(grown > 20, "{grown} of 60");
}

/// Makes the tree of these observations with centroid distances.
fn grow_plain(x: &Observations, monitor: &Monitor) -> Result<Option<Vec<Merge>>> {
    let n = x.nrows();
    let options = options_of(Distance::Centroid, 0.01 * n as f64, Subthreshold::Mahal);
    let problem = Problem::of_observations(x, 0..n as u32, options);
    let (device, cpu) = (Device::shared(0).unwrap(), Cpu::new(4).unwrap());
    grow(
        &device,
        &problem,
        &problem.bounding_box(),
        1.0,
        &cpu,
        monitor,
    )
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn a_tree_ends_when_it_is_told_to() {
    let n = 40_000;
    let x = draw(&mut Random(76), Data::Mixture, n, 14);
    let stopped = Monitor::default();
    stopped.stop();
    assert_eq!(grow_plain(&x, &stopped), Err(Error::Interrupt));
    assert_eq!(stopped.progress().0, 0);

    let monitor = Monitor::default();
    let ended = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            while monitor.progress().0 == 0 && !ended.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            monitor.stop();
        });
        let result = grow_plain(&x, &monitor);
        ended.store(true, Ordering::Relaxed);
        result
    });
    assert_eq!(result, Err(Error::Interrupt));
    // The whole tree has n - 1 merges of n units each, and one launch can make all of them. Without
    // a check of the monitor, the device would complete the tree.
    let (done, all) = (monitor.progress().0, (n * n) as u64);
    assert!(0 < done && done < all / 2, "{done} of {all}");
}
