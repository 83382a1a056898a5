//! Compares decisions by codes with distances in double precision. No GPU is needed: kernels/host
//! compiles the kernels for the CPU.

use super::codes::{quads_of, quads_of_center};
use super::decisions::{function, Quad};
use super::seeding::{Groups, Seeding};
use gmhclust_core::kmeans::margin::square;
use gmhclust_core::kmeans::seed::radius_factor;
use gmhclust_core::matrix::RowSlices;
use gmhclust_core::next_float::NextFloat;
use gmhclust_core::testing::{draw, Data, Random, DATA};

/// As in kmeans/codes.cuh.
const RADIUS: f64 = 126.0;

/// Observations of one group, row after row, and a new center.
struct Group<'a> {
    rows: &'a [f64],
    columns: usize,
    from: &'a [f64],
    center: &'a [f64],
}

impl Group<'_> {
    fn rows(&self) -> impl Iterator<Item = &[f64]> {
        self.rows.chunks(self.columns)
    }

    /// The greatest square of an observation, if a draw reads this group.
    fn greatest(&self) -> Option<f64> {
        let squares = self.rows().map(|row| square(row, self.from));
        let greatest = squares.fold(0.0, f64::max);
        let limit = radius_factor(self.columns) * square(self.from, self.center);
        (greatest >= limit).then_some(greatest)
    }

    /// Whether each observation may be nearer to the center than its square says, by its code.
    fn open(&self, greatest: f64, squares: &mut [f64]) -> Vec<bool> {
        type FindOpen = unsafe extern "C" fn(*const Seeding, *const Groups, *mut bool);
        // SAFETY: the function has this type.
        let find_open = unsafe { function::<FindOpen>("host_find_open") };
        let (n, p) = (squares.len(), self.columns);
        let mut centers = [self.from, self.center].concat();
        let [mut codes, mut center_codes] =
            [n * quads_of(p), quads_of_center(p)].map(|quads| vec![Quad([u32::MAX; 4]); quads]);
        let seeding = Seeding {
            x: self.rows.as_ptr() as u64,
            squares: squares.as_mut_ptr() as u64,
            centers: centers.as_mut_ptr() as u64,
            rows: n as u32,
            columns: p as u32,
            ..Seeding::default()
        };
        let groups = Groups {
            greatest: &raw const greatest as u64,
            codes: codes.as_mut_ptr() as u64,
            center_codes: center_codes.as_mut_ptr() as u64,
            groups: 1,
            quads: quads_of(p) as u32,
            ..Groups::default()
        };
        let mut open = vec![false; n];
        // SAFETY: all arrays have the sizes of a launch on a device.
        unsafe { find_open(&raw const seeding, &raw const groups, open.as_mut_ptr()) };
        open
    }

    /// Checks that each observation is open that is nearer to the new center than to the group's
    /// center, even if it is nearer by one bit. Returns the number of these observations.
    fn check(&self, case: &str) -> usize {
        let Some(greatest) = self.greatest() else {
            return 0;
        };
        let of = |row: &[f64]| (square(row, self.center), square(row, self.from));
        let (mut squares, nearer): (Vec<f64>, Vec<bool>) = self
            .rows()
            .map(|row| {
                let (now, before) = of(row);
                (before.min(now.next_above()), now < before)
            })
            .unzip();
        let open = self.open(greatest, &mut squares);
        for (i, (&open, &nearer)) in open.iter().zip(&nearer).enumerate() {
            assert!(open || !nearer, "{case}, row {i}");
        }
        nearer.iter().filter(|&&nearer| nearer).count()
    }
}

#[test]
fn observations_that_are_nearer_are_open() {
    let mut random = Random::of(31);
    let mut nearer = 0;
    for data in DATA {
        for p in (1..=33).chain([62, 63, 300]) {
            // Squares underflow, are near the least and the greatest with codes, and overflow.
            for exponent in [0, -530, -333, -331, 331, 333, 500] {
                let n = 2 + random.below(300);
                let factor = 2f64.powi(exponent);
                let x = draw(&mut random, data, n, p);
                let rows: Vec<f64> = x.values().iter().map(|value| value * factor).collect();
                if rows.iter().any(|value| !value.is_finite()) {
                    continue;
                }
                let mut row = || &rows[random.below(n) * p..][..p];
                let group = Group {
                    rows: &rows,
                    columns: p,
                    from: row(),
                    center: row(),
                };
                nearer += group.check(&format!("{data:?}, {n} x {p}, 2^{exponent}"));
            }
        }
    }
    assert!(nearer > 100_000, "{nearer}");
}

/// The center is in the direction for which the code of an observation is least exact: beyond the
/// observation, seen from its code.
#[test]
fn observations_that_are_nearer_are_open_in_the_worst_direction() {
    let mut random = Random::of(32);
    for case in 0..2_000 {
        let (n, p) = (3 + random.below(9), 1 + random.below(40));
        let offset = [0.0, 1e6, -3e3][case % 3];
        let data = [Data::Plain, Data::HeavyTails][case % 2];
        let x = draw(&mut random, data, n, p);
        let rows: Vec<f64> = x.values().iter().map(|value| value + offset).collect();
        let (from, row) = (&rows[..p], &rows[p..2 * p]);
        let mut group = Group {
            rows: &rows,
            columns: p,
            from,
            center: from,
        };
        let radius = group.greatest().expect("its own center is near").sqrt();
        let difference = |(a, b): (&f64, &f64)| a - b;
        let errors = row.iter().zip(from).map(difference).map(|difference| {
            let steps = difference * (RADIUS / radius);
            steps - steps.round_ties_even()
        });
        let errors: Vec<f64> = errors.collect();
        let norm = errors.iter().map(|error| error * error).sum::<f64>().sqrt();
        let distance = random.uniform() * square(row, from).sqrt();
        let center = row.iter().zip(&errors);
        let center: Vec<f64> = center
            .map(|(value, error)| value + error / norm * distance)
            .collect();
        group.center = &center;
        group.check(&format!("case {case}, {n} x {p}"));
    }
}

#[test]
fn codes_decide_almost_all_observations() {
    let mut random = Random::of(33);
    for (data, p) in [(Data::Plain, 5), (Data::Mixture, 14), (Data::Plain, 70)] {
        let n = 2_000;
        let x = draw(&mut random, data, n, p);
        let (mut open, mut nearer, mut looked_at) = (0, 0, 0);
        for center in 1..40 {
            let row = |i: usize| &x.values()[i * p..][..p];
            let group = Group {
                rows: x.values(),
                columns: p,
                from: row(0),
                center: row(center),
            };
            let Some(greatest) = group.greatest() else {
                continue;
            };
            // The distance from the nearest center is shorter than the distance from the group's
            // center.
            let of = |row: &[f64]| 0.25 * square(row, group.from);
            let mut squares: Vec<f64> = group.rows().map(of).collect();
            let are_nearer = group.rows().zip(&squares);
            let are_nearer = are_nearer.filter(|(row, least)| square(row, group.center) < **least);
            nearer += are_nearer.count();
            let are_open = group.open(greatest, &mut squares);
            open += are_open.iter().filter(|&&open| open).count();
            looked_at += n;
        }
        let wrong = open - nearer;
        assert!(
            wrong < looked_at / 20,
            "{wrong} of {looked_at}, {data:?}, {p} columns"
        );
    }
}
