//! What agglomeration asks of a device: lower bounds on the distances from some clusters to many.
//!
//! Means are kept in single precision relative to a centre, so that those near it keep all digits that
//! count, and scaled by a power of two, so that no power of a distance overflows. With δ = a − b the difference of two means, the bounds are
//!
//! 1. ‖δ‖·s ≤ ‖Wδ‖, s a lower bound on the smallest singular value of the whitening factor W;
//! 2. ‖Wδ‖ itself in single precision;
//! 3. for full distances, by Hölder's inequality, (E‖r‖²)^(3/2) / (E‖r‖⁴)^(1/2) ≤ E‖r‖ with
//!    r = x − b over the members x of a cluster with mean a, where, from central moments,
//!    E‖r‖² = V + ‖δ‖² and E‖r‖⁴ ≤ F + 4λ‖δ‖² + 4τ‖δ‖ + 2V‖δ‖² + ‖δ‖⁴.
//!
//! What a bound loses to rounding is covered: each cluster's `error` bounds how far its stored
//! mean is from the real one, and the other margins are a priori bounds of the form c·p·2⁻²⁴.
//!
//! Where groups of clusters are tight and far apart, one single cannot tell those of a group from each
//! other. A frame of [`Precision::Double`] keeps each coordinate as the sum of two (Dekker 1971): the
//! differences of the parts, added up, are exact to about 2⁻⁴⁷ of the coordinates.

#[cfg(any(test, feature = "testing"))]
pub mod checks;
pub mod cpu;

use std::sync::OnceLock;

use super::shape::packed_len;
use crate::error::Result;
use crate::roster::Roster;
use crate::single_precision::{down, up, UNIT};

/// The largest coordinate in a screen is about 2 to the power of this. Fourth powers of distances
/// must neither overflow, in up to 2^23 dimensions, nor underflow for distances of 2^-50 of that.
const LOG2_LARGEST_COORDINATE: i64 = 20;

/// Whitened differences up to this have squares that do not overflow in single precision.
const LARGEST_WHITENED: f64 = 1e18;

/// Bounds on the central moments of a cluster's members, in data units.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spread {
    /// E‖r‖².
    pub variance: f64,
    /// E‖r‖⁴.
    pub fourth: f64,
    /// An upper bound on the largest eigenvalue of E rrᵀ.
    pub largest: f64,
    /// ‖E‖r‖²r‖.
    pub third: f64,
}

impl Spread {
    /// Hölder's lower bound on E‖r + u‖, `square` being ‖u‖²; 0 for a single observation.
    pub fn mean_norm(&self, square: f64) -> f64 {
        let second = self.variance + square;
        let factor = 4.0 * self.largest + 2.0 * self.variance + square;
        let total = self.fourth + factor * square + 4.0 * self.third * square.sqrt();
        if total > 0.0 {
            second.sqrt() * (second / total.sqrt()) * (1.0 - 1e-6)
        } else {
            0.0
        }
    }
}

/// What a screen needs to know of a cluster.
#[derive(Debug, Clone, Copy)]
pub struct Profile<'a> {
    pub mean: &'a [f64],
    /// Packed whitening factor, or empty for the identity.
    pub whitening: &'a [f64],
    /// A lower bound on ‖Wy‖/‖y‖; 1 for the identity.
    pub low: f64,
    /// An upper bound on ‖Wy‖/‖y‖; 1 for the identity.
    pub stretch: f64,
    pub spread: Spread,
    /// At most how far `mean`, as rounded, is from that of the members; 0 where distances are those of
    /// the rounded means.
    pub mean_error: f64,
}

/// A question: which clusters are near this one?
#[derive(Debug, Clone)]
pub struct Request<'a> {
    pub view: &'a View,
    /// Only positions before this one count.
    pub end: usize,
    /// How many are wanted: at least so many that are not to be left out are found, or all below the
    /// limit. (So who asks for more and more comes to an end.)
    pub capacity: usize,
    /// In data units; what is not below it is of no interest.
    pub limit: f64,
    /// Whether about as many as are wanted are below the limit, so that it does not pay to look for
    /// a lower one on the way.
    pub is_tight: bool,
    /// Slots to leave out, in increasing order.
    pub skip: &'a [u32],
}

