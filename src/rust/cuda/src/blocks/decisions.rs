//! Compares the arithmetic of agglomerate.cu with the Rust code bit for bit. No GPU is needed:
//! kernels/host compiles the kernel for the CPU.

use std::cell::Cell;
use std::sync::OnceLock;

use libloading::{Library, Symbol};
use pulp::Scalar;

use super::arrays::{
    balls, banded_len, doubles, place_in_bands, singles, words, Arrays, Partner, Task, BALL,
    MOST_IN_REGISTERS, PARTNERS, SHAPE_SCALARS,
};
use super::launch::{chunks, FAILED, MERGED, MOST_CHUNKS, SHARED_COUNTERS};
use super::tasks::{copy_observations, sorted_slots, tasks};
use crate::host::{self, extreme, same};
use crate::tree::clusters::BALL_SCALARS;
use gmhclust_core::mahalanobis::distance::{ExactSum, Quanta};
use gmhclust_core::mahalanobis::geometric_mean::geometric_mean;
use gmhclust_core::mahalanobis::packed::packed_len;
use gmhclust_core::mahalanobis::shape::{self, Workspace};
use gmhclust_core::mahalanobis::subthreshold::ShapeRule;
use gmhclust_core::mahalanobis::{
    distance, AgglomerationDevice, Distance, Options, Problem, Subthreshold,
};
use gmhclust_core::monitor::Monitor;
use gmhclust_core::next_float::NextFloat;
use gmhclust_core::testing::{draw, observations, Data, Random, DATA};
use gmhclust_core::{Cpu, Merge, Observations};

/// Numbers of dimensions in the tests: below and above the length of a band and of a warp, and the
/// largest number that a block takes.
const DIMENSIONS: [usize; 6] = [1, 2, 3, 14, 33, 64];

/// A function of host/agglomerate.cpp.
///
/// # Safety
/// As [`host::function`].
unsafe fn function<F>(name: &str) -> Symbol<'static, F> {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    let library = LIBRARY.get_or_init(|| host::library("agglomerate.cpp", &[]));
    // SAFETY: as the caller says.
    unsafe { host::function(library, name) }
}

fn host_geometric_mean(values: &[f64]) -> f64 {
    type Function = unsafe extern "C" fn(*const f64, u32) -> f64;
    // SAFETY: the function has this type, with the length of `values`.
    unsafe { function::<Function>("host_geometric_mean")(values.as_ptr(), values.len() as u32) }
}

/// The high and the low quantum, and their rounding error.
fn host_quanta(stretch: f64, diagonal: f64, log2_terms: u32) -> [f64; 3] {
    type Function = unsafe extern "C" fn(f64, f64, u32, *mut f64);
    let mut out = [0.0; 3];
    // SAFETY: the function has this type; it writes three numbers.
    unsafe {
        function::<Function>("host_quanta")(stretch, diagonal, log2_terms, out.as_mut_ptr());
    }
    out
}

/// The high and the low part of an exact sum, and the mean.
fn host_exact_sum(terms: &[f64], quanta: &Quanta) -> [f64; 3] {
    type Function = unsafe extern "C" fn(*const f64, u32, f64, f64, *mut f64);
    let mut out = [0.0; 3];
    let (count, Quanta { high, low }) = (terms.len() as u32, *quanta);
    // SAFETY: the function has this type, with the length of `terms`; it writes three numbers.
    unsafe {
        function::<Function>("host_exact_sum")(terms.as_ptr(), count, high, low, out.as_mut_ptr());
    }
    out
}

/// Converts a packed whitening factor to bands.
fn host_bands(p: usize, packed: &[f64]) -> Vec<f64> {
    type Function = unsafe extern "C" fn(u32, *const f64, *mut f64) -> u32;
    let mut banded = vec![f64::NAN; banded_len(p)];
    // SAFETY: the function has this type; `packed` has the elements of p rows.
    let length = unsafe {
        function::<Function>("host_bands")(p as u32, packed.as_ptr(), banded.as_mut_ptr())
    };
    assert_eq!(length as usize, banded.len());
    banded
}

