//! The screen on the CPU: blocks of clusters, stored dimension after dimension, that a sweep
//! compares with a query in vector registers.

mod balls;
mod cpu_screen;
mod differences;
mod layout;
mod least_bounds;
mod lower_bounds;
mod store;
mod sweep;
mod target;

pub use cpu_screen::{CpuScreen, MIN_PARALLEL_COORDINATES};