/// The answer: all clusters whose lower bound is below `floor`, in data units.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// Lower bounds and slots, in no order.
    pub bounds: Vec<(f64, u32)>,
    pub floor: f64,
}

impl Found {
    /// Leaves out the farthest of more than about so many.
    pub fn keep_nearest(&mut self, count: usize) {
        if self.bounds.len() > count {
            let by_bound = |a: &(f64, u32), b: &(f64, u32)| a.0.total_cmp(&b.0);
            let (_, &mut (floor, _), _) = self.bounds.select_nth_unstable_by(count, by_bound);
            self.bounds.retain(|&(bound, _)| bound < floor);
            self.floor = floor;
        }
    }
}

/// The live clusters of one problem on a device. Positions are in order of birth.
pub trait Screen: Send {
    /// Adds a cluster as the youngest.
    fn push(&mut self, slot: u32, view: &View) -> Result<()>;

    /// Removes a cluster.
    fn remove(&mut self, slot: u32) -> Result<()>;

    /// The positions: who is where.
    fn roster(&self) -> &Roster;

    /// Answers all requests. A screen that would only wait for its device calls `meanwhile`, once.
    fn sweep(
        &mut self,
        requests: &[Request<'_>],
        meanwhile: &mut dyn FnMut(),
    ) -> Result<Vec<Found>>;

    /// How many requests at a time it takes to keep the device busy.
    fn batch(&self) -> usize;

    /// Whether another screen would be faster for as few as `live` clusters.
    fn is_outgrown(&self, live: usize) -> bool;
}

/// How exactly a screen knows the clusters' means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// A single for each coordinate.
    Single,
    /// The sum of two singles for each.
    Double,
}

/// How a problem's data units and screen units relate.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    pub precision: Precision,
    center: Vec<f64>,
    /// Data units for one screen unit, a power of two.
    unit: f64,
    /// Whether full distances are screened.
    full: bool,
    /// What rounding the sums of full distances can cost, relative to the stretch.
    sum_error: f64,
}

impl Frame {
    /// For means within `reach` of `center` in each coordinate; `full` prepares for full
    /// distances over at most 2^`log2_terms` members.
    pub fn new(center: Vec<f64>, reach: f64, full: bool, log2_terms: u32) -> Self {
        // Clamped so that fourth powers stay in range; a smaller reach makes bounds loose.
        let exponent = (reach.to_bits() >> 52) as i64 - 1022 - LOG2_LARGEST_COORDINATE;
        let exponent = exponent.clamp(-250, 250);
        Self {
            precision: Precision::Single,
            center,
            unit: f64::from_bits(((exponent + 1023) as u64) << 52),
            full,
            sum_error: 2.0f64.powi(2 * log2_terms as i32 - 90 + LOG2_LARGEST_COORDINATE as i32),
        }
    }

    /// Number of dimensions.
    pub fn dimensions(&self) -> usize {
        self.center.len()
    }

    /// Data units for one screen unit.
    pub fn unit(&self) -> f64 {
        self.unit
    }

    /// Whether full distances are screened.
    pub fn full(&self) -> bool {
        self.full
    }

