//! The map from rows to views, and from sums of views to bounds on distances.

use super::half::rounded_to_half;
use super::sums::{Epilog, RowSum};
use super::view::{RowView, Scalars, Threshold, ViewPrecision};
use crate::single_precision::{down, up, TINY, UNIT_ROUNDOFF};

/// The parameter of (a + e)² ≤ (1 + 1/SPLIT)·a² + (1 + SPLIT)·e², which bounds a square without a
/// root. Any positive value is valid; a large value keeps the bound tight if a is larger than e, as
/// is usual.
const SPLIT: f64 = 1024.0;

/// Factor that covers up to 16 roundings to single precision. If too small, thresholds could
/// exclude a pair at the limit.
const SLACK: f64 = 1.0 + 16.0 * UNIT_ROUNDOFF;

/// The map from rows to views, and from sums of views to bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct RowFrame {
    sums: RowSum,
    epilog: Epilog,
    precision: ViewPrecision,
    /// The coordinate that is 0 in a view.
    center: Vec<f64>,
    /// One unit of a view's coordinates in data units, a power of two.
    unit: f64,
    /// One unit of a view's distances in data units.
    distance_unit: f64,
    /// Computed sums times this factor are not above the exact sums.
    shrink: f64,
    /// The greatest error of a cosine, of [`Epilog::Angle`].
    margin: f64,
}

impl RowFrame {
    /// A frame for `sums` over coordinates that lie within twice `half_extent` of `center`.
    fn new(sums: RowSum, epilog: Epilog, center: Vec<f64>, half_extent: f64) -> Self {
        let p = center.len() as f64;
        let unit = match epilog {
            Epilog::Angle => 1.0,
            _ => power_above(half_extent),
        };
        Self {
            sums,
            epilog,
            precision: ViewPrecision::Single,
            unit,
            distance_unit: if sums == RowSum::Quotients { 1.0 } else { unit },
            shrink: (1.0 - (p + 8.0) * UNIT_ROUNDOFF).max(0.0),
            margin: (p + 24.0) * UNIT_ROUNDOFF * 1.001,
            center,
        }
    }

    /// The margin of sums of products in half precision, relative to the views' lengths. The factor
    /// 1.01 covers lengths slightly above 1.
    fn margin_of_halves(&self) -> f64 {
        (self.columns() as f64 + 32.0) * 8.0 * UNIT_ROUNDOFF * 1.01
    }

    /// A frame for Euclidean distances of rows around `center`, or for distances of clusters with
    /// sizes.
    pub fn squares(center: Vec<f64>, half_extent: f64) -> Self {
        Self::new(RowSum::Squares, Epilog::Norm, center, half_extent)
    }

    /// A frame for Manhattan distances.
    pub fn magnitudes(center: Vec<f64>, half_extent: f64) -> Self {
        Self::new(RowSum::Magnitudes, Epilog::Sum, center, half_extent)
    }

    /// A frame for maximum distances.
    pub fn greatest(center: Vec<f64>, half_extent: f64) -> Self {
        Self::new(RowSum::Greatest, Epilog::Sum, center, half_extent)
    }

    /// A frame for Canberra distances of `columns` coordinates of magnitude at most `half_extent`.
    pub fn quotients(columns: usize, half_extent: f64) -> Self {
        Self::new(
            RowSum::Quotients,
            Epilog::Sum,
            vec![0.0; columns],
            half_extent,
        )
    }

    /// A frame for correlations of rows of unit length.
    pub fn products(columns: usize, absolute: bool) -> Self {
        let sums = if absolute {
            RowSum::AbsoluteProducts
        } else {
            RowSum::Products
        };
        Self::new(sums, Epilog::Angle, vec![0.0; columns], 1.0)
    }

    /// A frame for the same Euclidean distances, computed from products: half the arithmetic, but
    /// bounds are loose for distances that are small compared with the distances from the centre.
    pub fn by_products(&self) -> Self {
        debug_assert_eq!(self.epilog, Epilog::Norm);
        Self {
            sums: RowSum::Products,
            epilog: Epilog::NormOfProducts,
            ..self.clone()
        }
    }

    /// A frame for the same distances, computed from products in half precision; `None` unless
    /// distances are Euclidean or correlations.
    pub fn in_halves(&self) -> Option<Self> {
        let by_products = match self.epilog {
            Epilog::Norm => self.by_products(),
            Epilog::NormOfProducts | Epilog::Angle => self.clone(),
            Epilog::Sum => return None,
        };
        Some(Self {
            precision: ViewPrecision::Half,
            margin: self.margin_of_halves(),
            ..by_products
        })
    }

    /// The precision that coordinates are rounded to.
    pub fn precision(&self) -> ViewPrecision {
        self.precision
    }

    /// The sum to accumulate.
    pub fn sums(&self) -> RowSum {
        self.sums
    }

    /// The step from a sum to a distance, for a device that computes bounds and thresholds itself.
    pub fn epilog(&self) -> Epilog {
        self.epilog
    }

