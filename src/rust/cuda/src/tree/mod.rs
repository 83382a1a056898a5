//! Whole trees on a CUDA device: all merges of a large problem are made there; kernels/tree.cu says
//! how.

mod arrays;
#[cfg(test)]
mod host;
mod launch;
mod start;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use launch::{fits, grow, FEW_COLUMNS, MOST_COLUMNS};
