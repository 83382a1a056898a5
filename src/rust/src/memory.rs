//! Memory that R code is about to take.

use extendr_api::prelude::*;
use gmhclust_core::memory;

use crate::rvalue;

/// Asks for memory.
/// @param what what needs the memory, with its verb: "all values of `X` need".
/// @param bytes number.
/// @return The reason why there is too little, or NULL; FALSE if R has no memory for the reason.
/// @noRd
#[extendr]
fn memory_refusal(what: &str, bytes: f64) -> Robj {
    match memory::check(what, bytes) {
        Ok(()) => rvalue::null(),
        Err(error) => rvalue::string(&error.to_string()).unwrap_or_else(|_| rvalue::logical(false)),
    }
}

extendr_module! {
    mod memory;
    fn memory_refusal;
}
