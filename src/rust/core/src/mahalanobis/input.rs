//! Checks of the input of a clustering.

use super::options::Options;
use crate::error::{Error, Result};
use crate::memory;

/// Largest number of dimensions p for which the memory of p × p matrices is not checked: each
/// matrix takes less than 1 MB.
const WIDE: usize = 256;

/// An upper bound on the number of p × p covariances held at a time, per observation. Measured. If
/// too low, memory could run out during the clustering.
const SHAPES_PER_OBSERVATION: f64 = 0.1;

/// Largest n·p³, in operations (about an hour of work), that is accepted if there are no more
/// observations n than dimensions p. Then all covariances are singular, and the matrix is most
/// likely transposed.
pub const MOST_DEGENERATE_WORK: f64 = 1e13;

/// Checks that shapes in this many dimensions can be computed.
///
/// # Errors
/// `Error::Input` if there are no more observations than dimensions and the work is too large
/// ([`MOST_DEGENERATE_WORK`]), `Error::Memory` if this machine has too little memory.
fn check_width((rows, columns): (usize, usize), options: &Options) -> Result<()> {
    if columns <= WIDE || !options.subthreshold.may_have_shapes(rows, columns) {
        return Ok(());
    }
    let (n, p) = (rows as f64, columns as f64);
    // For each covariance: a scatter, a whitening factor and its copies in single precision. Once:
    // the working memory of a factorisation.
    let bytes = 12.0 * p * p * (SHAPES_PER_OBSERVATION * n).max(1.0) + 40.0 * p * p;
    let advice = "observations go in rows; reduce the dimensions first, for example to principal \
                  components";
    if rows <= columns && n * p * p * p > MOST_DEGENERATE_WORK {
        return Err(Error::Input(format!(
            "`x` has {rows} rows and {columns} columns, and every merge would factorise a \
             {columns} × {columns} covariance: {columns} columns need about {} and hours; {advice}",
            memory::in_words(bytes),
        )));
    }
    let what = format!("the covariances in {columns} dimensions need about");
    memory::check(&what, bytes).map_err(|error| match error {
        Error::Memory(message) => Error::Memory(format!("{message}; {advice}")),
        other => other,
    })
}

/// Checks that observations of this size, numbers of rows and columns, can be clustered with these
/// options and number of labels.
///
/// # Errors
/// `Error::Input` if they cannot be clustered, `Error::Memory` if this machine has too little
/// memory.
pub fn check(size: (usize, usize), labels: Option<usize>, options: &Options) -> Result<()> {
    check_width(size, options)?;
    if !(options.threshold > 0.0 && options.threshold.is_finite()) {
        return Err(Error::Input(format!(
            "`threshold` is {}; it must be a positive number",
            options.threshold
        )));
    }
    check_labels(size.0, labels)
}

/// Checks that there is a label for each of `n` observations, if there are any.
///
/// # Errors
/// `Error::Input` if there is not.
pub fn check_labels(n: usize, labels: Option<usize>) -> Result<()> {
    match labels {
        Some(labels) if labels != n => Err(Error::Input(format!(
            "`apriori` has {labels} labels; it needs one for each of the {n} rows of `x`",
        ))),
        _ => Ok(()),
    }
}
