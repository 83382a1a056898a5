//! Device memory for the whitening factors of clusters.
//!
//! A factor's number is its cluster's *shape* in the wire format. Slabs of memory hold the factors;
//! a table on the device has the address of each slab.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DevicePtr};
use gmhclust_core::mahalanobis::packed::packed_len;

use super::wire::NO_SHAPE;
use crate::device::DriverResult;

/// Number of bytes of a slab. A larger slab wastes more memory; smaller slabs are allocated more
/// often, and the device has to wait for each allocation.
const SLAB_BYTES: usize = 1 << 26;

/// Whitening factors on the device.
pub struct Factors {
    /// Number of words of a factor.
    factor_len: usize,
    /// Number of factors in a slab.
    slab_shapes: usize,
    slabs: Vec<CudaSlice<f32>>,
    slab_table: CudaSlice<u64>,
    /// The table's address.
    address: u64,
    /// By slot, the number of its cluster's factor.
    shapes: Vec<u32>,
    free_shapes: Vec<u32>,
}

impl Factors {
    /// An empty set of factors, for clusters in slots below `slots` in `dimensions` dimensions.
    pub fn new(stream: &Arc<CudaStream>, slots: usize, dimensions: usize) -> DriverResult<Self> {
        let factor_len = packed_len(dimensions);
        let slab_table = stream.alloc_zeros(1)?;
        let address = slab_table.device_ptr(stream).0;
        Ok(Self {
            factor_len,
            slab_shapes: (SLAB_BYTES / 4 / factor_len).max(1),
            slabs: Vec::new(),
            slab_table,
            address,
            shapes: vec![NO_SHAPE; slots],
            free_shapes: Vec::new(),
        })
    }

    /// Number of factors in a slab.
    pub fn slab_shapes(&self) -> usize {
        self.slab_shapes
    }

    /// The address of the table of slabs.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Assigns memory to the factor of the cluster in a slot, and returns the factor's number.
    pub fn assign(&mut self, stream: &Arc<CudaStream>, slot: u32) -> DriverResult<u32> {
        if self.free_shapes.is_empty() {
            self.add_slab(stream)?;
        }
        let shape = self.free_shapes.pop().expect("a slab holds a shape");
        self.shapes[slot as usize] = shape;
        Ok(shape)
    }

    /// Frees the memory of the factor of the cluster in a slot, if it has one.
    pub fn release(&mut self, slot: u32) {
        let shape = std::mem::replace(&mut self.shapes[slot as usize], NO_SHAPE);
        if shape != NO_SHAPE {
            self.free_shapes.push(shape);
        }
    }

    fn add_slab(&mut self, stream: &Arc<CudaStream>) -> DriverResult<()> {
        let first = (self.slabs.len() * self.slab_shapes) as u32;
        // SAFETY: `update` writes a factor before a sweep reads it.
        let slab = unsafe { stream.alloc(self.slab_shapes * self.factor_len) }?;
        self.slabs.push(slab);
        let slabs = self.slabs.iter();
        let table: Vec<u64> = slabs.map(|slab| slab.device_ptr(stream).0).collect();
        self.slab_table = stream.clone_htod(&table)?;
        self.address = self.slab_table.device_ptr(stream).0;
        // The table on the host must outlive the copy.
        stream.synchronize()?;
        self.free_shapes
            .extend((first..first + self.slab_shapes as u32).rev());
        Ok(())
    }
}
