//! Times k-means of seeded points in clusters, without R, and its parts: `cargo run --release -p
//! gmhclust-cuda --example time_kmeans N P K ITERATIONS THREADS [DEVICE [DEVICES]]`. DEVICES is the
//! number of devices, all by default.

mod common;

use common::Result;
use gmhclust_core::kmeans::{cluster, Start};
use gmhclust_core::observations::Input;
use gmhclust_core::testing::Random;
use gmhclust_core::Monitor;
use ndarray::{s, ArrayView2, ShapeBuilder};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize| arguments[i].parse::<usize>().expect("a number");
    let (n, p, k, iterations, threads) = (number(0), number(1), number(2), number(3), number(4));
    let name = arguments.get(5).map_or("cpu", String::as_str);
    let devices: Option<Vec<usize>> = arguments.get(6).map(|_| (0..number(6)).collect());
    let mut random = Random(42);
    // Column by column, as in R: each row is in one of 20 clusters.
    let islands: Vec<f64> = (0..n)
        .map(|_| 3.0 * (1.0 + (20.0 * random.uniform()).floor()))
        .collect();
    let mut spread = || (0..4).map(|_| random.uniform()).sum::<f64>() * 3f64.sqrt();
    let values: Vec<f64> = (0..n * p).map(|at| islands[at % n] + spread()).collect();
    let uniforms: Vec<f64> = (0..k).map(|_| random.uniform()).collect();

    let title = format!(
        "{n} x {p}, {k} centers, {iterations} iterations, {threads} threads, {name}, sum within"
    );
    let medians = common::time(&title, |clock| {
        let device = common::open(name, threads, devices.as_deref())?;
        clock.end("opened");
        let by_column = ArrayView2::from_shape((n, p).f(), &values)?;
        let mut run = |start: Start, iterations: usize, part| {
            let x = Input::Matrix(by_column).into();
            let found = cluster(&x, start, iterations, &*device, &Monitor::default());
            clock.end(part);
            found
        };
        let found = run(Start::Draws(&uniforms), iterations, "clustered")?;
        run(Start::Draws(&uniforms), 1, "drawn, and one iteration")?;
        let first = by_column.slice(s![..k, ..]);
        run(Start::Centers(first), 1, "one iteration")?;
        run(Start::Centers(first), iterations, "iterations")?;
        Ok(found.within.iter().sum())
    })?;
    let [drawn_and_one, one, many] = [2, 3, 4].map(|part| medians[part]);
    let another = (many - one) / (iterations as f64 - 1.0);
    println!(
        "  so drawing: {:.4} s, another iteration: {another:.4} s, the rest: {:.4} s",
        drawn_and_one - one,
        one - another
    );
    Ok(())
}
