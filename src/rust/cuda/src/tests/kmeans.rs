//! Compares k-means on a GPU with the CPU's.

use std::ops::Range;
use std::sync::Arc;

use gmhclust_core::kmeans::checks::compare_with_plain_iterations;
use gmhclust_core::kmeans::{cluster, KMeansDevice, Start};
use gmhclust_core::observations::Input;
use gmhclust_core::testing::{draw, Data, Random, DATA};
use gmhclust_core::{Cpu, Error, Monitor};
use ndarray::s;

use super::{cuda, cuda_on, several_gpus};
use crate::{Cuda, GpuThresholds};

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_has_the_bits_of_the_cpu() {
    compare_with_plain_iterations(&cuda(2));
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
    let cuda = cuda(2);
    let cpu = Cpu::new(2).unwrap();
    let mut random = Random(15);
    for round in 0..rounds {
        let n = most_centers + random.below(most_rows);
        // Few columns, and more columns than a block has threads.
        let p = 1 + random.below([3, 40, 300][round % 3]);
        let x = draw(&mut random, DATA[round % DATA.len()], n, p);
        let k = 1 + random.below(most_centers);
        let uniforms: Vec<f64> = (0..k).map(|_| random.uniform()).collect();
        let run = |device: &dyn KMeansDevice, x: Input| {
            cluster(
                &x.into(),
                Start::Draws(&uniforms),
                6,
                device,
                &Monitor::default(),
            )
        };
        // The device reads rows, or the columns of a matrix of R.
        let columns = x.view().t().as_standard_layout().into_owned();
        let inputs = [Input::from(&x), Input::Matrix(columns.t())];
        let expected = run(&cpu, inputs[0]);
        assert_eq!(
            run(&cuda, inputs[round % 2]),
            expected,
            "{n} x {p}, {k} centers"
        );
    }
}

/// The GPU must not draw by squares that overflow.
#[test]
#[ignore = "needs an NVIDIA GPU; small, for compute-sanitizer"]
fn overflowing_squares_are_refused_before_any_draw_on_small_data() {
    let (cuda, cpu) = (cuda(2), Cpu::new(2).unwrap());
    let mut random = Random(18);
    let values = draw(&mut random, Data::Plain, 2_000, 4).view().to_owned();
    let huge = values * 1e200;
    let uniforms: Vec<f64> = (0..100).map(|_| random.uniform()).collect();
    let run = |device: &dyn KMeansDevice| {
        let x = Input::Matrix(huge.view()).into();
        cluster(&x, Start::Draws(&uniforms), 6, device, &Monitor::default())
    };
    let refused = run(&cpu);
    assert!(matches!(refused, Err(Error::Input(_))));
    assert_eq!(run(&cuda), refused);
}

