//! Waits for the end of work on a stream.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use cudarc::driver::sys::{self, CUresult};
use cudarc::driver::CudaStream;

use crate::device::DriverResult;

/// Time between two polls of a stream.
pub const POLL_INTERVAL: Duration = Duration::from_micros(100);

/// Duration of a wait during which a thread does not sleep between two polls.
const SHORT_WAIT: Duration = Duration::from_micros(300);

/// Waits for the end of the work on a stream. Polls, since a wait of the driver keeps a core busy.
///
/// # Errors
/// The error of the work.
pub fn wait_for(stream: &CudaStream) -> DriverResult<()> {
    stream.context().bind_to_thread()?;
    let begun = Instant::now();
    loop {
        // SAFETY: the stream is alive.
        match unsafe { sys::cuStreamQuery(stream.cu_stream()) } {
            CUresult::CUDA_ERROR_NOT_READY => {}
            ended => return ended.result(),
        }
        if begun.elapsed() > SHORT_WAIT {
            thread::sleep(POLL_INTERVAL);
        }
    }
}

/// A wait at the end of a scope. Memory of the stream that is freed before is then free for other
/// processes and for `Device::free_memory`: the driver gives freed memory back when the stream is
/// synchronized next.
pub struct WaitOnDrop(pub Arc<CudaStream>);

impl Drop for WaitOnDrop {
    fn drop(&mut self) {
        // A device that failed has nothing in progress.
        let _ = wait_for(&self.0).and_then(|()| self.0.synchronize());
    }
}
