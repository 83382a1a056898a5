//! Linkages of agglomerative clustering.
//!
//! [`matrix`] makes the tree of any linkage from the dissimilarities of all pairs: by rounds of
//! mutual nearest neighbours where the linkage is reducible ([`rounds`], [`chain`]), by a minimum
//! spanning tree for single linkage ([`single`]), and by the generic algorithm else ([`generic`]).
//! Without a matrix, from points, [`spanning`] is single linkage and [`geometric`] those that
//! centroids define. [`device`] says what the rounds ask of a device.

pub mod chain;
#[cfg(any(test, feature = "testing"))]
pub mod checks;
pub mod condensed;
pub mod cpu;
pub mod device;
pub mod dissimilarities;
pub mod generic;
pub mod geometric;
pub mod lance_williams;
pub mod live;
pub mod matrix;
mod memory_check;
pub mod origin;
pub mod points;
pub mod rounds;
pub mod single;
pub mod spanning;
#[cfg(test)]
mod tests;
mod tree;

pub use device::LinkageDevice;
pub use lance_williams::{Linkage, Precision, Recurrence};
pub use matrix::linkage;
pub use origin::Origin;
