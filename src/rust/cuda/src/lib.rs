//! The devices of gmhclust-core on NVIDIA GPUs.
//!
//! [`Cuda`] implements every algorithm's device trait: agglomeration (`agglomerate`) in thread
//! blocks (`blocks`) or as trees (`tree`), searches for neighbours (`neighbours`), distances
//! (`distances`), dissimilarities of clusters (`dissimilarities`), linkages by means
//! (`mean_linkage`) and k-means (`kmeans`). The devices do all work that they can. The caller sets
//! the sizes below which the CPU takes over, by a [`GpuThresholds`] with figures of the [`policy`].
//!
//! `device` opens devices and loads kernels. The modules that use it do not handle contexts.

mod agglomerate;
mod arguments;
mod blocks;
mod budget;
mod chain;
mod cuda;
mod device;
mod dissimilarities;
mod distances;
#[cfg(test)]
mod host;
mod kernels;
mod kmeans;
mod limits;
mod mapped;
mod mean_linkage;
mod neighbours;
mod pinned;
pub mod policy;
mod sender;
mod sharing;
pub mod startup;
mod stored;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod thresholds;
mod tree;
mod wait;

pub use cuda::Cuda;
pub use device::{devices, DeviceInfo};
pub use thresholds::GpuThresholds;
/// Largest numbers of clusters and of columns for which a GPU makes all merges of a large problem
/// (`tree`).
pub use tree::{MOST_CLUSTERS as MOST_TREE_CLUSTERS, MOST_COLUMNS as MOST_TREE_COLUMNS};
