//! Clustering, distances and neighbours: the library behind the R package gmhclust, with no R in
//! it.
//!
//! Dependencies point one way: algorithms ([`mahalanobis`], [`linkage`], [`distances`], [`knn`],
//! [`kmeans`]) stand on [`backend`], which says what an algorithm may ask of a device. [`metric`]
//! says how far two observations are apart.

pub mod backend;
pub mod cut;
pub mod dendrogram;
pub mod distances;
mod distinct;
pub mod error;
pub mod kmeans;
pub mod knn;
pub mod linkage;
pub mod mahalanobis;
pub mod matrix;
pub mod memory;
pub mod metric;
pub mod monitor;
#[cfg(test)]
pub mod testing;

pub use error::{Error, Result};
pub use matrix::Matrix;
pub use monitor::Monitor;
