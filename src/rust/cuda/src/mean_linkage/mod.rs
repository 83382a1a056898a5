//! Merges all clusters of a linkage by means on one device, in rounds of reciprocal nearest
//! neighbours. The kernels are in kernels/mean_linkage.cu.
//!
//! In each round, the device compares clusters whose nearest cluster is not known with all others,
//! in single precision, and decides in double precision. For up to some hundred thousand clusters
//! this takes less time than the searches of [`crate::neighbours`], between which the host decides.

#[cfg(test)]
mod decisions;
mod launch;
mod margins;
mod rounds;

pub use rounds::merges;
