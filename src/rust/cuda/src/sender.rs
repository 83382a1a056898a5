//! Copies values from the host to a CUDA device, in the device's format.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, PinnedHostSlice};
use rayon::prelude::*;

use crate::device::{Device, DriverResult};
use crate::stored::OnDevice;
use gmhclust_core::error::Result;
use gmhclust_core::monitor::Monitor;
use gmhclust_core::Cpu;

/// Number of pinned buffers: while one is copied, the host fills another.
const BUFFERS: usize = 2;

/// Number of values that a thread copies at a time: small enough to share the work evenly.
const COPY_LEN: usize = 1 << 13;

/// Copies values to the device while the host prepares the next ones.
pub struct Sender<T> {
    device: Arc<Device>,
    buffers: Vec<(Arc<CudaStream>, PinnedHostSlice<T>)>,
    next: usize,
    /// Number of values in a buffer.
    len: usize,
}

impl<T: OnDevice> Sender<T> {
    /// A sender that copies at most `len` values at a time.
    ///
    /// # Errors
    /// `Error::Device` when the device fails.
    pub fn new(device: &Arc<Device>, len: usize) -> Result<Self> {
        let buffer = |_| {
            let stream = device.context.new_stream()?;
            // SAFETY: it is written before it is copied.
            let here = unsafe { device.context.alloc_pinned::<T>(len)? };
            Ok((stream, here))
        };
        let buffers = (0..BUFFERS).map(buffer).collect::<DriverResult<_>>();
        Ok(Self {
            device: device.clone(),
            buffers: buffers.map_err(|error| device.error("making room on the host", &error))?,
            next: 0,
            len,
        })
    }

    /// Copies values to the elements of `to` from `first` on.
    ///
    /// # Errors
    /// `Error::Interrupt` when the monitor says stop; `Error::Device` when the device fails.
    pub fn send(
        &mut self,
        to: &mut CudaSlice<T>,
        first: usize,
        values: &[f64],
        cpu: &Cpu,
        monitor: &Monitor,
    ) -> Result<()> {
        for (at, values) in (first..).step_by(self.len).zip(values.chunks(self.len)) {
            monitor.check()?;
            let (stream, here) = &mut self.buffers[self.next];
            self.next = (self.next + 1) % BUFFERS;
            let mut send = || -> DriverResult<()> {
                // The buffer's last values must have arrived.
                stream.synchronize()?;
                let here = &mut here.as_mut_slice()?[..values.len()];
                cpu.install(|| {
                    let parts = here
                        .par_chunks_mut(COPY_LEN)
                        .zip(values.par_chunks(COPY_LEN));
                    parts.for_each(|(here, values)| {
                        for (here, &value) in here.iter_mut().zip(values) {
                            *here = T::store(value);
                        }
                    });
                });
                stream.memcpy_htod(here, &mut to.slice_mut(at..at + values.len()))
            };
            send().map_err(|error| self.device.error("sending values", &error))?;
        }
        Ok(())
    }

    /// Waits until all values have arrived.
    ///
    /// # Errors
    /// `Error::Device` when the device fails.
    pub fn finish(&self) -> Result<()> {
        let mut streams = self.buffers.iter().map(|(stream, _)| stream);
        streams
            .try_for_each(|stream| stream.synchronize())
            .map_err(|error| self.device.error("sending values", &error))
    }
}

impl<T> Drop for Sender<T> {
    /// Buffers must outlive the copies from them.
    fn drop(&mut self) {
        for (stream, _) in &self.buffers {
            // A device that failed has nothing in progress.
            let _ = stream.synchronize();
        }
    }
}
