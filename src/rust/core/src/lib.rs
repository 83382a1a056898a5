//! Clustering, distances and neighbours: the library behind the R package gmhclust, with no R in
//! it.
//!
//! Modules import only from those above them in this list:
//!
//! * the base: [`error`], [`monitor`], [`memory`], [`matrix`], [`cpu`], [`dendrogram`], [`cut`];
//! * [`metric`]: how far two observations are apart; [`distances`]: all pairs of them;
//! * [`neighbours`]: the search for the nearest ones; [`knn`]: their graph; [`kmeans`];
//! * [`mahalanobis`]: Mahalanobis-average clustering; [`linkage`]: the classic linkages.
//!
//! Each algorithm says in a trait of its own what it asks of a device; [`Cpu`] implements all of
//! them, and so may an accelerator outside of this crate.

pub mod cpu;
pub mod cut;
pub mod dendrogram;
pub mod distances;
pub mod distinct;
pub mod error;
pub mod kmeans;
pub mod knn;
pub mod linkage;
mod magnitude;
pub mod mahalanobis;
pub mod matrix;
pub mod memory;
pub mod merge;
pub mod metric;
pub mod monitor;
pub mod neighbours;
pub mod roster;
pub mod simd;
pub mod single_precision;
pub mod tasks;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use cpu::{Cpu, Device};
pub use error::{Error, Result};
pub use matrix::Matrix;
pub use merge::Merge;
pub use monitor::Monitor;
