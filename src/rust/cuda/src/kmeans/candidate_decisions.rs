//! As decisions.rs, for the comparisons in half precision. This file computes the sums that
//! `collect` of products.cu computes on tensor cores.

use gmhclust_core::kmeans::frame::Frame;
use gmhclust_core::matrix::RowSlices;
use gmhclust_core::neighbours::single::{coordinate_of_half, half_bits};
use gmhclust_core::testing::{draw, Data, Random, DATA};
use gmhclust_core::Observations;
use ndarray::{s, Array2};

use super::candidates::{sweep, Candidates};
use super::decisions::{frame_of, function};
use super::launch::{NONE, THREADS};
use super::lloyd::Lloyd;

/// The position of the allowance among the scalars of sweep.cuh.
const ALLOWANCE: usize = 3;

/// The memory of the kernels that compare all observations with these centers.
struct HalfPrecisionCase<'a> {
    x: &'a Observations,
    centers: &'a Array2<f64>,
    frame: &'a Frame,
    candidates: Candidates,
    observations: Vec<u16>,
    rows_of_centers: Vec<f32>,
    thresholds: Vec<f32>,
    counts: Vec<u32>,
    found: Vec<u64>,
}

impl<'a> HalfPrecisionCase<'a> {
    fn new(x: &'a Observations, centers: &'a Array2<f64>, frame: &'a Frame, room: usize) -> Self {
        let (n, k, candidates) = (x.nrows(), centers.nrows(), Candidates::new(frame, room));
        Self {
            x,
            centers,
            frame,
            observations: vec![0; n * candidates.width as usize],
            rows_of_centers: vec![f32::NAN; k * candidates.step()],
            thresholds: vec![f32::NAN; n],
            counts: vec![NONE; n],
            found: vec![u64::MAX; n * room],
            candidates,
        }
    }

    /// Assigns the observations, given their present clusters. Returns whether an assignment has
    /// changed, and the number of open observations.
    fn assign(&mut self, cluster: &mut [u32]) -> (bool, usize) {
        type WithBlocks = unsafe extern "C" fn(*const Lloyd, *const Candidates, u32);
        type WithCandidates = unsafe extern "C" fn(*const Lloyd, *const Candidates);
        type OfOpen = unsafe extern "C" fn(*const Lloyd, u32);
        let (n, k) = (self.x.nrows(), self.centers.nrows());
        let (mut numbers, mut zeros) = (vec![NONE; k], vec![f32::NAN; n]);
        let (mut open, mut flags) = (vec![NONE; n], [0u32; 2]);
        let lloyd = Lloyd {
            x: self.x.values().as_ptr() as u64,
            centers: self.centers.as_ptr() as u64,
            cluster: cluster.as_mut_ptr() as u64,
            changed: &raw mut flags[0] as u64,
            open: open.as_mut_ptr() as u64,
            open_count: &raw mut flags[1] as u64,
            origin: self.frame.origin.as_ptr() as u64,
            ..Lloyd::new(self.frame, n, k, &(0..n))
        };
        let candidates = Candidates {
            observations: self.observations.as_mut_ptr() as u64,
            centers: self.rows_of_centers.as_mut_ptr() as u64,
            numbers: numbers.as_mut_ptr() as u64,
            thresholds: self.thresholds.as_mut_ptr() as u64,
            zeros: zeros.as_mut_ptr() as u64,
            counts: self.counts.as_mut_ptr() as u64,
            found: self.found.as_mut_ptr() as u64,
            rows: n as u32,
            ..self.candidates
        };
        // SAFETY: the function has this type; all arrays have the sizes that a launch on a device
        // gives them.
        unsafe {
            let blocks = self.observations.len().div_ceil(THREADS) as u32;
            let name = "host_convert_observations_to_halves";
            function::<WithBlocks>(name)(&lloyd, &candidates, blocks);
            function::<WithCandidates>("host_convert_centers_to_halves")(&lloyd, &candidates);
            function::<WithCandidates>("host_find_thresholds")(&lloyd, &candidates);
        }
        let what = sweep(&lloyd, &candidates);
        assert_eq!((what.query_count, what.last), (n as u32, k as u32));
        self.collect(cluster);
        // SAFETY: as above.
        unsafe {
            function::<WithCandidates>("host_decide_candidates")(&lloyd, &candidates);
            let open = (&raw const flags[1]).read_volatile();
            if open > 0 {
                function::<OfOpen>("host_decide_few")(&lloyd, open);
            }
            ((&raw const flags[0]).read_volatile() != 0, open as usize)
        }
    }

