//! Linkage by reciprocal nearest neighbours, with the dissimilarities of all clusters on a CUDA
//! device. The kernels are in kernels/dissimilarities.cu.
//!
//! One array holds the dissimilarities. Merges change the array in place. Then the dissimilarities
//! of the active clusters move to its front.

#[cfg(test)]
mod decisions;
mod fill;
mod launch;
mod matrix;
mod memory;
mod plan;
#[cfg(test)]
mod tests;

pub use fill::{dissimilarities, fits};
