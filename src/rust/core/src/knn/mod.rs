//! The exact graph of the k nearest neighbours.

pub mod block;
#[cfg(any(test, feature = "testing"))]
pub mod checks;
pub mod folder;
pub mod graph;
pub mod search;
#[cfg(test)]
mod tests;
pub mod update;

pub use block::Block;
pub use graph::{Graph, UNKNOWN};
pub use search::{nearest, Search};
pub use update::Done;
