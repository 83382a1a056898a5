//! Times linkage of random points with the matrix of their distances, without R: `cargo run
//! --release -p gmhclust-cuda --example time_linkage N P METRIC LINKAGE PRECISION DEVICE THREADS`,
//! where METRIC may be `given` for Euclidean distances that are computed before.

mod common;

use common::Result;
use gmhclust_core::distances::Pairs;
use gmhclust_core::linkage::{
    linkage as link, DissimilaritySource, Linkage, Recurrence, StoredPrecision,
};
use gmhclust_core::metric::{Metric, Points, ZeroOverZero};
use gmhclust_core::testing::Random;
use gmhclust_core::Monitor;
use ndarray::Array2;

/// Normal values around 50 centres.
fn mixture(n: usize, p: usize) -> Vec<f64> {
    let mut random = Random(1);
    let centres: Vec<f64> = (0..50 * p).map(|_| 3.0 * random.normal()).collect();
    (0..n * p)
        .map(|at| centres[at / p % 50 * p + at % p] + random.normal())
        .collect()
}

fn main() -> Result<()> {
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
    let device = common::open(name, threads.parse()?, None)?;
    let values = Array2::from_shape_vec((n, p), mixture(n, p))?;
    let monitor = Monitor::default();
    let prepare = || Points::prepare(metric, values.clone(), &monitor);
    let mut given = Vec::new();
    if is_given {
        let points = device.cpu().install(prepare)?;
        let pairs = Pairs::within(n);
        given = vec![0.0; pairs.count()];
        device.distances(&points, &pairs, &mut given, &monitor)?;
    }

    let title = format!("{n} x {p} {metric:?} {recurrence:?} {name}, last height");
    common::time(&title, |clock| {
        let points = device.cpu().install(prepare)?;
        clock.end("prepared");
        let source = if is_given {
            DissimilaritySource::Given(&given)
        } else {
            DissimilaritySource::Points(&points)
        };
        let tree = link(source, n, recurrence, None, &*device, &monitor)?;
        Ok(tree.height.last().copied().unwrap_or(f64::NAN))
    })?;
    Ok(())
}
