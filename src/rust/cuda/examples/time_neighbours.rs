//! Times searches among seeded points, without R: `cargo run --release -p gmhclust-cuda --example
//! time_neighbours N P METRIC K THREADS [DEVICE [DATA [DEVICES]]]`, with `tree` for K to make the
//! minimum spanning tree, or `ward`, `centroid` or `median` for these linkages. DATA is `clusters`,
//! or `profiles` that follow a few common patterns, with noise of their own. DEVICES is the number
//! of devices, all by default. The environment variable GMHCLUST_DEVICE_MEMORY limits the bytes of
//! a device's memory that a search takes.

mod common;

use common::Result;
use gmhclust_core::dendrogram::Dendrogram;
use gmhclust_core::linkage::{geometric, spanning};
use gmhclust_core::metric::{Metric, Points, ZeroOverZero};
use gmhclust_core::testing::Random;
use gmhclust_core::{knn, matrix, Monitor, Observations};
use ndarray::{Array2, ArrayView2, ShapeBuilder};

/// Approximately normal numbers.
fn normal(random: &mut Random) -> f64 {
    ((0..4).map(|_| random.uniform()).sum::<f64>() - 2.0) * 3f64.sqrt()
}

/// Points around 20 centers.
fn clusters(n: usize, p: usize, random: &mut Random) -> Vec<f64> {
    let centers: Vec<f64> = (0..20 * p).map(|_| 6.0 * random.uniform()).collect();
    let mut values = Vec::with_capacity(n * p);
    for _ in 0..n {
        let center = (20.0 * random.uniform()) as usize * p;
        for k in 0..p {
            let spread: f64 = (0..4).map(|_| random.uniform()).sum();
            values.push(centers[center + k] + spread);
        }
    }
    values
}

/// Mixtures of 12 patterns with noise, as in inst/benchmarks/neighbours.R.
fn profiles(n: usize, p: usize, random: &mut Random) -> Vec<f64> {
    let patterns: Vec<f64> = (0..12 * p).map(|_| normal(random)).collect();
    let mut values = Vec::with_capacity(n * p);
    for _ in 0..n {
        let start = values.len();
        values.extend((0..p).map(|_| normal(random)));
        for pattern in patterns.chunks(p) {
            let share = normal(random);
            let row = values[start..].iter_mut().zip(pattern);
            row.for_each(|(value, pattern)| *value += share * pattern);
        }
    }
    values
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize| arguments[i].parse::<usize>().expect("a number");
    let (n, p, threads) = (number(0), number(1), number(4));
    let metric = Metric::new("METRIC", &arguments[2], 2.0, false, ZeroOverZero::Omitted);
    let metric = metric.expect("a metric");
    let mut random = Random(42);
    let values = match arguments.get(6).map(String::as_str) {
        Some("profiles") => profiles(n, p, &mut random),
        _ => clusters(n, p, &mut random),
    };
    let devices: Option<Vec<usize>> = arguments.get(7).map(|_| (0..number(7)).collect());
    let name = arguments.get(5).map_or("cpu", String::as_str);
    let device = common::open(name, threads, devices.as_deref())?;
    // Column by column, as in R.
    let mut by_column = vec![0.0; values.len()];
    matrix::column_major_on_threads(&values, p, &mut by_column, |value| value);
    let x = Observations::new(Array2::from_shape_vec((n, p), values)?)?;
    let title = format!(
        "{n} x {p} {}, {}, {threads} threads, {name}, sum",
        arguments[2], arguments[3]
    );
    common::time(&title, |clock| {
        let monitor = Monitor::default();
        let of_r = ArrayView2::from_shape((n, p).f(), &by_column)?;
        let prepare = || {
            let copy = matrix::stacked_on_threads(&[of_r], p)?;
            Points::prepare(metric, copy, &monitor)
        };
        let points = device.cpu().install(prepare)?;
        clock.end("prepared");
        Ok(match arguments[3].as_str() {
            "tree" => {
                let tree = spanning::tree(&points, &*device, &monitor)?;
                tree.iter().map(|edge| edge.weight).sum()
            }
            "ward" => heights(&geometric::ward(&x, &*device, &monitor)?),
            "centroid" => heights(&geometric::centroid(&x, &*device, &monitor)?),
            "median" => heights(&geometric::median(&x, &*device, &monitor)?),
            _ => {
                let k = number(3);
                let graph = knn::nearest(&points, n, k, &*device, &monitor)?;
                clock.end("searched");
                let (mut index, mut distance) = (vec![0; n * k], vec![0.0; n * k]);
                device
                    .cpu()
                    .install(|| graph.write_columns(&mut index, &mut distance));
                clock.end("written");
                distance[..n].iter().sum()
            }
        })
    })?;
    Ok(())
}

/// The sum of a tree's heights.
fn heights(tree: &Dendrogram) -> f64 {
    tree.height.iter().sum()
}
