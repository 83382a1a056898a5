//! Checks of devices that iterate Lloyd's algorithm.

use ndarray::{Array2, ArrayView2};

use super::cluster::{cluster, KMeans};
use super::device::{KMeansDevice, Start};
use crate::matrix::RowSlices;
use crate::monitor::Monitor;
use crate::observations::Observations;
use crate::testing::rows::Rows;
use crate::testing::{draw, Random, DATA};

/// The plain algorithm: all distances, in every iteration.
fn plain(x: &Observations, mut centers: Array2<f64>, most: usize) -> KMeans {
    let (n, p) = (x.nrows(), x.ncols());
    let k = centers.nrows();
    let mut cluster = vec![u32::MAX; n];
    let mut iterations = most + 1;
    for iteration in 1..=most {
        let nearest = |i: usize| {
            let mut best = (f64::INFINITY, 0);
            for c in 0..k {
                let mut square = 0.0;
                for (a, b) in x.row_slice(i).iter().zip(centers.row(c)) {
                    square += (a - b) * (a - b);
                }
                if square < best.0 {
                    best = (square, c as u32);
                }
            }
            best.1
        };
        let assigned: Vec<u32> = (0..n).map(nearest).collect();
        if assigned == cluster {
            iterations = iteration;
            break;
        }
        cluster = assigned;
        for c in 0..k {
            let members: Vec<usize> = (0..n).filter(|&i| cluster[i] == c as u32).collect();
            for j in 0..p {
                if !members.is_empty() {
                    let sum = members.iter().fold(0.0, |sum, &i| sum + x.row_slice(i)[j]);
                    centers[[c, j]] = sum / members.len() as f64;
                }
            }
        }
    }
    if k == 1 {
        iterations = 1;
    }
    let mut sizes = vec![0; k];
    let mut within = vec![0.0; k];
    for (i, &c) in cluster.iter().enumerate() {
        sizes[c as usize] += 1;
        for (a, b) in x.row_slice(i).iter().zip(centers.row(c as usize)) {
            within[c as usize] += (a - b) * (a - b);
        }
    }
    KMeans {
        cluster,
        centers,
        sizes,
        within,
        iterations,
    }
}

/// Checks that a device gives the partition of the plain algorithm, and returns it.
pub fn check(
    x: &Observations,
    centers: ArrayView2<f64>,
    most: usize,
    device: &(impl KMeansDevice + ?Sized),
    case: &str,
) -> KMeans {
    let found = cluster(
        &x.into(),
        Start::Centers(centers),
        most,
        device,
        &Monitor::default(),
    )
    .unwrap();
    let expected = plain(x, centers.to_owned(), most);
    assert_eq!(expected, found, "{case}");
    found
}

/// Observations, with the label 0, and initial centers, with the label 1.
#[derive(Debug, Clone)]
pub struct LloydCase {
    pub most: usize,
    pub rows: Rows,
}

impl LloydCase {
    /// Random observations and centers; `round` is the number of cases drawn before.
    pub fn draw(random: &mut Random, round: usize) -> Self {
        let n = 2 + random.below(if round % 10 == 0 { 1500 } else { 120 });
        let p = 1 + random.below(if round % 4 == 0 { 40 } else { 5 });
        let k = match round % 5 {
            0 => 1,
            1 => n,
            _ => 1 + random.below(n.min(60)),
        };
        let x = draw(random, DATA[round % DATA.len()], n, p);
        // The centers are observations, some of them twice, or arbitrary points.
        let mut centers: Vec<f64> = (0..k)
            .flat_map(|_| x.row_slice(random.below(n)).to_vec())
            .collect();
        if round % 3 == 0 {
            centers.iter_mut().for_each(|c| *c += random.normal());
        }
        let rows = Rows::new(&[x.values(), &centers].concat(), n + k);
        Self {
            most: 1 + random.below(30),
            rows: rows.label(n..n + k, 1),
        }
    }

    /// Checks that a device gives the partition of the plain algorithm.
    pub fn check(&self, device: &(impl KMeansDevice + ?Sized)) {
        let (x, centers) = (self.rows.labelled(0), self.rows.labelled(1));
        if x.count() >= 2 && (1..=x.count()).contains(&centers.count()) {
            let case = format!("{} of {}", centers.count(), x.count());
            let (x, centers) = (x.observations(), centers.array());
            check(&x, centers.view(), self.most, device, &case);
        }
    }
}

/// Checks that a device gives the partitions of the plain algorithm, on every kind of data.
pub fn compare_with_plain_iterations(device: &(impl KMeansDevice + ?Sized)) {
    let mut random = Random::of(11);
    (0..200).for_each(|round| LloydCase::draw(&mut random, round).check(device));
}
