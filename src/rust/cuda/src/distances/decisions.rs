//! Compares the distances of distances.cu with those of the Rust code bit for bit. No GPU is
//! needed: kernels/host compiles the kernel for the CPU.

use std::sync::OnceLock;

use libloading::{Library, Symbol};

use super::*;
use crate::host::{self, extreme, same};
use gmhclust_core::testing::{array, observations, values, Random};

/// A function of host/distances.cpp.
///
/// # Safety
/// As [`host::function`].
unsafe fn function<F>(name: &str) -> Symbol<'static, F> {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    let library = LIBRARY.get_or_init(|| host::library("distances.cpp", &[]));
    // SAFETY: as the caller says.
    unsafe { host::function(library, name) }
}

/// Each metric, the numbers of its forms in host/distances.cpp without and with missing values, and
/// the form's parameter.
fn forms() -> Vec<(Metric, u32, Option<u32>, u32)> {
    let canberra = [ZeroOverZero::Omitted, ZeroOverZero::Zero, ZeroOverZero::One];
    let canberra =
        canberra.map(|convention| (Metric::Canberra(convention), 6, Some(6), code(convention)));
    let cosine =
        [false, true].map(|absolute| (Metric::Cosine { absolute }, 8, None, u32::from(absolute)));
    let mut forms = vec![
        (Metric::Euclidean, 0, Some(1), 0),
        (Metric::Manhattan, 2, Some(3), 0),
        (Metric::Maximum, 4, Some(5), 0),
        (Metric::Binary, 7, Some(7), 0),
    ];
    forms.extend(canberra.into_iter().chain(cosine));
    forms
}

#[test]
fn every_form_has_the_bits_of_the_cpu() {
    type Function = unsafe extern "C" fn(u32, *const f64, *const f64, u32, u32) -> f64;
    // SAFETY: the function has this type.
    let distance = unsafe { function::<Function>("host_distance") };
    let monitor = Monitor::default();
    let mut random = Random::of(14);
    for case in 0..400 {
        let (rows, columns) = (6, [1, 2, 3, 14, 33, 64][case % 6]);
        for (metric, plain, with_holes, parameter) in forms() {
            let holes: &[f64] = match (with_holes, case % 2) {
                (Some(_), 1) => &[f64::NAN, f64::INFINITY],
                _ => &[],
            };
            let all = match case % 3 {
                0 => (0..rows * columns).map(|_| extreme(&mut random)).collect(),
                _ => values(&mut random, rows * columns, holes),
            };
            let points = Points::prepare(metric, array(all, rows, columns), &monitor).unwrap();
            let form = match (points.has_missing(), with_holes) {
                (false, _) => plain,
                (true, Some(form)) => form,
                (true, None) => continue,
            };
            for (i, j) in (0..rows).flat_map(|i| (0..i).map(move |j| (i, j))) {
                let (a, b) = (points.row(i), points.row(j));
                // SAFETY: both have `columns` values.
                let found =
                    unsafe { distance(form, a.as_ptr(), b.as_ptr(), columns as u32, parameter) };
                let expected = points.distance(i, j);
                assert!(
                    same(found, expected),
                    "{found} is not {expected}: {metric:?} {a:?} {b:?}"
                );
            }
        }
    }
}

#[test]
fn canberra_s_own_division_rounds_as_the_processor_s() {
    type Function = unsafe extern "C" fn(f64, f64, i32) -> f64;
    // SAFETY: the function has this type.
    let quotient = unsafe { function::<Function>("host_quotient") };
    let mut random = Random::of(15);
    // Magnitudes from 2^-500 to 2^500, for which no intermediate result overflows or underflows.
    let mut magnitude = |most: usize| {
        (1.0 + random.uniform()) * 2f64.powi(random.below(most) as i32 - most as i32 / 2)
    };
    for _ in 0..20_000 {
        let (x, y) = (magnitude(990), magnitude(990));
        let near = x * (1.0 + (magnitude(2) - 1.0) * 1e-15);
        for (a, b) in [(x, y), (x, -y), (x, near), (x, x), (x, 3.0 * x), (x, 0.0)] {
            let (difference, magnitude) = (a - b, a.abs() + b.abs());
            // A GPU's approximate inverse is off by at most one ulp of its upper half.
            for off in [-1, 0, 1] {
                // SAFETY: plain numbers.
                let found = unsafe { quotient(difference, magnitude, off) };
                assert!(
                    same(found, difference / magnitude),
                    "{difference:e} / {magnitude:e}"
                );
            }
        }
    }
}

#[test]
fn tiles_hold_all_pairs_and_only_those() {
    type Function = unsafe extern "C" fn(*const Piece, u32, u32);
    // SAFETY: the function has this type.
    let euclidean = unsafe { function::<Function>("host_euclidean") };
    let mut random = Random::of(16);
    for (points, columns, rows) in [
        (2, 1, 0),
        (70, 3, 0),
        (150, 9, 0),
        (140, 8, 131),
        (66, 17, 1),
    ] {
        let all = values(&mut random, points * columns, &[]);
        let x = observations(all, points, columns);
        let points = Points::new(Metric::Euclidean, &x);
        let (n, p) = (points.rows(), columns);
        let across: Vec<f64> = (0..p)
            .flat_map(|k| (0..n).map(move |i| (i, k)))
            .map(|(i, k)| points.row(i)[k])
            .collect();
        let pairs = match rows {
            0 => Pairs::within(n),
            rows => Pairs::across(rows, n - rows),
        };
        // In two pieces.
        let middle = pairs.columns() / 2;
        for part in [0..middle, middle..pairs.columns()] {
            let wanted = pairs.part(part.clone());
            let mut out = vec![f64::NAN; wanted.count()];
            let piece = Piece {
                points: across.as_ptr() as u64,
                out: out.as_mut_ptr() as u64,
                stride: n as u64,
                rows: pairs.rows() as u32,
                columns: p as u32,
                first: part.start as u32,
                last: part.end as u32,
                triangle: u32::from(pairs.is_triangle()),
                parameter: 0,
            };
            let tiles = (part.len() as u32).div_ceil(COLUMNS as u32);
            // SAFETY: the arrays of points and distances have the sizes of the piece.
            unsafe { euclidean(&piece, piece.rows.div_ceil(ROWS), tiles) };
            for j in 0..wanted.columns() {
                let column = wanted.column(j);
                for (row, &found) in column.rows.clone().zip(&out[column.start..]) {
                    let expected = points.distance(row, column.point);
                    assert!(
                        same(found, expected),
                        "{found} is not {expected}: {row}, {j}"
                    );
                }
            }
        }
    }
}
