//! Compares with the plain Lloyd's algorithm.

use ndarray::{arr2, Array2, Axis};

use super::checks::{check, LloydCase};
use super::margin::square;
use super::seed::seed;
use super::*;
use crate::cpu::Cpu;
use crate::error::Error;
use crate::matrix::RowSlices;
use crate::monitor::Monitor;
use crate::observations::Observations;
use crate::testing::rows::Rows;
use crate::testing::shrink::{cases, for_all, smaller, with_each, Shrink, Simpler};
use crate::testing::{array, draw, observations, Data, Random};

fn scale(x: &Observations) -> f64 {
    frame::scale_of(x.largest())
}

impl Shrink for LloydCase {
    fn simpler(&self) -> Simpler<Self> {
        let most = with_each(self, smaller(self.most, 1), |case, most| case.most = most);
        let rows = with_each(self, self.rows.simpler(), |case, rows| case.rows = rows);
        Box::new(most.chain(rows))
    }
}

#[test]
fn the_partition_is_that_of_plain_iterations() {
    let cpu = Cpu::new(2).unwrap();
    for_all(200, cases(LloydCase::draw), |case| case.check(&cpu));
}

#[test]
fn ties_go_to_the_smaller_number_and_sums_decide_where_roots_tie() {
    let cpu = Cpu::new(1).unwrap();
    let x = observations(vec![0.0, 1.0, 2.0, 3.0, 4.0], 5, 1);
    let found = check(&x, arr2(&[[3.0], [1.0]]).view(), 1, &cpu, "a tie");
    assert_eq!(found.cluster, [1, 1, 0, 0, 0]);
    // The sums of squares of these two are 1 + 2⁻⁵² and 1; both roots are 1.
    let centers = arr2(&[[1.0, f64::EPSILON.sqrt()], [1.0, 0.0]]);
    let x = observations(vec![0.0, 0.0, 5.0, 5.0], 2, 2);
    assert!(square(x.row_slice(0), centers.row_slice(0)) > 1.0);
    assert_eq!(square(x.row_slice(0), centers.row_slice(0)).sqrt(), 1.0);
    let found = check(&x, centers.view(), 1, &cpu, "roots tie");
    assert_eq!(found.cluster[0], 1);
}

#[test]
fn a_center_that_wins_by_sums_only_may_lose_its_observation_later() {
    // For the first observation, the roots of centers 0 and 2 tie, and the sum of 2 is less.
    let row = |values: &[(usize, f64)]| {
        let mut row = vec![0.0; 13];
        values.iter().for_each(|&(at, value)| row[at] = value);
        row
    };
    let x = [
        row(&[(8, 2e-31), (10, 7e-31), (12, -8e-31)]),
        row(&[(12, -6e-31)]),
        row(&[(11, 1.0)]),
        row(&[(6, 8e-31), (12, -2e-30)]),
        row(&[(4, 1.9e-30), (8, 1.9e-30), (12, 1e-30)]),
    ];
    let one = 1e-30;
    let same = |columns: &[usize], value| columns.iter().map(|&at| (at, value)).collect::<Vec<_>>();
    let centers = [
        row(&[
            same(&[0, 1, 7, 9, 11], one),
            same(&[8, 10], -one),
            vec![(4, -2e-30)],
        ]
        .concat()),
        row(&[
            same(&[8, 10], -one),
            vec![(5, 1.9e-30), (6, 7e-31), (9, 2e-30), (11, one)],
        ]
        .concat()),
        row(&[same(&[0, 1, 2, 5, 6, 10, 11], one), same(&[3, 8], 2e-30)].concat()),
    ];
    let square = |center: &[f64]| square(&x[0], center);
    assert_eq!(square(&centers[0]).sqrt(), square(&centers[2]).sqrt());
    assert!(square(&centers[0]) > square(&centers[2]));
    let (x, centers) = (x.concat(), centers.concat());
    let cpu = Cpu::new(1).unwrap();
    check(
        &observations(x, 5, 13),
        array(centers, 3, 13).view(),
        3,
        &cpu,
        "near centers",
    );
}

#[test]
fn an_empty_cluster_keeps_its_center() {
    let cpu = Cpu::new(1).unwrap();
    let x = observations(vec![0.0, 1.0, 10.0, 11.0], 4, 1);
    let found = check(
        &x,
        arr2(&[[0.0], [100.0], [10.0]]).view(),
        10,
        &cpu,
        "empty",
    );
    assert_eq!(found.sizes, [2, 0, 2]);
    assert_eq!(found.centers, arr2(&[[0.5], [100.0], [10.5]]));
    assert_eq!(found.iterations, 2);
}

#[test]
fn one_cluster_is_settled_by_its_first_iteration() {
    let cpu = Cpu::new(1).unwrap();
    let x = observations(vec![0.0, 1.0, 5.0], 3, 1);
    for most in [1, 2, 10] {
        let found = check(&x, arr2(&[[7.0]]).view(), most, &cpu, "one cluster");
        assert_eq!((found.iterations, found.centers[[0, 0]]), (1, 2.0));
    }
}

