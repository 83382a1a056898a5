//! Whether the values of a vector are finite.

use extendr_api::prelude::*;
use gmhclust_core::magnitude::largest_on_threads;
use gmhclust_core::{Cpu, Error as CoreError, Result as CoreResult};

use crate::rvalue::{self, Values};

/// Whether a vector of doubles is without NA, NaN and infinite values. The caller suspends
/// interrupts.
/// @param x double vector.
/// @param threads integer: the number of threads.
/// @return TRUE or FALSE; NULL if R cannot give the values.
/// @noRd
#[extendr]
fn is_all_finite(x: Robj, threads: i32) -> Robj {
    let look = || all_finite(&Values::<f64>::of(&x, "x")?, threads);
    look().map_or_else(|_: CoreError| rvalue::null(), rvalue::logical)
}

/// On this number of threads, or as many as the system gives.
fn all_finite(values: &[f64], threads: i32) -> CoreResult<bool> {
    let threads = usize::try_from(threads).unwrap_or(1);
    let cpu = Cpu::new(threads).or_else(|_| Cpu::new(1))?;
    Ok(cpu.install(|| largest_on_threads(values).is_finite()))
}

extendr_module! {
    mod finite;
    fn is_all_finite;
}