/// The distance from a point to a cluster, and the squared distance from the point to the cluster's
/// mean.
fn host_to_cluster(registers: u32, x: &[f64], mean: &[f64], bands: Option<&[f64]>) -> (f64, f64) {
    type Function =
        unsafe extern "C" fn(u32, *const f64, *const f64, u32, *const f64, *mut f64) -> f64;
    let bands = bands.map_or(std::ptr::null(), <[f64]>::as_ptr);
    let (p, mut square) = (x.len() as u32, 0.0);
    // SAFETY: the function has this type; x and mean have p elements, and the bands the elements of
    // p rows.
    let distance = unsafe {
        let to_cluster = function::<Function>("host_to_cluster");
        to_cluster(registers, x.as_ptr(), mean.as_ptr(), p, bands, &mut square)
    };
    (distance, square)
}

/// The kernel's arguments for these options and `p` dimensions. All addresses are null.
fn no_arrays(options: &Options, p: usize) -> Arrays {
    Arrays {
        threshold: options.threshold,
        subthreshold: options.subthreshold as u32,
        normalize: u32::from(options.normalize),
        dimensions: p as u32,
        tasks: 0,
        task: 0,
        x: 0,
        partners: 0,
        doubles: doubles(p, options.distance).map(|_| 0),
        singles: singles(p, options.distance).map(|_| 0),
        balls: 0,
        words: words(options.distance).map(|_| 0),
        heights: 0,
        lower: 0,
        higher: 0,
        next_task: 0,
        failed_tasks: 0,
        merged: 0,
        progress: 0,
        stop: 0,
    }
}

fn options(
    threshold: f64,
    subthreshold: Subthreshold,
    distance: Distance,
    normalize: bool,
) -> Options {
    Options {
        threshold,
        subthreshold,
        distance,
        normalize,
        apriori_intra: true,
    }
}

/// A generator of random numbers with its own sequence for each test and case.
fn random(seed: usize) -> Random {
    Random::of(0x9E37_79B9_7F4A_7C15 ^ (seed as u64 + 1))
}

#[test]
fn the_rule_for_shapes_is_that_of_the_cpu() {
    type IsFullSize = unsafe extern "C" fn(f64, u32) -> bool;
    type MayHaveShape = unsafe extern "C" fn(f64, u32, bool, u32) -> bool;
    // SAFETY: the function has this type.
    let (is_full_size, may_have_shape) = unsafe {
        (
            function::<IsFullSize>("host_is_full_size"),
            function::<MayHaveShape>("host_may_have_shape"),
        )
    };
    let thresholds = [
        0.0,
        -0.0,
        0.5,
        1.0,
        2.0,
        2.5,
        3.0,
        3.0f64.next_above(),
        3.0f64.next_below(),
        64.0,
    ];
    let beyond = [1e9, f64::INFINITY, f64::NAN, f64::MIN_POSITIVE];
    for threshold in thresholds.into_iter().chain(beyond) {
        for subthreshold in Subthreshold::ALL {
            for all_full_size in [false, true] {
                let options = options(threshold, subthreshold, Distance::Centroid, false);
                let rule = options.shape_rule(all_full_size);
                for members in (1..70).chain([1 << 20]) {
                    let case = format!("{rule:?}, {members} members");
                    let count = members as u32;
                    // SAFETY: plain numbers.
                    let (full, may) = unsafe {
                        (
                            is_full_size(threshold, count),
                            may_have_shape(threshold, subthreshold as u32, all_full_size, count),
                        )
                    };
                    assert_eq!(full, rule.is_full_size(members), "{case}");
                    assert_eq!(may, rule.may_have_shape(members), "{case}");
                }
            }
        }
    }
}

