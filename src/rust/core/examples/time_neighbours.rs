//! Times searches among seeded points in clusters, without R:
//! `cargo run --release --example time_neighbours N P METRIC K THREADS [BACKEND [DEVICES]]`,
//! with `tree` for K to make the minimum spanning tree, or `ward`, `centroid` or
//! `median` for these linkages. DEVICES is how many, all by default. The environment variable
//! GMHCLUST_DEVICE_MEMORY caps what a search takes of a device's memory, in bytes.

use std::time::Instant;

use gmhclust_core::backend::{self, Choice, Workload};
use gmhclust_core::linkage::{geometric, spanning};
use gmhclust_core::metric::{Metric, ZeroOverZero};
use gmhclust_core::{knn, Matrix, Monitor};

/// Uniform numbers in [0, 1) by xorshift64*.
fn uniform(state: &mut u64) -> f64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1u64 << 53) as f64
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize| arguments[i].parse::<usize>().expect("a number");
    let (n, p, threads) = (number(0), number(1), number(4));
    let metric = Metric::new("METRIC", &arguments[2], 2.0, false, ZeroOverZero::Omitted);
    let metric = metric.expect("a metric");
    let mut state = 42;
    let centers: Vec<f64> = (0..20 * p).map(|_| 6.0 * uniform(&mut state)).collect();
    let mut values = Vec::with_capacity(n * p);
    for _ in 0..n {
        let center = (20.0 * uniform(&mut state)) as usize * p;
        for k in 0..p {
            let spread: f64 = (0..4).map(|_| uniform(&mut state)).sum();
            values.push(centers[center + k] + spread);
        }
    }
    let devices: Option<Vec<usize>> = arguments.get(6).map(|_| (0..number(6)).collect());
    let choice = Choice {
        backend: arguments.get(5).map_or("cpu", String::as_str),
        threads,
        devices: devices.as_deref(),
    };
    let work = Workload::Pairs {
        count: n * n / 2,
        columns: p,
    };
    let backend = backend::select(&choice, &work).expect("a backend");
    let x = Matrix::from_row_major(values, n, p).expect("finite numbers");
    for _ in 0..3 {
        let start = Instant::now();
        let points = backend.prepare(metric, x.values(), n, p).expect("points");
        let prepared = start.elapsed().as_secs_f64();
        let monitor = Monitor::default();
        let sum: f64 = match arguments[3].as_str() {
            "tree" => {
                let tree = spanning::tree(&points, &*backend, &monitor).expect("a tree");
                tree.iter().map(|edge| edge.weight).sum()
            }
            name @ ("ward" | "centroid" | "median") => {
                let linkage = match name {
                    "ward" => geometric::ward,
                    "centroid" => geometric::centroid,
                    _ => geometric::median,
                };
                let tree = linkage(&x, &*backend, &monitor).expect("a tree");
                tree.height.iter().sum()
            }
            _ => {
                let graph = knn::nearest(&points, n, number(3), &*backend, &monitor);
                graph.expect("a graph").distance.iter().sum()
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
