//! Arguments that R passes as lists.

use extendr_api::prelude::*;
use gmhclust_core::knn::folder::MetricOptions;
use gmhclust_core::metric::{Metric, ZeroOverZero};
use gmhclust_core::{Cpu, Error as CoreError, Result as CoreResult};

use crate::rvalue::Values;

/// Access to the elements of a named list.
pub struct Fields<'a> {
    /// Name of the list in errors.
    argument: &'static str,
    list: &'a List,
}

impl<'a> Fields<'a> {
    pub fn new(argument: &'static str, list: &'a List) -> Self {
        Self { argument, list }
    }

    /// The element `name`.
    ///
    /// # Errors
    /// `Error::Input` if it is missing.
    pub fn object(&self, name: &str) -> CoreResult<Robj> {
        let element = self.list.iter().find(|(key, _)| *key == name);
        element.map(|(_, value)| value).ok_or_else(|| self.no(name))
    }

    /// The element `name`, a vector of integers; `None` for NULL.
    ///
    /// # Errors
    /// As [`Values::of`], and `Error::Input` if the element is missing.
    pub fn integers(&self, name: &str) -> CoreResult<Option<Values<i32>>> {
        Values::of_optional(&self.object(name)?, name)
    }

    /// The value of the element `name`. R neither evaluates nor allocates anything for it.
    ///
    /// # Errors
    /// `Error::Input` if the element is missing or has another type.
    pub fn get<T>(&self, name: &str) -> CoreResult<T>
    where
        T: for<'r> TryFrom<&'r Robj>,
    {
        T::try_from(&self.object(name)?).map_err(|_| self.no(name))
    }

    fn no(&self, name: &str) -> CoreError {
        let argument = self.argument;
        CoreError::Input(format!(
            "`{argument}` has no `{name}` of the type that it needs"
        ))
    }
}

/// A number of threads; at least one.
pub fn threads(count: i32) -> usize {
    usize::try_from(count).unwrap_or(1).max(1)
}

/// A pool of this number of threads.
///
/// # Errors
/// As [`Cpu::new`].
pub fn cpu(count: i32) -> CoreResult<Cpu> {
    Cpu::new(threads(count))
}

/// Converts numbers that count from 1 in R to numbers from 0.
///
/// # Errors
/// As [`Values::of`], and `Error::Input` for a number below 1.
pub fn numbers(integers: &Robj, arg: &str) -> CoreResult<Vec<usize>> {
    let from_zero = |&number: &i32| usize::try_from(i64::from(number) - 1);
    let integers = Values::<i32>::of(integers, arg)?;
    let numbers = integers
        .iter()
        .map(from_zero)
        .collect::<std::result::Result<_, _>>();
    numbers.map_err(|_| CoreError::Input(format!("`{arg}` has a number below 1")))
}

/// The options of a metric, from the list that check_metric_options() makes in R.
///
/// # Errors
/// `Error::Input` if an element is missing or has another type.
pub fn metric_options(list: &List) -> CoreResult<MetricOptions> {
    let fields = Fields::new("metric", list);
    Ok(MetricOptions {
        name: fields.get("name")?,
        p: fields.get("p")?,
        absolute: fields.get("absolute")?,
        zero_over_zero: fields.get("zero_over_zero")?,
    })
}

/// The metric from the list that check_metric_options() makes in R. `argument` is the name of the
/// user's argument.
///
/// # Errors
/// `Error::Input` if an element is missing or has another type, or if the metric does not have
/// these options.
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
