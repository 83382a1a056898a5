//! What tensor cores make of sums that are hard to add up.

use super::*;
use crate::metric::{Metric, Points};
use crate::testing::Random;
use crate::Matrix;

/// Rows of data that tempt sums of products to lose digits.
fn adversarial(random: &mut Random, sort: usize, n: usize, p: usize) -> Vec<f64> {
    let mut values = vec![1.0; n * p];
    for (i, row) in values.chunks_mut(p).enumerate() {
        for (k, value) in row.iter_mut().enumerate() {
            let sign = if random.below(2) == 0 { 1.0 } else { -1.0 };
            *value = match sort {
                // All ones, with a sign that alternates in every second row.
                0 => [1.0, -1.0][k % 2 * (i % 2)],
                1 => sign,
                // One huge term, first or somewhere, among tiny ones that are all cut off alike.
                2 if k == 0 => 1.0,
                3 if k == i % p => -1.0,
                2 | 3 => 2f64.powi(-12) * (1.0 - 2f64.powi(-10)),
                // Huge terms that cancel each other, with some digits in between.
                4 if k % 16 < 2 => 1000.0 * [1.0, -1.0][(k + i * (k / 16)) % 2],
                4 => random.uniform(),
                // Few bits in common: each term is at the end of the digits of those before.
                5 => sign * 2f64.powi(-((k % 24) as i32) / 2) * (1.0 + random.uniform()),
                _ => random.normal(),
            };
        }
    }
    values
}

/// The sums that a sweep in halves adds up, of all queries and references, for rows whose negatives
/// are the references: what bounds were made of them is undone.
fn check(random: &mut Random, device: &Arc<Device>, sort: usize, n: usize, p: usize) -> f64 {
    let queries = adversarial(random, sort, n, p);
    let mut values: Vec<f64> = queries.iter().map(|value| -value).collect();
    values.extend(queries);
    let x = Matrix::from_row_major(values, 2 * n, p).unwrap();
    let points = Points::new(Metric::Cosine { absolute: false }, &x);
    let space = Space::Points {
        points: &points,
        references: n,
    };
    let monitor = Monitor::default();
    let mut neighbours = CudaNeighbours::new(device, space, 0, &monitor)
        .unwrap()
        .unwrap();
    let indices: Vec<u32> = (n as u32..2 * n as u32).collect();
    let request = Request {
        queries: &indices,
        wanted: n,
        limits: None,
        except: Except::Nobody,
    };
    let screen = &neighbours.screens[0];
    let frame = &screen.frame;
    assert_eq!(frame.precision(), Precision::Half);
    let groups = neighbours.stream.clone_htod(&vec![0; n]).unwrap();
    let swept = neighbours.sweep(screen, &request, &groups, 0..n).unwrap();
    let (_, margin) = frame.margins();
    let view = |index: u32| frame.view(points.row(index as usize), 1.0);
    let mut largest = 0.0f64;
    for (i, &index) in indices.iter().enumerate() {
        let query = view(index);
        assert_eq!(swept.counts[i] as usize, n);
        for &key in &swept.keys[i * swept.capacity..][..n] {
            let reference = screen.copy.indices[key as u32 as usize];
            let bound = f64::from(f32::from_bits((key >> 32) as u32));
            let distance = points.distance(index as usize, reference as usize);
            assert!(bound <= distance, "{sort}, {p}: {bound} above {distance}");
            let reference = view(reference);
            let lost = f64::from(query.scalars.error) + f64::from(reference.scalars.error);
            let sum = bound - 1.0 + margin + lost;
            let pairs = query.values.iter().zip(&reference.values);
            let exact: f64 = pairs.map(|(&a, &b)| -f64::from(a) * f64::from(b)).sum();
            if bound > 0.0 {
                largest = largest.max((sum - exact).abs() / margin);
            }
        }
    }
    assert!(neighbours.nearest(&request).is_ok());
    largest
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_adds_up_halves_within_the_margin() {
    let device = Device::shared(0).unwrap();
    if !device.multiplies_halves().unwrap() {
        return;
    }
    let mut random = Random(3);
    for p in [8, 16, 31, 64, 295, 1024, 4096] {
        for sort in 0..7 {
            let share = check(&mut random, &device, sort, 100, p);
            println!("sort {sort}, {p} columns: {share:.4} of the margin");
            // Sums of bounds are rounded to singles, too.
            assert!(
                share < 0.5,
                "sort {sort}, {p} columns: {share} of the margin"
            );
        }
    }
}
