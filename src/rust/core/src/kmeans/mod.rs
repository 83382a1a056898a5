//! k-means by Lloyd's algorithm (IEEE Transactions on Information Theory 28, 1982), exactly.
//!
//! Every assignment is the result of comparing an observation with all centers: the nearest center
//! has the least sum of squares, in double precision and in the order of the coordinates; ties go
//! to the smallest number. Every center is the sum of its members in the order of their rows,
//! divided by their count. These are exactly the operations of R's `kmeans(algorithm = "Lloyd")`.
//!
//! If centers have moved little, bounds on an observation's distances to its own center and to all
//! other centers prove that the observation stays in its cluster (Hamerly, SIAM International
//! Conference on Data Mining, 2010, doi:10.1137/1.9781611972801.12). All other observations are
//! compared with all centers by bounds in single precision (screen.rs), and where these leave more
//! than one center, in double precision (exact.rs). A GPU (kernels/kmeans.cu) does the same, with
//! the same result, but compares all observations in every iteration. With many centers, it first
//! compares in half precision ([`frame::Frame::share_of_halves`]). With very many, it compares an
//! observation only with centers near its own.

#[cfg(any(test, feature = "testing"))]
pub mod checks;
pub mod cluster;
pub mod cpu;
pub mod device;
mod directions;
mod exact;
pub mod frame;
mod leaves;
mod lloyd;
pub mod margin;
mod members;
mod region;
mod screen;
pub mod seed;
#[cfg(test)]
mod tests;

pub use cluster::{assign, cluster, draw, moved, KMeans};
pub use device::{Assigned, ClusterSums, KMeansDevice, Start};

/// Number of values per chunk of a sum of weights ([`seed`]), here and in
/// kernels/kmeans/launch.cuh. Another number changes the draws.
pub const CHUNK: usize = 256;

/// First words of a memory error, before the number of bytes.
pub const CLUSTERS: &str = "the clusters of the observations need";
