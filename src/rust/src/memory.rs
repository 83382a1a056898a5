//! Memory that a call is about to take.

use extendr_api::prelude::*;
use gmhclust_core::memory::{self, account};
use gmhclust_core::Result as CoreResult;

use crate::rvalue;

extern "C" {
    /// See values.c.
    fn gmhclust_collect_garbage();
}

/// Begins a call that is going to take `bytes` bytes, its result and the copies of its data
/// included; `what` names them, as in "the distances need". For R's thread only.
///
/// # Errors
/// `Error::Memory` where they are not there, even after R has freed what it does not use any more.
pub fn plan(what: &str, bytes: f64) -> CoreResult<()> {
    account::begin();
    ask(what, bytes)
}

/// As [`plan`], within a call.
///
/// # Errors
/// As there.
pub fn ask(what: &str, bytes: f64) -> CoreResult<()> {
    memory::check(what, bytes).or_else(|_| {
        // SAFETY: this is R's thread. Objects that are in use here are protected.
        unsafe { gmhclust_collect_garbage() };
        memory::check(what, bytes)
    })
}

/// Asks for memory that R code is going to take.
/// @param what what needs the memory, with its verb: "all values of `X` need".
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
