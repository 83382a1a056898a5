//! Linkages of agglomerative clustering.
//!
//! [`spanning`] is single linkage, by the minimum spanning tree.

pub mod spanning;
#[cfg(test)]
mod tests;
