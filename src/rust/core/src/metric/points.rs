//! Observations prepared for one metric.

use ndarray::{Array2, ArrayView2};
use rayon::prelude::*;

use super::catalogue::Metric;
use super::form::{Form, WithForm};
use super::pairwise::{self, Ordered};
use super::prepare::{prepare, scale};
use super::rows::{distance_of_rows, distances_of_rows, DISTANCES_AT_ONCE};
use crate::error::Result;
use crate::matrix::{self, RowSlices, STANDARD_LAYOUT};
use crate::memory;
use crate::monitor::Monitor;

/// Observations prepared for one metric. For the binary metric, values are 0 or 1. For Spearman's
/// correlation, rows are ranked; for both correlations, centred; for both and the cosine, scaled to
/// unit length, so that each of these three metrics is one dot product. For other metrics, rows are
/// unchanged.
///
/// If values are missing, the means and lengths of correlations differ from pair to pair. Then rows
/// are unchanged, except for a power of two as a factor for Pearson's correlation and the cosine.
#[derive(Debug, Clone, PartialEq)]
pub struct Points {
    metric: Metric,
    values: Array2<f64>,
    /// Whether a value is missing, or infinite where that matters.
    missing: bool,
    /// For Spearman's correlation with missing values, the indices of each row's coordinates by
    /// increasing value; otherwise empty.
    orders: Vec<u32>,
    /// See [`Points::constant`].
    constant: Vec<usize>,
}

impl Points {
    /// Points from finite observations, for tests.
    #[cfg(any(test, feature = "testing"))]
    pub fn new(metric: Metric, x: &crate::Observations) -> Self {
        let points = Self::prepare(metric, x.view().to_owned(), &Monitor::default());
        points.expect("there is memory for a test")
    }

    /// Prepares observations in rows, in standard layout. NaN means missing. Works on the threads
    /// of the calling rayon pool.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory, `Error::Interrupt` when the monitor says
    /// stop.
    ///
    /// # Panics
    /// If the matrix is not in standard layout.
    pub fn prepare(metric: Metric, mut x: Array2<f64>, monitor: &Monitor) -> Result<Self> {
        let columns = x.ncols();
        let values = x.as_slice_mut().expect(STANDARD_LAYOUT);
        let correlation = metric.is_correlation();
        let is_missing = |value: &f64| value.is_nan() || (!correlation && value.is_infinite());
        let missing = columns < metric.fewest_coordinates() || values.par_iter().any(is_missing);
        let row_len = columns.max(1);
        let mut orders = Vec::new();
        let constant = if missing && correlation {
            let constant = constant_where_known(&metric, values, row_len, monitor)?;
            if matches!(metric, Metric::Spearman { .. }) {
                orders = orders_of_rows(values, row_len, monitor)?;
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
            values: x,
            missing,
            orders,
            constant,
        })
    }

