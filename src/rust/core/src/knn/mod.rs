//! Exact neighbours: the graph of the k nearest neighbours, and all neighbours within a radius.

pub mod block;
#[cfg(any(test, feature = "testing"))]
pub mod checks;
pub mod folder;
pub mod graph;
pub mod jaccard;
pub mod search;
#[cfg(test)]
mod tests;
pub mod update;
pub mod within;

pub use block::Block;
pub use graph::{Graph, UNKNOWN};
pub use jaccard::jaccard;
pub use search::{nearest, Search};
pub use update::UpdateProgress;
pub use within::{RadiusNeighbours, RangeSearch};
