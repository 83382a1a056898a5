//! Whether the values of a vector are finite.

use extendr_api::prelude::*;
use gmhclust_core::magnitude::{largest, largest_on_threads};
use gmhclust_core::Cpu;

use crate::rvalue::{self, Values};

/// Whether a vector of doubles is without NA, NaN and infinite values. The caller suspends
/// interrupts.
/// @param x double vector.
/// @param threads integer: the number of threads.
/// @return TRUE or FALSE; NULL if R cannot give the values.
/// @noRd
#[extendr]
fn is_all_finite(x: Robj, threads: i32) -> Robj {
    match Values::<f64>::of(&x, "x") {
        Ok(values) => rvalue::logical(all_finite(&values, threads)),
        Err(_) => rvalue::null(),
    }
}

/// Checks the values on this number of threads, or on the calling thread if the system gives none.
fn all_finite(values: &[f64], threads: i32) -> bool {
    let threads = usize::try_from(threads).unwrap_or(1);
    let several = (threads > 1).then(|| Cpu::new(threads).ok()).flatten();
    let largest = match several {
        Some(cpu) => cpu.install(|| largest_on_threads(values)),
        None => largest(values),
    };
    largest.is_finite()
}

extendr_module! {
    mod finite;
    fn is_all_finite;
}