    /// The points in `rows`, in this order; their distances have the same bits as before. Requires
    /// points without missing values. Works on the threads of the calling pool, which must not be
    /// rayon's global pool: a forked R process has none of the global pool's threads, and would
    /// wait for ever.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn select(&self, rows: &[u32]) -> Result<Self> {
        debug_assert!(!self.missing, "orders are not copied");
        let is_constant = |row: &u32| self.constant.binary_search(&(*row as usize)).is_ok();
        Ok(Self {
            metric: self.metric,
            values: matrix::take_rows(self.values.values(), self.values.ncols(), rows)?,
            missing: false,
            orders: Vec::new(),
            constant: indices_where(rows.par_iter().map(|row| Ok(is_constant(row))))?,
        })
    }

    /// The metric that the points are prepared for.
    pub fn metric(&self) -> &Metric {
        &self.metric
    }

    /// Number of observations.
    pub fn rows(&self) -> usize {
        self.values.nrows()
    }

    /// Number of coordinates.
    pub fn columns(&self) -> usize {
        self.values.ncols()
    }

    /// One observation, prepared.
    pub fn row(&self, row: usize) -> &[f64] {
        self.values.row_slice(row)
    }

    /// All observations, prepared, as a matrix.
    pub fn view(&self) -> ArrayView2<'_, f64> {
        self.values.view()
    }

    /// All observations, prepared, row by row.
    pub fn values(&self) -> &[f64] {
        self.values.values()
    }

    /// Whether values are missing (NaN), or infinite where that matters, or whether there are too
    /// few columns for a distance. If so, the distance of a pair counts the coordinates that both
    /// have.
    pub fn has_missing(&self) -> bool {
        self.missing
    }

    /// Whether each pair has its own ranks: the metric is Spearman's correlation, and values are
    /// missing.
    pub fn pairwise(&self) -> bool {
        self.missing && matches!(self.metric, Metric::Spearman { .. })
    }

    /// The rows, in increasing order, that have no direction: constant rows for a correlation, rows
    /// of zeros for the cosine. Their distances are NaN.
    pub fn constant(&self) -> &[usize] {
        &self.constant
    }

    /// The distance of two observations, with the same bits wherever it is computed;
    /// [`super::form::NA`] if they share too few coordinates. Takes O(p) time for p columns, or O(p
    /// log p) if [`Points::pairwise`].
    pub fn distance(&self, i: usize, j: usize) -> f64 {
        self.with_form(Pair { points: self, i, j })
    }

    /// The distances of an observation from [`DISTANCES_AT_ONCE`] others, in little more time than
    /// one.
    pub fn distances(
        &self,
        i: usize,
        others: &[usize; DISTANCES_AT_ONCE],
    ) -> [f64; DISTANCES_AT_ONCE] {
        self.with_form(Several {
            points: self,
            i,
            others,
        })
    }

    /// Calls `visitor` with the form of the metric.
    pub fn with_form<V: WithForm>(&self, visitor: V) -> V::Output {
        self.metric.with_form(self.missing, self.columns(), visitor)
    }
}

/// The rows, from 0, that have no direction in the coordinates that are not missing.
fn constant_where_known(
    metric: &Metric,
    values: &[f64],
    row_len: usize,
    monitor: &Monitor,
) -> Result<Vec<usize>> {
    let is_constant = |row: &[f64]| {
        monitor.check()?;
        let mut present: Vec<f64> = row.iter().copied().filter(|v| !v.is_nan()).collect();
        Ok(present.len() >= metric.fewest_coordinates() && !prepare(metric, &mut present))
    };
    indices_where(values.par_chunks(row_len).map(is_constant))
}

/// The indices of each row's coordinates by increasing value, row by row.
fn orders_of_rows(values: &[f64], row_len: usize, monitor: &Monitor) -> Result<Vec<u32>> {
    let mut orders = memory::zeros("the orders of the observations' values need", values.len())?;
    orders
        .par_chunks_mut(row_len)
        .zip(values.par_chunks(row_len))
        .try_for_each(|(order, row)| {
            monitor.check()?;
            pairwise::order(row, order);
            Ok(())
        })?;
    Ok(orders)
}

/// The indices of the flags that are true, or an error if there is one.
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
        distance_of_rows(form, a, b)
    }

    fn pairwise(self) -> f64 {
        let columns = self.points.columns();
        let ordered = |i: usize| Ordered {
            row: self.points.row(i),
            order: &self.points.orders[i * columns..][..columns],
        };
        let absolute = self.points.metric == Metric::Spearman { absolute: true };
        pairwise::distance(ordered(self.i), ordered(self.j), absolute)
    }
}

/// One of the points and several others.
struct Several<'a> {
    points: &'a Points,
    i: usize,
    others: &'a [usize; DISTANCES_AT_ONCE],
}

impl WithForm for Several<'_> {
    type Output = [f64; DISTANCES_AT_ONCE];

    fn with_form<F: Form>(self, form: F) -> Self::Output {
        let a = self.points.row(self.i);
        distances_of_rows(form, a, self.others.map(|j| self.points.row(j)))
    }

    fn pairwise(self) -> Self::Output {
        self.others.map(|j| self.points.distance(self.i, j))
    }
}
