//! Shared helpers of the tests of agglomeration devices.

use super::cluster::cluster;
use super::clustering::Clustering;
use super::device::AgglomerationDevice;
use super::options::{Distance, Options};
use super::subthreshold::Subthreshold;
use crate::monitor::Monitor;
use crate::observations::Observations;
use crate::testing::Random;

/// Random options for `n` observations.
pub fn options(random: &mut Random, n: usize) -> Options {
    let threshold = match random.below(4) {
        0 => 1.0 + random.below(3) as f64,
        1 => 0.5 * n as f64,
        2 => 2.0 * n as f64,
        _ => 1.0 + random.uniform() * 0.3 * n as f64,
    };
    Options {
        threshold,
        subthreshold: Subthreshold::ALL[random.below(Subthreshold::ALL.len())],
        distance: Distance::ALL[usize::from(random.below(2) == 0)],
        normalize: random.below(4) == 0,
        apriori_intra: random.below(4) != 0,
    }
}

/// Random apriori labels of `n` observations, or none.
pub fn apriori(random: &mut Random, n: usize) -> Option<Vec<u32>> {
    let labels = match random.below(4) {
        0 | 1 => return None,
        2 => 2 + random.below(4),
        _ => 1 + n / 2,
    };
    Some((0..n).map(|_| random.below(labels + 1) as u32).collect())
}

/// The clustering of the rows of `x` on a device.
pub fn run(
    x: &Observations,
    labels: Option<&[u32]>,
    options: &Options,
    device: &(impl AgglomerationDevice + ?Sized),
) -> Clustering {
    cluster(x, labels, options, device, &Monitor::default()).unwrap()
}
