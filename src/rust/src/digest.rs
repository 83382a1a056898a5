//! Digests of numbers, to recognise data, as texts of 16 hexadecimal digits; and SHA-256 of a text,
//! for the content security policy of a page.

use extendr_api::prelude::*;
use gmhclust_core::checksum::sha256;
use gmhclust_core::digest::digest;

use crate::rvalue::{self, Values};

/// The digest from its text in R; 0 for "".
pub fn from_text(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap_or(0)
}

/// The text of a digest for R.
pub fn to_text(digest: u64) -> String {
    format!("{digest:016x}")
}

/// The digest of a sequence of values that ends with these. The caller suspends interrupts.
/// @param values double vector.
/// @param before the digest of the values before them, "" for none.
/// @return A text of 16 hexadecimal digits; NULL if R cannot give the values.
/// @noRd
#[extendr]
fn digest_values(values: Robj, before: &str) -> Robj {
    let text = Values::<f64>::of(&values, "values")
        .and_then(|values| rvalue::string(&to_text(digest(&values, from_text(before)))));
    text.unwrap_or_else(|_| rvalue::null())
}

/// The SHA-256 of the bytes of a text.
/// @param text one text in UTF-8.
/// @return A text of 64 hexadecimal digits; NULL if R has no memory for it.
/// @noRd
#[extendr]
fn sha256_of_text(text: &str) -> Robj {
    rvalue::string(&sha256(text.as_bytes())).unwrap_or_else(|_| rvalue::null())
}

extendr_module! {
    mod digest;
    fn digest_values;
    fn sha256_of_text;
}
