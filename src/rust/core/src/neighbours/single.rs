//! Observations in single or half precision, and what their distances lose by it.
//!
//! A [`Frame`] makes such [`View`]s of rows: relative to a centre and scaled by a power
//! of two where the dissimilarity allows it, so that coordinates are at most about 1. A sweep adds
//! up one of the [`Sums`] over the coordinates of two views. From that sum the frame tells, of the
//! distance that decides, a lower bound ([`Frame::bound`]) and whether it can be within a limit at
//! all ([`Frame::threshold`]).
//!
//! With u = 2⁻²⁴ and p coordinates, x the real row (in units of the frame) and x̂ its view, the
//! margins are these. They also cover the rounding of the distance that decides, about p·2⁻⁵³.
//!
//! * Differences. A norm of x̂ − ŷ is off by at most e(x) + e(y), the norms of x̂ − x and ŷ − y,
//!   which are measured. A computed sum is at most (1 + u)^(p + 2) of the real one, and so its root
//!   or itself, times `shrink` = 1 − (p + 8)u, no greater than that norm.
//! * Quotients, |x−y| / (|x|+|y|). Rounding both coordinates changes one by at most 2.02u, but for
//!   tiny coordinates, which are taken as zero, by at most 1: e(x) is 1.1u·p and the number of
//!   such coordinates. R's rule for zeros can only make the real sum greater.
//! * Products of rows of unit length. The sum x̂·ŷ is off by at most (p + 4)u for its arithmetic
//!   and by e(x) + e(y), Euclidean norms, for the views.
//! * Products for Euclidean distances: with H = ‖x̂‖²/2, ‖x̂−ŷ‖²/2 = H(x) + H(y) − x̂·ŷ, where
//!   the sum x̂·ŷ is off by at most (p + 4)u·‖x̂‖‖ŷ‖ ≤ (p + 4)u·(H(x) + H(y)): shrinking both H by
//!   so much covers it.
//!
//! Products may also be of views in half precision, which tensor cores multiply: then e(x) is
//! measured against these, and is about 2⁻¹²‖x‖. Products of halves are exact in single precision.
//! How tensor cores add them is not documented but for "at least single precision". As far as is
//! known from measurements (Fasi et al., PeerJ Computer Science 7:e330, 2021), they align a few
//! products and the sum so far to the largest of these, truncate each to the bits of a single or a
//! few more, and truncate their sum: so every product adds at most 2u·‖x̂‖‖ŷ‖ of error, and
//! so does every sum, of which there is one for at least four products. The margin is more than
//! three times that, (p + 32)·8u·‖x̂‖‖ŷ‖, in place of (p + 4)u above.

use crate::single_precision::{down, up, UNIT};

/// What a sweep adds up over the coordinates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sums {
    /// (x−y)².
    Squares,
    /// |x−y|.
    Magnitudes,
    /// The greatest |x−y|.
    Greatest,
    /// |x−y| / (|x|+|y|), 0 for 0/0.
    Quotients,
    /// −x·y.
    Products,
    /// The same, its magnitude made negative after the last coordinate.
    AbsoluteProducts,
}

/// What distances are made of sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Norms, by the root of a sum of squares.
    Norm,
    /// The same from products.
    NormOfProducts,
    /// The sum itself.
    Sum,
    /// 1 + the sum of products.
    Angle,
}

/// The part of e² that comes on top when (a + e)² ≤ (1 + 1/SPLIT)·a² + (1 + SPLIT)·e² stands in for
/// a square that needs a root.
const SPLIT: f64 = 1024.0;

/// Covers the few roundings of numbers that were made singles.
const SLACK: f64 = 1.0 + 16.0 * UNIT;

/// What views in half precision are multiplied by, so that nothing of weight is subnormal and nothing
/// overflows: they are below 2 and become at most 2¹⁵.
const HALF_SCALE: f32 = (1 << 14) as f32;

/// Coordinates below this are zero in a view: they would come near the subnormal numbers, which
/// make a sweep many times slower.
const TINY: f64 = 1.0 / (1u128 << 100) as f64;

/// What coordinates of views are rounded to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    Single,
    Half,
}

/// How rows and their views relate.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    sums: Sums,
    kind: Kind,
    precision: Precision,
    /// The coordinate that is 0 in a view.
    center: Vec<f64>,
    /// Data units of coordinates for one of the view, a power of two.
    unit: f64,
    /// The same of distances.
    distance_unit: f64,
    shrink: f64,
    /// Of [`Kind::Angle`].
    margin: f64,
}

/// A row as rounded.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct View {
    pub values: Vec<f32>,
    pub scalars: Scalars,
}

