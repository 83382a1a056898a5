//! The observations on a device.

use std::sync::Arc;

use cudarc::driver::{
    CudaFunction, CudaSlice, CudaStream, CudaView, DevicePtr, DeviceRepr, DriverError,
};

use crate::device::{Device, DriverResult};
use crate::kernels;
use gmhclust_core::error::{Error, Result};
use gmhclust_core::matrix::RowSlices;
use gmhclust_core::observations::Observations;

/// Observations on a device.
pub struct DeviceObservations<'a> {
    pub device: &'a Device,
    pub stream: Arc<CudaStream>,
    pub x: &'a Observations,
    pub values: CudaSlice<f64>,
}

impl<'a> DeviceObservations<'a> {
    pub fn new(device: &'a Device, x: &'a Observations) -> Result<Self> {
        let copied = || -> DriverResult<_> {
            let stream = device.context.new_stream()?;
            let values = stream.clone_htod(x.values())?;
            // The host's copy must outlive the copying.
            stream.synchronize()?;
            Ok((stream, values))
        };
        let (stream, values) =
            copied().map_err(|error| device.error("copying observations", &error))?;
        Ok(Self {
            device,
            stream,
            x,
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
