//! Memory that R code is about to take.

use extendr_api::prelude::*;
use gmhclust_core::memory;

/// Asks for memory.
/// @param what what needs the memory, with its verb: "all values of `X` need".
/// @param bytes number.
/// @return The reason why there is too little, or NULL.
/// @noRd
#[extendr]
fn memory_refusal(what: &str, bytes: f64) -> Nullable<String> {
    match memory::check(what, bytes) {
        Ok(()) => Nullable::Null,
        Err(error) => Nullable::NotNull(error.to_string()),
    }
}

extendr_module! {
    mod memory;
    fn memory_refusal;
}
