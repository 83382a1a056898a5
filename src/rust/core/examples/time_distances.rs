//! Times the distances of all pairs of rows, without R:
//! `cargo run --release --example time_distances N P METRIC BACKEND THREADS`.

use std::time::Instant;

use gmhclust_core::backend::{self, Workload};
use gmhclust_core::distances::Pairs;
use gmhclust_core::metric::{Metric, ZeroOverZero};
use gmhclust_core::Monitor;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [n, p, metric, backend, threads] = &arguments[..] else {
        return Err("usage: time_distances N P METRIC BACKEND THREADS".into());
    };
    let (n, p): (usize, usize) = (n.parse()?, p.parse()?);
    let metric = Metric::new("METRIC", metric, 3.0, false, ZeroOverZero::Omitted)?;
    let choice = backend::Choice {
        backend,
        threads: threads.parse()?,
        devices: None,
    };
    let work = Workload::Pairs {
        count: n * (n - 1) / 2,
        columns: p,
    };
    let backend = backend::select(&choice, &work)?;
    // The fractional parts of multiples of the golden ratio: spread out, and none the same.
    let values: Vec<f64> = (0..n * p)
        .map(|i| (i as f64 * 0.618_033_988_749_895).fract())
        .collect();

    let start = Instant::now();
    let points = backend.prepare(metric, &values, n, p, &Monitor::default())?;
    let prepared = start.elapsed();
    let pairs = Pairs::within(n);
    // Ones, not zeros, so that the memory is there before the clock starts.
    let mut out = vec![1.0; pairs.count()];
    for _ in 0..3 {
        let start = Instant::now();
        backend.distances(&points, &pairs, &mut out, &Monitor::default())?;
        println!(
            "{n} x {p} {metric:?} {}: prepared in {prepared:.3?}, distances in {:.3?}, first {}",
            backend.name(),
            start.elapsed(),
            out[0]
        );
    }
    Ok(())
}