    /// Does the work of `collect`.
    fn collect(&mut self, cluster: &[u32]) {
        let (width, step) = (self.candidates.width as usize, self.candidates.step());
        let coordinates = |halves: &[u16]| -> Vec<f32> {
            halves
                .iter()
                .map(|&half| coordinate_of_half(half))
                .collect()
        };
        let centers: Vec<Vec<f32>> = (0..self.centers.nrows())
            .map(|c| coordinates(&self.halves_of_center(c)))
            .collect();
        let room = self.candidates.room as usize;
        for (i, &own) in cluster.iter().enumerate() {
            let observation = coordinates(&self.observations[i * width..][..width]);
            for (c, center) in centers.iter().enumerate() {
                let products = observation.iter().zip(center).map(|(a, b)| a * b);
                let sum = products.fold(0.0, |sum, product| sum + product);
                let allowance = self.rows_of_centers[c * step + width / 2 + ALLOWANCE];
                if c as u32 == own || sum + allowance <= -self.thresholds[i] {
                    continue;
                }
                let slot = self.counts[i] as usize;
                self.counts[i] += 1;
                if slot < room {
                    self.found[i * room + slot] = u64::from((-sum).to_bits()) << 32 | c as u64;
                }
            }
        }
    }

    fn halves_of_center(&self, center: usize) -> Vec<u16> {
        let row = &self.rows_of_centers[center * self.candidates.step()..];
        let pairs = row[..self.candidates.width as usize / 2].iter();
        let halves = pairs.flat_map(|pair| [pair.to_bits() as u16, (pair.to_bits() >> 16) as u16]);
        halves.collect()
    }
}

/// The nearest center of each observation. Of several nearest centers, the one with the smallest
/// number counts.
fn nearest(x: &Observations, centers: &Array2<f64>) -> Vec<u32> {
    let square = |i: usize, c: usize| {
        let pairs = x.row_slice(i).iter().zip(centers.row(c));
        pairs.fold(0.0, |sum, (a, b)| sum + (a - b) * (a - b))
    };
    let of = |i: usize| {
        let numbers = (0..centers.nrows()).map(|c| (square(i, c), c as u32));
        let less = |a: (f64, u32), b: (f64, u32)| if b.0 < a.0 { b } else { a };
        numbers.fold((f64::INFINITY, NONE), less).1
    };
    (0..x.nrows()).map(of).collect()
}

#[test]
fn observations_go_to_the_nearest_center_from_any_other() {
    let mut random = Random::of(23);
    let (mut few, mut open_in_all) = (0, 0);
    for (case, data) in DATA.into_iter().cycle().take(3 * DATA.len()).enumerate() {
        let n = 40 + random.below(60);
        let p = [1, 3, 16, 37][case % 4];
        let x = draw(&mut random, data, n, p);
        let k = 2 + random.below(38);
        let centers = x.view().slice(s![..k, ..]).to_owned();
        let frame = frame_of(&x);
        let expected = nearest(&x, &centers);
        let case = format!("case {case}, {data:?}, {n} x {p}, {k} centers");
        for room in [2, 64] {
            let mut comparison = HalfPrecisionCase::new(&x, &centers, &frame, room);
            let mut cluster: Vec<u32> = (0..n).map(|_| random.below(k) as u32).collect();
            let changes = cluster != expected;
            let (changed, open) = comparison.assign(&mut cluster);
            assert_eq!(cluster, expected, "{case}, room for {room}");
            assert_eq!(changed, changes, "{case}, room for {room}");
            open_in_all += open;
            assert!(
                room > 2 || open > 0 || k <= 3 || n < 50,
                "{case}: none is open"
            );
            // The observations are at their nearest centers now, so nothing changes. Ordinary data
            // have few candidates.
            let (changed, open) = comparison.assign(&mut cluster);
            assert!(!changed && cluster == expected, "{case}, again");
            if matches!(data, Data::Plain | Data::Mixture) && p > 1 {
                assert_eq!(open, 0, "{case}");
                few += 1;
                let candidates: u32 = comparison.counts.iter().sum();
                assert!((candidates as usize) < n, "{case}: {candidates} candidates");
            }
        }
    }
    assert!(few > 0 && open_in_all > 0);
}

#[test]
fn halves_are_those_of_the_cpu() {
    let mut random = Random::of(24);
    for data in DATA {
        let x = draw(&mut random, data, 60, 5);
        let centers = x.view().slice(s![..20, ..]).to_owned();
        let frame = frame_of(&x);
        let mut comparison = HalfPrecisionCase::new(&x, &centers, &frame, 4);
        comparison.assign(&mut [0; 60]);
        let halves = |row: &[f64]| -> Vec<u16> {
            let coordinate = |k: usize| frame.coordinate(row[k], k) as f32;
            let mut halves = vec![0; 16];
            for (k, half) in (0..row.len()).zip(&mut halves) {
                *half = half_bits(coordinate(k));
            }
            halves
        };
        for i in 0..60 {
            let expected = halves(x.row_slice(i));
            assert_eq!(
                comparison.observations[16 * i..][..16],
                expected,
                "{data:?}"
            );
        }
        for c in 0..20 {
            let expected = halves(x.row_slice(c));
            assert_eq!(comparison.halves_of_center(c), expected, "{data:?}");
        }
    }
}