    /// A cluster in screen units.
    pub fn view(&self, profile: &Profile) -> View {
        let p = self.dimensions();
        let scale = 1.0 / self.unit;
        let mut mean = Vec::with_capacity(p);
        let mut rest = Vec::new();
        let mut square = 0.0f64;
        for (value, center) in profile.mean.iter().zip(&self.center) {
            let exact = (value - center) * scale;
            let single = exact as f32;
            let mut difference = exact - f64::from(single);
            // The two roundings of `exact` itself.
            let mut lost = exact.abs() * 2.0 * f64::EPSILON;
            if self.precision == Precision::Double {
                let second = difference as f32;
                difference -= f64::from(second);
                // The difference from another cluster's second part is rounded, too.
                lost += f64::from(second.abs()) * 2.0 * UNIT;
                rest.push(second);
            }
            lost += difference.abs();
            square += lost * lost;
            mean.push(single);
        }
        let largest = 2.0f64.powi(LOG2_LARGEST_COORDINATE as i32) * (p as f64).sqrt();
        let usable = profile.stretch * largest < LARGEST_WHITENED;
        let (whitening, low, stretch) = if usable {
            let whitening = profile.whitening.iter().map(|&w| w as f32).collect();
            (whitening, profile.low, profile.stretch)
        } else {
            // With no bound from the shape, zero is one.
            (Vec::new(), 0.0, 0.0)
        };
        let sums = if self.full && low > 0.0 {
            self.sum_error * stretch / low
        } else {
            0.0
        };
        let floor_error = 1.0 / (1u64 << 60) as f64;
        let squared = scale * scale;
        let spread = &profile.spread;
        let slack = 1e-6;
        View {
            mean,
            rest,
            error: up(square.sqrt() * 1.000_001 + profile.mean_error * scale + sums + floor_error),
            low: if profile.whitening.is_empty() {
                1.0
            } else {
                down(low)
            },
            whitening,
            relative: up((2 * p + 12) as f64 * UNIT * stretch),
            absolute: up(1.000_001 * stretch),
            variance: down(spread.variance * squared * (1.0 - slack)),
            fourth: up(spread.fourth * squared * squared * (1.0 + slack)),
            largest: up(spread.largest * squared * (1.0 + slack)),
            third: up(spread.third * squared * scale * (1.0 + slack)),
            by_columns: OnceLock::new(),
        }
    }
}

/// A cluster in screen units.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    pub mean: Vec<f32>,
    /// What is to be added to `mean` with [`Precision::Double`], empty otherwise.
    pub rest: Vec<f32>,
    /// At least how far `mean`, or its sum with `rest`, is from the real one.
    pub error: f32,
    /// At most the smallest ‖Wy‖/‖y‖.
    pub low: f32,
    /// Packed, or empty for the identity and where it is of no use.
    pub whitening: Vec<f32>,
    /// ‖Wδ‖ in single precision is off by at most `relative`·‖δ‖ + `absolute`·(both errors).
    pub relative: f32,
    pub absolute: f32,
    /// The moments of [`Spread`]: the variance from below, the others from above.
    pub variance: f32,
    pub fourth: f32,
    pub largest: f32,
    pub third: f32,
    /// See [`View::columns`].
    pub by_columns: OnceLock<Vec<f32>>,
}

impl View {
    /// The whitening factor packed column by column, made when it is first asked for.
    pub fn columns(&self) -> &[f32] {
        self.by_columns.get_or_init(|| {
            let mut columns = Vec::with_capacity(self.whitening.len());
            if !self.whitening.is_empty() {
                let p = self.mean.len();
                for j in 0..p {
                    columns.extend((j..p).map(|i| self.whitening[packed_len(i) + j]));
                }
            }
            columns
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_are_kept_and_the_floor_is_below_the_others() {
        let bounds = vec![(4.0, 1), (1.0, 2), (3.0, 3), (2.0, 4), (3.0, 5)];
        let floor = 9.0;
        let found = Found { bounds, floor };
        let mut all = found.clone();
        all.keep_nearest(5);
        assert_eq!(all, found);
        // Of several at the floor none is below it.
        for count in [2, 3] {
            let mut some = found.clone();
            some.keep_nearest(count);
            some.bounds.sort_by(|a, b| a.0.total_cmp(&b.0));
            let bounds = vec![(1.0, 2), (2.0, 4)];
            assert_eq!(some, Found { bounds, floor: 3.0 });
        }
    }
}
