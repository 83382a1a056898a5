//! Times linkage of random points through the matrix of their distances, without R:
//! `cargo run --release -p gmhclust-cuda --example time_linkage N P METRIC LINKAGE PRECISION DEVICE
//! THREADS`, where METRIC may be `given` for Euclidean distances that are there before.

mod device;

use std::time::Instant;

use gmhclust_core::distances::Pairs;
use gmhclust_core::linkage::{linkage as link, Linkage, Origin, Recurrence, StoredPrecision};
use gmhclust_core::metric::{Metric, Points, ZeroOverZero};
use gmhclust_core::Monitor;
use ndarray::Array2;

/// Normal values (sums of twelve uniform ones) around 50 centres.
fn mixture(n: usize, p: usize) -> Vec<f64> {
    let mut state = 1u64;
    let mut uniform = move || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut normal = move || (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
    let centres: Vec<f64> = (0..50 * p).map(|_| 3.0 * normal()).collect();
    (0..n * p)
        .map(|at| centres[at / p % 50 * p + at % p] + normal())
        .collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [n, p, metric, linkage, precision, name, threads] = &arguments[..] else {
        return Err("usage: time_linkage N P METRIC LINKAGE PRECISION DEVICE THREADS".into());
    };
    let (n, p): (usize, usize) = (n.parse()?, p.parse()?);
    let is_given = metric == "given";
    let metric = if is_given { "euclidean" } else { metric };
    let metric = Metric::new("METRIC", metric, 3.0, false, ZeroOverZero::Omitted)?;
    let recurrence = Recurrence {
        linkage: Linkage::new(linkage)?,
        precision: match &precision[..] {
            "double" => StoredPrecision::Double,
            "single" => StoredPrecision::Single,
            _ => return Err("PRECISION must be double or single".into()),
        },
    };
    let device = device::open(name, threads.parse()?, None)?;
    let values = Array2::from_shape_vec((n, p), mixture(n, p)).expect("n × p values");
    let monitor = Monitor::default();
    let prepare = || Points::prepare(metric, values.clone(), &monitor);
    let mut given = Vec::new();
    if is_given {
        let points = device.cpu().install(prepare)?;
        let pairs = Pairs::within(n);
        given = vec![0.0; pairs.count()];
        device.distances(&points, &pairs, &mut given, &monitor)?;
    }

    for _ in 0..3 {
        let start = Instant::now();
        let points = device.cpu().install(prepare)?;
        let prepared = start.elapsed();
        let origin = if is_given {
            Origin::Given(&given)
        } else {
            Origin::Points(&points)
        };
        let tree = link(origin, n, recurrence, None, &*device, &monitor)?;
        println!(
            "{n} x {p} {metric:?} {recurrence:?} {}: prepared in {prepared:.3?}, all in {:.3?}, \
             last height {:?}",
            name,
            start.elapsed(),
            tree.height.last()
        );
    }
    Ok(())
}