#[test]
fn wrong_input_is_refused_and_a_stop_is_heard() {
    let cpu = Cpu::new(1).unwrap();
    let x = draw(&mut Random::of(1), Data::Plain, 500, 2);
    let run = |x: &Observations, centers: &Array2<f64>, monitor: &Monitor| {
        cluster(&x.into(), Start::Centers(centers.view()), 5, &cpu, monitor)
            .map(|found| found.iterations)
    };
    let monitor = Monitor::default();
    for rows_and_columns in [(0, 2), (1, 3), (501, 2)] {
        let centers = Array2::zeros(rows_and_columns);
        assert!(matches!(
            run(&x, &centers, &monitor),
            Err(Error::Input(message)) if message.contains("`centers` has")
        ));
    }
    let huge = observations(vec![1e200, -1e200], 2, 1);
    assert!(matches!(
        run(&huge, &Array2::zeros((1, 1)), &monitor),
        Err(Error::Input(_))
    ));
    monitor.stop();
    assert_eq!(
        run(&x, &Array2::zeros((1, 2)), &monitor),
        Err(Error::Interrupt)
    );
    let draws = cluster(&(&x).into(), Start::Draws(&[0.5; 3]), 5, &cpu, &monitor);
    assert_eq!(draws, Err(Error::Interrupt));
}

/// The plain k-means++, with all weights in one sum; `None` if all weights are 0.
fn plain_seed(x: &Observations, uniforms: &[f64]) -> Option<Array2<f64>> {
    let n = x.nrows();
    let mut rows = vec![(uniforms[0] * n as f64) as usize];
    for uniform in &uniforms[1..] {
        let weight = |i: usize| {
            let squares = rows
                .iter()
                .map(|&row| square(x.row_slice(i), x.row_slice(row)));
            squares.fold(f64::INFINITY, f64::min)
        };
        let weights: Vec<f64> = (0..n).map(weight).collect();
        let target = uniform * weights.iter().sum::<f64>();
        let mut sum = 0.0;
        rows.push(weights.iter().position(|weight| {
            sum += weight;
            sum > target
        })?);
    }
    Some(x.view().select(Axis(0), &rows))
}

/// Observations, and a uniform number for each center.
#[derive(Debug, Clone)]
struct SeedCase {
    uniforms: Vec<f64>,
    rows: Rows,
}

impl SeedCase {
    fn draw(random: &mut Random, round: usize, n: usize) -> Self {
        let p = 1 + random.below(6);
        let data = [Data::Plain, Data::Mixture, Data::Grid][round % 3];
        let rows = Rows::of(&draw(random, data, n, p));
        let k = 1 + random.below(if data as u8 == Data::Grid as u8 {
            3
        } else {
            50.min(1 + 1_000_000 / n)
        });
        Self {
            uniforms: (0..k).map(|_| random.uniform()).collect(),
            rows,
        }
    }

    fn check(&self) {
        let (x, monitor) = (self.rows.observations(), Monitor::default());
        let seeds = [1, 2].map(|threads| {
            let cpu = Cpu::new(threads).unwrap();
            cpu.install(|| seed(&x, scale(&x), &self.uniforms, &monitor))
        });
        assert_eq!(seeds[0], seeds[1]);
        // There may be too few distinct rows.
        let expected = plain_seed(&x, &self.uniforms);
        assert_eq!(seeds[0].as_ref().ok(), expected.as_ref());
    }
}

impl Shrink for SeedCase {
    fn simpler(&self) -> Simpler<Self> {
        let fewer = with_each(self, smaller(self.uniforms.len(), 1), |case, k| {
            case.uniforms.truncate(k);
        });
        let rows = with_each(self, self.rows.simpler(), |case, rows| case.rows = rows);
        Box::new(fewer.chain(rows))
    }
}

#[test]
fn seeds_are_drawn_by_their_squared_distances() {
    let seeds = |random: &mut Random, round| {
        let n = 100 + random.below(1500);
        SeedCase::draw(random, round, n)
    };
    for_all(57, cases(seeds), |case| case.check());
}

#[test]
fn seeds_are_drawn_by_sums_of_chunks_of_sums_of_chunks() {
    let mut random = Random::of(13);
    for round in 0..3 {
        let n = 100 + random.below(200_000);
        SeedCase::draw(&mut random, round, n).check();
    }
}

#[test]
fn every_distinct_observation_can_be_drawn_and_no_more() {
    let values = [1.0, 5.0, 1.0, 2.0, 5.0, 5.0];
    let x = observations(values.to_vec(), 6, 1);
    // The greatest uniforms leave the sum of weights at most at the target.
    for uniform in [0.0, 0.3, 1.0 - f64::EPSILON / 2.0, 1.0] {
        let drawn = |k: usize| seed(&x, scale(&x), &vec![uniform; k], &Monitor::default());
        let mut three = drawn(3).unwrap().into_iter().collect::<Vec<f64>>();
        three.sort_by(f64::total_cmp);
        assert_eq!(three, [1.0, 2.0, 5.0]);
        let message = "`x` has 3 distinct rows; there are more cluster centers than distinct data \
                       points, 4";
        assert_eq!(drawn(4), Err(Error::Input(message.into())));
    }
}