/// What a bound needs to know of a view beside its sum with another.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Scalars {
    /// e: how far the view is from the row, at most.
    pub error: f32,
    /// 1/(2·size) of a cluster, at least; distances are norms divided by the root of the sum of
    /// both. 1/2 where there are no sizes.
    pub factor: f32,
    /// H as shrunk, of norms by products.
    pub half: f32,
    /// What a threshold has to grow by for this row.
    pub allowance: f32,
}

/// Of the queries' part of a threshold: a pair can be within the limit only if its sum is below
/// `slope`·factor + `base` + allowance, factor and allowance being those of the reference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    pub slope: f32,
    pub base: f32,
}

impl Frame {
    /// For these sums over coordinates that lie within twice `reach` of `center`.
    fn new(sums: Sums, kind: Kind, center: Vec<f64>, reach: f64) -> Self {
        let p = center.len() as f64;
        let unit = match kind {
            Kind::Angle => 1.0,
            _ => power_above(reach),
        };
        Self {
            sums,
            kind,
            precision: Precision::Single,
            unit,
            distance_unit: if sums == Sums::Quotients { 1.0 } else { unit },
            shrink: (1.0 - (p + 8.0) * UNIT).max(0.0),
            margin: (p + 24.0) * UNIT * 1.001,
            center,
        }
    }

    /// The margin of sums of products of halves, relative to the views' lengths; these may be a
    /// little more than 1.
    fn margin_of_halves(&self) -> f64 {
        (self.columns() as f64 + 32.0) * 8.0 * UNIT * 1.01
    }

    /// For Euclidean distances, or those of clusters with sizes, of rows around `center`.
    pub fn squares(center: Vec<f64>, reach: f64) -> Self {
        Self::new(Sums::Squares, Kind::Norm, center, reach)
    }

    /// For Manhattan distances.
    pub fn magnitudes(center: Vec<f64>, reach: f64) -> Self {
        Self::new(Sums::Magnitudes, Kind::Sum, center, reach)
    }

    /// For maximum distances.
    pub fn greatest(center: Vec<f64>, reach: f64) -> Self {
        Self::new(Sums::Greatest, Kind::Sum, center, reach)
    }

    /// For Canberra distances of `columns` coordinates of magnitude at most `reach`.
    pub fn quotients(columns: usize, reach: f64) -> Self {
        Self::new(Sums::Quotients, Kind::Sum, vec![0.0; columns], reach)
    }

    /// For correlations of rows of unit length.
    pub fn products(columns: usize, absolute: bool) -> Self {
        let sums = if absolute {
            Sums::AbsoluteProducts
        } else {
            Sums::Products
        };
        Self::new(sums, Kind::Angle, vec![0.0; columns], 1.0)
    }

    /// The same Euclidean distances by products: half the arithmetic, but bounds that are loose
    /// where distances are small beside the distances from the centre.
    pub fn by_products(&self) -> Self {
        debug_assert_eq!(self.kind, Kind::Norm);
        Self {
            sums: Sums::Products,
            kind: Kind::NormOfProducts,
            ..self.clone()
        }
    }

    /// The same by products of halves, which only correlations and Euclidean distances have.
    pub fn in_halves(&self) -> Option<Self> {
        let by_products = match self.kind {
            Kind::Norm => self.by_products(),
            Kind::NormOfProducts | Kind::Angle => self.clone(),
            Kind::Sum => return None,
        };
        Some(Self {
            precision: Precision::Half,
            margin: self.margin_of_halves(),
            ..by_products
        })
    }

    /// What coordinates are rounded to.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// What to add up.
    pub fn sums(&self) -> Sums {
        self.sums
    }

    /// What sums are made distances by, for a device that computes bounds and thresholds itself.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What sums are multiplied by, and what cosines are off by at most: see the margins above.
    pub fn margins(&self) -> (f64, f64) {
        (self.shrink, self.margin)
    }

    /// Number of coordinates.
    pub fn columns(&self) -> usize {
        self.center.len()
    }

    /// The view of a row. `size` is that of a cluster; without sizes it is 1.
    pub fn view(&self, row: &[f64], size: f64) -> View {
        let mut values = Vec::with_capacity(row.len());
        let scalars = self.write(row, size, |_, value| values.push(value));
        View { values, scalars }
    }

