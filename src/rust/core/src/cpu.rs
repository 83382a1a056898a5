//! The CPU as a device: a pool of threads.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::memory;

/// A device that algorithms run on: the threads of the CPU, alone or with an accelerator. Each
/// algorithm extends this trait by its own operations. All devices return the same bits.
pub trait Device: Send + Sync {
    /// The user's name of the device, for example `"cpu"`.
    fn name(&self) -> &'static str;

    /// The threads for the host's part of the work.
    fn cpu(&self) -> &Cpu;

    /// Called when work on the device has failed, before the caller gets the error.
    fn failed(&self, _: &Error) {}
}

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
    /// A pool of `threads` threads.
    ///
    /// # Errors
    /// `Error::Input` for 0 threads, `Error::Memory` if the system refuses to start them.
    pub fn new(threads: usize) -> Result<Self> {
        if threads == 0 {
            return Err(Error::Input("`threads` is 0; it must be at least 1".into()));
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
    // Nothing else happens between the check and the start.
    memory::check_room_for_thread().map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
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
    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// Runs `work` in the pool, so that rayon divides it among its threads.
    pub fn install<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.pool.install(work)
    }

    /// As [`install`](Self::install), for work that often divides small tasks among the threads.
    /// The threads stay awake, so that they begin within about a microsecond. A sleeping thread
    /// needs 50 µs.
    pub fn install_awake<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let is_done = &AtomicBool::new(false);
        self.pool.install(|| {
            rayon::in_place_scope(|scope| {
                for _ in 1..rayon::current_num_threads() {
                    scope.spawn(move |_| help_until(is_done));
                }
                let _ends = SetOnDrop(is_done);
                work()
            })
        })
    }
}

/// Time without work after which a thread sleeps between checks for work. Only the time depends on
/// it.
const MOST_SPINNING: Duration = Duration::from_millis(1);
/// Time that a thread without work sleeps between two checks. Only the time depends on it.
const NAP: Duration = Duration::from_micros(50);
/// Number of pause instructions between two checks for work: many threads that check all the time
/// slow the threads that work. Only the time depends on it.
const PAUSES: usize = 8;

/// Helps with the tasks of the pool until `is_done`.
fn help_until(is_done: &AtomicBool) {
    let mut idle_since = Instant::now();
    while !is_done.load(Ordering::Relaxed) {
        if rayon::yield_now() == Some(rayon::Yield::Executed) {
            idle_since = Instant::now();
        } else if idle_since.elapsed() < MOST_SPINNING {
            for _ in 0..PAUSES {
                std::hint::spin_loop();
            }
        } else {
            std::thread::sleep(NAP);
        }
    }
}

/// Sets a flag on drop, also if the work panics.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Device for Cpu {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn cpu(&self) -> &Cpu {
        self
    }
}

#[cfg(test)]
mod tests {
    use rayon::prelude::*;

    use super::*;

    #[test]
    fn awake_threads_do_what_is_divided_among_them() {
        for threads in [1, 2, 5] {
            let cpu = Cpu::new(threads).unwrap();
            let sums = cpu.install_awake(|| {
                let sum = |n: u64| (0..n).into_par_iter().sum::<u64>();
                (0..100).map(sum).sum::<u64>()
            });
            assert_eq!(sums, 161_700);
            // Also tests the time after a pause in which the threads take naps.
            let late = cpu.install_awake(|| {
                std::thread::sleep(3 * MOST_SPINNING);
                rayon::join(|| 1, || 2)
            });
            assert_eq!(late, (1, 2));
        }
    }

    #[test]
    fn awake_threads_rest_after_a_panic() {
        let cpu = Cpu::new(2).unwrap();
        let panics = || cpu.install_awake(|| -> () { panic!("on purpose") });
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        assert_eq!(cpu.install(|| 3), 3);
    }
}
