//! Times the distances of all pairs of rows, without R:
//! `cargo run --release -p gmhclust-cuda --example time_distances N P METRIC DEVICE THREADS`.

mod device;

use std::time::Instant;

use gmhclust_core::distances::Pairs;
use gmhclust_core::metric::{Metric, Points, ZeroOverZero};
use gmhclust_core::Monitor;
use ndarray::Array2;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [n, p, metric, name, threads] = &arguments[..] else {
        return Err("usage: time_distances N P METRIC DEVICE THREADS".into());
    };
    let (n, p): (usize, usize) = (n.parse()?, p.parse()?);
    let metric = Metric::new("METRIC", metric, 3.0, false, ZeroOverZero::Omitted)?;
    let device = device::open(name, threads.parse()?, None)?;
    // The fractional parts of multiples of the golden ratio: spread out, and none the same.
    let x = Array2::from_shape_fn((n, p), |(i, j)| {
        ((i * p + j) as f64 * 0.618_033_988_749_895).fract()
    });

    let start = Instant::now();
    let points = || Points::prepare(metric, x, &Monitor::default());
    let points = device.cpu().install(points)?;
    let prepared = start.elapsed();
    let pairs = Pairs::within(n);
    // Ones, not zeros, so that the memory is there before the clock starts.
    let mut out = vec![1.0; pairs.count()];
    for _ in 0..3 {
        let start = Instant::now();
        device.distances(&points, &pairs, &mut out, &Monitor::default())?;
        println!(
            "{n} x {p} {metric:?} {}: prepared in {prepared:.3?}, distances in {:.3?}, first {}",
            name,
            start.elapsed(),
            out[0]
        );
    }
    Ok(())
}
