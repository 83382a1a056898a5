//! The clusters of a problem on the CPU: means, moments, shapes and members, by slot. All values
//! are in double precision: exact distances are computed from them.

mod exact_distances;
mod initial;
mod merged;
mod moments;
mod part;
mod reshape;
mod state;
#[cfg(test)]
mod tests;

pub use exact_distances::ExactDistance;
pub use merged::MergedCluster;
pub use part::Part;
pub use state::Clusters;
