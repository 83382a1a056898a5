//! Runs the kernels of tree.cu on the CPU with one block, and compares the merges with those of the
//! Rust code.

use std::cell::RefCell;
use std::convert::Infallible;
use std::ffi::{c_char, c_void, CString};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytemuck::{cast_slice, cast_slice_mut};
use gmhclust_core::mahalanobis::screen::{ClusterFrame, Profile, Spread};
use gmhclust_core::mahalanobis::{AgglomerationDevice, Distance, Options, Problem, Subthreshold};
use gmhclust_core::single_precision::{down, up};
use gmhclust_core::testing::{draw, Data, Random, DATA};
use gmhclust_core::{Cpu, Merge, Monitor};
use libloading::Library;

use super::arrays::{control, to_merges, Placement, Status, Tree, TreeArrays};
use super::clusters::{Clusters, Scalars};
use super::start::{Contents, Start};
use super::testing::{assert_grown, prepare_launch, Trees};
use crate::host::{function, in_folder, library, races};

/// A buffer of bytes that is aligned for all types.
type Buffer = Vec<u64>;

fn filled(bytes: usize) -> Buffer {
    // Kernels must write before they read: the initial values are meaningless.
    vec![u64::MAX - 0xffff_0000_ffff; bytes.div_ceil(8).max(1)]
}

/// Copies bytes to the front of a buffer.
fn put(buffer: &RefCell<Buffer>, bytes: &[u8]) -> std::result::Result<(), Infallible> {
    cast_slice_mut::<u64, u8>(&mut buffer.borrow_mut())[..bytes.len()].copy_from_slice(bytes);
    Ok(())
}

fn bytes(buffer: &Buffer) -> &[u8] {
    cast_slice(buffer)
}

/// The arrays of a launch, with what they have at the start.
fn contents_of(start: &Start, contents: &Contents) -> (TreeArrays<Buffer>, [Buffer; 2]) {
    let sizes = &start.sizes;
    let arrays = sizes.bytes().map(|&bytes| RefCell::new(filled(bytes)));
    let rows_and_factors = sizes.clusters_bytes().map(filled).map(RefCell::new);
    arrays.members.borrow_mut().fill(0);
    let cpu = Cpu::new(1).unwrap();
    contents
        .copy(&arrays, &rows_and_factors, &cpu, put)
        .unwrap();
    (
        arrays.map(RefCell::take),
        rows_and_factors.map(RefCell::into_inner),
    )
}

/// Clears what the host clears before each launch that makes merges.
fn clear(arrays: &mut TreeArrays<Buffer>) {
    arrays.posted.fill(0);
    arrays.done.fill(0);
    arrays.shared_work.fill(0x7fff_ffff_7fff_ffff);
}