/// There are enough centers for the GPU to compare in half precision first.
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn many_centers_have_the_bits_of_the_cpu() {
    compare_many_centers(&DATA, 256..1_500, 30_000);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn many_centers_are_compared_alike_on_small_data() {
    compare_many_centers(&[Data::Plain, Data::Islands], 70..90, 300);
}

/// Compares k-means that compares all centers, in half or in single precision first, with the
/// CPU's.
fn compare_many_centers(kinds: &[Data], centers: Range<usize>, most_rows: usize) {
    let singles = GpuThresholds {
        kmeans_half_coordinates: usize::MAX,
        kmeans_near_centers: usize::MAX,
        ..GpuThresholds::default()
    };
    let halves = GpuThresholds {
        kmeans_half_coordinates: 0,
        ..singles
    };
    // Fewer columns than a tensor core multiplies at a time, exactly this number, and more.
    let columns = [3, 16, 14, 64, 100];
    let cases = Cases {
        seed: 17,
        kinds,
        centers,
        most_rows,
        columns,
    };
    cases.compare(&[("halves", halves), ("singles", singles)]);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn near_centers_have_the_bits_of_the_cpu() {
    compare_near_centers(&DATA, 2..1_500, 30_000);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn near_centers_are_compared_alike_on_small_data() {
    compare_near_centers(&[Data::Plain, Data::Grid, Data::Islands], 2..90, 300);
}

/// Compares k-means that compares any number of near centers, or only a small number, with the
/// CPU's.
fn compare_near_centers(kinds: &[Data], centers: Range<usize>, most_rows: usize) {
    let any = GpuThresholds {
        kmeans_near_centers: 2,
        kmeans_near_ratio: 0,
        kmeans_half_coordinates: usize::MAX,
        ..GpuThresholds::default()
    };
    let few = GpuThresholds {
        kmeans_near_ratio: 8,
        ..any
    };
    let cases = Cases {
        seed: 19,
        kinds,
        centers,
        most_rows,
        columns: [2, 14, 1, 32, 33],
    };
    cases.compare(&[("any", any), ("few", few)]);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn draws_by_codes_have_the_bits_of_the_cpu() {
    compare_codes(&DATA, 2..1_500, 30_000);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn draws_by_codes_are_alike_on_small_data() {
    compare_codes(&[Data::Plain, Data::Grid, Data::Islands], 2..90, 300);
}

/// Compares k-means that draws by codes from the second center on, from a later center on, or not
/// at all, with the CPU's.
fn compare_codes(kinds: &[Data], centers: Range<usize>, most_rows: usize) {
    let all = GpuThresholds {
        kmeans_grouped_centers: usize::MAX,
        kmeans_near_centers: usize::MAX,
        kmeans_half_coordinates: usize::MAX,
        ..GpuThresholds::default()
    };
    let later = GpuThresholds {
        kmeans_coded_centers: 48,
        ..all
    };
    let none = GpuThresholds {
        kmeans_grouped_centers: 48,
        kmeans_coded_observations: usize::MAX,
        ..all
    };
    let cases = Cases {
        seed: 23,
        kinds,
        centers,
        most_rows,
        // Codes take exactly 16 bytes, fewer, or more.
        columns: [14, 1, 15, 30, 63],
    };
    cases.compare(&[("all", all), ("later", later), ("none", none)]);
}

/// Sizes and kinds of the data of a test. The cases take the kinds and the numbers of columns in
/// turn. The number of centers is in the range `centers`, and there are at most `most_rows` more
/// rows than centers.
struct Cases<'a> {
    seed: u64,
    kinds: &'a [Data],
    centers: Range<usize>,
    most_rows: usize,
    columns: [usize; 5],
}

impl Cases<'_> {
    /// Compares k-means with these sizes with the CPU's, from drawn and from given centers.
    fn compare(&self, sizes: &[(&str, GpuThresholds)]) {
        let cpu = Arc::new(Cpu::new(8).unwrap());
        let device = |size: GpuThresholds| Cuda::new(None, cpu.clone(), size).unwrap();
        let devices: Vec<(&str, Cuda)> = sizes
            .iter()
            .map(|&(name, size)| (name, device(size)))
            .collect();
        let mut random = Random(self.seed);
        for (round, &data) in self.kinds.iter().enumerate() {
            let k = self.centers.start + random.below(self.centers.len());
            let n = k + random.below(self.most_rows);
            let p = self.columns[round % self.columns.len()];
            let x = draw(&mut random, data, n, p);
            let uniforms: Vec<f64> = (0..k).map(|_| random.uniform()).collect();
            for start in [
                Start::Draws(&uniforms),
                Start::Centers(x.view().slice(s![..k, ..])),
            ] {
                let run = |device: &dyn KMeansDevice| {
                    cluster(&(&x).into(), start, 6, device, &Monitor::default())
                };
                let expected = run(&*cpu);
                for (name, device) in &devices {
                    let case = format!("{name}, {data:?}, {n} x {p}, {k} centers");
                    assert!(run(device) == expected, "{case}");
                }
            }
        }
    }
}

#[test]
#[ignore = "needs two NVIDIA GPUs"]
fn several_gpus_have_the_bits_of_the_cpu_and_of_one() {
    let Some(all) = several_gpus() else {
        return;
    };
    compare_with_plain_iterations(&all);
    let cpu = Cpu::new(4).unwrap();
    let mut random = Random(16);
    // Fewer centers than devices, and more observations than are copied at a time.
    for (data, n, p, k) in [
        (Data::Mixture, 1_000, 3, 1),
        (Data::Offset, 50_000, 40, 101),
        (Data::Plain, 1_100_000, 4, 60),
    ] {
        let x = draw(&mut random, data, n, p);
        let uniforms: Vec<f64> = (0..k).map(|_| random.uniform()).collect();
        let run = |device: &dyn KMeansDevice, start: Start| {
            cluster(&(&x).into(), start, 8, device, &Monitor::default())
        };
        let rows = x.view();
        let given = rows.slice(s![n - k.., ..]);
        for start in [Start::Draws(&uniforms), Start::Centers(given)] {
            let expected = run(&cpu, start);
            assert!(expected.is_ok());
            assert!(run(&all, start) == expected, "all, {n} x {p}, {k} centers");
            let second = cuda_on(Some(&[1]), 4);
            assert!(run(&second, start) == expected, "the second, {n} x {p}");
            let turned = cuda_on(Some(&[1, 0]), 4);
            assert!(run(&turned, start) == expected, "turned, {n} x {p}");
        }
    }
}
