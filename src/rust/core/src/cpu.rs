//! The CPU: a pool of threads that rayon divides work among.

use std::io;
use std::sync::mpsc;
use std::thread::JoinHandle;

use crate::error::{Error, Result};
use crate::memory;

/// What algorithms run on: the threads of the CPU, alone or with an accelerator beside them. Each
/// algorithm says in a trait of its own what else it asks of a device. Every device gives the same
/// answers, bit for bit.
pub trait Device: Send + Sync {
    /// The threads for the host's part of the work.
    fn cpu(&self) -> &Cpu;
}

/// Bytes of address space that a thread takes: its stack, 2 MiB unless the user's environment says
/// otherwise, and what the system keeps for it.
const THREAD_BYTES: usize = 9 << 18;

/// A pool of threads.
pub struct Cpu {
    /// Dropped first, which tells the threads to end.
    pool: rayon::ThreadPool,
    /// Dropped next, so that the next computation finds their memory free.
    _threads: Threads,
}

/// The threads of a pool; where they are dropped, they have been told to end.
#[derive(Default)]
struct Threads(Vec<JoinHandle<()>>);

impl Drop for Threads {
    fn drop(&mut self) {
        for thread in self.0.drain(..) {
            // The pool hands panics to those who gave the work.
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
    // A thread that has no memory for what the system keeps for it ends the process. So there must
    // be enough before it starts, and nothing else is done until it has.
    memory::room::<u8>("a thread needs", THREAD_BYTES)
        .map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    let mut builder = std::thread::Builder::new();
    if let Some(name) = thread.name() {
        builder = builder.name(name.into());
    }
    let (up, is_up) = mpsc::channel();
    let started = builder.spawn(move || {
        // Nobody listens where the starter has gone.
        let _ = up.send(());
        thread.run();
    })?;
    // An error would mean that it has ended.
    let _ = is_up.recv();
    Ok(started)
}

impl Cpu {
    /// Runs `work` where rayon divides it among the threads of the pool.
    pub fn install<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.pool.install(work)
    }
}

impl Device for Cpu {
    fn cpu(&self) -> &Cpu {
        self
    }
}
