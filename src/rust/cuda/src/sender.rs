//! Sends what the host has to a CUDA device, as it is stored there.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DriverError, PinnedHostSlice};
use rayon::prelude::*;

use crate::device::Device;
use crate::stored::OnDevice;
use gmhclust_core::error::Result;
use gmhclust_core::monitor::Monitor;
use gmhclust_core::Cpu;

/// Places on the host for what is sent over.
const ABREAST: usize = 2;

/// Values that a thread copies at a time.
const COPY: usize = 1 << 16;

/// Sends values over while the host prepares the next ones.
pub struct Sender<T> {
    device: Arc<Device>,
    places: Vec<(Arc<CudaStream>, PinnedHostSlice<T>)>,
    next: usize,
    room: usize,
}

impl<T: OnDevice> Sender<T> {
    /// Sends at most `room` values at a time.
    ///
    /// # Errors
    /// `Error::Device` when the device fails.
    pub fn new(device: &Arc<Device>, room: usize) -> Result<Self> {
        let place = |_| {
            let stream = device.context.new_stream()?;
            // SAFETY: it is written before it is sent over.
            let here = unsafe { device.context.alloc_pinned::<T>(room)? };
            Ok((stream, here))
        };
        let places = (0..ABREAST)
            .map(place)
            .collect::<std::result::Result<_, _>>();
        Ok(Self {
            device: device.clone(),
            places: places.map_err(|error| device.error("making room on the host", &error))?,
            next: 0,
            room,
        })
    }

    /// Sends values to where they are stored from `first` on.
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
        for (at, values) in (first..).step_by(self.room).zip(values.chunks(self.room)) {
            monitor.check()?;
            let (stream, here) = &mut self.places[self.next];
            self.next = (self.next + 1) % ABREAST;
            let mut send = || -> std::result::Result<(), DriverError> {
                // What was there before is to have arrived.
                stream.synchronize()?;
                let here = &mut here.as_mut_slice()?[..values.len()];
                cpu.install(|| {
                    let parts = here.par_chunks_mut(COPY).zip(values.par_chunks(COPY));
                    parts.for_each(|(here, values)| {
                        for (here, &value) in here.iter_mut().zip(values) {
                            *here = T::store(value);
                        }
                    });
                });
                stream.memcpy_htod(here, &mut to.slice_mut(at..at + values.len()))
            };
            send().map_err(|error| self.device.error("sending dissimilarities", &error))?;
        }
        Ok(())
    }

    /// Waits until all have arrived.
    ///
    /// # Errors
    /// `Error::Device` when the device fails.
    pub fn finish(&self) -> Result<()> {
        let mut streams = self.places.iter().map(|(stream, _)| stream);
        streams
            .try_for_each(|stream| stream.synchronize())
            .map_err(|error| self.device.error("sending dissimilarities", &error))
    }
}

impl<T> Drop for Sender<T> {
    /// What a copy is still at must not be freed.
    fn drop(&mut self) {
        for (stream, _) in &self.places {
            // A device that failed has nothing under way.
            let _ = stream.synchronize();
        }
    }
}
