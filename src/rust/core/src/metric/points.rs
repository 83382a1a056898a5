//! Observations prepared for one metric.

use pulp::{Scalar, Simd, WithSimd};
use rayon::prelude::*;

use super::form::{
    Angle, AngleOfCommon, Binary, Canberra, CorrelationOfCommon, Form, Magnitude, Maximum, Power,
    Square, Sum, Term,
};
use super::pairwise::{self, Ordered};
use super::prepare::{prepare, scale};
use super::Metric;
use crate::error::Result;
use crate::matrix;
use crate::memory;
use crate::monitor::Monitor;
use crate::simd::dispatch;

/// Observations prepared for one metric, row-major: 0 or 1 for the binary metric; ranked for
/// Spearman's correlation, centred for it and Pearson's, and of unit length for these and the
/// cosine, so that each of the three is one dot product; as they were given for the others.
///
/// Where the metric is a correlation and values are missing, what it compares differs from pair to
/// pair: then the rows stay as given, but for a power of two under Pearson's and the cosine.
#[derive(Debug, Clone, PartialEq)]
pub struct Points {
    metric: Metric,
    values: Vec<f64>,
    rows: usize,
    columns: usize,
    /// Whether a value is missing, or infinite where that matters.
    holes: bool,
    /// Under Spearman's correlation with missing values, the coordinates of each row by increasing
    /// value; else empty.
    orders: Vec<u32>,
    constant: Vec<usize>,
}

/// How many distances are computed at a time: while one waits for its last sum, others go on.
pub const TOGETHER: usize = 8;

/// What to do with points once it is known how their distances are computed.
pub trait WithForm {
    type Output;

    /// Called with the form that makes distances of the points' rows.
    fn with_form<F: Form>(self, form: F) -> Self::Output;

    /// Called where there is none, the points being [`Points::pairwise`].
    fn pairwise(self) -> Self::Output;
}

impl Points {
    /// From finite observations, for tests.
    #[cfg(any(test, feature = "testing"))]
    pub fn new(metric: Metric, x: &crate::Matrix) -> Self {
        let (values, monitor) = (x.values().to_vec(), Monitor::default());
        let points = Self::prepared(metric, values, x.rows(), x.columns(), &monitor);
        points.expect("there is memory for a test")
    }

    /// From row-major storage, `rows * columns` values. NaN means missing. As the other constructor
    /// it takes on the threads of the rayon pool it is called in.
    ///
    /// # Errors
    /// `Error::Input` when the sizes disagree, `Error::Memory` where there is not enough,
    /// `Error::Interrupt` when the monitor says stop.
    pub fn from_row_major(
        metric: Metric,
        values: Vec<f64>,
        rows: usize,
        columns: usize,
        monitor: &Monitor,
    ) -> Result<Self> {
        matrix::check_size(&values, rows, columns)?;
        Self::prepared(metric, values, rows, columns, monitor)
    }

    /// From column-major matrices one below the other.
    ///
    /// # Errors
    /// `Error::Input` when a matrix has no whole number of rows; otherwise as
    /// [`Points::from_row_major`].
    pub fn from_column_major(
        metric: Metric,
        parts: &[&[f64]],
        columns: usize,
        monitor: &Monitor,
    ) -> Result<Self> {
        let values = matrix::row_major_on_threads(parts, columns)?;
        let rows = values.len() / columns.max(1);
        Self::prepared(metric, values, rows, columns, monitor)
    }

    fn prepared(
        metric: Metric,
        mut values: Vec<f64>,
        rows: usize,
        columns: usize,
        monitor: &Monitor,
    ) -> Result<Self> {
        let correlation = metric.is_correlation();
        let is_hole = |value: &f64| value.is_nan() || (!correlation && value.is_infinite());
        let fewest = metric.fewest_coordinates();
        let holes = columns < fewest || values.par_iter().any(is_hole);
        let row_len = columns.max(1);
        let mut orders = Vec::new();
        let constant = if holes && correlation {
            let is_constant = |row: &[f64]| {
                monitor.check()?;
                let mut present: Vec<f64> = row.iter().copied().filter(|v| !v.is_nan()).collect();
                Ok(present.len() >= fewest && !prepare(&metric, &mut present))
            };
            let constant = indices_where(values.par_chunks(row_len).map(is_constant))?;
            if matches!(metric, Metric::Spearman { .. }) {
                orders =
                    memory::zeros("the orders of the observations' values need", values.len())?;
                let by_row = orders.par_chunks_mut(row_len);
                by_row
                    .zip(values.par_chunks(row_len))
                    .try_for_each(|(order, row)| {
                        monitor.check()?;
                        pairwise::order(row, order);
                        Ok(())
                    })?;
            } else {
                values.par_chunks_mut(row_len).for_each(scale);
            }
            constant
        } else {
            let prepared = values.par_chunks_mut(row_len);
            indices_where(prepared.map(|row| {
                monitor.check()?;
                Ok(!prepare(&metric, row))
            }))?
        };
        Ok(Self {
            metric,
            values,
            rows,
            columns,
            holes,
            orders,
            constant,
        })
    }

