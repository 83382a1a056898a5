//! Linkages of agglomerative clustering.
//!
//! [`matrix`] makes the tree of any linkage from the dissimilarities of all pairs: by reciprocal
//! nearest neighbours if the linkage is reducible ([`reciprocal`], [`chain`]), by a minimum
//! spanning tree for single linkage ([`single`]), and by the generic algorithm otherwise
//! ([`generic`]). [`points`] chooses among these for observations. Without a matrix, [`spanning`]
//! is single linkage, and [`geometric`] has the linkages whose distances follow from the clusters'
//! means: Ward's, centroid and median, and average and McQuitty's for correlations. [`device`] is
//! the trait of devices that hold the matrix.

mod active_slots;
pub mod chain;
#[cfg(any(test, feature = "testing"))]
pub mod checks;
pub mod condensed;
pub mod cpu;
pub mod device;
pub mod dissimilarities;
pub mod dissimilarity_source;
pub mod edge;
pub mod generic;
pub mod geometric;
pub mod lance_williams;
pub mod matrix;
mod memory_check;
pub mod points;
pub mod reciprocal;
pub mod single;
pub mod spanning;
#[cfg(test)]
mod tests;
mod tree;

pub use device::LinkageDevice;
pub use dissimilarity_source::DissimilaritySource;
pub use lance_williams::{Linkage, Recurrence, StoredPrecision};
pub use matrix::linkage;
