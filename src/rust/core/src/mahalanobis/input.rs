//! What a clustering refuses.

use super::options::Options;
use crate::error::{Error, Result};
use crate::magnitude::check_magnitude;
use crate::matrix::Matrix;
use crate::memory;

/// In more dimensions than this, memory and time are those of p × p matrices.
const WIDE: usize = 256;

/// Fewer than this many p × p covariances are held at a time, for each observation.
const SHAPES_PER_OBSERVATION: f64 = 0.1;

/// Where there are no more observations than dimensions, n·p³ must not exceed this, which takes about
/// an hour: all covariances are singular, and most likely the matrix is the wrong way round.
pub const MOST_DEGENERATE_WORK: f64 = 1e13;

/// That shapes in this many dimensions can be computed.
///
/// # Errors
/// `Error::Input` for many more dimensions than observations, `Error::Memory` where this machine has
/// too little.
fn check_width(x: &Matrix, options: &Options) -> Result<()> {
    let (rows, columns) = (x.rows(), x.columns());
    if columns <= WIDE || !options.may_have_shapes(rows, columns) {
        return Ok(());
    }
    let (n, p) = (rows as f64, columns as f64);
    // A scatter, a whitening factor and its forms in single precision; and what it takes to make one.
    let bytes = 12.0 * p * p * (SHAPES_PER_OBSERVATION * n).max(1.0) + 40.0 * p * p;
    let advice = "observations go in rows; reduce the dimensions first, for example to principal \
                  components";
    if rows <= columns && n * p * p * p > MOST_DEGENERATE_WORK {
        return Err(Error::Input(format!(
            "`X` has {rows} rows and {columns} columns, and every merge would factorise a {columns} × \
             {columns} covariance: {columns} columns need about {} and hours; {advice}",
            memory::in_words(bytes),
        )));
    }
    let what = format!("the covariances in {columns} dimensions need about");
    memory::check(&what, bytes).map_err(|error| match error {
        Error::Memory(message) => Error::Memory(format!("{message}; {advice}")),
        other => other,
    })
}

/// That `x` can be clustered with these options and labels.
///
/// # Errors
/// `Error::Input` where it cannot, `Error::Memory` where this machine has too little memory.
pub fn check(x: &Matrix, apriori: Option<&[u32]>, options: &Options) -> Result<()> {
    check_width(x, options)?;
    if !(options.threshold > 0.0 && options.threshold.is_finite()) {
        return Err(Error::Input(format!(
            "`threshold` is {}, it needs to be a positive number",
            options.threshold
        )));
    }
    if let Some(labels) = apriori {
        if labels.len() != x.rows() {
            return Err(Error::Input(format!(
                "`apriori` has {} labels, it needs one for each of the {} rows of `X`",
                labels.len(),
                x.rows()
            )));
        }
    }
    check_magnitude(x)
}
