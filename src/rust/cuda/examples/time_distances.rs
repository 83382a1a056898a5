//! Times the distances of all pairs of rows, without R:
//! `cargo run --release -p gmhclust-cuda --example time_distances N P METRIC DEVICE THREADS`.

mod common;

use common::Result;
use gmhclust_core::distances::Pairs;
use gmhclust_core::metric::{Metric, Points, ZeroOverZero};
use gmhclust_core::Monitor;
use ndarray::Array2;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [n, p, metric, name, threads] = &arguments[..] else {
        return Err("usage: time_distances N P METRIC DEVICE THREADS".into());
    };
    let (n, p): (usize, usize) = (n.parse()?, p.parse()?);
    let metric = Metric::new("METRIC", metric, 3.0, false, ZeroOverZero::Omitted)?;
    let device = common::open(name, threads.parse()?, None)?;
    // The fractional parts of multiples of the golden ratio: evenly spread and all different.
    let x = Array2::from_shape_fn((n, p), |(i, j)| {
        ((i * p + j) as f64 * 0.618_033_988_749_895).fract()
    });
    let pairs = Pairs::within(n);
    // Ones, not zeros, so that the system provides the memory before the clock starts.
    let mut out = vec![1.0; pairs.count()];

    let title = format!("{n} x {p} {metric:?} {name}, first distance");
    common::time(&title, |clock| {
        let monitor = Monitor::default();
        let prepare = || Points::prepare(metric, x.clone(), &monitor);
        let points = device.cpu().install(prepare)?;
        clock.end("prepared");
        device.distances(&points, &pairs, &mut out, &monitor)?;
        clock.end("distances");
        Ok(out[0])
    })?;
    Ok(())
}
