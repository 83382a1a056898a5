//! Exact k-nearest-neighbour search for many queries.
//!
//! Answers follow the exact distances: double precision, one order of operations, ties to the
//! smaller index. They do not depend on the device, on the number of threads or on the references
//! that a device prunes beforehand ([`single`] prunes in single precision).

pub mod cluster_means;
pub mod cpu;
pub mod device;
pub mod lists;
pub mod request;
pub mod single;
pub mod space;

pub use cluster_means::{ClusterMeans, MeanLinkage, RemainingClusters};
pub use device::{BlockSink, NeighbourDevice, Neighbours, MOST_LISTED};
pub use lists::NeighbourLists;
pub use request::{Exclusion, NeighbourRequest};
pub use space::{check_defined, refuse_undefined, rows_without_distance, Space};
