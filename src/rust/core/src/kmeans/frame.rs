//! Coordinates in single precision: their origin, their scale, and the errors of rounding.

use ndarray::ArrayView2;
use rayon::prelude::*;

use super::device::Start;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::lazy_rows::LazyRows;
use crate::magnitude::check_magnitude;
use crate::single_precision::{without_tiny, TINY, UNIT_ROUNDOFF};

/// Largest number of observations in the sample whose medians are computed. Only the time depends
/// on it.
const SAMPLE: usize = 512;

/// Largest share of errors ([`Frame::share`]) with which bounds are useful. Only the time depends
/// on it.
const LARGEST_SHARE: f64 = 0.2;

/// The map from values to coordinates in single precision, and bounds on the errors of rounding in
/// t = ‖c‖²/2 − x·c, for a center c and an observation x.
#[derive(Debug, Clone)]
pub struct Frame {
    /// By column: the value whose coordinate is 0.
    pub origin: Vec<f64>,
    /// See [`scale_of`].
    pub scale: f64,
    /// See [`share`].
    pub share: f64,
}

impl Frame {
    /// The frame for observations and centers, and means of observations; `largest` is the largest
    /// magnitude of their values. Bounds are tightest for observations and centers that are near
    /// the origin.
    pub fn new(x: ArrayView2<f64>, largest: f64) -> Self {
        Self {
            origin: sampled_medians(x),
            scale: scale_of(largest),
            share: share(x.ncols()),
        }
    }

    /// The frame for observations that were read, and for the first centers.
    ///
    /// # Errors
    /// `Error::Input` if squares overflow.
    pub fn of(x: &LazyRows, start: &Start, cpu: &Cpu) -> Result<Self> {
        check_magnitude(x.largest())?;
        let largest = x.largest().max(start.largest());
        Ok(cpu.install(|| Self::new(x.view(), largest)))
    }

    /// Whether bounds in this number of columns can exclude centers. With very many columns, the
    /// errors are too large.
    pub fn is_useful(columns: usize) -> bool {
        share(columns) <= LARGEST_SHARE
    }

    /// A coordinate relative to the origin, in units of the frame.
    #[inline(always)]
    pub fn coordinate(&self, value: f64, k: usize) -> f64 {
        without_tiny((value - self.origin[k]) * self.scale)
    }

    /// A bound on the change of t by coordinates that became zero, and by underflow.
    pub fn tiny(&self) -> f64 {
        4.0 * (self.origin.len() as f64 + 4.0) * TINY
    }

    /// The bound on the change of x·c in half precision, as a share of ‖x‖‖c‖: rounding both rows
    /// takes 2⁻¹⁰ + 2⁻²², and a tensor core's sums (p + 32)·8u
    /// ([`single`](crate::neighbours::single)). The rest covers a few roundings in single
    /// precision.
    ///
    /// If a center c is within a distance r of x, then ‖c‖²/2 − x·c ≤ (r² − ‖x‖²)/2. As
    /// ‖x‖‖c‖ ≤ (‖x‖² + ‖c‖²)/2, the sum s of products of halves then has
    /// −s ≤ (r² − (1 − share)‖x‖²)/2 − (1 − share)‖c‖²/2: a threshold for x, and an allowance
    /// for c.
    pub fn share_of_halves(&self) -> f64 {
        1.001 / 1024.0 + (self.origin.len() as f64 + 34.0) * 8.0 * UNIT_ROUNDOFF * 1.01
    }

    /// A bound on the change of x·c by coordinates that are subnormal as halves: rounding one
    /// changes it by at most 2⁻³⁹, and the other coordinate of its product is below 1/2. For both
    /// rows, the change is at most p·2⁻³⁹; this bound is twice as large.
    pub fn tiny_of_halves(&self) -> f64 {
        (self.origin.len() as f64 + 4.0) / (1u64 << 38) as f64
    }

    /// A factor that lowers a computed sum of the squares of coordinates below the exact one.
    pub fn rounding(&self) -> f64 {
        1.0 - (self.origin.len() as f64 + 9.0) * f64::EPSILON
    }
}

/// The bound on the rounding of t, as a share of ‖c‖²/2 + ‖x‖‖c‖: twice (p + 12)·u, where p + 2
/// terms take γ = (p + 2)·u / (1 − (p + 2)·u) and rounding the coordinates takes 2u.
fn share(columns: usize) -> f64 {
    2.0 * (columns as f64 + 12.0) * UNIT_ROUNDOFF
}

/// A power of two that scales the difference of any two values of at most this magnitude to below
/// 1/2, on which [`Frame::tiny_of_halves`] relies; 0 if there is none.
pub fn scale_of(largest: f64) -> f64 {
    let below = if largest == 0.0 {
        1.0
    } else {
        // The greatest power of two that is not above it.
        f64::from_bits(largest.to_bits() & !((1 << 52) - 1))
    };
    let scale = 0.125 / below;
    if scale.is_normal() {
        scale
    } else {
        0.0
    }
}

/// The median of each column, of a sample. A few far values do not move it.
fn sampled_medians(x: ArrayView2<f64>) -> Vec<f64> {
    let step = x.nrows().div_ceil(SAMPLE);
    let median = |k: usize| {
        let column = (0..x.nrows()).step_by(step).map(|i| x[[i, k]]);
        let mut values: Vec<f64> = column.collect();
        let middle = values.len() / 2;
        *values.select_nth_unstable_by(middle, f64::total_cmp).1
    };
    (0..x.ncols()).into_par_iter().map(median).collect()
}