    /// Some of the points, in this order, whose distances are those of all of these. For points
    /// without holes.
    ///
    /// # Errors
    /// `Error::Memory` where there is not enough.
    pub fn select(&self, rows: &[u32]) -> Result<Self> {
        debug_assert!(!self.holes, "orders are not copied");
        let mut values = memory::zeros(memory::OBSERVATIONS, rows.len() * self.columns)?;
        values
            .par_chunks_mut(self.columns)
            .zip(rows)
            .for_each(|(copy, &row)| copy.copy_from_slice(self.row(row as usize)));
        let is_constant = |row: &u32| self.constant.binary_search(&(*row as usize)).is_ok();
        Ok(Self {
            metric: self.metric,
            values,
            rows: rows.len(),
            columns: self.columns,
            holes: false,
            orders: Vec::new(),
            constant: indices_where(rows.par_iter().map(|row| Ok(is_constant(row))))?,
        })
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

    /// Whether each pair has ranks of its own: the metric is Spearman's correlation, and values are
    /// missing.
    pub fn pairwise(&self) -> bool {
        self.holes && matches!(self.metric, Metric::Spearman { .. })
    }

    /// The rows, in increasing order, that have no direction: constant ones under a correlation,
    /// zeros under the cosine. Their distances are NaN.
    pub fn constant(&self) -> &[usize] {
        &self.constant
    }

    /// The distance of two observations, the same bits wherever it is computed; [`super::form::NA`]
    /// where they share too few coordinates.
    pub fn distance(&self, i: usize, j: usize) -> f64 {
        self.with_form(Pair { points: self, i, j })
    }

    /// The distances of an observation from [`TOGETHER`] others, which take little longer than one.
    pub fn distances(&self, i: usize, others: &[usize; TOGETHER]) -> [f64; TOGETHER] {
        self.with_form(Several {
            points: self,
            i,
            others,
        })
    }

    /// Hands the form of the metric to `visitor`.
    pub fn with_form<V: WithForm>(&self, visitor: V) -> V::Output {
        if self.pairwise() {
            return visitor.pairwise();
        }
        let columns = self.columns as f64;
        match self.metric {
            Metric::Pearson { absolute } if self.holes => {
                visitor.with_form(CorrelationOfCommon { absolute })
            }
            Metric::Cosine { absolute } if self.holes => {
                visitor.with_form(AngleOfCommon { absolute })
            }
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

/// The numbers of those that are true, or an error if there is one.
fn indices_where(flags: impl IndexedParallelIterator<Item = Result<bool>>) -> Result<Vec<usize>> {
    let numbered = flags.enumerate();
    let number = |(i, flag): (usize, Result<bool>)| flag.map(|flag| flag.then_some(i)).transpose();
    numbered.filter_map(number).collect()
}

/// Two of the points.
struct Pair<'a> {
    points: &'a Points,
    i: usize,
    j: usize,
}

impl WithForm for Pair<'_> {
    type Output = f64;

    fn with_form<F: Form>(self, form: F) -> f64 {
        let (a, b) = (self.points.row(self.i), self.points.row(self.j));
        dispatch(PairDistance { form, a, b })
    }

    fn pairwise(self) -> f64 {
        let columns = self.points.columns;
        let ordered = |i: usize| Ordered {
            row: self.points.row(i),
            order: &self.points.orders[i * columns..][..columns],
        };
        let absolute = self.points.metric == Metric::Spearman { absolute: true };
        pairwise::distance(ordered(self.i), ordered(self.j), absolute)
    }
}

/// One of the points and others.
struct Several<'a> {
    points: &'a Points,
    i: usize,
    others: &'a [usize; TOGETHER],
}

impl WithForm for Several<'_> {
    type Output = [f64; TOGETHER];

    fn with_form<F: Form>(self, form: F) -> Self::Output {
        let a = self.points.row(self.i);
        let others = self.others.map(|j| &self.points.row(j)[..a.len()]);
        dispatch(SeveralDistances { form, a, others })
    }

    fn pairwise(self) -> Self::Output {
        self.others.map(|j| self.points.distance(self.i, j))
    }
}

/// As [`PairDistance`], of a row and others.
struct SeveralDistances<'a, F> {
    form: F,
    a: &'a [f64],
    others: [&'a [f64]; TOGETHER],
}

impl<F: Form> WithSimd for SeveralDistances<'_, F> {
    type Output = [f64; TOGETHER];

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Self::Output {
        let mut states = [self.form.start(Scalar); TOGETHER];
        for (k, &a) in self.a.iter().enumerate() {
            for (state, other) in states.iter_mut().zip(&self.others) {
                *state = self.form.add(Scalar, *state, a, other[k]);
            }
        }
        states.map(|state| self.form.finish(Scalar, state))
    }
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
