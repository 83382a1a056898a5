//! Products of halves on the tensor cores of a CUDA device, for [`super::neighbours`];
//! kernels/products.cu says how.

use std::sync::Arc;

use cudarc::driver::sys::CUfunction_attribute as Attribute;
use cudarc::driver::{
    CudaFunction, CudaSlice, CudaStream, DeviceRepr, DriverError, LaunchConfig, PushKernelArg,
};
use rayon::prelude::*;

use super::device::Device;
use super::kernels;
use crate::backend::cpu::CpuNeighbours;
use crate::backend::single::{half_bits, Frame, Scalars, Sums};
use crate::error::Result;

// As in products.cu.
const QUERIES: u32 = 128;
const REFERENCES: u32 = 256;
const THREADS: u32 = 256;
const DEPTH: u32 = 32;
const STAGES: u32 = 4;
const STEP: usize = 16;

/// Tiles of references that a block goes through, at most: then what it loads at first costs little,
/// and blocks that run side by side share what they load.
const MOST_TILES: u32 = 16;

/// Blocks for each multiprocessor, at least, where there is so much to do.
const BLOCKS: u32 = 8;

/// As struct Products in products.cu.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Products {
    pub references: u64,
    pub queries: u64,
    pub positions: u64,
    pub allowances: u64,
    pub factor: u64,
    pub groups: u64,
    pub query_groups: u64,
    pub slopes: u64,
    pub bases: u64,
    pub candidates: u64,
    pub counts: u64,
    pub width: u32,
    pub query_count: u32,
    pub room: u32,
    pub first: u32,
    pub last: u32,
    pub tiles: u32,
}

// SAFETY: plain old data, laid out as in products.cu.
unsafe impl DeviceRepr for Products {}

/// The kernel for a frame in halves.
pub struct Collect {
    kernel: CudaFunction,
    multiprocessors: u32,
}

impl Collect {
    /// # Errors
    /// `Error::Device` when the device fails.
    pub fn new(device: &Device, frame: &Frame) -> Result<Self> {
        let module = match frame.sums() {
            Sums::AbsoluteProducts => &kernels::PRODUCTS_ABSOLUTE,
            _ => &kernels::PRODUCTS,
        };
        let kernel = device.kernel(module, "collect")?;
        let failed = |error: DriverError| device.error("preparing a search", &error);
        let most = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        kernel
            .set_attribute(most, shared_bytes() as i32)
            .map_err(failed)?;
        Ok(Self {
            kernel,
            multiprocessors: device.multiprocessors().map_err(failed)?,
        })
    }

    /// Collects candidates among some references.
    ///
    /// # Safety
    /// What `products` points to must have the sizes that it says, on the stream's device, until
    /// the stream is synchronized.
    pub unsafe fn launch(
        &self,
        stream: &Arc<CudaStream>,
        products: &Products,
    ) -> std::result::Result<(), DriverError> {
        let down = products.query_count.div_ceil(QUERIES);
        let across = (products.last - products.first).div_ceil(REFERENCES);
        let enough = BLOCKS * self.multiprocessors;
        let tiles = (down * across / enough).clamp(1, MOST_TILES);
        let products = Products { tiles, ..*products };
        // SAFETY: arguments as declared in products.cu; the caller promises the rest.
        unsafe {
            stream
                .launch_builder(&self.kernel)
                .arg(&products)
                .launch(LaunchConfig {
                    grid_dim: (down, across.div_ceil(tiles), 1),
                    block_dim: (THREADS, 1, 1),
                    shared_mem_bytes: shared_bytes(),
                })?;
        }
        Ok(())
    }
}

fn shared_bytes() -> u32 {
    STAGES * (QUERIES + REFERENCES) * DEPTH * 2
}

/// Coordinates of a view on the device.
pub fn width(frame: &Frame) -> usize {
    frame.columns().next_multiple_of(STEP)
}

/// The coordinates of some rows, row after row, as bits of halves, and the scalars.
pub fn views(frame: &Frame, host: &CpuNeighbours, indices: &[u32]) -> (Vec<u16>, Vec<Scalars>) {
    let width = width(frame);
    let mut halves = vec![0; indices.len() * width];
    let views = halves.par_chunks_mut(width).zip(indices);
    let view = |(view, &index): (&mut [u16], &u32)| {
        let (row, size) = host.row(index);
        frame.write(row, size, |k, value| view[k] = half_bits(value))
    };
    let scalars = views.map(view).collect();
    (halves, scalars)
}

/// The same on the device.
pub fn copy(
    stream: &Arc<CudaStream>,
    halves: &[u16],
) -> std::result::Result<CudaSlice<u16>, DriverError> {
    let copy = stream.clone_htod(halves)?;
    // The host's copy must outlive the copying.
    stream.synchronize()?;
    Ok(copy)
}
