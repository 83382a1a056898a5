//! Against Lloyd's algorithm as it is written down.

use super::seed::seed;
use super::*;
use crate::backend::cuda::Cuda;
use crate::cpu::Cpu;
use crate::testing::{draw, Data, Random, DATA};

fn row_of(values: &[f64], row: usize, p: usize) -> &[f64] {
    &values[row * p..][..p]
}

/// All distances, in every iteration.
fn plain(x: &Matrix, mut centers: Vec<f64>, most: usize) -> Partition {
    let (n, p) = (x.rows(), x.columns());
    let k = centers.len() / p;
    let mut cluster = vec![u32::MAX; n];
    let mut iterations = most + 1;
    for iteration in 1..=most {
        let nearest = |i: usize| {
            let mut best = (f64::INFINITY, 0);
            for c in 0..k {
                let mut square = 0.0;
                for (a, b) in x.row(i).iter().zip(row_of(&centers, c, p)) {
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
                    let sum = members.iter().fold(0.0, |sum, &i| sum + x.row(i)[j]);
                    centers[c * p + j] = sum / members.len() as f64;
                }
            }
        }
    }
    let mut sizes = vec![0; k];
    let mut within = vec![0.0; k];
    for (i, &c) in cluster.iter().enumerate() {
        sizes[c as usize] += 1;
        for (a, b) in x.row(i).iter().zip(row_of(&centers, c as usize, p)) {
            within[c as usize] += (a - b) * (a - b);
        }
    }
    Partition {
        cluster,
        centers,
        sizes,
        within,
        total: f64::NAN,
        iterations,
    }
}

fn check(x: &Matrix, centers: &[f64], most: usize, backend: &dyn Backend, case: &str) -> Partition {
    let found = cluster(
        x,
        Start::Centers(centers),
        most,
        backend,
        &Monitor::default(),
    )
    .unwrap();
    let expected = plain(x, centers.to_vec(), most);
    let total = found.total;
    assert_eq!(Partition { total, ..expected }, found, "{case}");
    found
}