/// Makes the merges of a problem by the kernels for up to `most_columns` columns. Returns `None` if
/// the kernels give up.
fn host_grow(
    (most_columns, host): &(usize, Library),
    problem: &Problem,
    milliseconds: u32,
    placement: Placement,
    backwards: bool,
    compactions: &AtomicUsize,
    gathered: &AtomicUsize,
) -> Option<Vec<Merge>> {
    let bounding_box = problem.bounding_box();
    let monitor = Monitor::default();
    let start = Start::new(problem, &bounding_box, *most_columns, &monitor);
    let (start, contents) = start.unwrap();
    let sizes = start.sizes;
    let n = sizes.clusters;
    let mut watch = [0u32; 2];
    let (mut arrays, rows_and_factors) = contents_of(&start, &contents);
    let addresses = arrays.map(|array| array.as_ptr() as u64);
    let mut tree = start.tree(problem, addresses, watch.as_mut_ptr() as u64);
    tree.milliseconds = milliseconds;
    // The room for members is small, so that it is soon used up.
    tree.member_room = tree.member_room.min(5 * sizes.observations as u32);
    tree.placement = placement as u32;
    let mut clusters = start.clusters(
        rows_and_factors
            .each_ref()
            .map(|array| array.as_ptr() as u64),
    );
    type Function = unsafe extern "C" fn(*const Tree, *const Clusters, u32, bool, u32, u32);
    // SAFETY: the function has this type, and all arrays have the lengths of a launch on a device.
    let run = |tree: &Tree, clusters: &Clusters, what: u32, used: u32, left: u32| unsafe {
        let host_tree = function::<Function>(host, "host_tree");
        host_tree(tree, clusters, what, backwards, used, left);
    };
    let mut used = n as u32;
    tree.merges_until = used / 3;
    run(&tree, &clusters, 0, used, used);
    let search = if start.are_points() { 6 } else { 1 };
    run(&tree, &clusters, search, used, used);
    let mut merges = 0;
    loop {
        // SAFETY: the control state has at least STATE_STARTS words, and nothing else uses them
        // now.
        unsafe { (tree.arrays.control as *mut [u32; control::STATE_STARTS]).write([0; 4]) };
        clear(&mut arrays);
        run(&tree, &clusters, 2, used, used);
        let state: Vec<u32> = bytemuck::pod_collect_to_vec(bytes(&arrays.control));
        // As on a device: the launch after a launch without a merge prepares a single pair and may
        // take longer.
        if state[control::MERGES] > merges {
            merges = state[control::MERGES];
            tree.use_usual_pace(&sizes);
            tree.milliseconds = milliseconds;
        } else {
            tree.milliseconds = tree.milliseconds.saturating_mul(2);
            tree.batch = 1;
        }
        let status = Status::of(state[control::STATUS]).unwrap();
        match status {
            Status::ManyGone => compactions.fetch_add(1, Ordering::Relaxed),
            Status::NoRoom => gathered.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
        let left = n as u32 - merges;
        let after_gaps = (left, merges + left / 3 + 1);
        let is_done = prepare_launch(
            status,
            &mut tree,
            &mut clusters,
            &mut used,
            after_gaps,
            sizes.observations,
            run,
        )?;
        if is_done {
            break;
        }
    }
    let count = n - 1;
    Some(to_merges(
        &bytes(&arrays.heights)[..8 * count],
        &bytes(&arrays.lower)[..4 * count],
        &bytes(&arrays.higher)[..4 * count],
    ))
}

#[test]
fn no_two_threads_of_a_block_race_for_sums() {
    let races = races("sum_races.cpp", &[], &[&[]]);
    assert!(races.is_empty(), "{}", races.join("\n"));
}

/// Where tree_races.cpp has the arrays of a launch, at an address that ThreadSanitizer leaves to
/// programs, and the number of bytes at a multiple of which each of them starts.
const START: u64 = 0x10_0000_0000;
const ALIGNED: usize = 64;

/// Writes what the first launch for a problem starts with to a file, as tree_races.cpp reads it.
fn write_launch(most_columns: usize, problem: &Problem, file: &Path) {
    let bounding_box = problem.bounding_box();
    let monitor = Monitor::default();
    let start = Start::new(problem, &bounding_box, most_columns, &monitor);
    let (start, contents) = start.unwrap();
    let (mut arrays, rows_and_factors) = contents_of(&start, &contents);
    clear(&mut arrays);
    arrays.control[..control::STATE_STARTS / 2].fill(0);

    let appending = library("append.cpp", &[&format!("ALIGNED={ALIGNED}")]);
    let path = CString::new(file.to_str().unwrap()).unwrap();
    type Append = unsafe extern "C" fn(*const c_char, *const c_void, usize);
    let mut end = START;
    // Returns where the program has it.
    let mut append = |from: *const c_void, bytes: usize| {
        // SAFETY: the function has this type, and as many bytes may be read.
        unsafe { function::<Append>(&appending, "host_append")(path.as_ptr(), from, bytes) };
        let at = end;
        end += bytes.next_multiple_of(ALIGNED) as u64;
        at
    };
    let mut append_all = |array: &Buffer| append(array.as_ptr().cast(), 8 * array.len());
    let watch = append_all(&vec![0]);
    let clusters = start.clusters(rows_and_factors.each_ref().map(&mut append_all));
    let mut tree = start.tree(problem, arrays.map(append_all), watch);
    tree.milliseconds = 1_000_000;
    let steps = [
        if start.are_points() { 6 } else { 1 },
        problem.clusters() as u32,
    ];
    append((&raw const tree).cast(), size_of_val(&tree));
    append((&raw const clusters).cast(), size_of_val(&clusters));
    append(steps.as_ptr().cast(), size_of_val(&steps));
}

/// compute-sanitizer's racecheck takes too long for whole trees, and sees shared memory only.
#[test]
fn no_two_threads_of_a_block_race_in_a_tree() {
    let mut random = Random(78);
    for (most_columns, n, p, distances) in [
        (16, 60, 3, &Distance::ALL[..]),
        (52, 30, 36, &[Distance::Centroid]),
    ] {
        let definitions = [
            format!("DIMENSIONS={most_columns}"),
            format!("START={START}"),
            format!("ALIGNED={ALIGNED}"),
        ];
        let definitions = definitions.each_ref().map(|definition| &definition[..]);
        let x = draw(&mut random, Data::Mixture, n, p);
        let write = |folder: &Path, distance: Distance| {
            let file = folder.join(format!("{distance:?}"));
            let options = Options {
                // No cluster becomes full-size, so one launch makes all merges.
                threshold: 1e6,
                subthreshold: Subthreshold::Mahal,
                distance,
                normalize: false,
                apriori_intra: true,
            };
            let problem = Problem::of_observations(&x, 0..n as u32, options);
            write_launch(most_columns, &problem, &file);
            file.to_str().unwrap().to_owned()
        };
        let races = in_folder(|folder| {
            let files: Vec<String> = distances.iter().map(|&it| write(folder, it)).collect();
            let calls: Vec<[&str; 1]> = files.iter().map(|file| [&file[..]]).collect();
            let calls: Vec<&[&str]> = calls.iter().map(|call| &call[..]).collect();
            races("tree_races.cpp", &definitions, &calls)
        });
        assert!(races.is_empty(), "{}", races.join("\n"));
    }
}

/// Number of problems on which the kernels are tested.
const CASES: usize = 32;

#[test]
fn the_tree_of_the_kernels_is_that_of_the_cpu() {
    let families = [16, 52, 104, 208].map(|most_columns| {
        let definition = format!("DIMENSIONS={most_columns}");
        (most_columns, library("tree.cpp", &[&definition]))
    });
    let cpu = Cpu::new(1).unwrap();
    let mut random = Random::of(77);
    let compactions = AtomicUsize::new(0);
    let gathered = AtomicUsize::new(0);
    for case in 0..CASES {
        let data = DATA[case % DATA.len()];
        let p = [2, 5, 14, 1, 16, 20, 52, 53, 100][case % 9];
        // A small GPU may use a module for more columns.
        let fitting = || families.iter().filter(|(most, _)| p <= *most);
        let family = if case % 5 == 4 {
            fitting().next_back()
        } else {
            fitting().next()
        };
        let family = family.unwrap();
        let n = 2 + random.below(if case % 6 == 0 { 150 } else { 50 });
        let threshold = [1.0, 4.5, p as f64 + 2.0, 30.0, 1e6][random.below(5)];
        let options = Options {
            threshold,
            subthreshold: Subthreshold::ALL[random.below(4)],
            distance: if case % 3 == 0 {
                Distance::Centroid
            } else {
                Distance::FullMahalanobis
            },
            normalize: random.below(2) == 0,
            apriori_intra: true,
        };
        let placement = Placement::ALL[case % Placement::ALL.len()];
        let x = draw(&mut random, data, n, p);
        let problem = Problem::of_observations(&x, 0..n as u32, options);
        let problems = [problem];
        let case = format!("case {case}, {data:?}, {n} x {p}, {options:?}");
        let expected = cpu.agglomerate(&problems, &Monitor::default());
        let expected = &expected.unwrap()[0];
        for (placement, backwards) in [(Placement::AllInShared, false), (placement, true)] {
            let milliseconds = if backwards { 2 } else { 1_000_000 };
            let host = Trees::new(Cpu::new(1).unwrap(), |problem, _, _| {
                Ok(host_grow(
                    family,
                    problem,
                    milliseconds,
                    placement,
                    backwards,
                    &compactions,
                    &gathered,
                ))
            });
            let found = host.agglomerate(&problems, &Monitor::default());
            for (at, (found, expected)) in found.unwrap()[0].iter().zip(expected).enumerate() {
                assert_eq!(found, expected, "merge {at}: {case}");
            }
            assert_grown((0, 0), host.counts(), &case);
        }
    }
    assert!(compactions.into_inner() > CASES);
    assert!(gathered.into_inner() > CASES);
}

/// If the list of near clusters may get full, a wide tree compares these clusters before it has
/// searched all balls. This test uses the smallest room that the list may have.
#[test]
fn a_wide_tree_of_the_kernels_with_a_full_list_is_that_of_the_cpu() {
    let definitions = ["DIMENSIONS=208", "NEAR_ROOM=512"];
    let family = (208, library("tree.cpp", &definitions));
    let (n, p) = (530, 27);
    let x = draw(&mut Random::of(81), Data::Plain, n, p);
    let options = Options {
        threshold: 40.0,
        subthreshold: Subthreshold::Mahal,
        distance: Distance::Centroid,
        normalize: false,
        apriori_intra: true,
    };
    let problem = Problem::of_observations(&x, 0..n as u32, options);
    let cpu = Cpu::new(1).unwrap();
    let expected = cpu.agglomerate(std::slice::from_ref(&problem), &Monitor::default());
    let never = AtomicUsize::new(0);
    let placement = Placement::AllInShared;
    let found = host_grow(
        &family, &problem, 1_000_000, placement, true, &never, &never,
    );
    assert_eq!(found.as_ref(), Some(&expected.unwrap()[0]));
}

/// Whether a wide tree rules out a cluster by the leading coordinates of its difference from a
/// query, and by all of them. There are two squares of norms of the difference, by the leading
/// coordinates and by all, and two of the whitened difference. The whitening factor's stretch is
/// between `least` and `most`, and that of the cluster's is at least `low`.
fn rules_out(
    host: &Library,
    (squares, sums): ([f64; 2], [f64; 2]),
    (least, most): (f64, f64),
    low: f64,
    limit: f32,
) -> [bool; 2] {
    type RuleOut = unsafe extern "C" fn(
        u32,
        *const Scalars,
        *const f32,
        *const f32,
        f32,
        f32,
        f32,
        *mut bool,
        *mut bool,
    );
    // SAFETY: That is the function's type.
    let rule_out = unsafe { function::<RuleOut>(host, "host_rule_out") };
    let p = 100;
    let frame = ClusterFrame::new(vec![0.0; p], f64::from(1 << 19), Distance::Centroid, 0);
    assert_eq!(frame.unit(), 1.0, "no number here is in other units");
    let query = frame.view(&Profile {
        mean: &vec![0.0; p],
        // The sums stand for it.
        whitening: &[1.0],
        least_stretch: least,
        stretch: most,
        spread: Spread::default(),
        mean_error: 0.0,
    });
    let scalars = Scalars::new(&query, 0);
    let [squares, sums] = [squares, sums].map(|values| values.map(|value| value as f32));
    let mut ruled_out = [false; 2];
    let [part, whole] = &mut ruled_out;
    // SAFETY: The kernels read two squares, two sums and the scalars of a query, and write two
    // flags.
    unsafe {
        rule_out(
            p as u32,
            &scalars,
            squares.as_ptr(),
            sums.as_ptr(),
            down(low),
            2.0 * query.error,
            limit,
            part,
            whole,
        );
    }
    ruled_out
}

/// A sweep leaves out clusters below the limit of the sweep before. That sweep has found them,
/// unless it has ruled them out too early.
#[test]
fn leading_coordinates_rule_out_only_what_all_coordinates_rule_out() {
    let host = library("tree.cpp", &["DIMENSIONS=104"]);
    let mut random = Random::of(82);
    let mut count = 0;
    for case in 0..20_000 {
        // W is diagonal: its elements, and those of the difference, are of two sizes.
        let mut size = || 10f64.powf(-7.0 * random.uniform());
        let (stretches, lengths, low) = ([size(), size()], [size(), size()], size());
        let [a, b] = [0, 1].map(|part| lengths[part].powi(2));
        let [c, d] = [0, 1].map(|part| (lengths[part] * stretches[part]).powi(2));
        let (squares, sums) = ([a, a + b], [c, c + d]);
        let [least, most] = [f64::min, f64::max].map(|of| of(stretches[0], stretches[1]));
        // Near the bound by the leading coordinates.
        let bound = 0.5 * (c.sqrt() + low * a.sqrt());
        let limit = (bound * (1.0 - 1e-4 * random.uniform())) as f32;
        let [part, whole] = rules_out(&host, (squares, sums), (least, most), low, limit);
        let case = format!("case {case}, {stretches:?}, {lengths:?}, {low}, {limit}");
        assert!(whole || !part, "{case}");
        count += usize::from(part);
    }
    assert!(count > 1_000, "{count}");
}

/// Squares of small whitening factors are subnormal in single precision, or zero.
#[test]
fn no_cluster_below_the_limit_is_ruled_out_where_squares_underflow() {
    let host = library("tree.cpp", &["DIMENSIONS=104"]);
    let mut random = Random::of(83);
    for case in 0..20_000 {
        let stretch = 10f64.powf(-15.0 - 30.0 * random.uniform());
        let length = 2f64.powf(40.0 * random.uniform() - 20.0);
        let distance = stretch * length;
        let (square, sum) = (length * length, distance * distance);
        let limit = up(distance);
        let ruled_out = rules_out(
            &host,
            ([square; 2], [sum; 2]),
            (stretch, stretch),
            stretch,
            limit,
        );
        assert_eq!(ruled_out, [false; 2], "case {case}, {stretch}, {length}");
    }
}
