//! Copies values from the host to a CUDA device, in the format of the device.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::result::memcpy_htod_async;
use cudarc::driver::{CudaSlice, CudaStream, DevicePtrMut};
use rayon::prelude::*;

use crate::device::{Device, DriverResult};
use crate::pinned::Pinned;
use crate::stored::OnDevice;
use gmhclust_core::error::Result;
use gmhclust_core::monitor::Monitor;
use gmhclust_core::Cpu;

/// Number of values in a buffer, 256 kB of doubles. With more, allocating the buffers takes longer,
/// 0.4 ms per MB. With fewer, copies are too small for the bus.
const BUFFER_LEN: usize = 1 << 15;

/// Number of buffers for each thread: while one is copied to the device, the thread fills another.
const BUFFERS_PER_THREAD: usize = 2;

/// Why a sender has buffers.
const KEPT: &str = "only `drop` takes them";

/// Copies values to the device while the host prepares the next values. Each thread prepares values
/// in a buffer and starts their copy, without waiting for the other threads.
pub struct Sender<T: OnDevice> {
    device: Arc<Device>,
    /// `None` once `drop` has taken them.
    buffers: Option<Buffers<T>>,
}

struct Buffers<T> {
    memory: Pinned<T>,
    /// A stream for each buffer.
    streams: Vec<Arc<CudaStream>>,
    /// Number of values in a buffer.
    len: usize,
}

/// Pinned memory whose values are copied on the stream.
struct Buffer<'s, T> {
    here: &'s mut [T],
    stream: &'s CudaStream,
}

impl<T: OnDevice> Sender<T> {
    /// A sender for this many values, which the threads of `cpu` prepare, at least `unit` at a
    /// time. It uses the buffers of the device's last sender, if they suffice.
    ///
    /// # Errors
    /// `Error::Device` when the device fails.
    pub fn new(device: &Arc<Device>, values: usize, unit: usize, cpu: &Cpu) -> Result<Self> {
        Self::with_buffers(device, BUFFER_LEN.max(unit), values, cpu)
    }

    /// As [`Self::new`], for at most `len` values at a time.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_buffers(
        device: &Arc<Device>,
        len: usize,
        values: usize,
        cpu: &Cpu,
    ) -> Result<Self> {
        let count = (BUFFERS_PER_THREAD * cpu.threads()).min(values.div_ceil(len));
        let suffice = |kept: &Buffers<T>| kept.len == len && kept.streams.len() >= count;
        let buffers = match device.take_kept().filter(suffice) {
            Some(buffers) => Ok(buffers),
            None => Buffers::new(device, len, count.max(1)),
        };
        Ok(Self {
            device: device.clone(),
            buffers: Some(
                buffers.map_err(|error| device.error("making room on the host", &error))?,
            ),
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
    /// a multiple of `unit`. No other work on `to` may be in progress on the device.
    ///
    /// # Errors
    /// As [`Self::send`].
    ///
    /// # Panics
    /// If a buffer has no room for `unit` values, or `to` has no such elements.
    pub fn send_made(
        &mut self,
        to: &mut CudaSlice<T>,
        places: Range<usize>,
        unit: usize,
        make: impl Fn(usize, &mut [T]) + Sync,
        cpu: &Cpu,
        monitor: &Monitor,
    ) -> Result<()> {
        assert!(places.end <= to.len(), "the device has these elements");
        let device = &self.device;
        let Buffers {
            memory,
            streams,
            len,
        } = self.buffers.as_mut().expect(KEPT);
        let at_a_time = *len / unit * unit;
        let parts: Vec<usize> = (0..places.len()).step_by(at_a_time).collect();
        let address = to.device_ptr_mut(&streams[0]).0;
        let address = address + (places.start * size_of::<T>()) as u64;
        let buffers = memory.chunks_mut(*len).zip(&*streams);
        let buffers = buffers.map(|(here, stream)| Buffer { here, stream });
        let buffers = Mutex::new(buffers.collect::<VecDeque<_>>());
        let buffers = || buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let send = |first: usize, buffer: &mut Buffer<T>| -> DriverResult<()> {
            // The buffer's previous values must have arrived.
            buffer.stream.synchronize()?;
            let here = &mut buffer.here[..at_a_time.min(places.len() - first)];
            make(first, here);
            let there = address + (first * size_of::<T>()) as u64;
            // SAFETY: these are elements of `to`. This function waits for the copy before it ends
            // the borrows of `to` and of the buffer.
            unsafe { memcpy_htod_async(there, here, buffer.stream.cu_stream()) }
        };
        let sent = cpu.install(|| {
            parts.par_iter().with_max_len(1).try_for_each(|&first| {
                monitor.check()?;
                let mut buffer = buffers().pop_front().expect("one for each thread");
                let sent = send(first, &mut buffer);
                buffers().push_back(buffer);
                sent.map_err(|error| device.error("sending values", &error))
            })
        });
        let arrived = self.buffers.as_ref().expect(KEPT).wait();
        sent?;
        arrived.map_err(|error| device.error("sending values", &error))
    }
}

impl<T: OnDevice> Drop for Sender<T> {
    fn drop(&mut self) {
        if let Some(buffers) = self.buffers.take() {
            // Only after a panic there may be copies in progress.
            if buffers.wait().is_ok() {
                self.device.keep(buffers);
            }
        }
    }
}

impl<T: OnDevice> Buffers<T> {
    fn new(device: &Device, len: usize, count: usize) -> DriverResult<Self> {
        let streams = (0..count).map(|_| device.context.new_stream());
        Ok(Self {
            streams: streams.collect::<DriverResult<_>>()?,
            memory: Pinned::zeros(&device.context, len * count)?,
            len,
        })
    }

    /// Waits for all copies, also after an error.
    fn wait(&self) -> DriverResult<()> {
        let waited = self.streams.iter().map(|stream| stream.synchronize());
        waited.fold(Ok(()), DriverResult::and)
    }
}
