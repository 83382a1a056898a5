//! The number types in which a device stores dissimilarities.

use cudarc::driver::{DeviceRepr, ValidAsZeroBits};
use gmhclust_core::linkage::condensed::Stored;

use crate::kernels::{self, Kernels};

/// A number type in which a device stores dissimilarities.
pub trait OnDevice: Stored + DeviceRepr + ValidAsZeroBits + Unpin {
    const KERNELS: &'static Kernels;
}

impl OnDevice for f64 {
    const KERNELS: &'static Kernels = &kernels::DISSIMILARITIES_DOUBLE;
}

impl OnDevice for f32 {
    const KERNELS: &'static Kernels = &kernels::DISSIMILARITIES_SINGLE;
}
