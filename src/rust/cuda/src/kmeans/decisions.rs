//! Compares the arithmetic of kmeans.cu with the CPU's code bit for bit, without a GPU:
//! kernels/host compiles the kernels for the CPU.

use std::sync::OnceLock;

use libloading::{Library, Symbol};
use ndarray::{Array2, Axis};

use super::draw::Seeding;
use super::iterate::{relative, Lloyd};
use super::launch::{NONE, ROWS, WEIGH_WARPS};
use super::sharing::shares;
use super::*;
use crate::host;
use gmhclust_core::kmeans::{seed, KMeansDevice, CHUNK};
use gmhclust_core::matrix::RowSlices;
use gmhclust_core::testing::{array, draw, Data, Random};
use gmhclust_core::Cpu;

/// A function of host/kmeans.cpp.
///
/// # Safety
/// As [`host::function`].
unsafe fn function<F>(name: &str) -> Symbol<'static, F> {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    let library = LIBRARY.get_or_init(|| host::library("kmeans.cpp", &[]));
    // SAFETY: as the caller says.
    unsafe { host::function(library, name) }
}

/// The centers that the kernels draw, or the error, as on a device.
fn host_seed(x: &Observations, uniforms: &[f64]) -> Result<Array2<f64>> {
    type Draw = unsafe extern "C" fn(*const Seeding, u32);
    type Weigh = unsafe extern "C" fn(*const Seeding, u32, u32);
    // SAFETY: declared so.
    let (draw, weigh) = unsafe {
        (
            function::<Draw>("host_draw"),
            function::<Weigh>("host_weigh"),
        )
    };
    let (n, p, k) = (x.nrows(), x.ncols(), uniforms.len());
    let chunks = n.div_ceil(CHUNK);
    let parts = chunks.div_ceil(CHUNK);
    let reals = |length: usize| vec![f64::NAN; length];
    let (mut squares, mut sums, mut of_parts) = (reals(n), reals(chunks), reals(parts));
    let (mut totals, mut centers, mut pruned_below) = (reals(parts), reals(k * p), reals(k));
    let (mut nearest, mut drawn) = (vec![0u32; n], vec![0u32; k]);
    let seeding = Seeding {
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
        first: seed::first(x, uniforms[0]) as u32,
    };
    for number in 0..k as u32 {
        // SAFETY: all arrays have the sizes that a launch on a device gives them.
        unsafe {
            draw(&seeding, number);
            weigh(&seeding, number, (chunks as u32).div_ceil(WEIGH_WARPS));
        }
    }
    match drawn.iter().position(|&row| row == NONE) {
        Some(missing) => Err(seed::too_few(missing, k)),
        None => Ok(array(centers, k, p)),
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
        let k = 1 + random.below(12).min(n - 1);
        let mut uniforms: Vec<f64> = (0..k).map(|_| random.uniform()).collect();
        uniforms[k / 2] = [0.0, 1.0][case % 2];
        let expected = seed::seed(&x, &uniforms, &Monitor::default());
        assert_eq!(host_seed(&x, &uniforms), expected, "case {case}, {data:?}");
    }
}

/// Lloyd's iterations as the kernels make them, divided among this many devices.
fn host_iterate(
    x: &Observations,
    mut centers: Array2<f64>,
    most: usize,
    devices: usize,
) -> Assigned {
    type Assign = unsafe extern "C" fn(*const Lloyd, u32);
    type Update = unsafe extern "C" fn(*const Lloyd);
    // SAFETY: declared so.
    let (assign, update) = unsafe {
        (
            function::<Assign>("host_assign"),
            function::<Update>("host_update"),
        )
    };
    let ((n, p), k) = (x.dim(), centers.nrows());
    // The kernel reads four numbers at a time.
    let padded = |numbers: &[u32]| -> Vec<[u32; 4]> {
        let number = |i: usize| numbers.get(i).copied().unwrap_or(NONE);
        let four = |i: usize| [0, 1, 2, 3].map(|j| number(4 * i + j));
        (0..n.next_multiple_of(SPAN) / 4).map(four).collect()
    };
    let mut cluster = padded(&[]);
    let mut sums = vec![f64::NAN; centers.len()];
    let mut changed = 0u32;
    let lloyd = Lloyd {
        x: x.values().as_ptr() as u64,
        centers: centers.as_mut_ptr() as u64,
        sums: sums.as_mut_ptr() as u64,
        cluster: cluster.as_mut_ptr() as u64,
        changed: &raw mut changed as u64,
        rows: n as u32,
        columns: p as u32,
        clusters: k as u32,
        first: 0,
        last: 0,
    };
    let mut iterations = most + 1;
    for iteration in 1..=most {
        // SAFETY: all arrays have the sizes that a launch on a device gives them.
        unsafe {
            (&raw mut changed).write_volatile(0);
            for rows in shares(n, devices).filter(|rows| !rows.is_empty()) {
                let part = Lloyd {
                    first: rows.start as u32,
                    last: rows.end as u32,
                    ..lloyd
                };
                assign(&part, (rows.len() as u32).div_ceil(ROWS));
            }
            if (&raw const changed).read_volatile() == 0 {
                iterations = iteration;
                break;
            }
            for moved in shares(k, devices).filter(|moved| !moved.is_empty()) {
                let numbers: Vec<u32> = relative(&cluster.concat()[..n], moved.start).collect();
                let numbers = padded(&numbers);
                let part = Lloyd {
                    centers: lloyd.centers + (8 * moved.start * p) as u64,
                    cluster: numbers.as_ptr() as u64,
                    clusters: moved.len() as u32,
                    ..lloyd
                };
                update(&part);
            }
        }
    }
    Assigned {
        cluster: cluster.concat()[..n].to_vec(),
        centers,
        iterations,
    }
}

#[test]
fn iterations_are_those_of_the_cpu_on_any_number_of_devices() {
    let cpu = Cpu::new(1).unwrap();
    let mut random = Random::of(19);
    for case in 0..16 {
        let n = 2 + random.below([400, 60][case % 2]);
        let p = 1 + random.below([3, 40][case % 2]);
        let data = [Data::Plain, Data::Mixture, Data::Grid, Data::Offset][case % 4];
        let x = draw(&mut random, data, n, p);
        let k = 1 + random.below([5, 80][case / 8]).min(n - 1);
        let rows: Vec<usize> = (0..k).map(|i| i * n / k).collect();
        let centers = x.select(Axis(0), &rows);
        let most = 1 + random.below(6);
        let (start, monitor) = (Start::Centers(centers.view()), Monitor::default());
        let expected = cpu.iterate(&x, start, most, &monitor).unwrap();
        for devices in [1, 2, 5] {
            let found = host_iterate(&x, centers.clone(), most, devices);
            let case = format!("case {case}, {data:?}, {n} x {p}, {k} centers, {devices} devices");
            assert_eq!(found.cluster, expected.cluster, "{case}");
            assert_eq!(found.centers, expected.centers, "{case}");
            assert_eq!(found.iterations, expected.iterations, "{case}");
        }
    }
}
