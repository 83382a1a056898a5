//! Dissimilarities of two observations: what `dist()` of R offers, and correlations.
//!
//! [`Points`] holds observations prepared for one [`Metric`] and says how far two of them are
//! apart; [`form`] defines each dissimilarity once, for scalars and for vectors.

pub mod form;
mod pairwise;
mod points;
mod prepare;
#[cfg(test)]
pub mod reference;
#[cfg(test)]
mod tests;

pub use points::{Points, WithForm, TOGETHER};

use crate::error::{Error, Result};

/// A dissimilarity of two observations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Metric {
    /// √Σ(a−b)².
    Euclidean,
    /// max |a−b|.
    Maximum,
    /// Σ|a−b|.
    Manhattan,
    /// Σ |a−b| / (|a|+|b|).
    Canberra(ZeroOverZero),
    /// Of the coordinates where one is not zero, the share of those where the other is.
    Binary,
    /// (Σ|a−b|^p)^(1/p), p given.
    Minkowski(f64),
    /// 1 − Pearson's correlation r; 1 − |r| where `absolute`.
    Pearson { absolute: bool },
    /// As Pearson of the ranks, ties having their mean rank.
    Spearman { absolute: bool },
    /// 1 − the cosine of the angle between the observations; 1 − its magnitude where `absolute`.
    Cosine { absolute: bool },
}

/// What Canberra's term is where both coordinates are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZeroOverZero {
    /// Left out, and the sum scaled up for it, as R does.
    Omitted,
    /// 0.
    Zero,
    /// 1.
    One,
}

impl Metric {
    /// From what a user says: a name as R's `dist` has it, or `"pearson"`, `"spearman"` or
    /// `"cosine"`; `arg` is what the user calls the argument. `p` matters to Minkowski's metric
    /// only.
    ///
    /// # Errors
    /// `Error::Input` for another name, a `p` that is not positive and finite, and choices that the
    /// metric does not have.
    pub fn new(
        arg: &str,
        name: &str,
        p: f64,
        absolute: bool,
        zero_over_zero: ZeroOverZero,
    ) -> Result<Self> {
        let metric = match name {
            "euclidean" => Self::Euclidean,
            "maximum" => Self::Maximum,
            "manhattan" => Self::Manhattan,
            "canberra" => Self::Canberra(zero_over_zero),
            "binary" => Self::Binary,
            "minkowski" => Self::Minkowski(p),
            "pearson" => Self::Pearson { absolute },
            "spearman" => Self::Spearman { absolute },
            "cosine" => Self::Cosine { absolute },
            other => {
                return Err(Error::Input(format!(
                    "`{arg}` is {other:?}; it must be \"euclidean\", \"maximum\", \"manhattan\", \
                     \"canberra\", \"binary\", \"minkowski\", \"pearson\", \"spearman\" or \
                     \"cosine\""
                )))
            }
        };
        if matches!(metric, Self::Minkowski(_)) && !(p > 0.0 && p.is_finite()) {
            return Err(Error::Input(format!(
                "`p` is {p}; the power of Minkowski's metric must be positive and finite"
            )));
        }
        if absolute && !metric.is_correlation() {
            return Err(Error::Input(format!(
                "`absolute` is TRUE; that is for correlations and the cosine, but `{arg}` is \
                 {name:?}"
            )));
        }
        if zero_over_zero != ZeroOverZero::Omitted && !matches!(metric, Self::Canberra(_)) {
            return Err(Error::Input(format!(
                "`zero_over_zero` is given; that is for \"canberra\", but `{arg}` is {name:?}"
            )));
        }
        Ok(metric)
    }

    /// What users call it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Euclidean => "euclidean",
            Self::Maximum => "maximum",
            Self::Manhattan => "manhattan",
            Self::Canberra(_) => "canberra",
            Self::Binary => "binary",
            Self::Minkowski(_) => "minkowski",
            Self::Pearson { .. } => "pearson",
            Self::Spearman { .. } => "spearman",
            Self::Cosine { .. } => "cosine",
        }
    }

    /// Whether it is one minus a correlation or a cosine.
    pub fn is_correlation(&self) -> bool {
        matches!(
            self,
            Self::Pearson { .. } | Self::Spearman { .. } | Self::Cosine { .. }
        )
    }

    /// How many coordinates two observations must share for a distance.
    pub fn fewest_coordinates(&self) -> usize {
        match self {
            Self::Pearson { .. } | Self::Spearman { .. } => 2,
            _ => 1,
        }
    }
}

impl ZeroOverZero {
    /// From what a user says: `"omit"`, `"0"` or `"1"`.
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
