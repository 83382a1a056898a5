//! The number types in which a device stores dissimilarities.

use cudarc::driver::DeviceRepr;
use gmhclust_core::linkage::condensed::Stored;

use crate::kernels::{self, Kernels};
use crate::pinned::AnyBits;

/// A number type in which a device stores dissimilarities.
pub trait OnDevice: Stored + AnyBits + DeviceRepr + Unpin {
    const KERNELS: &'static Kernels;
}

impl OnDevice for f64 {
    const KERNELS: &'static Kernels = &kernels::DISSIMILARITIES_DOUBLE;
}

impl OnDevice for f32 {
    const KERNELS: &'static Kernels = &kernels::DISSIMILARITIES_SINGLE;
}
