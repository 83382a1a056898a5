//! Linkages of agglomerative clustering.
//!
//! [`spanning`] is single linkage, by the minimum spanning tree, and [`geometric`] those that
//! centroids define; both need no matrix of distances.

pub mod geometric;
pub mod spanning;
#[cfg(test)]
mod tests;
