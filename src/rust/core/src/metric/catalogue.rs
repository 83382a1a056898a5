//! The list of metrics, each with its name, options and [`Form`](super::form::Form).

use super::form::{
    Angle, AngleOfCommon, Binary, Canberra, CorrelationOfCommon, Magnitude, Maximum, Power, Square,
    Sum, Term, WithForm,
};
use super::zero_over_zero::ZeroOverZero;
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
    /// Among the coordinates where at least one observation is not zero, the share where exactly
    /// one is not zero (Jaccard distance).
    Binary,
    /// (Σ|a−b|^p)^(1/p), with the given p.
    Minkowski(f64),
    /// 1 − Pearson's correlation r; 1 − |r| if `absolute`.
    Pearson { absolute: bool },
    /// As Pearson, of the ranks; ties have their mean rank.
    Spearman { absolute: bool },
    /// 1 − the cosine of the angle between the observations; 1 − the cosine's magnitude if
    /// `absolute`.
    Cosine { absolute: bool },
}

/// The names that [`Metric::new`] takes, in the order of the error message.
pub const NAMES: [&str; 9] = [
    "euclidean",
    "maximum",
    "manhattan",
    "canberra",
    "binary",
    "minkowski",
    "pearson",
    "spearman",
    "cosine",
];

impl Metric {
    /// Parses the user's choice: a name as in R's `dist`, or `"pearson"`, `"spearman"` or
    /// `"cosine"`; `arg` is the user's name of the argument. Only Minkowski's metric uses `p`.
    ///
    /// # Errors
    /// `Error::Input` for another name, a `p` that is not positive and finite, and options that the
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
            other => return Err(unknown(arg, other)),
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

    /// The user's name of the metric.
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

    /// Whether the metric is one minus a correlation or a cosine.
    pub fn is_correlation(&self) -> bool {
        matches!(
            self,
            Self::Pearson { .. } | Self::Spearman { .. } | Self::Cosine { .. }
        )
    }

    /// Number of coordinates that two observations must share for a distance.
    pub fn fewest_coordinates(&self) -> usize {
        match self {
            Self::Pearson { .. } | Self::Spearman { .. } => 2,
            _ => 1,
        }
    }

    /// Calls `visitor` with the form of the metric for rows of `columns` prepared coordinates.
    /// `missing` says that coordinates may be NaN, or infinite where that matters.
    pub fn with_form<V: WithForm>(&self, missing: bool, columns: usize, visitor: V) -> V::Output {
        let columns = columns as f64;
        match *self {
            Self::Spearman { .. } if missing => visitor.pairwise(),
            Self::Pearson { absolute } if missing => {
                visitor.with_form(CorrelationOfCommon { absolute })
            }
            Self::Cosine { absolute } if missing => visitor.with_form(AngleOfCommon { absolute }),
            Self::Pearson { absolute }
            | Self::Spearman { absolute }
            | Self::Cosine { absolute } => visitor.with_form(Angle { absolute }),
            Self::Euclidean => with_sum(Square, missing, columns, visitor),
            Self::Manhattan => with_sum(Magnitude, missing, columns, visitor),
            Self::Minkowski(p) => with_sum(Power(p), missing, columns, visitor),
            Self::Maximum if missing => visitor.with_form(Maximum::<true>),
            Self::Maximum => visitor.with_form(Maximum::<false>),
            Self::Canberra(zero_over_zero) => visitor.with_form(Canberra {
                zero_over_zero,
                columns,
            }),
            Self::Binary => visitor.with_form(Binary),
        }
    }
}

/// Calls `visitor` with the sum of `term` over the coordinates.
fn with_sum<T: Term, V: WithForm>(term: T, missing: bool, columns: f64, visitor: V) -> V::Output {
    if missing {
        visitor.with_form(Sum::<T, true> { term, columns })
    } else {
        visitor.with_form(Sum::<T, false> { term, columns })
    }
}

/// The error for a name that is not among [`NAMES`].
fn unknown(arg: &str, name: &str) -> Error {
    let quoted = NAMES.map(|name| format!("{name:?}"));
    let (last, others) = quoted.split_last().expect("there are names");
    let others = others.join(", ");
    Error::Input(format!(
        "`{arg}` is {name:?}; it must be {others} or {last}"
    ))
}
