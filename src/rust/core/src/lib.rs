//! Clustering, distances and neighbours: the library behind the R package gmhclust, without R.
//!
//! # Example
//!
//! Ward's linkage of four points on two threads, cut into two clusters:
//!
//! ```
//! use gmhclust_core::cut::cut;
//! use gmhclust_core::linkage::geometric::ward;
//! use gmhclust_core::{Cpu, Monitor, Observations, Result};
//! use ndarray::array;
//!
//! fn main() -> Result<()> {
//!     let x = array![[0.0, 0.0], [10.0, 0.0], [0.0, 1.0], [10.0, 2.0]];
//!     let x = Observations::new(x)?;
//!     let device = Cpu::new(2)?;
//!
//!     let tree = ward(&x, &device, &Monitor::default())?;
//!     assert_eq!(tree.merge, [[-1, -3], [-2, -4], [1, 2]]);
//!     assert_eq!(tree.height[..2], [1.0, 2.0]);
//!
//!     let clusters = cut(&tree.merge, 2)?;
//!     assert_eq!(clusters, [1, 2, 1, 2]);
//!     Ok(())
//! }
//! ```
//!
//! # Modules
//!
//! Modules import only from modules above them in this list:
//!
//! * the base: [`error`], [`memory`], [`monitor`], [`merge`], [`dendrogram`], [`matrix`],
//!   [`magnitude`], [`observations`], [`digest`], [`checksum`], [`distinct`], [`labels`], [`cpu`],
//!   [`lazy_rows`], [`tasks`], [`records`], [`simd`], [`next_float`], [`single_precision`],
//!   [`active_positions`];
//! * building blocks of trees: [`cut`], [`optimal_order`], [`agreement`];
//! * [`metric`]: the distance of two observations; [`distances`]: the distances of all pairs;
//! * [`neighbours`]: nearest-neighbour search; [`knn`]: the graph of nearest neighbours;
//!   [`kmeans`];
//! * [`mahalanobis`]: Mahalanobis-average clustering; [`linkage`]: the classic linkages;
//! * [`populations`]: finds the populations of a tree and maps new observations to them.
//!
//! Each algorithm has a trait for the operations that it needs of a device; [`Cpu`] implements all
//! of them. Accelerators implement them in other crates.

pub mod active_positions;
pub mod agreement;
pub mod checksum;
pub mod cpu;
pub mod cut;
pub mod dendrogram;
pub mod digest;
pub mod distances;
pub mod distinct;
pub mod error;
pub mod kmeans;
pub mod knn;
pub mod labels;
pub mod lazy_rows;
pub mod linkage;
pub mod magnitude;
pub mod mahalanobis;
pub mod matrix;
pub mod memory;
pub mod merge;
pub mod metric;
pub mod monitor;
pub mod neighbours;
pub mod next_float;
pub mod observations;
pub mod optimal_order;
mod order_key;
pub mod populations;
pub mod records;
pub mod simd;
pub mod single_precision;
pub mod tasks;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use cpu::{Cpu, Device};
pub use error::{Error, Result};
pub use merge::Merge;
pub use monitor::Monitor;
pub use observations::Observations;
