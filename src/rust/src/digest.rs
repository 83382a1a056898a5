//! Digests of numbers, to recognise data.

use extendr_api::prelude::*;
use gmhclust_core::digest::digest;

use crate::rvalue::{self, Values};

/// The digest of a sequence of values that ends with these. The caller suspends interrupts.
/// @param values double vector.
/// @param before the digest of the values before them, "" for none.
/// @return A text of 16 hexadecimal digits; NULL if R cannot give the values.
/// @noRd
#[extendr]
fn digest_values(values: Robj, before: &str) -> Robj {
    let before = u64::from_str_radix(before, 16).unwrap_or(0);
    let text = Values::<f64>::of(&values, "values")
        .and_then(|values| rvalue::string(&format!("{:016x}", digest(&values, before))));
    text.unwrap_or_else(|_| rvalue::null())
}

extendr_module! {
    mod digest;
    fn digest_values;
}
