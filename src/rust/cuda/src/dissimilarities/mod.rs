//! Linkage in rounds with the dissimilarities of all clusters on a CUDA device;
//! kernels/dissimilarities.cu has the kernels.
//!
//! One piece of memory holds the dissimilarities: merges change it in place, and then the
//! dissimilarities of the live clusters move to its front.

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