#[test]
fn the_partition_is_that_of_plain_iterations() {
    compare_with_plain_iterations(&Cpu::new(2).unwrap());
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_has_the_bits_of_the_cpu() {
    let cuda = Cuda::new(None, 2).unwrap().without_crossover(false);
    compare_with_plain_iterations(&cuda);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_draws_and_iterates_like_the_cpu() {
    compare_backends(12, 100_000, 300);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn backends_draw_and_iterate_alike_on_small_data() {
    compare_backends(4, 2_000, 100);
}

fn compare_backends(rounds: usize, most_rows: usize, most_centers: usize) {
    let cuda = Cuda::new(None, 2).unwrap().without_crossover(false);
    let cpu = Cpu::new(2).unwrap();
    let mut random = Random(15);
    for round in 0..rounds {
        let n = most_centers + random.below(most_rows);
        // Few columns, and more than a block has threads.
        let p = 1 + random.below([3, 40, 300][round % 3]);
        let x = draw(&mut random, DATA[round % DATA.len()], n, p);
        let k = 1 + random.below(most_centers);
        let uniforms: Vec<f64> = (0..k).map(|_| random.uniform()).collect();
        let run = |backend: &dyn Backend| {
            cluster(&x, Start::Draws(&uniforms), 6, backend, &Monitor::default())
        };
        let found = run(&cpu);
        assert_eq!(run(&cuda), found, "{n} x {p}, {k} centers");
        // What is done where the observations do not fit on the device.
        let start = Start::Draws(&uniforms);
        let searched = cpu.install(|| iterate(&x, start, 6, &cuda, &Monitor::default()));
        let searched = searched.map(|found| (found.cluster, found.centers, found.iterations));
        let found = found.map(|found| (found.cluster, found.centers, found.iterations));
        assert_eq!(searched, found, "{n} x {p}, {k} centers");
    }
}

fn compare_with_plain_iterations(backend: &dyn Backend) {
    let mut random = Random(11);
    for round in 0..200 {
        let n = 2 + random.below(if round % 10 == 0 { 1500 } else { 120 });
        let p = 1 + random.below(if round % 4 == 0 { 40 } else { 5 });
        let k = match round % 5 {
            0 => 1,
            1 => n,
            _ => 1 + random.below(n.min(60)),
        };
        let data = DATA[round % DATA.len()];
        let x = draw(&mut random, data, n, p);
        // Centers among the observations, some of them twice, or anywhere.
        let mut centers: Vec<f64> = (0..k)
            .flat_map(|_| x.row(random.below(n)).to_vec())
            .collect();
        if round % 3 == 0 {
            centers.iter_mut().for_each(|c| *c += random.normal());
        }
        let most = 1 + random.below(30);
        check(&x, &centers, most, backend, &format!("{round}, {data:?}"));
    }
}

#[test]
fn bounds_spare_comparisons_in_the_end_and_change_nothing() {
    let mut random = Random(12);
    let x = draw(&mut random, Data::Mixture, 5000, 6);
    let centers = &x.values()[..50 * 6];
    let monitor = Monitor::default();
    let partitions = [1, 2].map(|threads| {
        let cpu = Cpu::new(threads).unwrap();
        check(&x, centers, 40, &cpu, &format!("{threads} threads"))
    });
    assert_eq!(partitions[0], partitions[1]);
    // In the last of many iterations few observations are compared with all centers.
    let cpu = Cpu::new(1).unwrap();
    let mut lloyd = Lloyd::new(&x, centers.to_vec()).unwrap();
    lloyd.run(40, &cpu, &monitor).unwrap();
    let moves = lloyd.update().unwrap();
    assert!(lloyd.open(&moves).len() < 2500);
}

#[test]
fn ties_go_to_the_smaller_number_and_sums_decide_where_roots_tie() {
    let cpu = Cpu::new(1).unwrap();
    let x = Matrix::from_row_major(vec![0.0, 1.0, 2.0, 3.0, 4.0], 5, 1).unwrap();
    let found = check(&x, &[3.0, 1.0], 1, &cpu, "a tie");
    assert_eq!(found.cluster, [1, 1, 0, 0, 0]);
    // The squares of these two are 1 + 2⁻⁵² and 1; so is the root of either 1.
    let centers = [1.0, f64::EPSILON.sqrt(), 1.0, 0.0];
    let x = Matrix::from_row_major(vec![0.0, 0.0, 5.0, 5.0], 2, 2).unwrap();
    assert!(square(x.row(0), &centers[..2]) > 1.0);
    assert_eq!(square(x.row(0), &centers[..2]).sqrt(), 1.0);
    let found = check(&x, &centers, 1, &cpu, "roots tie");
    assert_eq!(found.cluster[0], 1);
}

#[test]
fn an_empty_cluster_keeps_its_center() {
    let cpu = Cpu::new(1).unwrap();
    let x = Matrix::from_row_major(vec![0.0, 1.0, 10.0, 11.0], 4, 1).unwrap();
    let found = check(&x, &[0.0, 100.0, 10.0], 10, &cpu, "empty");
    assert_eq!(found.sizes, [2, 0, 2]);
    assert_eq!(found.centers, [0.5, 100.0, 10.5]);
    assert_eq!((found.iterations, found.total), (2, 101.0));
}

#[test]
fn wrong_input_is_refused_and_a_stop_is_heard() {
    let cpu = Cpu::new(1).unwrap();
    let x = draw(&mut Random(1), Data::Plain, 500, 2);
    let run = |x: &Matrix, centers: &[f64], monitor: &Monitor| {
        cluster(x, Start::Centers(centers), 5, &cpu, monitor).map(|found| found.iterations)
    };
    let monitor = Monitor::default();
    for centers in [&[][..], &[1.0, 2.0, 3.0], &[0.0; 1002]] {
        assert!(matches!(
            run(&x, centers, &monitor),
            Err(Error::Input(message)) if message.contains("`centers` has")
        ));
    }
    let huge = Matrix::from_row_major(vec![1e200, -1e200], 2, 1).unwrap();
    assert!(matches!(run(&huge, &[0.0], &monitor), Err(Error::Input(_))));
    monitor.stop();
    assert_eq!(run(&x, &[0.0; 2], &monitor), Err(Error::Interrupt));
    let draws = cluster(&x, Start::Draws(&[0.5; 3]), 5, &cpu, &monitor);
    assert_eq!(draws, Err(Error::Interrupt));
}

/// k-means++ as it is written down, with the weights in one sum.
fn plain_seed(x: &Matrix, uniforms: &[f64]) -> Vec<f64> {
    let n = x.rows();
    let mut rows = vec![(uniforms[0] * n as f64) as usize];
    for uniform in &uniforms[1..] {
        let weight = |i: usize| {
            let squares = rows.iter().map(|&row| square(x.row(i), x.row(row)));
            squares.fold(f64::INFINITY, f64::min)
        };
        let weights: Vec<f64> = (0..n).map(weight).collect();
        let target = uniform * weights.iter().sum::<f64>();
        let mut sum = 0.0;
        rows.push(
            weights
                .iter()
                .position(|weight| {
                    sum += weight;
                    sum > target
                })
                .unwrap(),
        );
    }
    rows.iter().flat_map(|&row| x.row(row)).copied().collect()
}

#[test]
fn seeds_are_drawn_by_their_squared_distances() {
    let mut random = Random(13);
    let monitor = Monitor::default();
    for round in 0..60 {
        // Sums of chunks of sums of chunks, too.
        let n = 100 + random.below(if round % 20 == 0 { 200_000 } else { 1500 });
        let p = 1 + random.below(6);
        let data = [Data::Plain, Data::Mixture, Data::Grid][round % 3];
        let x = draw(&mut random, data, n, p);
        let k = 1 + random.below(if data as u8 == Data::Grid as u8 {
            3
        } else {
            50.min(1 + 1_000_000 / n)
        });
        let uniforms: Vec<f64> = (0..k).map(|_| random.uniform()).collect();
        let seeds = [1, 2].map(|threads| {
            let cpu = Cpu::new(threads).unwrap();
            cpu.install(|| seed(&x, &uniforms, &monitor)).unwrap()
        });
        assert_eq!(seeds[0], seeds[1]);
        assert_eq!(seeds[0], plain_seed(&x, &uniforms), "{round}");
    }
}

#[test]
fn every_distinct_observation_can_be_drawn_and_no_more() {
    let values = [1.0, 5.0, 1.0, 2.0, 5.0, 5.0];
    let x = Matrix::from_row_major(values.to_vec(), 6, 1).unwrap();
    // The greatest uniforms leave the sum of weights at most at the target.
    for uniform in [0.0, 0.3, 1.0 - f64::EPSILON / 2.0, 1.0] {
        let drawn = |k: usize| seed(&x, &vec![uniform; k], &Monitor::default());
        let mut three = drawn(3).unwrap();
        three.sort_by(f64::total_cmp);
        assert_eq!(three, [1.0, 2.0, 5.0]);
        let message = "`X` has 3 distinct rows; there are more cluster centers than distinct data \
                       points, 4";
        assert_eq!(drawn(4), Err(Error::Input(message.into())));
    }
}
