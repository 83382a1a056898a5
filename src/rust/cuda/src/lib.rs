//! The devices of gmhclust-core on NVIDIA GPUs.
//!
//! [`Cuda`] implements what each algorithm asks of a device: screens for clusters ([`screen`]) and
//! whole problems in thread blocks ([`blocks`]), searches for neighbours ([`neighbours`]), distances
//! ([`distances`]), dissimilarities of clusters ([`dissimilarities`]) and k-means ([`kmeans`]). It
//! does all that the devices are able to do; whether that pays is for the caller to say.
//!
//! [`device`] opens devices and loads kernels; nothing above it sees a context.

mod arguments;
mod blocks;
mod budget;
mod chain;
mod cuda;
mod device;
mod dissimilarities;
mod distances;
#[cfg(test)]
mod host;
mod join;
mod kernels;
mod kmeans;
mod neighbours;
mod screen;
mod sender;
mod stored;
#[cfg(test)]
mod tests;

pub use cuda::{Cuda, Handover};
pub use device::{devices, DeviceInfo};
