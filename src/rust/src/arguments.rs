//! Arguments that are lists in R.

use extendr_api::prelude::*;
use gmhclust_core::knn::folder::MetricOptions;
use gmhclust_core::metric::{Metric, ZeroOverZero};
use gmhclust_core::{Error as CoreError, Result as CoreResult};

/// A list whose elements are found by their names.
pub struct Fields<'a> {
    /// What the list is called in errors.
    argument: &'static str,
    list: &'a List,
}

impl<'a> Fields<'a> {
    pub fn new(argument: &'static str, list: &'a List) -> Self {
        Self { argument, list }
    }

    /// The value of the element `name`. Evaluates nothing in R, and allocates nothing there.
    ///
    /// # Errors
    /// `Error::Input` where there is no such element, or one of another type.
    pub fn get<T>(&self, name: &str) -> CoreResult<T>
    where
        T: for<'r> TryFrom<&'r Robj>,
    {
        let element = self.list.iter().find(|(key, _)| *key == name);
        let value = element.and_then(|(_, value)| T::try_from(&value).ok());
        value.ok_or_else(|| {
            let argument = self.argument;
            CoreError::Input(format!(
                "`{argument}` has no `{name}` of the type that it needs"
            ))
        })
    }
}

/// A metric as check_metric_options() of R describes it.
///
/// # Errors
/// `Error::Input` for another list.
pub fn metric_options(list: &List) -> CoreResult<MetricOptions> {
    let fields = Fields::new("metric", list);
    Ok(MetricOptions {
        name: fields.get("name")?,
        p: fields.get("p")?,
        absolute: fields.get("absolute")?,
        zero_over_zero: fields.get("zero_over_zero")?,
    })
}

/// The metric that check_metric_options() of R describes; `argument` is what the user calls it.
///
/// # Errors
/// `Error::Input` for another list, and for options that the metric does not have.
pub fn metric(argument: &str, list: &List) -> CoreResult<Metric> {
    let options = metric_options(list)?;
    let zero_over_zero = ZeroOverZero::new("zero_over_zero", &options.zero_over_zero)?;
    Metric::new(
        argument,
        &options.name,
        options.p,
        options.absolute,
        zero_over_zero,
    )
}
