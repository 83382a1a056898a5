//! Times searches among seeded points, without R:
//! `cargo run --release -p gmhclust-cuda --example time_neighbours N P METRIC K THREADS [DEVICE [DATA
//! [DEVICES]]]`, with `tree` for K to make the minimum spanning tree, or `ward`, `centroid` or
//! `median` for these linkages. DATA is `clusters`, or `profiles` that follow a
//! few common patterns, with noise of their own. DEVICES is how many, all by
//! default. The environment variable GMHCLUST_DEVICE_MEMORY caps what a search
//! takes of a device's memory, in bytes.

mod device;

use std::time::Instant;

use gmhclust_core::linkage::{geometric, spanning};
use gmhclust_core::metric::{Metric, Points, ZeroOverZero};
use gmhclust_core::{knn, matrix, Monitor, Observations};
use ndarray::{Array2, ArrayView2, ShapeBuilder};

/// Uniform numbers in [0, 1) by xorshift64*.
fn uniform(state: &mut u64) -> f64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1u64 << 53) as f64
}

/// About normal numbers.
fn normal(state: &mut u64) -> f64 {
    ((0..4).map(|_| uniform(state)).sum::<f64>() - 2.0) * 3f64.sqrt()
}

/// Points around 20 centers.
fn clusters(n: usize, p: usize, state: &mut u64) -> Vec<f64> {
    let centers: Vec<f64> = (0..20 * p).map(|_| 6.0 * uniform(state)).collect();
    let mut values = Vec::with_capacity(n * p);
    for _ in 0..n {
        let center = (20.0 * uniform(state)) as usize * p;
        for k in 0..p {
            let spread: f64 = (0..4).map(|_| uniform(state)).sum();
            values.push(centers[center + k] + spread);
        }
    }
    values
}

/// Mixtures of 12 patterns with noise, as in inst/benchmarks/neighbours.R.
fn profiles(n: usize, p: usize, state: &mut u64) -> Vec<f64> {
    let patterns: Vec<f64> = (0..12 * p).map(|_| normal(state)).collect();
    let mut values = Vec::with_capacity(n * p);
    for _ in 0..n {
        let start = values.len();
        values.extend((0..p).map(|_| normal(state)));
        for pattern in patterns.chunks(p) {
            let share = normal(state);
            let row = values[start..].iter_mut().zip(pattern);
            row.for_each(|(value, pattern)| *value += share * pattern);
        }
    }
    values
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize| arguments[i].parse::<usize>().expect("a number");
    let (n, p, threads) = (number(0), number(1), number(4));
    let metric = Metric::new("METRIC", &arguments[2], 2.0, false, ZeroOverZero::Omitted);
    let metric = metric.expect("a metric");
    let mut state = 42;
    let values = match arguments.get(6).map(String::as_str) {
        Some("profiles") => profiles(n, p, &mut state),
        _ => clusters(n, p, &mut state),
    };
    let devices: Option<Vec<usize>> = arguments.get(7).map(|_| (0..number(7)).collect());
    let name = arguments.get(5).map_or("cpu", String::as_str);
    let device = device::open(name, threads, devices.as_deref()).expect("a device");
    // As R has it.
    let mut by_column = vec![0.0; values.len()];
    matrix::column_major_on_threads(&values, p, &mut by_column, |value| value);
    let x = Array2::from_shape_vec((n, p), values).expect("n × p values");
    let x = Observations::new(x).expect("finite numbers");
    for _ in 0..3 {
        let start = Instant::now();
        let monitor = Monitor::default();
        let prepare = || {
            let x = ArrayView2::from_shape((n, p).f(), &by_column).expect("n × p values");
            let copy = matrix::stacked_on_threads(&[x], p)?;
            Points::prepare(metric, copy, &monitor)
        };
        let points = device.cpu().install(prepare).expect("whole rows");
        let prepared = start.elapsed().as_secs_f64();
        let sum: f64 = match arguments[3].as_str() {
            "tree" => {
                let tree = spanning::tree(&points, &*device, &monitor).expect("a tree");
                tree.iter().map(|edge| edge.weight).sum()
            }
            name @ ("ward" | "centroid" | "median") => {
                let tree = match name {
                    "ward" => geometric::ward(&x, &*device, &monitor),
                    "centroid" => geometric::centroid(&x, &*device, &monitor),
                    _ => geometric::median(&x, &*device, &monitor),
                };
                tree.expect("a tree").height.iter().sum()
            }
            _ => {
                let k = number(3);
                let graph = knn::nearest(&points, n, k, &*device, &monitor).expect("a graph");
                let searched = start.elapsed().as_secs_f64();
                let (mut index, mut distance) = (vec![0; n * k], vec![0.0; n * k]);
                device
                    .cpu()
                    .install(|| graph.write_columns(&mut index, &mut distance));
                let written = start.elapsed().as_secs_f64() - searched;
                print!(
                    "searched {:.3} s, written {written:.3} s: ",
                    searched - prepared
                );
                distance[..n].iter().sum()
            }
        };
        println!(
            "{n} x {p} {}, {}, {threads} threads: prepared {prepared:.3} s, all {:.3} s, sum \
             {sum:e}",
            arguments[2],
            arguments[3],
            start.elapsed().as_secs_f64(),
        );
    }
}
