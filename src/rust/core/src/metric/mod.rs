//! Dissimilarities of two observations: the metrics of R's `dist()`, correlations and the cosine.
//!
//! [`catalogue`] lists the metrics; [`form`] holds the arithmetic of each, written once for scalars
//! and for vectors; [`Points`] are observations prepared for one [`Metric`].
//!
//! A new metric is a variant in [`catalogue`] and a file in [`form`]. If a device has no kernel for
//! it, the CPU computes its distances; if it has no frame in single precision, neighbours are found
//! by exact distances.

pub mod catalogue;
pub mod form;
mod pairwise;
pub mod points;
mod prepare;
#[cfg(test)]
pub mod reference;
mod rows;
#[cfg(test)]
mod tests;
pub mod zero_over_zero;

pub use catalogue::Metric;
pub use points::Points;
pub use rows::{distance_of_rows, distances_of_rows, DISTANCES_AT_ONCE};
pub use zero_over_zero::ZeroOverZero;
