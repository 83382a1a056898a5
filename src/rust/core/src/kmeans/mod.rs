//! k-means by Lloyd's algorithm (IEEE Transactions on Information Theory 28, 1982), exactly.
//!
//! Every assignment is that of comparing an observation with all centers: the nearest one has the
//! least sum of squares, in double precision and in the order of the coordinates; of several the
//! one with the smallest number. Every center is the sum of its members in the order of their
//! numbers, divided by how many they are. These are the very operations of R's
//! `kmeans(algorithm = "Lloyd")`.
//!
//! Where centers have moved little, bounds on an observation's distances to its own center and to
//! all others prove that it stays (Hamerly, SIAM International Conference on Data Mining, 2010).
//! For the other observations the centers are searched as nearest neighbours are. No search looks
//! farther than to the two centers that were the nearest ones before. A GPU spares nothing: it
//! compares everything in double precision (kernels/kmeans.cu), to the same result.

#[cfg(any(test, feature = "testing"))]
pub mod checks;
pub mod cluster;
pub mod cpu;
pub mod device;
pub mod lloyd;
mod margin;
mod members;
pub mod seed;
#[cfg(test)]
mod tests;

pub use cluster::{cluster, Partition};
pub use device::{Assigned, KMeansDevice, Start};
