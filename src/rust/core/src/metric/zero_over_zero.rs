//! The option of Canberra's metric for coordinates that are zero in both observations.

use crate::error::{Error, Result};

/// The value of Canberra's term 0/0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZeroOverZero {
    /// The term is left out, and the sum is scaled up to compensate, as in R.
    Omitted,
    /// 0.
    Zero,
    /// 1.
    One,
}

impl ZeroOverZero {
    /// Parses the user's word: `"omit"`, `"0"` or `"1"`. `arg` is the user's name of the argument.
    ///
    /// # Errors
    /// `Error::Input` for another word.
    pub fn new(arg: &str, name: &str) -> Result<Self> {
        match name {
            "omit" => Ok(Self::Omitted),
            "0" => Ok(Self::Zero),
            "1" => Ok(Self::One),
            other => Err(Error::Input(format!(
                "`{arg}` is {other:?}; it must be \"omit\", \"0\" or \"1\""
            ))),
        }
    }
}
