//! Loses GPUs on purpose, for the tests of this crate and of the crates above it.
//!
//! A kernel that traps destroys its context, as a kernel that fails does. It also destroys the
//! contexts of this process on other devices. A process may not get another context, so each case
//! runs in a new process.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use cudarc::driver::{CudaFunction, CudaStream, LaunchConfig};
use cudarc::nvrtc::Ptx;
use gmhclust_core::Monitor;

use crate::device::Device;

/// The environment variable with the number of the case that a process runs.
const CASE: &str = "GMHCLUST_TEST_CASE";

/// Seconds after which a process that runs a case counts as hanging. A case takes far less time,
/// even on a busy machine.
const MOST_SECONDS: u64 = 600;

/// Exit status of a process whose case passed. It differs from 0, the status of a test program that
/// finds no test of the name.
const PASSED: i32 = 4;

/// Exit status of a process whose work ended before the device was lost.
const TOO_LATE: i32 = 3;

/// Largest number of processes for a case, until one loses its device in time. On a fast device, a
/// search may end between two polls of its progress.
const TRIES: usize = 8;

/// Runs the cases 0 to `cases` − 1 of the ignored test with this name, each in a new process. The
/// test consists of this call.
///
/// # Panics
/// If a case fails.
pub fn in_processes(test: &str, cases: usize, run: impl FnOnce(usize)) {
    let failed = failed_in_processes(test, cases, run);
    assert!(failed.is_empty(), "{test}: {failed:?} of {cases} cases");
}

/// As [`in_processes`], but returns the cases that failed.
fn failed_in_processes(test: &str, cases: usize, run: impl FnOnce(usize)) -> Vec<usize> {
    if let Ok(case) = std::env::var(CASE) {
        run(case.parse().unwrap());
        std::process::exit(PASSED);
    }
    let passes = |&case: &usize| {
        let mut tries = (0..TRIES).map(|_| exit_status(test, case));
        tries.find(|&status| status != Some(TOO_LATE)) == Some(Some(PASSED))
    };
    (0..cases).filter(|case| !passes(case)).collect()
}

/// The exit status of a process that runs a case; `None` if a signal ended it.
fn exit_status(test: &str, case: usize) -> Option<i32> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--include-ignored", "--exact", "--nocapture", test])
        .env(CASE, case.to_string())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(MOST_SECONDS);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("case {case} of {test} hangs");
        }
        sleep(Duration::from_millis(20));
    }
}

/// Ends the process of a case whose work was done before the device was lost. The case is tried
/// again.
pub fn too_late(loss: Loss) -> ! {
    eprintln!("{loss:?}: the device was not lost in time");
    std::process::exit(TOO_LATE);
}

/// The time at which a device is lost.
#[derive(Debug, Clone, Copy)]
pub enum Loss {
    /// Before the work begins.
    Before,
    /// As soon as more than this percentage of the expected work is done.
    During(u64),
}

/// The losses that every kind of work is tested with.
pub const LOSSES: [Loss; 3] = [Loss::Before, Loss::During(0), Loss::During(20)];

/// Does some work, during which this process loses a device. The work reports its progress to
/// `monitor`. Returns the result of the work.
pub fn lose<T>(device: usize, loss: Loss, monitor: &Monitor, work: impl FnOnce() -> T) -> T {
    let trap = Trap::new(device);
    interrupt(loss, monitor, || trap.spring(), work)
}

/// Does some work, and calls `event` at the time of the loss, or at the end of the work if the end
/// comes first. Returns the result of the work.
fn interrupt<T>(
    loss: Loss,
    monitor: &Monitor,
    event: impl FnOnce() + Send,
    work: impl FnOnce() -> T,
) -> T {
    let hundredths = match loss {
        Loss::Before => {
            event();
            return work();
        }
        Loss::During(hundredths) => hundredths,
    };
    let ended = AtomicBool::new(false);
    scope(|scope| {
        scope.spawn(|| {
            let is_due = || {
                let (done, expected) = monitor.progress();
                done > 0 && 100 * done > hundredths * expected
            };
            while !is_due() && !ended.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            event();
        });
        let result = work();
        ended.store(true, Ordering::Relaxed);
        result
    })
}

/// A kernel that destroys the context of a device.
struct Trap {
    stream: Arc<CudaStream>,
    kernel: CudaFunction,
}

impl Trap {
    fn new(device: usize) -> Self {
        let source = ".version 7.0\n.target sm_70\n.address_size 64\n\
                      .visible .entry lose() {\n    trap;\n}\n";
        let context = &Device::shared(device).unwrap().context;
        let module = context.load_module(Ptx::from_src(source)).unwrap();
        Self {
            stream: context.new_stream().unwrap(),
            kernel: module.load_function("lose").unwrap(),
        }
    }

    fn spring(self) {
        let config = LaunchConfig::for_num_elems(1);
        // SAFETY: the kernel has no arguments.
        let launched = unsafe { self.stream.launch_builder(&self.kernel).launch(config) };
        let sprung = launched.and_then(|_| self.stream.synchronize());
        assert!(sprung.is_err(), "the context is not lost");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn each_case_has_a_process_and_failures_are_reported() {
        let test = "testing::tests::each_case_has_a_process_and_failures_are_reported";
        let failed = failed_in_processes(test, 4, |case| match case {
            0 | 3 => {}
            1 => std::process::exit(0),
            _ => too_late(Loss::Before),
        });
        assert_eq!(failed, [1, 2]);
        let unknown = |case| unreachable!("case {case} of no test");
        assert_eq!(failed_in_processes("no::such::test", 2, unknown), [0, 1]);
    }

    #[test]
    fn work_is_interrupted_at_its_time_or_at_its_end() {
        for (loss, before, part) in [
            (Loss::Before, 0, 0),
            (Loss::During(0), 0, 1),
            (Loss::During(20), 20, 1),
        ] {
            let (event, lost) = channel();
            let monitor = Monitor::default();
            monitor.expect(100);
            let lose = || event.send(monitor.progress().0).unwrap();
            interrupt(loss, &monitor, lose, || {
                monitor.advance(before);
                assert!(part == 0 || lost.try_recv().is_err(), "{loss:?}");
                monitor.advance(part);
                assert_eq!(lost.recv(), Ok(before + part), "{loss:?}");
            });
            let lose = || event.send(100).unwrap();
            let nothing = Monitor::default();
            assert_eq!(interrupt(loss, &nothing, lose, || 7), 7);
            assert_eq!(lost.recv(), Ok(100), "{loss:?}");
        }
    }
}
