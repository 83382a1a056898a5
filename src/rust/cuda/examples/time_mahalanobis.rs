//! Times the clustering of a seeded mixture of ellipses, without R: `cargo run --release -p
//! gmhclust-cuda --example time_mahalanobis N P KIND cmd|fmd DEVICE THREADS [APRIORI]`, with the
//! threshold at 1% of N. With APRIORI, that many components are apriori clusters, and the
//! threshold is 1% of their mean size. A FILE in place of N holds the observations, and P is not
//! used: doubles in the byte order of this machine: the number of rows, the number of columns, then
//! the rows. Its apriori clusters are random groups of about equal size.

mod common;

use common::Result;
use gmhclust_core::mahalanobis::{cluster, Distance, Options, Subthreshold};
use gmhclust_core::testing::Random;
use gmhclust_core::{Monitor, Observations};
use ndarray::Array2;

fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.uniform()).ln()).sqrt();
    radius * (2.0 * std::f64::consts::PI * random.uniform()).cos()
}

/// `n` points in `p` dimensions from `components` normal distributions of random shape and, unless
/// `equal`, random weight; and the component of each point.
fn mixture(n: usize, p: usize, components: usize, equal: bool) -> (Observations, Vec<u32>) {
    let mut random = Random(42);
    let shapes: Vec<(Vec<f64>, Vec<f64>)> = (0..components)
        .map(|_| {
            let mean = (0..p).map(|_| 6.0 * normal(&mut random)).collect();
            let factor = (0..p * p).map(|_| 0.4 * normal(&mut random)).collect();
            (mean, factor)
        })
        .collect();
    let weights: Vec<f64> = (0..components)
        .map(|_| if equal { 1.0 } else { random.uniform() + 0.02 })
        .collect();
    let total: f64 = weights.iter().sum();
    let mut labels = Vec::with_capacity(n);
    let mut values = Vec::with_capacity(n * p);
    for i in 0..n {
        let component = if equal {
            i % components
        } else {
            let mut left = random.uniform() * total;
            let chosen = weights.iter().position(|w| {
                left -= w;
                left < 0.0
            });
            chosen.unwrap_or(0)
        };
        labels.push(component as u32 + 1);
        let (mean, factor) = &shapes[component];
        let z: Vec<f64> = (0..p).map(|_| normal(&mut random)).collect();
        for k in 0..p {
            let row = &factor[k * p..][..p];
            let shaped: f64 = row.iter().zip(&z).map(|(f, z)| f * z).sum();
            values.push(mean[k] + shaped + 0.3 * z[k]);
        }
    }
    let x = Array2::from_shape_vec((n, p), values).expect("n × p values");
    let x = Observations::new(x).expect("finite numbers");
    (x, labels)
}

/// The observations in a file.
fn read(path: &str) -> Result<Observations> {
    let bytes = std::fs::read(path)?;
    let doubles = bytes
        .chunks_exact(8)
        .map(|b| b.try_into().map(f64::from_ne_bytes));
    let mut values = doubles.collect::<std::result::Result<Vec<f64>, _>>()?;
    if values.len() < 2 {
        return Err(format!("{path} has no two doubles").into());
    }
    let (n, p) = (values[0] as usize, values[1] as usize);
    let x = Array2::from_shape_vec((n, p), values.split_off(2))?;
    Ok(Observations::new(x)?)
}

/// A random one of `groups` groups for each of `n` observations.
fn groups(n: usize, groups: usize) -> Vec<u32> {
    let mut random = Random(1);
    (0..n)
        .map(|_| (random.uniform() * groups as f64) as u32 + 1)
        .collect()
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize| arguments[i].parse::<usize>().expect("a number");
    let apriori = arguments.get(6).map(|_| number(6));
    let (x, labels) = match arguments[0].parse() {
        Ok(n) => mixture(n, number(1), apriori.unwrap_or(20), apriori.is_some()),
        Err(_) => {
            let x = read(&arguments[0])?;
            let labels = apriori.map_or(Vec::new(), |count| groups(x.nrows(), count));
            (x, labels)
        }
    };
    let (n, p) = (x.nrows(), x.ncols());
    let options = Options {
        threshold: 0.01 * n as f64 / apriori.unwrap_or(1) as f64,
        subthreshold: Subthreshold::new(&arguments[2]).expect("a sub-threshold kind"),
        distance: Distance::ALL[usize::from(arguments[3] == "cmd")],
        normalize: false,
        apriori_intra: true,
    };
    let labels = apriori.map(|_| labels.as_slice());
    let title = format!(
        "{n} x {p} {} {} {}/{} threads, sum of heights",
        arguments[2], arguments[3], arguments[4], arguments[5]
    );
    let mut device = None;
    common::time(&title, |clock| {
        // The device is opened once, so that the first run is the first use of the device.
        if device.is_none() {
            device = Some(common::open(&arguments[4], number(5), None)?);
        }
        clock.end("opened");
        let device = device.as_deref().expect("was opened");
        let tree = cluster(&x, labels, &options, device, &Monitor::default())?;
        clock.end("clustered");
        Ok(tree.dendrogram.height.iter().sum())
    })?;
    Ok(())
}
