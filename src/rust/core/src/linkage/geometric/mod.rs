//! Linkages that are defined by centroids, from points, without a matrix of distances.

mod centred;
mod centroid;
mod near_clusters;
mod ward;
mod ward_merges;

pub use centroid::{centroid, median};
pub use ward::ward;