    /// The factor `shrink` of sums, and the greatest error of a cosine: see the margins in the
    /// module's documentation.
    pub fn margins(&self) -> (f64, f64) {
        (self.shrink, self.margin)
    }

    /// Number of coordinates.
    pub fn columns(&self) -> usize {
        self.center.len()
    }

    /// The view of a row. `size` is the size of a cluster; 1 for points.
    pub fn view(&self, row: &[f64], size: f64) -> RowView {
        let mut values = Vec::with_capacity(row.len());
        let scalars = self.write(row, size, |_, value| values.push(value));
        RowView { values, scalars }
    }

    /// As [`RowFrame::view`], but passes the index and the value of each coordinate to `put`. In
    /// half precision, [`half_bits`](super::half_bits) are exact.
    #[inline]
    pub fn write(&self, row: &[f64], size: f64, mut put: impl FnMut(usize, f32)) -> Scalars {
        // Takes half of each value, since differences of huge values can overflow.
        let scale = 2.0 / self.unit;
        let mut lost = 0.0f64;
        let mut square = 0.0f64;
        for (k, (&value, &center)) in row.iter().zip(&self.center).enumerate() {
            let exact = (0.5 * value - 0.5 * center) * scale;
            let is_tiny = exact.abs() < TINY;
            let single = if is_tiny { 0.0 } else { exact as f32 };
            let single = match self.precision {
                ViewPrecision::Single => single,
                ViewPrecision::Half => rounded_to_half(single),
            };
            let rounded = f64::from(single);
            // The two roundings of `exact` itself.
            let off = (rounded - exact).abs() + exact.abs() * 2.0 * f64::EPSILON;
            match self.sums {
                RowSum::Squares | RowSum::Products | RowSum::AbsoluteProducts => lost += off * off,
                RowSum::Magnitudes => lost += off,
                RowSum::Greatest => lost = lost.max(off),
                RowSum::Quotients if is_tiny && exact != 0.0 => lost += 1.0,
                RowSum::Quotients => lost += 1.1 * UNIT_ROUNDOFF,
            }
            square += rounded * rounded;
            put(k, single);
        }
        self.scalars(lost, square, row.len(), size)
    }

    /// The scalars of a view with this accumulated rounding error and sum of squares.
    #[inline]
    fn scalars(&self, mut lost: f64, square: f64, columns: usize, size: f64) -> Scalars {
        if matches!(
            self.sums,
            RowSum::Squares | RowSum::Products | RowSum::AbsoluteProducts
        ) {
            lost = lost.sqrt();
        }
        if self.epilog == Epilog::Angle {
            // x̂·ŷ is off by e(x) + e(y) + e(x)e(y) at most, and e(x)e(y) ≤ e(x)²/2 + e(y)²/2.
            lost += 0.5 * lost * lost;
        }
        // Underflow, in single or in double precision, is far below the last term.
        let error = up(lost * 1.000_001 + 1.0 / (1u64 << 60) as f64);
        let lost_of_half = match self.precision {
            ViewPrecision::Single => (columns as f64 + 16.0) * UNIT_ROUNDOFF,
            ViewPrecision::Half => self.margin_of_halves(),
        };
        let half = 0.5 * square * (1.0 - lost_of_half);
        let half = down(half.max(0.0) * (1.0 - 1e-6 * UNIT_ROUNDOFF));
        let e = f64::from(error);
        let allowance = match self.epilog {
            Epilog::Norm => self.squared_error(e),
            Epilog::NormOfProducts => 0.5 * self.squared_error(e) - f64::from(half),
            Epilog::Sum => e / self.shrink * SLACK,
            Epilog::Angle => e * SLACK,
        };
        Scalars {
            error,
            factor: up(0.5 / size),
            half,
            allowance: allowance as f32 + allowance.abs() as f32 * 4.0 * UNIT_ROUNDOFF as f32,
        }
    }

    /// The increase of a threshold for one of two rows, by (e(x) + e(y))² ≤ 2e(x)² + 2e(y)².
    fn squared_error(&self, e: f64) -> f64 {
        2.0 * (1.0 + SPLIT) * (e / self.shrink) * (e / self.shrink) * SLACK
    }

    /// The threshold of a query for distances of at most `limit`, in view units.
    pub fn threshold(&self, query: &Scalars, limit: f32) -> Threshold {
        let limit = f64::from(limit);
        let allowance = f64::from(query.allowance);
        let (slope, base) = match self.epilog {
            Epilog::Norm | Epilog::NormOfProducts => {
                let half = if self.epilog == Epilog::Norm {
                    1.0
                } else {
                    0.5
                };
                let root = limit / self.shrink;
                let slope = half * (1.0 + 1.0 / SPLIT) * root * root * SLACK;
                (slope, slope * f64::from(query.factor) * SLACK + allowance)
            }
            Epilog::Sum => (0.0, limit / self.shrink * SLACK + allowance),
            Epilog::Angle => (0.0, limit * SLACK - 1.0 + self.margin + allowance),
        };
        Threshold {
            // Avoids subnormal numbers, which make a sweep many times slower.
            slope: if slope == 0.0 {
                0.0
            } else {
                up(slope.max(1e-30))
            },
            base: up(base),
        }
    }

