//! Checks the memory that a call is about to take.

use extendr_api::prelude::*;
use gmhclust_core::Result as CoreResult;
use gmhclust_engine::memory;

use crate::rvalue;

extern "C" {
    /// See values.c.
    fn gmhclust_collect_garbage();
}

/// As [`memory::plan`]; if memory is short, R collects its garbage. For R's thread only.
///
/// # Errors
/// As [`memory::plan`].
pub fn plan(what: &str, bytes: f64) -> CoreResult<()> {
    memory::plan(what, bytes, collect_garbage)
}

/// As [`plan`], for more memory in the same call.
///
/// # Errors
/// As [`plan`].
pub fn ask(what: &str, bytes: f64) -> CoreResult<()> {
    memory::ask(what, bytes, collect_garbage)
}

fn collect_garbage() {
    // SAFETY: this is R's thread. Objects that are in use here are protected.
    unsafe { gmhclust_collect_garbage() };
}

/// Asks for memory that R code is going to take.
/// @param what what needs the memory, with its verb: "all values of `x` need".
/// @param bytes number.
/// @return The reason why there is too little, or NULL; FALSE if R has no memory for the reason.
/// @noRd
#[extendr]
fn memory_refusal(what: &str, bytes: f64) -> Robj {
    match plan(what, bytes) {
        Ok(()) => rvalue::null(),
        Err(error) => rvalue::string(&error.to_string()).unwrap_or_else(|_| rvalue::logical(false)),
    }
}

extendr_module! {
    mod memory;
    fn memory_refusal;
}