    /// As [`Frame::view`], handing each coordinate's number and single to `put`. In half precision,
    /// [`half_bits`] are exact.
    #[inline]
    pub fn write(&self, row: &[f64], size: f64, mut put: impl FnMut(usize, f32)) -> Scalars {
        // Halves, for differences of huge values can overflow.
        let scale = 2.0 / self.unit;
        let mut lost = 0.0f64;
        let mut square = 0.0f64;
        for (k, (&value, &center)) in row.iter().zip(&self.center).enumerate() {
            let exact = (0.5 * value - 0.5 * center) * scale;
            let is_tiny = exact.abs() < TINY;
            let single = if is_tiny { 0.0 } else { exact as f32 };
            let single = match self.precision {
                Precision::Single => single,
                Precision::Half => from_half(to_half(single * HALF_SCALE)) / HALF_SCALE,
            };
            let rounded = f64::from(single);
            // The two roundings of `exact` itself.
            let off = (rounded - exact).abs() + exact.abs() * 2.0 * f64::EPSILON;
            match self.sums {
                Sums::Squares | Sums::Products | Sums::AbsoluteProducts => lost += off * off,
                Sums::Magnitudes => lost += off,
                Sums::Greatest => lost = lost.max(off),
                Sums::Quotients if is_tiny && exact != 0.0 => lost += 1.0,
                Sums::Quotients => lost += 1.1 * UNIT,
            }
            square += rounded * rounded;
            put(k, single);
        }
        if matches!(
            self.sums,
            Sums::Squares | Sums::Products | Sums::AbsoluteProducts
        ) {
            lost = lost.sqrt();
        }
        if self.kind == Kind::Angle {
            // x̂·ŷ is off by e(x) + e(y) + e(x)e(y) at most, and e(x)e(y) ≤ e(x)²/2 + e(y)²/2.
            lost += 0.5 * lost * lost;
        }
        // What underflows, in single or in double precision, is far below the last term.
        let error = up(lost * 1.000_001 + 1.0 / (1u64 << 60) as f64);
        let lost_of_half = match self.precision {
            Precision::Single => (row.len() as f64 + 16.0) * UNIT,
            Precision::Half => self.margin_of_halves(),
        };
        let half = 0.5 * square * (1.0 - lost_of_half);
        let half = down(half.max(0.0) * (1.0 - 1e-6 * UNIT));
        let e = f64::from(error);
        let allowance = match self.kind {
            Kind::Norm => self.squared_error(e),
            Kind::NormOfProducts => 0.5 * self.squared_error(e) - f64::from(half),
            Kind::Sum => e / self.shrink * SLACK,
            Kind::Angle => e * SLACK,
        };
        Scalars {
            error,
            factor: up(0.5 / size),
            half,
            allowance: allowance as f32 + allowance.abs() as f32 * 4.0 * UNIT as f32,
        }
    }

    /// What (e(x) + e(y))² ≤ 2e(x)² + 2e(y)² adds to a threshold for one of the two.
    fn squared_error(&self, e: f64) -> f64 {
        2.0 * (1.0 + SPLIT) * (e / self.shrink) * (e / self.shrink) * SLACK
    }

    /// What a query's pairs have to stay below to be at a distance of at most `limit`, which is in
    /// view units.
    pub fn threshold(&self, query: &Scalars, limit: f32) -> Threshold {
        let limit = f64::from(limit);
        let allowance = f64::from(query.allowance);
        let (slope, base) = match self.kind {
            Kind::Norm | Kind::NormOfProducts => {
                let half = if self.kind == Kind::Norm { 1.0 } else { 0.5 };
                let root = limit / self.shrink;
                let slope = half * (1.0 + 1.0 / SPLIT) * root * root * SLACK;
                (slope, slope * f64::from(query.factor) * SLACK + allowance)
            }
            Kind::Sum => (0.0, limit / self.shrink * SLACK + allowance),
            Kind::Angle => (0.0, limit * SLACK - 1.0 + self.margin + allowance),
        };
        Threshold {
            // No subnormal number, as above.
            slope: if slope == 0.0 {
                0.0
            } else {
                up(slope.max(1e-30))
            },
            base: up(base),
        }
    }

    /// A lower bound on the distance that decides, in view units, from the sum of two views.
    pub fn bound(&self, sum: f32, query: &Scalars, error: f32, factor: f32, half: f32) -> f32 {
        let sum = f64::from(sum);
        let lost = f64::from(query.error) + f64::from(error);
        let bound = match self.kind {
            Kind::Norm => (sum.sqrt() * self.shrink - lost) * ratio(query.factor, factor),
            Kind::NormOfProducts => {
                let square = 2.0 * (f64::from(query.half) + f64::from(half) + sum);
                (square.max(0.0).sqrt() * (1.0 - UNIT) - lost) * ratio(query.factor, factor)
            }
            Kind::Sum => sum * self.shrink - lost,
            Kind::Angle => 1.0 + sum - self.margin - lost * SLACK,
        };
        // What overflowed to NaN bounds nothing: `max` makes it zero.
        down(bound.max(0.0))
    }

    /// A limit in view units, at least.
    pub fn limit(&self, limit: f64) -> f32 {
        up(limit / self.distance_unit)
    }