#[test]
fn geometric_means_have_the_bits_of_the_cpu() {
    let mut random = random(1);
    for case in 0..3_000 {
        let count = DIMENSIONS[case % DIMENSIONS.len()];
        let spread = random.below(300) as i32 + 1;
        let values: Vec<f64> = (0..count)
            .map(|_| match (case % 3, extreme(&mut random).abs()) {
                (0, value) if value > 0.0 => value,
                _ => {
                    random.uniform() * 10f64.powi(random.below(2 * spread as usize) as i32 - spread)
                }
            })
            .map(|value| value.max(5e-324))
            .collect();
        let expected = geometric_mean(&values);
        let found = host_geometric_mean(&values);
        assert!(
            same(found, expected),
            "{found} is not {expected} of {values:?}"
        );
    }
}

#[test]
fn exact_sums_have_the_bits_of_the_cpu() {
    let mut random = random(2);
    for case in 0..2_000 {
        let log2_terms = random.below(14) as u32;
        let (stretch, diagonal) = match case % 3 {
            0 => (extreme(&mut random).abs(), random.uniform()),
            1 => (1.0, extreme(&mut random).abs()),
            _ => (random.uniform() * 10.0, random.uniform() * 100.0),
        };
        let quanta = distance::quanta(stretch, diagonal, log2_terms);
        let [high, low, rounding] = host_quanta(stretch, diagonal, log2_terms);
        let case = format!("stretch {stretch:e}, diagonal {diagonal:e}, 2^{log2_terms} terms");
        assert!(same(high, quanta.high) && same(low, quanta.low), "{case}");
        assert!(same(rounding, quanta.rounding()), "{case}");

        let count = 1 + random.below(1 << log2_terms.min(6));
        let largest = stretch * diagonal;
        let terms: Vec<f64> = (0..count).map(|_| random.uniform() * largest).collect();
        let mut sum = ExactSum::default();
        terms.iter().for_each(|&term| sum.add(term, &quanta));
        let [high, low, mean] = host_exact_sum(&terms, &quanta);
        assert!(same(high, sum.high) && same(low, sum.low), "{case}");
        assert!(same(mean, sum.mean(count)), "{case}");
    }
}

#[test]
fn distances_to_clusters_have_the_bits_of_the_cpu() {
    let mut random = random(3);
    for case in 0..1_200 {
        let p = DIMENSIONS[case % DIMENSIONS.len()];
        // No value is so large that sums overflow: such input is rejected earlier.
        let mut value = |scale: f64| match case / DIMENSIONS.len() % 4 {
            0 => random.normal() * scale,
            1 => random.normal().round(),
            2 => [0.0, -0.0, 1e-310, -5e-324, 1e100, -1e-100][random.below(6)],
            _ => random.normal() * 10f64.powi(random.below(200) as i32 - 100),
        };
        let x: Vec<f64> = (0..p).map(|_| value(3.0)).collect();
        let mean: Vec<f64> = (0..p).map(|_| value(2.0)).collect();
        let factor: Vec<f64> = (0..packed_len(p)).map(|_| value(1.0)).collect();
        let bands = host_bands(p, &factor);
        for registers in [0, 16, 24, 32] {
            if registers > 0 && p > registers as usize {
                continue;
            }
            let expected = distance::to_cluster(&x, &mean, &[]);
            let (found, square) = host_to_cluster(registers, &x, &mean, None);
            assert!(
                same(found, expected),
                "{found} is not {expected}: {x:?}, {mean:?}"
            );
            assert!(same(square.sqrt(), expected), "{square}: {x:?}, {mean:?}");
            let expected = distance::to_cluster(&x, &mean, &factor);
            let (found, _) = host_to_cluster(registers, &x, &mean, Some(&bands));
            assert!(
                same(found, expected),
                "{found} is not {expected}: {x:?}, {mean:?}, {factor:?}"
            );
        }
    }
}

