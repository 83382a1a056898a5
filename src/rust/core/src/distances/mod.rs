//! The distances of all pairs of observations, as R's `dist` stores them, or of the pairs across
//! two sets.
//!
//! [`Pairs`] defines the pairs and the positions of their distances; a [`DistanceDevice`] computes
//! the distances.

#[cfg(any(test, feature = "testing"))]
pub mod checks;
pub mod cpu;
pub mod device;
pub mod pairs;
#[cfg(test)]
mod tests;

pub use device::DistanceDevice;
pub use pairs::{Column, Pairs};
