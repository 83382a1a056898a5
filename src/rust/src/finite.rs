//! Whether the values of a vector are finite.

use extendr_api::prelude::*;

use crate::rvalue::{self, Values};

/// Values that are compared before the first result is looked at, so that comparisons need not wait
/// for each other.
const AT_A_TIME: usize = 1 << 12;

/// Whether a vector of doubles is without NA, NaN and infinite values. The caller suspends
/// interrupts.
/// @param x double vector.
/// @return TRUE or FALSE; NULL if R cannot give the values.
/// @noRd
#[extendr]
fn is_all_finite(x: Robj) -> Robj {
    match Values::<f64>::of(&x, "x") {
        Ok(values) => rvalue::logical(all_finite(&values)),
        Err(_) => rvalue::null(),
    }
}

fn all_finite(values: &[f64]) -> bool {
    values.chunks(AT_A_TIME).all(|some| {
        some.iter()
            .fold(true, |finite, value| finite & value.is_finite())
    })
}

extendr_module! {
    mod finite;
    fn is_all_finite;
}