#[test]
fn the_distance_of_two_clusters_has_the_bits_of_the_cpu() {
    type Function = unsafe extern "C" fn(f64, f64) -> f64;
    // SAFETY: the function has this type.
    let average = unsafe { function::<Function>("host_average") };
    let mut random = random(4);
    for _ in 0..1_000 {
        let (a, b) = (extreme(&mut random).abs(), extreme(&mut random).abs());
        // SAFETY: plain numbers.
        let found = unsafe { average(a, b) };
        assert!(same(found, distance::average(a, b)), "{a:e}, {b:e}");
    }
}

#[test]
fn means_and_scatters_of_unions_have_the_bits_of_the_cpu() {
    type Function = unsafe extern "C" fn(
        u32,
        f64,
        *const f64,
        *const f64,
        f64,
        *const f64,
        *const f64,
        *mut f64,
        *mut f64,
    );
    // SAFETY: the function has this type.
    let merge = unsafe { function::<Function>("host_merge") };
    let mut random = random(5);
    for case in 0..600 {
        let p = DIMENSIONS[case % DIMENSIONS.len()];
        let mut value = || {
            if case % 2 == 0 {
                random.normal()
            } else {
                extreme(&mut random)
            }
        };
        let [mean_a, mean_b] = [0, 1].map(|_| (0..p).map(|_| value()).collect::<Vec<f64>>());
        let length = packed_len(p);
        let [scatter_a, scatter_b] =
            [0, 1].map(|_| (0..length).map(|_| value()).collect::<Vec<f64>>());
        let (a, b) = (1 + random.below(2_000), 1 + random.below(50));
        let (mut mean, mut scatter) = (mean_a.clone(), scatter_a.clone());
        shape::merge(a, &mut mean, &mut scatter, b, &mean_b, &scatter_b);
        let (mut host_mean, mut host_scatter) = (vec![f64::NAN; p], vec![f64::NAN; length]);
        // SAFETY: means have p elements, scatters as many as p packed rows.
        unsafe {
            merge(
                p as u32,
                a as f64,
                mean_a.as_ptr(),
                scatter_a.as_ptr(),
                b as f64,
                mean_b.as_ptr(),
                scatter_b.as_ptr(),
                host_mean.as_mut_ptr(),
                host_scatter.as_mut_ptr(),
            );
        }
        let pairs = mean
            .iter()
            .zip(&host_mean)
            .chain(scatter.iter().zip(&host_scatter));
        for (&expected, &found) in pairs {
            assert!(
                same(found, expected),
                "{found} is not {expected}: {p} dimensions, case {case}"
            );
        }
    }
}

/// A packed scatter of points, or a matrix that resembles one.
fn draw_scatter(random: &mut Random, p: usize, members: usize) -> Vec<f64> {
    let scale = [1.0, 1e-3, 1e-160, 1e140, 1e-155][random.below(5)];
    let mut mean = vec![0.0; p];
    let mut scatter = vec![0.0; packed_len(p)];
    let mut point = vec![0.0; p];
    for m in 0..members {
        for (k, x) in point.iter_mut().enumerate() {
            *x = random.normal() * scale * (1.0 + k as f64);
        }
        if m == 0 {
            mean.copy_from_slice(&point);
        } else {
            shape::merge(m, &mut mean, &mut scatter, 1, &point, &[]);
        }
    }
    let at = random.below(scatter.len());
    let diagonal = packed_len(p - 1) + p - 1;
    match random.below(10) {
        0 => scatter[at] = f64::NAN,
        1 => scatter[diagonal] = f64::NAN,
        2 => scatter[diagonal] = 0.0,
        3 => scatter[diagonal] = -scatter[diagonal],
        4 => scatter.fill(0.0),
        5 => scatter.fill(-0.0),
        6 => scatter[at] = f64::INFINITY,
        _ => {}
    }
    scatter
}