    /// A lower bound on the exact distance, in view units, from the sum over two views: the query's
    /// view, and the view of a reference with these scalars.
    pub fn bound(&self, sum: f32, query: &Scalars, error: f32, factor: f32, half: f32) -> f32 {
        let sum = f64::from(sum);
        let lost = f64::from(query.error) + f64::from(error);
        let bound = match self.epilog {
            Epilog::Norm => (sum.sqrt() * self.shrink - lost) * ratio(query.factor, factor),
            Epilog::NormOfProducts => {
                let square = 2.0 * (f64::from(query.half) + f64::from(half) + sum);
                (square.max(0.0).sqrt() * (1.0 - UNIT_ROUNDOFF) - lost)
                    * ratio(query.factor, factor)
            }
            Epilog::Sum => sum * self.shrink - lost,
            Epilog::Angle => 1.0 + sum - self.margin - lost * SLACK,
        };
        // After an overflow the bound is NaN, which `max` makes zero.
        down(bound.max(0.0))
    }

    /// One unit of a bound in data units, a power of two.
    pub fn distance_unit(&self) -> f64 {
        self.distance_unit
    }

    /// A limit in view units, rounded up.
    pub fn limit(&self, limit: f64) -> f32 {
        up(limit / self.distance_unit)
    }

    /// A bound in data units.
    pub fn in_data_units(&self, bound: f32) -> f64 {
        f64::from(bound) * self.distance_unit
    }
}

/// The factor of norms: slightly less than √(2ab/(a+b)) for clusters of sizes a and b, slightly
/// less than 1 for points.
fn ratio(a: f32, b: f32) -> f64 {
    (1.0 / (f64::from(a) + f64::from(b))).sqrt() * (1.0 - UNIT_ROUNDOFF)
}

/// The least power of two above a magnitude, but large enough that squares of coordinates do not
/// underflow in double precision.
fn power_above(half_extent: f64) -> f64 {
    let exponent = ((half_extent.to_bits() >> 52) as i64 - 1022).clamp(-250, 1023);
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::sampled_medians;
    use crate::matrix::RowSlices;
    use crate::metric::{Metric, Points, ZeroOverZero};
    use crate::testing::{draw, sum, Data, Random};

    /// Checks that bounds hold, that they are tight, and that pairs at the limit pass the
    /// threshold.
    fn check(frame: &RowFrame, points: &Points) {
        let view = |i: usize| frame.view(points.row(i), 1.0);
        for (i, j) in (0..points.rows()).flat_map(|i| (0..i).map(move |j| (i, j))) {
            let (a, b) = (view(i), view(j));
            let sum = sum(frame.sums(), &a.values, &b.values);
            let Scalars {
                error,
                factor,
                half,
                allowance,
            } = b.scalars;
            let bound = frame.bound(sum, &a.scalars, error, factor, half);
            let (bound, distance) = (frame.in_data_units(bound), points.distance(i, j));
            assert!(bound <= distance, "{bound} is above {distance}: {frame:?}");
            let near = match frame.precision() {
                ViewPrecision::Single => distance * (1.0 - 1e-4) - 1e-4,
                ViewPrecision::Half => {
                    let lost = f64::from(a.scalars.error) + f64::from(error);
                    let margin = frame.margin_of_halves().sqrt() * frame.unit;
                    distance * (1.0 - 1e-3) - 2.0 * lost * frame.distance_unit - 4.0 * margin
                }
            };
            assert!(bound >= near, "{bound} is far below {distance}: {frame:?}");
            let threshold = frame.threshold(&a.scalars, frame.limit(distance));
            assert!(sum < threshold.slope * factor + threshold.base + allowance);
        }
    }

    #[test]
    fn bounds_are_below_the_distances_but_near() {
        let mut random = Random(21);
        for round in 0..20 {
            let p = 2 + random.below(60);
            let x = draw(&mut random, [Data::Plain, Data::Mixture][round % 2], 40, p);
            let center = || sampled_medians(x.values(), p);
            let squares = RowFrame::squares(center(), 100.0);
            let points = |metric| Points::new(metric, &x);
            check(&squares.by_products(), &points(Metric::Euclidean));
            check(&squares, &points(Metric::Euclidean));
            check(&squares.in_halves().unwrap(), &points(Metric::Euclidean));
            let magnitudes = RowFrame::magnitudes(center(), 100.0);
            check(&magnitudes, &points(Metric::Manhattan));
            let greatest = RowFrame::greatest(center(), 100.0);
            check(&greatest, &points(Metric::Maximum));
            let canberra = points(Metric::Canberra(ZeroOverZero::Omitted));
            check(&RowFrame::quotients(p, 100.0), &canberra);
            for absolute in [false, true] {
                let pearson = points(Metric::Pearson { absolute });
                check(&RowFrame::products(p, absolute), &pearson);
                let in_halves = RowFrame::products(p, absolute).in_halves().unwrap();
                check(&in_halves, &pearson);
            }
        }
    }
}
