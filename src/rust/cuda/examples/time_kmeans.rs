//! Times k-means of seeded points in clusters, without R, and its parts:
//! `cargo run --release -p gmhclust-cuda --example time_kmeans N P K ITERATIONS THREADS [DEVICE]`.

mod device;

use std::time::Instant;

use gmhclust_core::kmeans::{cluster, KMeans, Start};
use gmhclust_core::{Monitor, Observations};
use ndarray::{s, ArrayView2, ShapeBuilder};

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
    let (n, p, k, iterations, threads) = (number(0), number(1), number(2), number(3), number(4));
    let name = arguments.get(5).map_or("cpu", String::as_str);
    let mut state = 42;
    // Column after column, as R has them: rows in one of 20 clusters.
    let islands: Vec<f64> = (0..n)
        .map(|_| 3.0 * (1.0 + (20.0 * uniform(&mut state)).floor()))
        .collect();
    let spread = |state: &mut u64| (0..4).map(|_| uniform(state)).sum::<f64>() * 3f64.sqrt();
    let values: Vec<f64> = (0..n * p)
        .map(|at| islands[at % n] + spread(&mut state))
        .collect();
    let uniforms: Vec<f64> = (0..k).map(|_| uniform(&mut state)).collect();
    for _ in 0..3 {
        let start = Instant::now();
        let device = device::open(name, threads, None).expect("a device");
        let opened = start.elapsed().as_secs_f64();
        let by_column = ArrayView2::from_shape((n, p).f(), &values).expect("n × p values");
        let read = || Observations::copied_on_threads(by_column);
        let x = device.cpu().install(read).expect("finite numbers");
        let read = start.elapsed().as_secs_f64() - opened;
        let run = |from: Start, iterations: usize| -> (f64, KMeans) {
            let start = Instant::now();
            let found = cluster(&x, from, iterations, &*device, &Monitor::default());
            (start.elapsed().as_secs_f64(), found.expect("a partition"))
        };
        let (all, found) = run(Start::Draws(&uniforms), iterations);
        let (drawn_and_one, _) = run(Start::Draws(&uniforms), 1);
        let first = x.slice(s![..k, ..]);
        let (one, _) = run(Start::Centers(first), 1);
        let (many, _) = run(Start::Centers(first), iterations);
        println!(
            "{n} x {p}, {k} centers, {iterations} iterations, {threads} threads: opened {opened:.3} \
             s, read {read:.3} s, all {all:.3} s, drawing {:.3} s, another iteration {:.4} s, the rest {:.3} s, within \
             {:e}",
            drawn_and_one - one,
            (many - one) / (iterations as f64 - 1.0),
            one - (many - one) / (iterations as f64 - 1.0),
            found.within.iter().sum::<f64>(),
        );
    }
}