/// The whitening factor that a block makes, packed, or `None` for the identity, and the scalars of
/// the shape.
fn host_whitening(
    rule: &ShapeRule,
    normalize: bool,
    members: usize,
    scatter: &[f64],
    task: &Task,
    p: usize,
) -> (Option<Vec<f64>>, [f64; SHAPE_SCALARS]) {
    type Function = unsafe extern "C" fn(*const Arrays, *const Task, bool, u32) -> bool;
    let options = options(
        rule.threshold,
        rule.subthreshold,
        Distance::FullMahalanobis,
        normalize,
    );
    let mut arrays = no_arrays(&options, p);
    let mut banded = vec![f64::NAN; banded_len(p)];
    let mut scalars = [f64::NAN; SHAPE_SCALARS];
    arrays.doubles.scatters = scatter.as_ptr() as u64;
    arrays.doubles.factors = banded.as_mut_ptr() as u64;
    arrays.doubles.shape_scalars = scalars.as_mut_ptr() as u64;
    // SAFETY: the function has this type; the shape has number 0, and its arrays have room for it.
    let has_factor = unsafe {
        function::<Function>("host_reshape")(&arrays, task, rule.all_full_size, members as u32)
    };
    let packed = || {
        let rows = (0..p).flat_map(|i| (0..=i).map(move |j| (i, j)));
        rows.map(|(i, j)| banded[place_in_bands(p, i, j)]).collect()
    };
    (has_factor.then(packed), scalars)
}

#[test]
fn whitening_factors_and_quanta_have_the_bits_of_the_cpu() {
    let mut random = random(6);
    let mut factors = 0;
    for case in 0..1_200 {
        let p = DIMENSIONS[case % DIMENSIONS.len()];
        // Clusters that are full-size, just at the threshold, just below it, or with fewer members
        // than dimensions.
        let members = [p, p + 1, 2 * p + 3, 3, 2][random.below(5)].max(2);
        let at = members as f64;
        let threshold = [at, at + 1.0, at.next_above(), 2.5 * at, 1.0][random.below(5)];
        let subthreshold = Subthreshold::ALL[random.below(4)];
        let (normalize, all_full_size) = (random.below(2) == 0, random.below(2) == 0);
        let options = options(
            threshold,
            subthreshold,
            Distance::FullMahalanobis,
            normalize,
        );
        let rule = options.shape_rule(all_full_size);
        let scatter = draw_scatter(&mut random, p, members);
        let task = Task {
            diagonal: random.uniform() * 10.0,
            first: 0,
            observations: members as u32,
            log2_terms: random.below(12) as u32,
        };
        let (found, scalars) = host_whitening(&rule, normalize, members, &scatter, &task, p);

        let (mut work, mut out) = (Workspace::default(), vec![0.0; packed_len(p)]);
        let simd = Scalar::new();
        let scale = shape::whitening(simd, &rule, members, &scatter, p, &mut work, &mut out);
        let expected = scale.map(|_| out);
        let case = format!("{rule:?}, {members} members, {p} dimensions, case {case}");
        assert_eq!(found.is_some(), expected.is_some(), "{case}");
        let pairs = found.iter().flatten().zip(expected.iter().flatten());
        for (at, (&found, &expected)) in pairs.enumerate() {
            assert!(
                same(found, expected),
                "{found} is not {expected} at {at}: {case}"
            );
        }
        factors += usize::from(expected.is_some());

        let stretch = distance::stretch(expected.as_deref().unwrap_or(&[]));
        let quanta = distance::quanta(stretch, task.diagonal, task.log2_terms);
        let [high, low, rounding, smallest, stretch_above] = scalars;
        assert!(same(high, quanta.high) && same(low, quanta.low), "{case}");
        assert!(same(rounding, quanta.rounding()), "{case}");
        // Both bounds on stretches are 1 for the identity.
        assert!(expected.is_some() || smallest == 1.0, "{smallest}: {case}");
        assert!(
            expected.is_some() || stretch_above == 1.0,
            "{stretch_above}: {case}"
        );
        assert!(
            stretch_above >= stretch,
            "{stretch_above}, {stretch}: {case}"
        );
    }
    assert!(factors > 150, "only {factors} cases have a factor");
}

