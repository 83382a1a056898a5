//! Compares the arithmetic of kmeans.cu with the Rust code bit for bit. No GPU is needed:
//! kernels/host compiles the kernels for the CPU.

use std::sync::OnceLock;

use libloading::{Library, Symbol};
use ndarray::{Array2, Axis};

use super::codes::{quads_of, quads_of_center, CodePolicy};
use super::draw::Draws;
use super::groups::to_starts;
use super::iterate::relative;
use super::launch::{BINS, DIGITS, NONE, PIECE, SORTED, TILE, WEIGH_WARPS};
use super::lloyd::Lloyd;
use super::seeding::{Groups, Seeding};
use super::update::{columns_each, passes, Members, Sort};
use super::*;
use crate::host;
use crate::sharing::shares;
use gmhclust_core::kmeans::{seed, ClusterSums, KMeans, KMeansDevice, CHUNK};
use gmhclust_core::lazy_rows::LazyRows;
use gmhclust_core::matrix::RowSlices;
use gmhclust_core::testing::{array, draw, Data, Random};
use gmhclust_core::{Cpu, Observations};

/// A function of host/kmeans.cpp.
///
/// # Safety
/// As [`host::function`].
pub unsafe fn function<F>(name: &str) -> Symbol<'static, F> {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    let library = LIBRARY.get_or_init(|| host::library("kmeans.cpp", &[]));
    // SAFETY: as the caller says.
    unsafe { host::function(library, name) }
}

/// The centers that the kernels draw, or the error, as on a device.
fn host_seed(x: &Observations, draws: Draws) -> Result<Array2<f64>> {
    type Draw = unsafe extern "C" fn(*const Seeding, u32);
    type Weigh = unsafe extern "C" fn(*const Seeding, u32, u32);
    type Sort = unsafe extern "C" fn(*const Seeding, *const Groups);
    type WeighGroups = unsafe extern "C" fn(*const Seeding, *const Groups, u32);
    // SAFETY: the function has this type.
    let (draw, weigh, count_bins, fill_bins, weigh_groups) = unsafe {
        (
            function::<Draw>("host_draw"),
            function::<Weigh>("host_weigh"),
            function::<Sort>("host_count_bins"),
            function::<Sort>("host_fill_bins"),
            function::<WeighGroups>("host_weigh_groups"),
        )
    };
    let uniforms = draws.uniforms;
    let (n, p, k) = (x.nrows(), x.ncols(), uniforms.len());
    let chunks = n.div_ceil(CHUNK);
    let parts = chunks.div_ceil(CHUNK);
    let reals = |length: usize| vec![f64::NAN; length];
    let (mut squares, mut sums, mut of_parts) = (reals(n), reals(chunks), reals(parts));
    let (mut totals, mut centers, mut pruned_below) = (reals(parts), reals(k * p), reals(k));
    let (mut nearest, mut drawn) = (vec![0u32; n], vec![0u32; k]);
    let mut seeding = Seeding {
        x: x.values().as_ptr() as u64,
        uniforms: uniforms.as_ptr() as u64,
        squares: squares.as_mut_ptr() as u64,
        nearest: nearest.as_mut_ptr() as u64,
        sums: sums.as_mut_ptr() as u64,
        parts: of_parts.as_mut_ptr() as u64,
        totals: totals.as_mut_ptr() as u64,
        centers: centers.as_mut_ptr() as u64,
        pruned_below: pruned_below.as_mut_ptr() as u64,
        drawn: drawn.as_mut_ptr() as u64,
        pruned_share: seed::radius_factor(p),
        rows: n as u32,
        columns: p as u32,
        first: seed::first(x.nrows(), uniforms[0]) as u32,
        is_grouped: 0,
    };
    let (mut sorted, mut of_sorted, mut ends) = (vec![NONE; n], reals(n), vec![0; k * BINS]);
    let (mut greatest, mut pieces) = (vec![0.0; k], vec![0u64; k + n.div_ceil(PIECE)]);
    let mut of_pieces = vec![NONE; pieces.len()];
    let is_coded = draws.coded.suits(x.nrows(), x.ncols());
    let [mut codes, mut center_codes] =
        [n * quads_of(p), k * quads_of_center(p)].map(|quads| vec![Quad([NONE; 4]); quads]);
    let (mut changed, mut is_changed, mut counts) = (vec![NONE; chunks], vec![0; chunks], [0; 2]);
    let mut groups = Groups {
        sorted: sorted.as_mut_ptr() as u64,
        squares: of_sorted.as_mut_ptr() as u64,
        greatest: greatest.as_mut_ptr() as u64,
        ends: ends.as_mut_ptr() as u64,
        pieces: pieces.as_mut_ptr() as u64,
        of_pieces: of_pieces.as_mut_ptr() as u64,
        changed: changed.as_mut_ptr() as u64,
        is_changed: is_changed.as_mut_ptr() as u64,
        counts: counts.as_mut_ptr() as u64,
        codes: codes.as_mut_ptr() as u64,
        center_codes: center_codes.as_mut_ptr() as u64,
        groups: 0,
        quads: if is_coded { quads_of(p) as u32 } else { 0 },
    };
    for number in 0..k as u32 {
        if number as usize == draws.grouped_from << seeding.is_grouped {
            seeding.is_grouped += 1;
            groups.groups = number;
            greatest.fill(0.0);
            ends.fill(0);
            // SAFETY: all arrays have the sizes of a launch on a device.
            unsafe { count_bins(&seeding, &groups) };
            to_starts(&mut ends);
            // SAFETY: as above.
            unsafe { fill_bins(&seeding, &groups) };
        }
        // SAFETY: as above.
        unsafe {
            draw(&seeding, number);
            if groups.groups > 0 {
                weigh_groups(&seeding, &groups, number);
            } else {
                weigh(&seeding, number, (chunks as u32).div_ceil(WEIGH_WARPS));
            }
        }
    }
    assert!(is_changed.iter().all(|&flag: &u32| flag == 0) && counts == [0; 2]);
    match drawn.iter().position(|&row| row == NONE) {
        Some(missing) => Err(seed::too_few(missing, k)),
        None => Ok(array(centers, k, p)),
    }
}

