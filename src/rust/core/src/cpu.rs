//! The CPU as a device: a pool of threads.

use std::io;
use std::sync::mpsc;
use std::thread::JoinHandle;

use crate::error::{Error, Result};
use crate::memory;

/// A device that algorithms run on: the threads of the CPU, alone or with an accelerator. Each
/// algorithm extends this trait by its own operations. All devices return the same bits.
pub trait Device: Send + Sync {
    /// The threads for the host's part of the work.
    fn cpu(&self) -> &Cpu;
}

/// Bytes of address space of a thread: its stack, 2 MiB unless the user's environment sets another
/// size, and 256 KiB for the system's own data. Too small a value can end the process in a shortage
/// of memory.
const THREAD_BYTES: usize = 9 << 18;

/// A pool of threads.
pub struct Cpu {
    /// Dropped first, which makes the threads end.
    pool: rayon::ThreadPool,
    /// Dropped next, which waits for the threads, so that their memory is free afterwards.
    _threads: Threads,
}

/// The threads of a pool, joined on drop.
#[derive(Default)]
struct Threads(Vec<JoinHandle<()>>);

impl Drop for Threads {
    fn drop(&mut self) {
        for thread in self.0.drain(..) {
            // Panics go to the caller of `install`.
            let _ = thread.join();
        }
    }
}

impl Cpu {
    /// With `threads` threads.
    ///
    /// # Errors
    /// `Error::Input` for 0 threads, `Error::Memory` when the system refuses to start them.
    pub fn new(threads: usize) -> Result<Self> {
        if threads == 0 {
            return Err(Error::Input(
                "`threads` is 0, it needs to be at least 1".into(),
            ));
        }
        let mut started = Threads::default();
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|i| format!("gmhclust-{i}"))
            .spawn_handler(|thread| start(thread).map(|thread| started.0.push(thread)))
            .build();
        match pool {
            Ok(pool) => Ok(Self {
                pool,
                _threads: started,
            }),
            Err(error) => {
                let advice = "fewer `threads` need less memory";
                let message = format!("cannot start {threads} threads: {error}; {advice}");
                Err(Error::Memory(message))
            }
        }
    }
}

/// Starts a thread of a pool.
fn start(thread: rayon::ThreadBuilder) -> io::Result<JoinHandle<()>> {
    // A thread without memory for the system's own data ends the process. So memory is checked
    // before it starts, and nothing else happens until it runs.
    memory::room::<u8>("a thread needs", THREAD_BYTES)
        .map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    let mut builder = std::thread::Builder::new();
    if let Some(name) = thread.name() {
        builder = builder.name(name.into());
    }
    let (up, is_up) = mpsc::channel();
    let started = builder.spawn(move || {
        // Fails only if the receiver is gone.
        let _ = up.send(());
        thread.run();
    })?;
    // An error means that the thread has ended.
    let _ = is_up.recv();
    Ok(started)
}

impl Cpu {
    /// Runs `work` in the pool, so that rayon divides it among its threads.
    pub fn install<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.pool.install(work)
    }
}

impl Device for Cpu {
    fn cpu(&self) -> &Cpu {
        self
    }
}
