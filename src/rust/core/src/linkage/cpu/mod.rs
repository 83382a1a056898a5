//! Linkage with a matrix on the CPU: the dissimilarities of all clusters are in its memory.

mod contract;
mod contraction_plan;
mod device;
mod dissimilarities;
mod matrix_rows;
mod nearest;
mod worker;

pub use dissimilarities::CpuDissimilarities;
