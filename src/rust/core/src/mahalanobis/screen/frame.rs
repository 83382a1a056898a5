//! The units of a screen, and clusters converted to them.

use super::profile::Profile;
use super::view::ClusterView;
use crate::mahalanobis::distance::log2_ceil;
use crate::mahalanobis::options::Distance;
use crate::mahalanobis::problem::{BoundingBox, Problem};
use crate::matrix::sampled_medians_of;
use crate::single_precision::{down, up, UNIT_ROUNDOFF};

/// Log2 of the largest coordinate in a screen, in screen units, to within a factor of 2. If it is
/// larger, fourth powers of distances overflow in 2²³ dimensions. If it is smaller, fourth powers
/// of distances of 2⁻⁵⁰ of the largest coordinate underflow. Overflow and underflow make bounds
/// useless, not wrong.
const LOG2_LARGEST_COORDINATE: i64 = 20;

/// Largest norm of whitened differences, in screen units. The square of this norm does not overflow
/// in single precision (3.4e38), and neither does the sum of two such squares. Bounds do not use a
/// whitening factor that can exceed this norm.
const LARGEST_WHITENED: f64 = 1e18;

/// Relative slack of moments in single precision. It covers the rounding of the moments in double
/// precision, which is far below 1e-6 for all numbers of members.
const MOMENT_SLACK: f64 = 1e-6;

/// How a screen stores the coordinates of means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeanPrecision {
    /// One single per coordinate.
    Single,
    /// The sum of two singles (double-single) per coordinate.
    Double,
}

/// The units of a screen: `screen = (data − center) / unit`.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterFrame {
    pub precision: MeanPrecision,
    center: Vec<f64>,
    /// Data units per screen unit, a power of two.
    unit: f64,
    distance: Distance,
    /// An upper bound on the rounding of a full Mahalanobis distance's exact sum, in screen units,
    /// relative to the target's stretch.
    sum_error: f64,
}

impl ClusterFrame {
    /// The frame for the clusters of a problem with this bounding box. The centre is the median:
    /// single precision resolves the bulk of the data around the median, however far away outliers
    /// are.
    pub fn of_problem(problem: &Problem, bounding_box: &BoundingBox) -> Self {
        let row = |index: usize| problem.row(index);
        let center = sampled_medians_of(problem.members.len(), row, problem.x.ncols());
        let largest_offset = bounding_box.largest_offset(&center);
        let log2_terms = log2_ceil(problem.members.len());
        Self::new(center, largest_offset, problem.options.distance, log2_terms)
    }

    /// The frame for means within `largest_offset` of `center` in every coordinate, and for
    /// clusters of at most 2^`log2_terms` members.
    pub fn new(center: Vec<f64>, largest_offset: f64, distance: Distance, log2_terms: u32) -> Self {
        // The clamp keeps fourth powers in range. For smaller offsets, it makes bounds loose.
        let exponent = (largest_offset.to_bits() >> 52) as i64 - 1022 - LOG2_LARGEST_COORDINATE;
        let exponent = exponent.clamp(-250, 250);
        Self {
            precision: MeanPrecision::Single,
            center,
            unit: f64::from_bits(((exponent + 1023) as u64) << 52),
            distance,
            sum_error: 2.0f64.powi(2 * log2_terms as i32 - 90 + LOG2_LARGEST_COORDINATE as i32),
        }
    }

    /// Number of dimensions.
    pub fn dimensions(&self) -> usize {
        self.center.len()
    }

    /// The point at the origin of the screen, in data units.
    pub fn center(&self) -> &[f64] {
        &self.center
    }

    /// Data units per screen unit.
    pub fn unit(&self) -> f64 {
        self.unit
    }

    /// An upper bound on the rounding of a full Mahalanobis distance's exact sum, in screen units,
    /// relative to the target's stretch.
    pub fn sum_error(&self) -> f64 {
        self.sum_error
    }

    /// The distance for which the screen has lower bounds.
    pub fn distance(&self) -> Distance {
        self.distance
    }

    /// A cluster in screen units.
    pub fn view(&self, profile: &Profile) -> ClusterView {
        let p = self.dimensions();
        let scale = 1.0 / self.unit;
        let (mean, rest, lost) = self.rounded(profile.mean);
        let largest = 2.0f64.powi(LOG2_LARGEST_COORDINATE as i32) * (p as f64).sqrt();
        let usable = profile.stretch * largest < LARGEST_WHITENED;
        let (whitening, least_stretch, stretch) = if usable {
            let whitening = profile.whitening.iter().map(|&w| w as f32).collect();
            (whitening, profile.least_stretch, profile.stretch)
        } else {
            // Without a factor, 0 is a valid lower bound.
            (Vec::new(), 0.0, 0.0)
        };
        let sums = match self.distance {
            Distance::FullMahalanobis if least_stretch > 0.0 => {
                self.sum_error * stretch / least_stretch
            }
            _ => 0.0,
        };
        let floor_error = 1.0 / (1u64 << 60) as f64;
        let squared = scale * scale;
        let spread = &profile.spread;
        ClusterView {
            mean,
            rest,
            error: up(lost * 1.000_001 + profile.mean_error * scale + sums + floor_error),
            least_stretch: if profile.whitening.is_empty() {
                1.0
            } else {
                down(least_stretch)
            },
            whitening,
            relative: up((2 * p + 12) as f64 * UNIT_ROUNDOFF * stretch),
            mean_error_factor: up(1.000_001 * stretch),
            variance: down(spread.variance * squared * (1.0 - MOMENT_SLACK)),
            fourth: up(spread.fourth * squared * squared * (1.0 + MOMENT_SLACK)),
            largest_eigenvalue: up(spread.largest_eigenvalue * squared * (1.0 + MOMENT_SLACK)),
            third: up(spread.third * squared * scale * (1.0 + MOMENT_SLACK)),
        }
    }

    /// Converts a mean to screen units, as one or two singles per coordinate. Also returns an upper
    /// bound on the norm of the rounding error.
    fn rounded(&self, mean: &[f64]) -> (Vec<f32>, Vec<f32>, f64) {
        let scale = 1.0 / self.unit;
        let is_double = self.precision == MeanPrecision::Double;
        let mut first = Vec::with_capacity(mean.len());
        let mut rest = Vec::new();
        let mut square = 0.0f64;
        for (value, center) in mean.iter().zip(&self.center) {
            let exact = (value - center) * scale;
            let single = exact as f32;
            let mut difference = exact - f64::from(single);
            // The subtraction and the scaling each round `exact`.
            let mut lost = exact.abs() * 2.0 * f64::EPSILON;
            if is_double {
                let second = difference as f32;
                difference -= f64::from(second);
                // The difference between two clusters' second parts is rounded, too.
                lost += f64::from(second.abs()) * 2.0 * UNIT_ROUNDOFF;
                rest.push(second);
            }
            lost += difference.abs();
            square += lost * lost;
            first.push(single);
        }
        (first, rest, square.sqrt())
    }
}
