//! Makes all merges of a large problem on a CUDA device. kernels/tree.cu describes the algorithm.

mod arrays;
pub(crate) mod clusters;
#[cfg(test)]
mod host;
mod launch;
#[cfg(test)]
mod model;
mod start;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use arrays::{FEW_COLUMNS, MOST_CLUSTERS};
pub use launch::{fits, grow, trees_at_a_time, MOST_COLUMNS};