#[test]
fn totals_are_sums_of_one_weight_after_the_other() {
    type AddUp = unsafe extern "C" fn(*const f64, *mut f64, u32);
    // SAFETY: the function has this type.
    let add_up = unsafe { function::<AddUp>("host_add_up") };
    let mut random = Random::of(34);
    for count in [
        1,
        15,
        CHUNK - 1,
        CHUNK,
        CHUNK + 1,
        3 * CHUNK,
        5 * CHUNK + 100,
    ] {
        let weights: Vec<f64> = (0..count).map(|_| random.uniform()).collect();
        let mut totals = vec![f64::NAN; count];
        // SAFETY: both have this length.
        unsafe { add_up(weights.as_ptr(), totals.as_mut_ptr(), count as u32) };
        let add = |sum: &mut f64, weight: &f64| {
            *sum += weight;
            Some(*sum)
        };
        let expected: Vec<f64> = weights.iter().scan(0.0, add).collect();
        assert_eq!(totals, expected, "{count}");
    }
}

#[test]
fn seeds_are_those_of_the_cpu() {
    let mut random = Random::of(18);
    for case in 0..24 {
        let n = 2 + random.below([700, 60][case % 2]);
        let p = 1 + random.below([3, 40][case % 2]);
        let data = [Data::Plain, Data::Mixture, Data::Grid, Data::Tiny][case % 4];
        let x = draw(&mut random, data, n, p);
        let k = 1 + random.below([12, 40][case / 12]).min(n - 1);
        let mut uniforms: Vec<f64> = (0..k).map(|_| random.uniform()).collect();
        uniforms[k / 2] = [0.0, 1.0][case % 2];
        let expected = seed::seed(&x, frame_of(&x).scale, &uniforms, &Monitor::default());
        for (grouped_from, rows) in [
            (usize::MAX, usize::MAX),
            (1, usize::MAX),
            (5, usize::MAX),
            (1, 0),
            (5, 0),
        ] {
            let draws = Draws {
                uniforms: &uniforms,
                grouped_from,
                coded: CodePolicy { rows, centers: 0 },
            };
            let case = format!("{case}, {data:?}, grouped from {grouped_from}, coded from {rows}");
            assert_eq!(host_seed(&x, draws), expected, "{case}");
        }
    }
}