/// The merges of problems by the kernel.
fn host_merges(problems: &[&Problem], registers: u32, descending: bool) -> Vec<Vec<Merge>> {
    type Function = unsafe extern "C" fn(*const Arrays, u32, bool, u32, bool);
    let options = problems[0].options;
    let p = problems[0].x.ncols();
    let tasks = tasks(problems, 0);
    let observations: usize = problems.iter().map(|problem| problem.clusters()).sum();
    // A block must write before it reads: the initial values are NaN.
    let mut x = vec![f64::NAN; observations * p + MOST_IN_REGISTERS];
    let distance = options.distance;
    let of_each = |length: &usize| length * observations;
    let all_doubles = doubles(p, distance).map(|length| vec![Cell::new(f64::NAN); of_each(length)]);
    let all_singles = singles(p, distance).map(|length| vec![Cell::new(f32::NAN); of_each(length)]);
    let all_balls = vec![Cell::new(f32::NAN); balls(p, observations, tasks.len(), distance)];
    let mut all_words =
        words(distance).map(|length| vec![Cell::new(u32::MAX - 1); of_each(length)]);
    if distance == Distance::Centroid {
        all_words.slots_at = sorted_slots(problems).into_iter().map(Cell::new).collect();
    }
    let mut heights = vec![f64::NAN; observations];
    let (mut lower, mut higher) = (vec![0u32; observations], vec![0u32; observations]);
    let mut counters = [0u32; SHARED_COUNTERS + MOST_CHUNKS];
    let mut watch = [0u32; 2];
    let mut arrays = no_arrays(&options, p);
    arrays.tasks = tasks.len() as u32;
    arrays.task = tasks.as_ptr() as u64;
    let partner = Partner {
        distance: f64::NAN,
        slot: u32::MAX - 1,
        birth: u32::MAX - 1,
    };
    let partners = vec![Cell::new(partner); PARTNERS * observations];
    arrays.partners = partners.as_ptr() as u64;
    arrays.doubles = all_doubles.map(|array| array.as_ptr() as u64);
    arrays.singles = all_singles.map(|array| array.as_ptr() as u64);
    arrays.balls = all_balls.as_ptr() as u64;
    arrays.words = all_words.map(|array| array.as_ptr() as u64);
    arrays.heights = heights.as_mut_ptr() as u64;
    arrays.lower = lower.as_mut_ptr() as u64;
    arrays.higher = higher.as_mut_ptr() as u64;
    let counters_at = counters.as_mut_ptr() as u64;
    let counter = |number: usize| counters_at + (number * size_of::<u32>()) as u64;
    arrays.failed_tasks = counter(FAILED);
    arrays.merged = counter(MERGED);
    arrays.next_task = counter(SHARED_COUNTERS);
    let seen = watch.as_mut_ptr() as u64;
    (arrays.progress, arrays.stop) = (seen, seen + 4);
    let sizes: Vec<usize> = problems.iter().map(|problem| problem.clusters()).collect();
    for (number, chunk) in chunks(&sizes, 1).into_iter().enumerate() {
        // Copies in two parts, as a sender may do. The observations of later chunks are not there.
        let first = tasks[chunk.start].first as usize;
        let end = first + sizes[chunk.clone()].iter().sum::<usize>();
        let middle = first + (end - first) / 3;
        for places in [first..middle, middle..end] {
            let rows = &mut x[places.start * p..places.end * p];
            copy_observations(problems, &tasks, places.start, rows);
        }
        let mut arrays = arrays;
        arrays.x = x.as_ptr() as u64;
        arrays.take_chunk(&chunk, number, distance);
        // SAFETY: the function has this type; all arrays have the lengths that a launch on a device
        // gives them.
        unsafe {
            function::<Function>("host_agglomerate")(
                &arrays,
                registers,
                options.distance == Distance::FullMahalanobis,
                2,
                descending,
            );
        }
    }
    assert_eq!(counters[FAILED], 0, "a task failed");
    let mut first = 0;
    let mut merges = Vec::new();
    for problem in problems {
        let all = first..first + problem.clusters() - 1;
        first += problem.clusters();
        let merge = |at: usize| Merge {
            lower: lower[at],
            higher: higher[at],
            height: heights[at],
        };
        merges.push(all.map(merge).collect());
    }
    merges
}

