//! Gaussian mixtures: the shapes of populations, by which new observations are mapped to them.
//!
//! A mixture has components, each with a mean, a covariance and a number of members. A population
//! has one or more components. [`fit()`] makes one component from each population's members;
//! [`assign()`] computes distances, densities and classes of new observations.
//!
//! Results have the same bits on every processor and for every number of threads: every sum runs in
//! one fixed order, with fused multiply-add, and exp and ln are own code instead of the system's.
//!
//! There is no version for GPUs. Per observation, the classes need 8·p bytes of data and about p²/2
//! multiply-adds per component, so that the transfer to a device alone takes as long as the whole
//! computation on a few cores.

pub mod assign;
mod elementary;
pub mod fit;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
mod tile;

use pulp::{Simd, WithSimd};

use super::columns::Columns;
use crate::error::{Error, Result};
use crate::mahalanobis::cholesky::{cholesky, invert};
use crate::mahalanobis::packed::packed_len;
use crate::memory;
use crate::simd::dispatch;
pub use assign::{assign, Measure, Wanted};
use elementary::ln;
pub use fit::{bytes_of_fit, fit, Fitted};

/// First words of a memory error, before the number of bytes.
const MIXTURE: &str = "the shapes of the populations need";

/// The components of a mixture.
#[derive(Debug, Clone, PartialEq)]
pub struct Components {
    /// Number of columns, p.
    pub columns: usize,
    /// The mean of each component, one after the other.
    pub means: Vec<f64>,
    /// The weight of each component: the number of members from which it was estimated.
    pub sizes: Vec<f64>,
    pub shape: Shape,
}

/// The covariances of a mixture's components.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// One for each component: packed lower triangles, one after the other.
    Covariances(Vec<f64>),
    /// The same variance in every direction for all components. Distances are Euclidean, divided by
    /// the root of the variance.
    Variance(f64),
}

/// A mixture, prepared for mapping.
#[derive(Debug)]
pub struct Mixture {
    columns: usize,
    means: Vec<f64>,
    factors: Factors,
    /// By component: the logarithm of its weight times its greatest density, up to a constant that
    /// all components share.
    log_peaks: Vec<f64>,
    /// By population: the number after its last component. Components are in order of populations.
    ends: Vec<usize>,
}

#[derive(Debug)]
enum Factors {
    /// Whitening factors W, d(x → C) = ‖W(x−c)‖: packed lower triangles, one after the other.
    Whitening(Vec<f64>),
    /// The reciprocal of the variance of all components.
    Precision(f64),
}

impl Mixture {
    /// The mixture of these components. `ends` is, by population, the number after the last of its
    /// components, which are in the order of populations. Takes O(p³) time per component.
    ///
    /// # Errors
    /// `Error::Input` if the parts do not fit each other, a weight is not positive, or a covariance
    /// is singular; `Error::Memory`.
    pub fn new(components: &Components, ends: Vec<usize>) -> Result<Self> {
        let p = components.columns;
        let sizes = &components.sizes;
        let count = sizes.len();
        let increases = ends.windows(2).all(|pair| pair[0] < pair[1]);
        let covers = ends.first().is_some_and(|&end| end > 0) && ends.last() == Some(&count);
        let triangles = match &components.shape {
            Shape::Covariances(all) => all.len() == count * packed_len(p),
            Shape::Variance(_) => true,
        };
        if p == 0 || components.means.len() != count * p || !triangles || !increases || !covers {
            return Err(invalid("the sizes of its parts do not fit each other"));
        }
        if !sizes.iter().all(|&size| size > 0.0 && size.is_finite()) {
            return Err(invalid("a population has no members"));
        }
        if !components.means.iter().all(|mean| mean.is_finite()) {
            return Err(invalid("a mean is not finite"));
        }
        let mut log_peaks: Vec<f64> = sizes.iter().map(|&size| ln(size)).collect();
        let factors = match &components.shape {
            &Shape::Variance(variance) => {
                if !(variance > 0.0 && variance.is_finite()) {
                    return Err(invalid("its variance is not positive"));
                }
                Factors::Precision(1.0 / variance)
            }
            Shape::Covariances(all) => {
                let mut factors = memory::zeros(MIXTURE, all.len())?;
                let covariances = all.chunks_exact(packed_len(p));
                let outs = factors.chunks_exact_mut(packed_len(p));
                for ((covariance, out), log_peak) in covariances.zip(outs).zip(&mut log_peaks) {
                    if !whitening(covariance, p, out)? {
                        return Err(invalid("a covariance is singular"));
                    }
                    *log_peak += (0..p).map(|i| ln(out[packed_len(i) + i])).sum::<f64>();
                }
                Factors::Whitening(factors)
            }
        };
        Ok(Self {
            columns: p,
            means: memory::copied(MIXTURE, &components.means)?,
            factors,
            log_peaks,
            ends,
        })
    }

