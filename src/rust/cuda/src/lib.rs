//! The devices of gmhclust-core on NVIDIA GPUs.
//!
//! [`Cuda`] implements every algorithm's device trait: agglomeration (`agglomerate`) in thread
//! blocks (`blocks`), as trees (`tree`) or with bounds from a GPU (`screen`), searches for
//! neighbours (`neighbours`), distances (`distances`), dissimilarities of clusters
//! (`dissimilarities`) and k-means (`kmeans`). It does everything that the devices can do; the
//! caller decides, by a [`Handover`] with figures of the [`policy`], from which size on that is
//! faster than the CPU.
//!
//! `device` opens devices and loads kernels; nothing above it sees a context.

mod agglomerate;
mod arguments;
mod blocks;
mod budget;
mod chain;
mod cuda;
mod device;
mod dissimilarities;
mod distances;
mod handover;
#[cfg(test)]
mod host;
mod kernels;
mod kmeans;
mod mapped;
mod neighbours;
pub mod policy;
mod screen;
mod sender;
pub mod startup;
mod stored;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod tree;

pub use cuda::Cuda;
pub use device::{devices, DeviceInfo};
pub use handover::Handover;
/// Most columns of data whose trees a device grows by itself.
pub use tree::MOST_COLUMNS as MOST_TREE_COLUMNS;
