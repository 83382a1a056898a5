//! Observations prepared for one metric.

use pulp::{Scalar, Simd, WithSimd};
use rayon::prelude::*;

use super::form::{Angle, Binary, Canberra, Form, Magnitude, Maximum, Power, Square, Sum, Term};
use super::pairwise;
use super::prepare::prepare;
use super::Metric;
use crate::backend::cpu::simd::dispatch;
use crate::error::Result;
use crate::matrix::{self, Matrix};

/// Observations prepared for one metric, row-major: 0 or 1 for the binary metric; ranked for
/// Spearman's correlation, centred for it and Pearson's, and of unit length for these and the
/// cosine, so that each of the three is one dot product; as they were given for the others.
///
/// Where the metric is a correlation and values are missing, what it compares differs from pair to
/// pair: then the rows stay as given, and [`Points::pairwise`] is true.
#[derive(Debug, Clone, PartialEq)]
pub struct Points {
    metric: Metric,
    values: Vec<f64>,
    rows: usize,
    columns: usize,
    /// Whether a value is missing, or infinite where that matters.
    holes: bool,
    constant: Vec<usize>,
}

/// What to do with points once it is known how their distances are computed.
pub trait WithForm {
    type Output;

    /// Called with the form that makes distances of the points' rows.
    fn with_form<F: Form>(self, form: F) -> Self::Output;

    /// Called where there is none, the points being [`Points::pairwise`].
    fn pairwise(self) -> Self::Output;
}

impl Points {
    /// From finite observations. As the other constructors it takes on the threads of the rayon
    /// pool it is called in.
    pub fn new(metric: Metric, x: &Matrix) -> Self {
        Self::prepared(metric, x.values().to_vec(), x.rows(), x.columns())
    }

    /// From row-major storage, `rows * columns` values. NaN means missing.
    ///
    /// # Errors
    /// `Error::Input` when the sizes disagree.
    pub fn from_row_major(
        metric: Metric,
        values: Vec<f64>,
        rows: usize,
        columns: usize,
    ) -> Result<Self> {
        matrix::check_size(&values, rows, columns)?;
        Ok(Self::prepared(metric, values, rows, columns))
    }

    /// From R's column-major storage; as [`Points::from_row_major`].
    pub fn from_column_major(
        metric: Metric,
        values: &[f64],
        rows: usize,
        columns: usize,
    ) -> Result<Self> {
        let row_major = matrix::row_major(values, rows, columns)?;
        Ok(Self::prepared(metric, row_major, rows, columns))
    }

    fn prepared(metric: Metric, mut values: Vec<f64>, rows: usize, columns: usize) -> Self {
        let correlation = metric.is_correlation();
        let is_hole = |value: &f64| value.is_nan() || (!correlation && value.is_infinite());
        // Without columns every coordinate is missing.
        let holes = columns == 0 || values.par_iter().any(is_hole);
        let constant = if holes && correlation {
            let is_constant = |&row: &usize| {
                let row = &values[row * columns..][..columns];
                !prepare(&metric, &mut pairwise::present(row))
            };
            (0..rows).into_par_iter().filter(is_constant).collect()
        } else {
            values
                .par_chunks_mut(columns.max(1))
                .enumerate()
                .filter_map(|(i, row)| (!prepare(&metric, row)).then_some(i))
                .collect()
        };
        Self {
            metric,
            values,
            rows,
            columns,
            holes,
            constant,
        }
    }

    /// What the points are prepared for.
    pub fn metric(&self) -> &Metric {
        &self.metric
    }

    /// Number of observations.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of coordinates.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// One observation, prepared.
    pub fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.columns..][..self.columns]
    }

    /// All observations, prepared, row after row.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Whether coordinates are to be looked at for being missing (NaN) or infinite.
    pub fn holes(&self) -> bool {
        self.holes
    }

    /// Whether each pair is to be prepared from the coordinates that both have: the metric is a
    /// correlation, and values are missing.
    pub fn pairwise(&self) -> bool {
        self.holes && self.metric.is_correlation()
    }

    /// The rows, in increasing order, that have no direction: constant ones under a correlation,
    /// zeros under the cosine. Their distances are NaN.
    pub fn constant(&self) -> &[usize] {
        &self.constant
    }

    /// The distance of two observations, the same bits wherever it is computed; [`super::form::NA`]
    /// where they share too few coordinates.
    pub fn distance(&self, i: usize, j: usize) -> f64 {
        let metric = &self.metric;
        let (a, b) = (self.row(i), self.row(j));
        self.with_form(Pair { metric, a, b })
    }

    /// Hands the form of the metric to `visitor`.
    pub fn with_form<V: WithForm>(&self, visitor: V) -> V::Output {
        if self.pairwise() {
            return visitor.pairwise();
        }
        let columns = self.columns as f64;
        match self.metric {
            Metric::Euclidean => self.with_sum(Square, visitor),
            Metric::Manhattan => self.with_sum(Magnitude, visitor),
            Metric::Minkowski(p) => self.with_sum(Power(p), visitor),
            Metric::Maximum if self.holes => visitor.with_form(Maximum::<true>),
            Metric::Maximum => visitor.with_form(Maximum::<false>),
            Metric::Canberra(zero_over_zero) => visitor.with_form(Canberra {
                zero_over_zero,
                columns,
            }),
            Metric::Binary => visitor.with_form(Binary),
            Metric::Pearson { absolute }
            | Metric::Spearman { absolute }
            | Metric::Cosine { absolute } => visitor.with_form(Angle { absolute }),
        }
    }

    fn with_sum<T: Term, V: WithForm>(&self, term: T, visitor: V) -> V::Output {
        let columns = self.columns as f64;
        if self.holes {
            visitor.with_form(Sum::<T, true> { term, columns })
        } else {
            visitor.with_form(Sum::<T, false> { term, columns })
        }
    }
}

/// Two rows under a metric.
struct Pair<'a> {
    metric: &'a Metric,
    a: &'a [f64],
    b: &'a [f64],
}

impl WithForm for Pair<'_> {
    type Output = f64;

    fn with_form<F: Form>(self, form: F) -> f64 {
        pair_distance(form, self.a, self.b)
    }

    fn pairwise(self) -> f64 {
        pairwise::distance(self.metric, self.a, self.b)
    }
}

/// The distance of two prepared rows.
pub(super) fn pair_distance<F: Form>(form: F, a: &[f64], b: &[f64]) -> f64 {
    dispatch(PairDistance { form, a, b })
}

/// The distance of two prepared rows as a kernel: not for its vectors, but `mul_add` is an
/// instruction only in dispatched code.
struct PairDistance<'a, F> {
    form: F,
    a: &'a [f64],
    b: &'a [f64],
}

impl<F: Form> WithSimd for PairDistance<'_, F> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> f64 {
        let mut state = self.form.start(Scalar);
        for (&a, &b) in self.a.iter().zip(self.b) {
            state = self.form.add(Scalar, state, a, b);
        }
        self.form.finish(Scalar, state)
    }
}
