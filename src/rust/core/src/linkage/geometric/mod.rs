//! Linkages of points whose distances of clusters follow from the clusters' means, without a matrix
//! of distances.

mod centred;
mod centroid;
mod means;
mod near_clusters;
mod nearest;
mod reciprocal_merges;

pub use centroid::{centroid, median};
pub use means::{average, has_means, mcquitty, ward};
pub use reciprocal_merges::SEARCHES_PER_MERGE;