#[test]
fn tasks_of_chunks_have_balls_of_their_own() {
    let (p, distance) = (3, Distance::Centroid);
    let sizes = [70, 64, 33, 1, 2, 500];
    let row = ((p + BALL_SCALARS) * size_of::<f32>()) as u64;
    let options = options(1.0, Subthreshold::Mahal, distance, false);
    let mut arrays = no_arrays(&options, p);
    arrays.balls = 1 << 20;
    let (mut first, mut end) = (0, arrays.balls);
    for (number, chunk) in [0..2, 2..3, 3..6].into_iter().enumerate() {
        let mut of_chunk = arrays;
        of_chunk.take_chunk(&chunk, number, distance);
        for (task, &size) in sizes[chunk].iter().enumerate() {
            // As in `Problem::ball_rows` of agglomerate/problem.cuh.
            let start = of_chunk.balls + (first / BALL + task) as u64 * row;
            assert!(start >= end, "{number}, {task}");
            end = start + usize::div_ceil(size, BALL) as u64 * row;
            first += size;
        }
    }
    let all = balls(p, first, sizes.len(), distance) * size_of::<f32>();
    assert!(end <= arrays.balls + all as u64);
}

#[test]
fn a_block_merges_what_the_cpu_merges_at_the_same_heights() {
    let cpu = Cpu::new(1).unwrap();
    let mut random = random(7);
    for (case, data) in DATA.iter().cycle().take(2 * DATA.len()).enumerate() {
        let p = [2, 5, 14, 1, 20, 33][case % 6];
        let sizes = [
            2 + random.below(8),
            3 + random.below(20),
            2 + random.below(6),
        ];
        let threshold = [1.0, 4.5, p as f64 + 2.0, 6.0, 1e6][random.below(5)];
        let subthreshold = Subthreshold::ALL[random.below(4)];
        let options = options(
            threshold,
            subthreshold,
            Distance::ALL[usize::from(case % 2 == 0)],
            random.below(2) == 0,
        );
        let x = draw(&mut random, *data, sizes.iter().sum(), p);
        let mut first = 0;
        let problems = sizes.map(|size| {
            let members = first..first + size as u32;
            first += size as u32;
            Problem::of_observations(&x, members, options)
        });
        let expected = cpu.agglomerate(&problems, &Monitor::default()).unwrap();
        let problems: Vec<&Problem> = problems.iter().collect();
        let registers = [0, 16, 32]
            .into_iter()
            .filter(|&most| most == 0 || p <= most as usize);
        for (registers, descending) in registers.zip([false, true, false]) {
            let found = host_merges(&problems, registers, descending);
            let case = format!("case {case}, {data:?}, {p} dimensions, {options:?}");
            assert_eq!(found, expected, "{case}");
        }
    }
}

#[test]
fn a_block_merges_many_observations_like_the_cpu() {
    // Enough observations for several chunks of positions, and for clusters whose members all
    // threads of a block sum over together.
    let (n, p) = (300, 3);
    let cpu = Cpu::new(1).unwrap();
    let mut random = random(9);
    for (case, data) in DATA.iter().enumerate() {
        for distance in Distance::ALL {
            let options = options(30.0, Subthreshold::ALL[case % 4], distance, case % 2 == 0);
            let x = draw(&mut random, *data, n, p);
            let problem = Problem::of_observations(&x, 0..n as u32, options);
            let found = host_merges(&[&problem], 16, case % 2 == 1);
            let expected = cpu.agglomerate(&[problem], &Monitor::default());
            assert_eq!(found, expected.unwrap(), "{data:?}, {options:?}");
        }
    }
}

