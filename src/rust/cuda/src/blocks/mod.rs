//! Small problems on a CUDA device, a thread block each; kernels/agglomerate.cu has the kernel.

mod agglomerate;
mod arrays;
#[cfg(test)]
mod decisions;
mod launch;
mod tasks;

pub use agglomerate::{fits, is_tied, BlockProblems};
pub use arrays::{banded_len, to_bands};
