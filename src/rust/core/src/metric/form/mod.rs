//! The arithmetic of each dissimilarity, written once: the term of one coordinate, and the step
//! from the accumulated terms to the distance.
//!
//! A form works on vectors whose lanes are different pairs of observations; with [`pulp::Scalar`]
//! it works on one pair. Every lane performs the same operations in the same order, coordinate by
//! coordinate, so that a distance has the same bits wherever it is computed.
//!
//! The operations are the same as in R's `dist` (src/library/stats/src/distance.c): sums are not
//! fused, a coordinate that one observation lacks is left out, and sums are scaled up for the
//! coordinates that were left out.

mod angle;
mod binary;
mod canberra;
mod correlation;
mod definition;
mod lanes;
mod maximum;
mod products;
mod sum;

pub use angle::{Angle, AngleOfCommon};
pub use binary::Binary;
pub use canberra::Canberra;
pub use correlation::CorrelationOfCommon;
pub use definition::{Form, WithForm};
pub use lanes::{one_minus, NA};
pub use maximum::Maximum;
pub use sum::{Magnitude, Power, Square, Sum, SumOfSquares, Term};