/// Checks that a block merges all observations as the CPU does, with the kernel that keeps this
/// number of dimensions in registers.
fn compare_with_the_cpu(x: &Observations, options: Options, registers: u32) {
    let problem = Problem::of_observations(x, 0..x.nrows() as u32, options);
    let found = host_merges(&[&problem], registers, false);
    let cpu = Cpu::new(1).unwrap();
    let expected = cpu.agglomerate(&[problem], &Monitor::default());
    assert_eq!(found, expected.unwrap());
}

#[test]
fn a_block_keeps_coordinates_that_do_not_fit_into_registers() {
    // Enough observations that clusters move to lower places of the screen.
    let (n, p) = (200, 40);
    let mut random = random(10);
    let options = options(20.0, Subthreshold::Mahal, Distance::Centroid, false);
    let x = draw(&mut random, Data::Mixture, n, p);
    compare_with_the_cpu(&x, options, 0);
}

#[test]
fn a_block_merges_a_group_that_single_precision_cannot_resolve() {
    // Two groups, one of them around the center of the screen. Each has more observations than a
    // search lists at a time, and the one far from the center is so dense that all bounds between
    // its observations are 0.
    let (n, p) = (1050, 2);
    let mut random = random(11);
    let values = (0..n * p).map(|i| match i < n / 2 * p {
        true => 1e9 + 1e-3 * random.normal(),
        false => 1e-3 * random.normal(),
    });
    let x = observations(values.collect(), n, p);
    let options = options(10.0, Subthreshold::EuclidMahal, Distance::Centroid, false);
    compare_with_the_cpu(&x, options, 16);
}

#[test]
fn no_two_threads_of_a_block_race() {
    // Enough observations for several balls. The last argument is whether distances are full.
    let races = host::races("races.cpp", &[], &[&["160", "3", "0"], &["100", "3", "1"]]);
    assert!(races.is_empty(), "{}", races.join("\n"));
}

#[test]
fn observations_whose_distance_underflows_merge_at_zero() {
    let x = observations(vec![-0.0, 0.0, 0.0, -0.0, 5e-324, 0.0], 6, 1);
    for distance in [Distance::FullMahalanobis, Distance::Centroid] {
        let options = options(3.0, Subthreshold::Mahal, distance, false);
        let problem = Problem::of_observations(&x, 0..6, options);
        let found = host_merges(&[&problem], 0, false);
        let cpu = Cpu::new(1).unwrap();
        let expected = cpu.agglomerate(&[problem], &Monitor::default()).unwrap();
        assert_eq!(found, expected);
        assert!(found[0].iter().all(|merge| merge.height == 0.0));
    }
}

#[test]
fn bounds_hold_for_moments_that_underflow() {
    let cpu = Cpu::new(1).unwrap();
    let mut random = random(8);
    let (n, p) = (40, 3);
    for scale in [1e-50, 1e-56, 1e-71, 1e-75, 1e-90, 1e-120] {
        for subthreshold in Subthreshold::ALL {
            let plain = draw(&mut random, Data::Mixture, n, p);
            let x = observations(
                plain.view().iter().map(|value| value * scale).collect(),
                n,
                p,
            );
            let options = options(5.0, subthreshold, Distance::FullMahalanobis, false);
            let problem = Problem::of_observations(&x, 0..n as u32, options);
            let found = host_merges(&[&problem], 0, false);
            let expected = cpu.agglomerate(&[problem], &Monitor::default());
            assert_eq!(found, expected.unwrap(), "{scale}, {options:?}");
        }
    }
}
