//! Mahalanobis-average hierarchical clustering (Fišer et al. 2012, doi:10.1002/cyto.a.21148;
//! Šmelko et al. 2021, doi:10.1007/978-3-030-85665-6_36).
//!
//! [`cluster()`] is the entry point. It divides the work into problems by apriori clusters
//! ([`apriori`]), asks a device for the merges of each ([`AgglomerationDevice::agglomerate`]), and
//! joins them to one tree. [`Clusterer`] has its two halves, for a clustering that is shared among
//! several machines.
//!
//! Modules import only from those above them in this list:
//!
//! * [`subthreshold`], [`options`]: the choices; [`packed`]: the layout of matrices;
//!   [`partition`], `arranged`: the observations by apriori cluster;
//! * [`shape`], [`distance`]: the definitions of a cluster's shape and of distances, bit by bit;
//!   `running_moments`: the moments that a shape is made of, member by member;
//! * [`problem`]: clusters to merge to one; [`device`]: the trait of devices that find their
//!   merges;
//! * [`screen`]: lower bounds on many distances at a time;
//! * [`clusters`]: the state of the clusters on the CPU;
//! * `height_order`: the order of the merges of several apriori clusters;
//! * [`agglomerate`]: the merges of a problem on the CPU; [`reference`]: the same merges by the
//!   plain definition, for tests;
//! * `singular`: the number of merges of a tree that make clusters with a singular covariance;
//!   `stability`: how well sets of observations agree with the branches of trees of drawn ones.

pub mod agglomerate;
pub mod apriori;
mod arranged;
#[cfg(any(test, feature = "testing"))]
pub mod checks;
pub(crate) mod cholesky;
pub mod cluster;
pub mod clustering;
pub mod clusters;
mod cpu;
pub mod device;
pub mod distance;
mod duplicates;
pub mod geometric_mean;
mod height_order;
mod input;
mod kept_merges;
pub(crate) mod lanes;
mod members;
pub mod options;
pub mod packed;
pub mod partition;
pub mod problem;
#[cfg(any(test, feature = "testing"))]
pub mod reference;
mod running_moments;
pub mod screen;
pub mod shape;
mod singular;
mod stability;
pub mod subthreshold;
#[cfg(test)]
mod tests;

pub use cluster::{cluster, Clusterer, ProblemSizes};
pub use clustering::Clustering;
pub use device::{AgglomerationDevice, OBSERVATIONS_AT_A_TIME};
pub use input::MOST_DEGENERATE_WORK;
pub use options::{Distance, Options};
pub use partition::AprioriPartition;
pub use problem::{BoundingBox, Problem, RowNumbers, UnionRule};
pub use singular::SingularMerges;
pub use stability::Stability;
pub use subthreshold::Subthreshold;
