//! Observations in device memory.

use std::sync::Arc;

use cudarc::driver::{
    CudaFunction, CudaSlice, CudaStream, CudaView, DevicePtr, DeviceRepr, DriverError,
};

use crate::device::{Device, DriverResult};
use crate::kernels;
use crate::sender::Sender;
use gmhclust_core::error::{Error, Result};
use gmhclust_core::lazy_rows::LazyRows;
use gmhclust_core::matrix::copy_from_row;
use gmhclust_core::monitor::Monitor;
use gmhclust_core::Cpu;

/// Observations in a device's memory.
pub struct DeviceObservations<'a> {
    pub device: &'a Device,
    pub stream: Arc<CudaStream>,
    pub rows: usize,
    pub columns: usize,
    pub values: CudaSlice<f64>,
}

impl<'a> DeviceObservations<'a> {
    /// Copies the observations to the device, by the threads of `cpu`.
    ///
    /// # Errors
    /// `Error::Interrupt` when the monitor says stop; `Error::Device` when the device fails.
    pub fn new(
        device: &'a Arc<Device>,
        x: &LazyRows,
        cpu: &Cpu,
        monitor: &Monitor,
    ) -> Result<Self> {
        let (rows, columns) = x.dim();
        let count = rows * columns;
        let allocated = || -> DriverResult<_> {
            let stream = device.context.new_stream()?;
            // SAFETY: this function writes all values.
            let values = unsafe { stream.alloc::<f64>(count)? };
            // Copies on other streams must not begin before the allocation of this stream.
            stream.synchronize()?;
            Ok((stream, values))
        };
        let (stream, mut values) =
            allocated().map_err(|error| device.error("copying observations", &error))?;
        let mut sender = Sender::new(device, count, columns, cpu)?;
        x.read(|view, visit| {
            let copy = |at: usize, here: &mut [f64]| {
                copy_from_row(here, at / columns, view);
                visit(here);
            };
            sender.send_made(&mut values, 0..count, copy, cpu, monitor)
        })?;
        Ok(Self {
            device,
            stream,
            rows,
            columns,
            values,
        })
    }

    pub fn error(&self, error: &DriverError) -> Error {
        self.device.error("k-means", error)
    }

    pub fn kernel(&self, name: &str) -> Result<CudaFunction> {
        self.device.kernel(&kernels::KMEANS, name)
    }

    /// The address of a buffer on the device.
    pub fn at<T>(&self, buffer: &CudaSlice<T>) -> u64 {
        buffer.device_ptr(&self.stream).0
    }

    /// Copies values to the host.
    pub fn fetch<T: DeviceRepr>(&self, there: &CudaView<T>, here: &mut [T]) -> Result<()> {
        self.stream
            .memcpy_dtoh(there, here)
            .and_then(|()| self.stream.synchronize())
            .map_err(|error| self.error(&error))
    }
}
