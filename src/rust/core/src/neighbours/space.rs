//! The queries and references of a search, and the check for rows without a distance.

use super::cluster_means::MeanLinkage;
use crate::error::{Error, Result};
use crate::metric::{Metric, Points, ZeroOverZero};

/// The queries and references of a search, as the caller gives them.
#[derive(Debug, Clone, Copy)]
pub enum Space<'a> {
    /// Points. Each point can be a query; the first `references` points are the references. All
    /// distances must be numbers.
    Points {
        points: &'a Points,
        references: usize,
    },
    /// One cluster for each of these points, at the distances of
    /// [`ClusterMeans`](super::ClusterMeans). Clusters can be
    /// [merged](super::Neighbours::merge).
    Clusters {
        points: &'a Points,
        /// By point, the number of observations that are equal to it.
        sizes: &'a [f64],
        linkage: MeanLinkage,
    },
}

impl Space<'_> {
    /// Checks that all distances of queries and references are numbers.
    ///
    /// # Errors
    /// `Error::Input` if values are missing or infinite, and as [`refuse_undefined`].
    pub fn check(&self) -> Result<()> {
        let Space::Points { points, references } = *self else {
            return Ok(());
        };
        let rows = rows_without_distance(points, "x")?;
        let (x, query) = rows.split_at(rows.partition_point(|&row| row < references));
        let query: Vec<usize> = query.iter().map(|row| row - references).collect();
        refuse_undefined(points.metric(), &[("x", x), ("query", &query)])
    }
}

/// Checks that all distances between these points are numbers. `arg` names the points in errors.
///
/// # Errors
/// As [`Space::check`].
pub fn check_defined(points: &Points, arg: &str) -> Result<()> {
    let rows = rows_without_distance(points, arg)?;
    refuse_undefined(points.metric(), &[(arg, &rows)])
}

/// The rows, from 0, whose distances are not all numbers: constant rows have no correlation with
/// any row; rows of zeros have no cosine with any row; two rows of zeros have no Canberra distance
/// if it omits 0/0. `arg` names the points in errors.
///
/// # Errors
/// `Error::Input` if values are missing or infinite, or columns too few for any distance.
pub fn rows_without_distance(points: &Points, arg: &str) -> Result<Vec<usize>> {
    let fewest = points.metric().fewest_coordinates();
    if points.columns() < fewest {
        return Err(Error::Input(format!(
            "`{arg}` has {} column(s); a {} distance needs at least {fewest}",
            points.columns(),
            points.metric().name()
        )));
    }
    if points.has_missing() {
        return Err(Error::Input(format!(
            "`{arg}` has values that are missing or infinite; every value must be finite"
        )));
    }
    Ok(match points.metric() {
        Metric::Canberra(ZeroOverZero::Omitted) => {
            // R treats magnitudes up to this as zero.
            let is_zero = |v: &f64| v.abs() <= f64::MIN_POSITIVE;
            let zeros = (0..points.rows()).filter(|&i| points.row(i).iter().all(is_zero));
            zeros.collect()
        }
        _ => points.constant().to_vec(),
    })
}

/// Checks that [`rows_without_distance`] are harmless: a correlation or the cosine allows none, and
/// the Canberra metric at most one row of zeros. `rows` has the names of the arguments with their
/// rows, from 0.
///
/// # Errors
/// `Error::Input`, with the row numbers, if there are more.
pub fn refuse_undefined(metric: &Metric, rows: &[(&str, &[usize])]) -> Result<()> {
    let harmless = usize::from(!metric.is_correlation());
    if rows.iter().map(|(_, rows)| rows.len()).sum::<usize>() <= harmless {
        return Ok(());
    }
    let what = match metric {
        Metric::Canberra(_) | Metric::Cosine { .. } => "zero",
        _ => "constant",
    };
    let mut places = rows.iter().filter(|(_, rows)| !rows.is_empty());
    let mut place = String::new();
    if let Some((arg, rows)) = places.next() {
        place = format!("`{arg}` is {what} in {}", in_words(rows));
    }
    for (arg, rows) in places {
        place += &format!(" and `{arg}` in {}", in_words(rows));
    }
    Err(Error::Input(format!(
        "{place}; such rows have no {} distance",
        metric.name()
    )))
}

/// "row 3", "rows 3 and 7", "rows 1, 2, 3, 4, 5 and 20 more", given rows from 0.
fn in_words(rows: &[usize]) -> String {
    const SHOWN: usize = 5;

    let mut numbers: Vec<String> = rows
        .iter()
        .take(SHOWN)
        .map(|row| (row + 1).to_string())
        .collect();
    if rows.len() > SHOWN {
        numbers.push(format!("{} more", rows.len() - SHOWN));
    }
    match numbers.split_last() {
        Some((last, [])) => format!("row {last}"),
        Some((last, others)) => format!("rows {} and {last}", others.join(", ")),
        None => "no row".into(),
    }
}
