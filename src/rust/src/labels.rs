//! Labels of groups as consecutive numbers.

use extendr_api::prelude::*;
use gmhclust_core::labels::Coded;
use gmhclust_core::Result as CoreResult;

use crate::results::integers_to_r;
use crate::rvalue::{self, Values};

/// Integers as places among labels. The caller suspends interrupts.
/// @param values integers.
/// @param labels integers, different ones and none of them 0; NULL for all of `values`, without 0
///   and NA.
/// @return list(labels, codes): the labels, and for each value the place of its label, 0 for none;
///   `values` itself if these are the places.
///   NULL for numbers that are negative or large, and if there is too little memory.
/// @noRd
#[extendr]
fn integer_codes(values: Robj, labels: Robj) -> Robj {
    let coded = || -> CoreResult<Option<Robj>> {
        let given = values.clone();
        let values = Values::<i32>::of(&values, "values")?;
        let labels = Values::<i32>::of_optional(&labels, "labels")?;
        let Some(Coded { labels, codes }) = Coded::new(&values, labels.as_deref())? else {
            return Ok(None);
        };
        let labels = integers_to_r(labels)?;
        let codes = codes.map_or(Ok(given), integers_to_r)?;
        rvalue::list([("labels", labels), ("codes", codes)]).map(Some)
    };
    coded().ok().flatten().unwrap_or_else(rvalue::null)
}

extendr_module! {
    mod labels;
    fn integer_codes;
}
