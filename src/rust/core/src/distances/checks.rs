//! Shared helpers of the tests of devices that compute distances.

use super::device::DistanceDevice;
use super::pairs::Pairs;
use crate::metric::form::NA;
use crate::metric::{Metric, Points};
use crate::monitor::Monitor;
use crate::testing::{array, values, Random};

/// The bits of the distances of `pairs`, as a device computes them. Checks that the device's
/// progress is their number.
pub fn bits(device: &(impl DistanceDevice + ?Sized), points: &Points, pairs: &Pairs) -> Vec<u64> {
    let mut out = vec![-1.0; pairs.count()];
    let monitor = Monitor::default();
    device.distances(points, pairs, &mut out, &monitor).unwrap();
    assert_eq!(monitor.progress(), (out.len() as u64, out.len() as u64));
    out.into_iter().map(to_bits).collect()
}

/// The bits of a distance; the same bits for every NaN except NA, since NaNs may differ by sign.
pub fn to_bits(distance: f64) -> u64 {
    if distance.is_nan() && distance.to_bits() as u32 != NA.to_bits() as u32 {
        f64::NAN.to_bits()
    } else {
        distance.to_bits()
    }
}

/// `n` random points in `p` dimensions, with missing values if `holes`.
pub fn random_points(
    random: &mut Random,
    metric: Metric,
    n: usize,
    p: usize,
    holes: bool,
) -> Points {
    let nan: &[f64] = if holes { &[f64::NAN] } else { &[] };
    let values = values(random, n * p, nan);
    Points::prepare(metric, array(values, n, p), &Monitor::default()).unwrap()
}