/// 16 bytes of codes, with the alignment of kernels.
#[repr(align(16))]
#[derive(Clone, Copy)]
pub struct Quad(#[allow(dead_code)] pub [u32; 4]);

/// Memory that kernels write: a tile of values with the alignment that kernels need.
#[repr(align(16))]
#[derive(Clone, Copy)]
struct Tile(#[allow(dead_code)] [f32; TILE]);

/// Lloyd's iterations by the kernels, divided among this number of devices. Also returns the number
/// of observations that needed double precision, over all iterations.
fn host_iterate(
    x: &Observations,
    mut centers: Array2<f64>,
    most: usize,
    devices: usize,
) -> (Assigned, usize) {
    type OfLloyd = unsafe extern "C" fn(*const Lloyd, u32);
    type OfSort = unsafe extern "C" fn(*const Sort);
    type OfMembers = unsafe extern "C" fn(*const Members);
    // SAFETY: the function has this type.
    let (lloyd_function, sort, update, sum_squares) = unsafe {
        (
            |name: &str| function::<OfLloyd>(name),
            function::<OfSort>("host_sort"),
            function::<OfMembers>("host_update"),
            function::<OfMembers>("host_sum_squares"),
        )
    };
    let convert_observations = lloyd_function("host_convert_observations");
    let convert_centers = lloyd_function("host_convert_centers");
    let (screen, decide) = (lloyd_function("host_screen"), lloyd_function("host_decide"));
    let ((n, p), k) = (x.dim(), centers.nrows());
    let frame = frame_of(x);
    let tiles =
        |rows: usize, height: usize| vec![Tile([f32::NAN; TILE]); rows.div_ceil(TILE) * height];
    let mut cluster = vec![NONE; n];
    let mut flags = [0u32; 2];
    let mut open_in_all = 0;
    let (mut single_centers, mut halves, mut norms) = (tiles(k, p), tiles(k, 1), tiles(k, 1));
    let numbers = || vec![NONE; n];
    let mut sorted = [[numbers(), numbers()], [numbers(), numbers()]];
    let sorted = sorted
        .each_mut()
        .map(|place| place.each_mut().map(|part| part.as_mut_ptr() as u64));
    let mut counts = vec![NONE; DIGITS * n.div_ceil(SORTED)];
    let mut starts = vec![NONE; k + 1];
    let (mut sizes, mut within) = (vec![0; k], vec![f64::NAN; k]);
    let mut open = numbers();
    let of_share = |rows: std::ops::Range<usize>| {
        let made = |height: usize| tiles(rows.len(), height);
        (Lloyd::new(&frame, n, k, &rows), made(p), made(1))
    };
    let mut of_shares: Vec<_> = shares(n, devices).map(of_share).collect();
    for (lloyd, singles, errors) in &mut of_shares {
        *lloyd = Lloyd {
            x: x.values().as_ptr() as u64,
            centers: centers.as_mut_ptr() as u64,
            cluster: cluster.as_mut_ptr() as u64,
            changed: &raw mut flags[0] as u64,
            open: open.as_mut_ptr() as u64,
            open_count: &raw mut flags[1] as u64,
            single_observations: singles.as_mut_ptr() as u64,
            errors: errors.as_mut_ptr() as u64,
            single_centers: single_centers.as_mut_ptr() as u64,
            halves: halves.as_mut_ptr() as u64,
            norms: norms.as_mut_ptr() as u64,
            origin: frame.origin.as_ptr() as u64,
            ..*lloyd
        };
        // SAFETY: all arrays have the sizes of a launch on a device.
        unsafe { convert_observations(&raw const *lloyd, lloyd.tiles() as u32) };
    }
    let mut iterations = most + 1;
    for iteration in 1..=most {
        // SAFETY: all arrays have the sizes of a launch on a device.
        unsafe {
            (&raw mut flags[0]).write_volatile(0);
            for (lloyd, ..) in &of_shares {
                (&raw mut flags[1]).write_volatile(0);
                convert_centers(lloyd, lloyd.tiles_of_centers() as u32);
                screen(lloyd, lloyd.tiles() as u32);
                decide(lloyd, 2);
                open_in_all += (&raw const flags[1]).read_volatile() as usize;
            }
            if (&raw const flags[0]).read_volatile() == 0 {
                iterations = iteration;
                break;
            }
            for moved in shares(k, devices).filter(|moved| !moved.is_empty()) {
                let numbers: Vec<u32> = relative(&cluster, moved.start).collect();
                let numbers = numbers.as_ptr() as u64;
                let counts = counts.as_mut_ptr() as u64;
                for pass in passes(numbers, n, moved.len(), counts, sorted) {
                    sort(&pass);
                }
                let members = Members {
                    x: x.values().as_ptr() as u64,
                    centers: centers.as_mut_ptr() as u64 + (8 * moved.start * p) as u64,
                    within: within[moved.clone()].as_mut_ptr() as u64,
                    sorted_clusters: sorted[0][0],
                    sorted_numbers: sorted[0][1],
                    starts: starts.as_mut_ptr() as u64,
                    rows: n as u32,
                    columns: p as u32,
                    clusters: moved.len() as u32,
                    columns_each: columns_each(moved.len(), p, 9) as u32,
                };
                update(&members);
                sum_squares(&members);
                for (ends, size) in starts.windows(2).zip(&mut sizes[moved]) {
                    *size = (ends[1] - ends[0]) as usize;
                }
            }
        }
    }
    let assigned = Assigned {
        cluster,
        centers,
        iterations,
        sums: Some(ClusterSums { sizes, within }),
    };
    (assigned, open_in_all)
}

pub fn frame_of(x: &Observations) -> Frame {
    Frame::new(
        x.view(),
        x.values().iter().fold(0.0, |most, v| v.abs().max(most)),
    )
}

#[test]
fn iterations_are_those_of_the_cpu_on_any_number_of_devices() {
    let cpu = Cpu::new(1).unwrap();
    let mut random = Random::of(19);
    let mut open_in_all = 0;
    for case in 0..17 {
        let n = 2 + random.below([400, 60][case % 2]);
        // In the last case, a row does not fit in shared memory.
        let p = if case < 16 {
            1 + random.below([3, 40][case % 2])
        } else {
            2_050
        };
        let data = [Data::Plain, Data::Mixture, Data::Grid, Data::Offset][case % 4];
        let x = draw(&mut random, data, n, p);
        let k = 1 + random.below([5, 80, 5][case / 8]).min(n - 1);
        let rows: Vec<usize> = (0..k).map(|i| i * n / k).collect();
        let centers = x.view().select(Axis(0), &rows);
        let most = 1 + random.below(6);
        let (start, monitor) = (Start::Centers(centers.view()), Monitor::default());
        let lazy = LazyRows::from(&x);
        let expected = cpu.iterate(&lazy, start, most, &monitor).unwrap();
        let expected = KMeans::of(&lazy, expected, &cpu).unwrap();
        for devices in [1, 2, 5] {
            let (found, open) = host_iterate(&x, centers.clone(), most, devices);
            let case = format!("case {case}, {data:?}, {n} x {p}, {k} centers, {devices} devices");
            let found = KMeans::of(&lazy, found, &cpu).unwrap();
            assert_eq!(found, expected, "{case}");
            open_in_all += open;
        }
    }
    // Grids have ties, which double precision must decide.
    assert!(open_in_all > 0);
}

#[test]
fn single_precision_decides_almost_all_observations() {
    for (data, p) in [(Data::Plain, 1), (Data::Mixture, 14), (Data::Plain, 70)] {
        let x = draw(&mut Random::of(20), data, 500, p);
        let centers = x.view().select(Axis(0), &Vec::from_iter(0..150));
        let (_, open) = host_iterate(&x, centers, 3, 1);
        assert!(open < 500, "{open} of {p} columns, {data:?}");
    }
}

#[test]
fn sorts_are_stable_for_any_number_of_digits() {
    // SAFETY: the function has this type.
    let sort = unsafe { function::<unsafe extern "C" fn(*const Sort)>("host_sort") };
    let mut random = Random::of(21);
    for (n, clusters) in [(1, 1), (5000, 3), (9000, 255), (9000, 256), (9000, 70_000)] {
        // Some observations belong to none of these clusters.
        let of: Vec<u32> = (0..n).map(|_| random.below(clusters + 9) as u32).collect();
        let mut sorted = [
            [vec![NONE; n], vec![NONE; n]],
            [vec![NONE; n], vec![NONE; n]],
        ];
        let addresses = sorted
            .each_mut()
            .map(|place| place.each_mut().map(|part| part.as_mut_ptr() as u64));
        let mut counts = vec![NONE; DIGITS * n.div_ceil(SORTED)];
        let counts = counts.as_mut_ptr() as u64;
        for pass in passes(of.as_ptr() as u64, n, clusters, counts, addresses) {
            // SAFETY: all arrays have the sizes of a launch on a device.
            unsafe { sort(&pass) };
        }
        let mut expected: Vec<u32> = (0..n as u32).collect();
        let key = |&i: &u32| of[i as usize].min(clusters as u32);
        expected.sort_by_key(key);
        assert_eq!(sorted[0][1], expected, "{n}, {clusters}");
        assert_eq!(sorted[0][0], Vec::from_iter(expected.iter().map(key)));
    }
}
