//! Tests that a process that runs out of address space continues with the reserve.
#![cfg(target_os = "linux")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_void;
use std::process::Command;

use gmhclust_core::{memory, Error, Monitor};
use gmhclust_reserve::{Allocator, Ballast};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// Replaces src/ballast.c and src/huge_pages.c, which R compiles.
#[no_mangle]
extern "C" fn gmhclust_ballast_take(bytes: usize) -> *mut c_void {
    // SAFETY: the layout has at least a byte. Memory of this size has its own mapping.
    unsafe { System.alloc(Layout::from_size_align_unchecked(bytes, 16)) }.cast()
}

#[no_mangle]
extern "C" fn gmhclust_ballast_give_back(ballast: *mut c_void, bytes: usize) {
    // SAFETY: it was taken with this layout.
    unsafe { System.dealloc(ballast.cast(), Layout::from_size_align_unchecked(bytes, 16)) }
}

#[no_mangle]
extern "C" fn gmhclust_prefer_huge_pages(_: *mut c_void, _: usize) {}

/// Environment variable of the process that runs out of memory.
const LIMITED: &str = "GMHCLUST_TEST_LIMITED";

/// Size of its address space, in kilobytes; `PASSED` is its exit status if it has passed. A test
/// program that finds no test of a name ends with 0.
const KILOBYTES: usize = 1 << 18;
const PASSED: i32 = 4;

/// Bytes of a small allocation; `LARGE` is the size of an allocation for many observations.
const SMALL: usize = 4_000;
const LARGE: usize = 20 << 20;

/// Number of observations of the job: enough for its ballast to have room for a large allocation.
const OBSERVATIONS: usize = 400_000;

/// Takes all memory that the system grants, by requests that may be refused.
fn take_all() -> Vec<Vec<u8>> {
    let mut held: Vec<Vec<u8>> = Vec::with_capacity(1 << 20);
    for bytes in [1 << 20, 1 << 16, 1 << 12, 1 << 8] {
        while let Ok(some) = memory::room("all needs", bytes) {
            held.push(some);
        }
    }
    held
}

/// Small vectors, each with its own content.
fn small_vectors() -> Vec<Vec<u8>> {
    let mut small = Vec::with_capacity(100);
    small.extend((0..100).map(|at| vec![at; SMALL]));
    small
}

/// A thread outside of any job runs out of memory: the arena serves it.
fn run_out_of_memory_beside_jobs() {
    let held = take_all();
    let small = small_vectors();
    assert!(!memory::shortage(), "there is nothing to stop");
    drop((held, small));
}

/// A computation runs out of memory: the arena serves small allocations, and the ballast a large
/// one.
fn run_out_of_memory_in_a_job() {
    let monitor = Monitor::default();
    let job = Ballast::new(OBSERVATIONS).unwrap();
    let held = take_all();
    // Requests that may be refused leave the reserve alone.
    assert!(!memory::shortage());
    assert_eq!(monitor.check(), Ok(()));
    let mut small = small_vectors();
    assert!(memory::shortage());
    assert!(matches!(monitor.check(), Err(Error::Memory(_))));
    assert!(matches!(
        memory::room::<u8>("all needs", 1),
        Err(Error::Memory(_))
    ));
    for (at, some) in (0..).zip(&mut small) {
        // Growing vectors move within the reserve.
        some.resize(2 * SMALL, at);
        assert!(some.iter().all(|&byte| byte == at));
    }
    let large = vec![1u8; LARGE];
    assert_eq!(
        large.iter().map(|&byte| usize::from(byte)).sum::<usize>(),
        LARGE
    );
    drop((held, small, large, job));
    // The next computation can use all memory.
    assert_eq!(monitor.check(), Ok(()));
    assert!(memory::room::<u8>("all needs", LARGE).is_ok());
}

#[test]
fn a_process_that_runs_out_of_memory_goes_on() {
    if std::env::var(LIMITED).is_ok() {
        run_out_of_memory_beside_jobs();
        run_out_of_memory_in_a_job();
        std::process::exit(PASSED);
    }
    let name = "a_process_that_runs_out_of_memory_goes_on";
    let command =
        format!("ulimit -c 0; ulimit -v {KILOBYTES} && exec \"$0\" --exact --nocapture {name}");
    let ended = Command::new("sh")
        .args(["-c", &command])
        .arg(std::env::current_exe().unwrap())
        .env(LIMITED, "yes")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(PASSED), "{said}");
}
