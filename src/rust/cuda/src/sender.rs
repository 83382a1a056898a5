//! Copies values from the host to a CUDA device, in the format of the device.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::result::memcpy_htod_async;
use cudarc::driver::{CudaSlice, CudaStream, DevicePtrMut};

use crate::device::{Device, DriverResult};
use crate::pinned::Pinned;
use crate::stored::OnDevice;
use gmhclust_core::error::Result;
use gmhclust_core::monitor::Monitor;
use gmhclust_core::tasks::run_from_queue;
use gmhclust_core::Cpu;

/// Number of values in a buffer, 256 kB of doubles. With more, allocating the buffers takes longer,
/// 0.4 ms per MB. With fewer, copies are too small for the bus.
const BUFFER_LEN: usize = 1 << 15;

/// Number of buffers of a thread: while one is copied to the device, the thread fills the other.
const BUFFERS_PER_THREAD: usize = 2;

/// Largest number of values in all buffers, 32 MB of doubles, unless one thread needs more.
const MOST_VALUES: usize = 1 << 22;

/// The message of a panic if a sender has no buffers.
const KEPT: &str = "only `drop` takes them";

/// Copies values to the device while the host prepares the next values. Each thread prepares values
/// in buffers of its own and starts their copies, without waiting for the other threads.
pub struct Sender<T: OnDevice> {
    device: Arc<Device>,
    /// `None` once `drop` has taken them.
    buffers: Option<Buffers<T>>,
}

/// Buffers, [`BUFFERS_PER_THREAD`] for each thread.
struct Buffers<T> {
    memory: Pinned<T>,
    /// A stream for each buffer.
    streams: Vec<Arc<CudaStream>>,
    /// Number of values in a buffer, whole units.
    len: usize,
}

/// The buffers of a thread.
struct OfThread<'b, T> {
    memory: &'b mut [T],
    streams: &'b [Arc<CudaStream>],
    /// The buffer to fill next.
    next: usize,
}

impl<T: OnDevice> Sender<T> {
    /// A sender of values, in units of `unit` values, which the threads of `cpu` prepare. `values`
    /// is their number, approximately. It uses the buffers of the device's last sender, if they
    /// suffice.
    ///
    /// # Errors
    /// `Error::Memory` if there is too little pinned memory, `Error::Device` when the device fails.
    pub fn new(device: &Arc<Device>, values: usize, unit: usize, cpu: &Cpu) -> Result<Self> {
        Self::with_buffers(device, values, unit, BUFFER_LEN, cpu)
    }

    /// As [`Self::new`], with about `len` values in a buffer.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_buffers(
        device: &Arc<Device>,
        values: usize,
        unit: usize,
        len: usize,
        cpu: &Cpu,
    ) -> Result<Self> {
        let len = (len / unit).max(1) * unit;
        let of_thread = BUFFERS_PER_THREAD * len;
        let most = cpu.threads().min(MOST_VALUES / of_thread);
        let threads = values.div_ceil(of_thread).min(most).max(1);
        let count = BUFFERS_PER_THREAD * threads;
        let suffice = |kept: &Buffers<T>| kept.len == len && kept.streams.len() >= count;
        let buffers = match device.take_kept().filter(suffice) {
            Some(buffers) => Ok(buffers),
            None => Buffers::new(device, len, count),
        };
        let buffers = buffers.map_err(|error| device.error("making room on the host", &error))?;
        Ok(Self {
            device: device.clone(),
            buffers: Some(buffers),
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
        self.send_made(to, places, copy, cpu, monitor)
    }

    /// Copies values to the elements `places` of `to`. The CPU's threads call `make`, which writes
    /// the values of a part. Its argument is the index of the part's first value among all values,
    /// a multiple of the unit. The device may use other elements of `to` meanwhile, but not these.
    ///
    /// # Errors
    /// As [`Self::send`].
    ///
    /// # Panics
    /// If `to` has no such elements.
    pub fn send_made(
        &mut self,
        to: &mut CudaSlice<T>,
        places: Range<usize>,
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
        let len = *len;
        let address = to.device_ptr_mut(&streams[0]).0;
        let address = address + (places.start * size_of::<T>()) as u64;
        let memory = memory.chunks_exact_mut(BUFFERS_PER_THREAD * len);
        let of_threads = memory.zip(streams.chunks_exact(BUFFERS_PER_THREAD));
        let of_threads = of_threads.map(|(memory, streams)| OfThread {
            memory,
            streams,
            next: 0,
        });
        let mut of_threads: Vec<OfThread<T>> = of_threads.collect();
        let send = |of_thread: &mut OfThread<T>, first: usize| -> DriverResult<()> {
            let buffer = of_thread.next;
            of_thread.next = (buffer + 1) % BUFFERS_PER_THREAD;
            let stream = &of_thread.streams[buffer];
            // The buffer's previous values must have arrived.
            stream.synchronize()?;
            let here = &mut of_thread.memory[buffer * len..][..len.min(places.len() - first)];
            make(first, here);
            let there = address + (first * size_of::<T>()) as u64;
            // SAFETY: these are elements of `to`. This function waits for the copy before it ends
            // the borrows of `to` and of the buffer.
            unsafe { memcpy_htod_async(there, here, stream.cu_stream()) }
        };
        let parts: Vec<usize> = (0..places.len()).step_by(len).collect();
        let sent = cpu.install(|| {
            run_from_queue(parts, &mut of_threads, |of_thread, first| {
                monitor.check()?;
                let sent = send(of_thread, first);
                sent.map_err(|error| device.error("sending values", &error))
            })
        });
        let arrived = self.buffers.as_ref().expect(KEPT).wait();
        sent?;
        arrived.map_err(|error| self.device.error("sending values", &error))
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
            memory: Pinned::new(&device.context, len * count)?,
            len,
        })
    }

    /// Waits for all copies, also after an error.
    fn wait(&self) -> DriverResult<()> {
        let waited = self.streams.iter().map(|stream| stream.synchronize());
        waited.fold(Ok(()), DriverResult::and)
    }
}
