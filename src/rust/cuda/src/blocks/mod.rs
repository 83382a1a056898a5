//! Merges small problems on a CUDA device, each in one thread block. The kernel is in
//! kernels/agglomerate.cu.

mod agglomerate;
mod arrays;
#[cfg(test)]
mod decisions;
mod fetched;
mod launch;
mod tasks;
mod variant;

pub use agglomerate::{fits, is_tied, BlockProblems};
pub use arrays::{banded_len, to_bands};