    /// Number of populations.
    pub fn populations(&self) -> usize {
        self.ends.len()
    }

    fn components(&self) -> usize {
        self.log_peaks.len()
    }

    /// The components of each population.
    fn ranges(&self) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| start..end)
    }
}

fn invalid(why: &str) -> Error {
    Error::Input(format!("the population model is not sound: {why}"))
}

/// Writes the whitening factor of a packed covariance of `p` columns to `out`. Returns false if the
/// covariance is singular, by the test of [`cholesky`] after scaling all columns to about equal
/// variance, so that units of columns do not matter.
fn whitening(covariance: &[f64], p: usize, out: &mut [f64]) -> Result<bool> {
    // Powers of two, so that scaling rounds nothing.
    let scales: Vec<f64> = (0..p)
        .map(|i| inverse_root(covariance[packed_len(i) + i]))
        .collect();
    let mut scaled = memory::copied(MIXTURE, covariance)?;
    for i in 0..p {
        let row = &mut scaled[packed_len(i)..][..=i];
        row.iter_mut()
            .zip(&scales)
            .for_each(|(value, scale)| *value *= scales[i] * scale);
    }
    let is_regular = dispatch(Whitening {
        scaled: &scaled,
        factor: memory::zeros(MIXTURE, packed_len(p))?,
        pivots: memory::zeros(MIXTURE, p)?,
        rows: memory::room(MIXTURE, (p + 1) * (p + 64))?,
        out,
    });
    for i in 0..p {
        let row = &mut out[packed_len(i)..][..=i];
        row.iter_mut()
            .zip(&scales)
            .for_each(|(value, scale)| *value *= scale);
    }
    Ok(is_regular)
}

/// A power of two within a factor of two of 1/√`value`; 1 for 0.
fn inverse_root(value: f64) -> f64 {
    /// Number of bits of the fraction of a double.
    const FRACTION: u32 = 52;
    /// The biased exponent of 1.
    const ONE: i64 = 1023;

    if value.is_nan() || value <= 0.0 {
        return 1.0;
    }
    let exponent = (value.to_bits() >> FRACTION) as i64 - ONE;
    f64::from_bits(((ONE - exponent.div_euclid(2)) as u64) << FRACTION)
}

struct Whitening<'a> {
    scaled: &'a [f64],
    factor: Vec<f64>,
    pivots: Vec<f64>,
    rows: Vec<f64>,
    out: &'a mut [f64],
}

impl WithSimd for Whitening<'_> {
    type Output = bool;

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) -> bool {
        let p = self.pivots.len();
        let (factor, pivots, rows) = (&mut self.factor, &mut self.pivots, &mut self.rows);
        if !cholesky(simd, self.scaled, p, factor, pivots, rows, None) {
            return false;
        }
        invert(simd, factor, pivots, 1.0, rows, self.out, None);
        true
    }
}