    /// A bound in data units.
    pub fn in_data_units(&self, bound: f32) -> f64 {
        f64::from(bound) * self.distance_unit
    }
}

/// The bits of the half that a coordinate of a view in half precision is, times [`HALF_SCALE`].
pub fn half_bits(coordinate: f32) -> u16 {
    to_half(coordinate * HALF_SCALE)
}

/// The coordinate that such bits stand for.
#[cfg(any(test, feature = "testing"))]
pub fn coordinate_of_half(bits: u16) -> f32 {
    from_half(bits) / HALF_SCALE
}

/// The bits of the half that is nearest to a value below 2¹⁵.
fn to_half(value: f32) -> u16 {
    /// The least half that is not subnormal; below, halves are multiples of 2⁻²⁴, the steps of
    /// singles from 1/2 on.
    const LEAST: f32 = 1.0 / (1 << 14) as f32;
    /// What the exponents of singles have more than those of halves, and how many more bits follow.
    const BIAS: u32 = 127 - 15;
    const MORE: u32 = 23 - 10;

    let magnitude = value.abs();
    let bits = magnitude.to_bits();
    let half = if magnitude < LEAST {
        (magnitude + 0.5).to_bits() - 0.5f32.to_bits()
    } else {
        let to_even = bits >> MORE & 1;
        (bits + (1 << (MORE - 1)) - 1 + to_even - (BIAS << 23)) >> MORE
    };
    half as u16 | (value.to_bits() >> 16) as u16 & 0x8000
}

/// The value of a finite half.
fn from_half(half: u16) -> f32 {
    let (exponent, fraction) = (u32::from(half) >> 10 & 31, u32::from(half) & 0x3ff);
    let magnitude = match exponent {
        0 => fraction as f32 / (1 << 24) as f32,
        _ => f32::from_bits((exponent + 127 - 15) << 23 | fraction << 13),
    };
    if half >> 15 == 1 {
        -magnitude
    } else {
        magnitude
    }
}

/// What norms are multiplied by: for clusters a little less than √(2ab/(a+b)) with sizes a and b,
/// else a little less than 1.
fn ratio(a: f32, b: f32) -> f64 {
    (1.0 / (f64::from(a) + f64::from(b))).sqrt() * (1.0 - UNIT)
}

/// The least power of two above a magnitude, such that what underflows when squared in double
/// precision is nothing beside it.
fn power_above(reach: f64) -> f64 {
    let exponent = ((reach.to_bits() >> 52) as i64 - 1022).clamp(-250, 1023);
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::middle;
    use crate::metric::{Metric, Points, ZeroOverZero};
    use crate::testing::{draw, sum, Data, Random};

    /// Bounds hold, are hardly below the distances, and pairs at the limit pass the threshold.
    fn check(frame: &Frame, points: &Points) {
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
                Precision::Single => distance * (1.0 - 1e-4) - 1e-4,
                Precision::Half => {
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
            let center = || middle(x.values(), p);
            let squares = Frame::squares(center(), 100.0);
            let points = |metric| Points::new(metric, &x);
            check(&squares.by_products(), &points(Metric::Euclidean));
            check(&squares, &points(Metric::Euclidean));
            check(&squares.in_halves().unwrap(), &points(Metric::Euclidean));
            let magnitudes = Frame::magnitudes(center(), 100.0);
            check(&magnitudes, &points(Metric::Manhattan));
            let greatest = Frame::greatest(center(), 100.0);
            check(&greatest, &points(Metric::Maximum));
            let canberra = points(Metric::Canberra(ZeroOverZero::Omitted));
            check(&Frame::quotients(p, 100.0), &canberra);
            for absolute in [false, true] {
                let pearson = points(Metric::Pearson { absolute });
                check(&Frame::products(p, absolute), &pearson);
                let in_halves = Frame::products(p, absolute).in_halves().unwrap();
                check(&in_halves, &pearson);
            }
        }
    }

    #[test]
    fn halves_are_the_nearest_ones() {
        // Every finite half is itself, and what is between two is the nearer one, or the even one.
        for bits in 0..0x77ffu16 {
            let (value, next) = (from_half(bits), from_half(bits + 1));
            assert_eq!(to_half(value), bits);
            assert_eq!(to_half(-value), bits | 0x8000);
            let middle = 0.5 * (value + next);
            assert_eq!(to_half(middle), bits + (bits & 1));
            assert_eq!(to_half(middle.next_down()), bits);
            assert_eq!(to_half(middle.next_up()), bits + 1);
        }
        assert_eq!(from_half(to_half(1.0)), 1.0);
        assert_eq!(from_half(1), 2f32.powi(-24));
        assert_eq!(from_half(0x0400), 2f32.powi(-14));
        assert_eq!(from_half(0x7800), 32_768.0);
    }
}
