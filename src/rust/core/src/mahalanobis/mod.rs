//! Mahalanobis-average hierarchical clustering (Fišer et al. 2012, doi:10.1002/cyto.a.21148;
//! Šmelko et al. 2021, doi:10.1007/978-3-030-85665-6_36).
//!
//! [`cluster()`] is the entry: it splits the work by apriori clusters ([`apriori`]), agglomerates each
//! part ([`agglomerate`]), and joins the results to one tree. [`cluster_within`] and
//! [`cluster_above`] are its two halves, for work that several machines share. [`shape`] and
//! [`distance`] say what a cluster's shape and the distance of two clusters are; [`device`] says what
//! agglomeration asks of a device; [`reference`] finds the merges slowly and obviously.

pub mod agglomerate;
pub mod apriori;
#[cfg(any(test, feature = "testing"))]
pub mod checks;
pub mod cluster;
pub mod clustering;
pub mod clusters;
pub mod device;
pub mod distance;
mod duplicates;
mod forest;
mod input;
mod lanes;
mod members;
pub mod options;
pub mod problem;
mod queue;
#[cfg(any(test, feature = "testing"))]
pub mod reference;
pub mod screen;
pub mod shape;
pub mod subthreshold;
#[cfg(test)]
mod tests;

pub use cluster::{cluster, cluster_above, cluster_within, Clusterer, ProblemSizes};
pub use clustering::Clustering;
pub use device::{AgglomerationDevice, WholeProblems};
pub use input::MOST_DEGENERATE_WORK;
pub use options::Options;
pub use problem::{Problem, Union};
pub use subthreshold::Subthreshold;
