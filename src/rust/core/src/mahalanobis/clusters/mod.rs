//! The clusters of a problem on the CPU: means, moments, shapes and members, by slot. They hold
//! what decides, in double precision.

mod decisions;
mod initial;
mod merged;
mod moments;
mod part;
mod reshape;
mod state;
#[cfg(test)]
mod tests;

pub use decisions::Decision;
pub use merged::MergedCluster;
pub use part::Part;
pub use state::Clusters;
