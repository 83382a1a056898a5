//! The screen on the CPU. It stores clusters in blocks, dimension after dimension. A sweep compares
//! a query with the clusters of a block in vector registers.

mod balls;
#[cfg(test)]
pub mod counting;
mod cpu_screen;
mod differences;
mod layout;
mod least_bounds;
mod lower_bounds;
mod store;
mod sweep;
mod target;
#[cfg(test)]
mod tests;

pub use cpu_screen::{CpuScreen, MIN_PARALLEL_COORDINATES};
