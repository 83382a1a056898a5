//! The nearest references of many queries, exactly.
//!
//! The answers are those of the distances that decide, in double precision and one order of
//! operations, with ties going to the smaller index: they do not depend on the device, on the
//! number of threads or on what a device rules out beforehand ([`single`] says how that can
//! be done in single precision).

pub mod centroids;
pub mod cpu;
pub mod device;
pub mod request;
pub mod single;
pub mod space;

pub use centroids::Centroids;
pub use device::{NeighbourDevice, Neighbours, Take};
pub use request::{Except, Nearest, Request};
pub use space::{refuse, suspects, Space};
