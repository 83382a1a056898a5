//! Copies values from the host to a CUDA device, in the format of the device.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream};
use rayon::prelude::*;

use crate::device::{Device, DriverResult};
use crate::pinned::Pinned;
use crate::stored::OnDevice;
use gmhclust_core::error::Result;
use gmhclust_core::monitor::Monitor;
use gmhclust_core::Cpu;

/// Number of pinned buffers. While one buffer is copied, the host fills another.
const BUFFERS: usize = 2;

/// Number of values that a thread copies at a time. It is small enough to share the work evenly.
const COPY_LEN: usize = 1 << 13;

/// Smallest and largest number of values that the host prepares for a device at a time: 2 to 8 MB.
/// If they are larger, allocating the buffers takes longer, 0.4 ms per MB. If they are smaller,
/// threads wait for each other more often.
const SENT: [usize; 2] = [1 << 18, 1 << 20];

/// Number of parts in which the host prepares all values, within the bounds of [`SENT`].
const TIMES: usize = 64;

/// Copies values to the device while the host prepares the next values.
pub struct Sender<T> {
    device: Arc<Device>,
    buffers: Vec<(Arc<CudaStream>, Pinned<T>)>,
    next: usize,
    /// Number of values in a buffer.
    len: usize,
}

impl<T: OnDevice> Sender<T> {
    /// A sender for about this many values, `unit` or more at a time.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_many(device: &Arc<Device>, values: usize, unit: usize) -> Result<Self> {
        let len = (values / TIMES).clamp(SENT[0], SENT[1]).min(values);
        Self::new(device, len.max(unit))
    }

    /// A sender that copies at most `len` values at a time.
    ///
    /// # Errors
    /// `Error::Device` when the device fails.
    pub fn new(device: &Arc<Device>, len: usize) -> Result<Self> {
        let buffer = |_| {
            let stream = device.context.new_stream()?;
            Ok((stream, Pinned::zeros(&device.context, len)?))
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
        let copy = |at: usize, here: &mut [T]| {
            for (here, &value) in here.iter_mut().zip(&values[at..]) {
                *here = T::store(value);
            }
        };
        let places = first..first + values.len();
        self.send_made(to, places, 1, copy, cpu, monitor)
    }

    /// Copies values to the elements `places` of `to`. The CPU's threads call `make`, which writes
    /// the values of a part. Its argument is the index of the part's first value among all values,
    /// a multiple of `unit`.
    ///
    /// # Errors
    /// As [`Self::send`].
    ///
    /// # Panics
    /// If a buffer has no room for `unit` values.
    pub fn send_made(
        &mut self,
        to: &mut CudaSlice<T>,
        places: Range<usize>,
        unit: usize,
        make: impl Fn(usize, &mut [T]) + Sync,
        cpu: &Cpu,
        monitor: &Monitor,
    ) -> Result<()> {
        let at_a_time = self.len / unit * unit;
        let copied = (COPY_LEN / unit).max(1) * unit;
        for first in places.clone().step_by(at_a_time) {
            monitor.check()?;
            let some = first..places.end.min(first + at_a_time);
            let (stream, here) = &mut self.buffers[self.next];
            self.next = (self.next + 1) % BUFFERS;
            let send = || -> DriverResult<()> {
                // The buffer's previous values must have arrived.
                stream.synchronize()?;
                let here = &mut here[..some.len()];
                cpu.install(|| {
                    let parts = here.par_chunks_mut(copied).enumerate();
                    parts.for_each(|(n, part)| make(first - places.start + n * copied, part));
                });
                stream.memcpy_htod(here, &mut to.slice_mut(some))
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
    /// Waits for the copies from the buffers.
    fn drop(&mut self) {
        for (stream, _) in &self.buffers {
            // A device that failed has nothing in progress.
            let _ = stream.synchronize();
        }
    }
}
