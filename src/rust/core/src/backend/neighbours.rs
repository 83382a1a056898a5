//! What searches ask of a device: the nearest references of many queries, exactly.
//!
//! The answers are those of the distances that decide, in double precision and one order of
//! operations, with ties going to the smaller index: they do not depend on the device, on the
//! number of threads or on what a device rules out beforehand ([`super::single`] says how that can
//! be done in single precision).

use std::ops::Range;

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::matrix::Matrix;
use crate::memory;
use crate::metric::{Metric, Points, ZeroOverZero};

/// What is near what.
#[derive(Debug, Clone, Copy)]
pub enum Space<'a> {
    /// Points, each of which can be a query, and so many references, the first ones. All distances
    /// are numbers.
    Points {
        points: &'a Points,
        references: usize,
    },
    /// One cluster for each of these observations, which can be merged ([`Neighbours::merge`]), at
    /// the distances of [`Centroids`].
    Clusters(&'a Matrix),
}

impl Space<'_> {
    /// That all distances of queries and references are numbers.
    ///
    /// # Errors
    /// `Error::Input` where values are missing or infinite, and as [`refuse`].
    pub fn check(&self) -> Result<()> {
        let Space::Points { points, references } = *self else {
            return Ok(());
        };
        let rows = suspects(points)?;
        let (x, query) = rows.split_at(rows.partition_point(|&row| row < references));
        let query: Vec<usize> = query.iter().map(|row| row - references).collect();
        refuse(points.metric(), x, &query)
    }
}

/// The rows of points that lack a distance: from every other one under a correlation, where they are
/// constant, or zeros under the cosine; from each other under a Canberra metric that leaves zeros
/// out, where they are zeros.
///
/// # Errors
/// `Error::Input` where values are missing or infinite, or columns too few for any distance.
pub fn suspects(points: &Points) -> Result<Vec<usize>> {
    let fewest = points.metric().fewest_coordinates();
    if points.columns() < fewest {
        return Err(Error::Input(format!(
            "`X` has {} column(s); a {} distance needs at least {fewest}",
            points.columns(),
            points.metric().name()
        )));
    }
    if points.holes() {
        return Err(Error::Input(
            "`X` has values that are missing or infinite; every value must be finite".into(),
        ));
    }
    Ok(match points.metric() {
        Metric::Canberra(ZeroOverZero::Omitted) => {
            // What R takes as zero.
            let is_zero = |v: &f64| v.abs() <= f64::MIN_POSITIVE;
            let zeros = (0..points.rows()).filter(|&i| points.row(i).iter().all(is_zero));
            zeros.collect()
        }
        _ => points.constant().to_vec(),
    })
}

/// That [`suspects`] among the rows of `X` and of `query` are too few to matter: none under a
/// correlation or the cosine, and at most one row of zeros under the Canberra metric.
///
/// # Errors
/// `Error::Input`, with their row numbers, where they are more.
pub fn refuse(metric: &Metric, x: &[usize], query: &[usize]) -> Result<()> {
    let harmless = usize::from(!metric.is_correlation());
    if x.len() + query.len() <= harmless {
        return Ok(());
    }
    let what = match metric {
        Metric::Canberra(_) | Metric::Cosine { .. } => "zero",
        _ => "constant",
    };
    let place = match (x, query) {
        (x, []) => format!("`X` is {what} in {}", in_words(x)),
        ([], query) => format!("`query` is {what} in {}", in_words(query)),
        (x, query) => format!(
            "`X` is {what} in {} and `query` in {}",
            in_words(x),
            in_words(query)
        ),
    };
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

/// Which references a query leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Except<'a> {
    Nobody,
    /// That with the query's index.
    Itself,
    /// Those of the query's group, given the group of each index.
    Group(&'a [u32]),
}

/// A question: which references are nearest to these?
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The queries' indices.
    pub queries: &'a [u32],
    /// How many of the nearest are wanted, at least 1.
    pub wanted: usize,
    /// For each query, the greatest distance that is of interest; any where `None`.
    pub limits: Option<&'a [f64]>,
    pub except: Except<'a>,
}

impl Request<'_> {
    /// The same question for some of the queries.
    pub fn part(&self, some: Range<usize>) -> Request<'_> {
        Request {
            queries: &self.queries[some.clone()],
            limits: self.limits.map(|limits| &limits[some]),
            ..*self
        }
    }
}

/// What is done with the answers for one block of queries after the other.
pub type Take<'a> = dyn FnMut(&Nearest) -> Result<()> + Send + 'a;

/// The answer: for each query up to as many references as wanted, nearest first, ties by index.
/// Where they are fewer, there are no others within the limit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Nearest {
    found: Vec<(f64, u32)>,
    ends: Vec<usize>,
}

impl Nearest {
    /// Of nothing so far, with room for what is found for so many queries.
    ///
    /// # Errors
    /// `Error::Memory` where there is not enough.
    pub fn with_room(queries: usize, found: usize) -> Result<Self> {
        Ok(Self {
            found: memory::room("the neighbours need", found)?,
            ends: memory::room("the neighbours need", queries)?,
        })
    }

    /// How many queries there are answers for.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// What `found` has for each of so many queries, copied on the threads of the rayon pool it is
    /// called in.
    pub fn of_all<'a>(queries: usize, found: impl Fn(usize) -> &'a [(f64, u32)] + Sync) -> Self {
        /// Queries that a thread copies at a time.
        const TOGETHER: usize = 1 << 10;

        let mut end = 0;
        let ends = (0..queries).map(|i| {
            end += found(i).len();
            end
        });
        let ends: Vec<usize> = ends.collect();
        let mut all = vec![(0.0, 0); end];
        let mut parts = Vec::new();
        let (mut rest, mut start) = (&mut all[..], 0);
        for (part, ends) in ends.chunks(TOGETHER).enumerate() {
            let end = ends[ends.len() - 1];
            let (place, others) = rest.split_at_mut(end - start);
            parts.push((place, part * TOGETHER..part * TOGETHER + ends.len()));
            (rest, start) = (others, end);
        }
        parts.into_par_iter().for_each(|(mut rest, some)| {
            for i in some {
                let found = found(i);
                let (place, others) = rest.split_at_mut(found.len());
                place.copy_from_slice(found);
                rest = others;
            }
        });
        Self { found: all, ends }
    }

    /// Adds what was found for the next query.
    pub fn push(&mut self, found: &[(f64, u32)]) {
        self.found.extend_from_slice(found);
        self.ends.push(self.found.len());
    }

    /// Distances and indices of what was found for the `i`-th query.
    pub fn of(&self, i: usize) -> &[(f64, u32)] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.found[start..self.ends[i]]
    }

    /// What was found, query by query.
    pub fn iter(&self) -> impl Iterator<Item = &[(f64, u32)]> {
        (0..self.ends.len()).map(|i| self.of(i))
    }
}

/// References on a device, and queries to them.
pub trait Neighbours: Send {
    /// Answers a request.
    ///
    /// # Errors
    /// `Error::Interrupt` when the monitor says stop, `Error::Memory` and `Error::Device` as the
    /// device has it.
    fn nearest(&mut self, request: &Request<'_>) -> Result<Nearest>;

    /// Answers a request block by block: `take` gets the answers for the first so many queries, then
    /// those for the next, and so on. For requests of any size.
    ///
    /// # Errors
    /// As [`Neighbours::nearest`], and what `take` returns.
    fn nearest_in_blocks(&mut self, request: &Request<'_>, take: &mut Take<'_>) -> Result<()> {
        let count = request.queries.len();
        let size = self.batch();
        for start in (0..count).step_by(size) {
            take(&self.nearest(&request.part(start..(start + size).min(count)))?)?;
        }
        Ok(())
    }

    /// The distances that decide, of queries and references.
    fn distances(&mut self, pairs: &[(u32, u32)]) -> Result<Vec<f64>>;

    /// Merges two of [`Space::Clusters`] to one in the lower slot; the higher slot is empty from
    /// then on, and neither a query nor a reference.
    fn merge(&mut self, lower: u32, higher: u32) -> Result<()>;

    /// How many queries at a time keep the devices busy for a fraction of a second.
    fn batch(&self) -> usize;
}

/// Clusters by centroid and size, in slots.
///
/// Their distance is that of Ward's linkage, √(2ab/(a+b))·‖α−β‖ for sizes a, b and centroids α, β:
/// the root of twice the sum of squares that merging them adds (Ward 1963, as in the heights of
/// `hclust(method = "ward.D2")`).
#[derive(Debug, Clone)]
pub struct Centroids {
    columns: usize,
    values: Vec<f64>,
    sizes: Vec<f64>,
}

impl Centroids {
    /// One cluster for each observation.
    ///
    /// # Errors
    /// `Error::Memory` where there is not enough.
    pub fn new(x: &Matrix) -> Result<Self> {
        Ok(Self {
            columns: x.columns(),
            values: memory::copied(memory::OBSERVATIONS, x.values())?,
            sizes: memory::filled(memory::OBSERVATIONS, x.rows(), 1.0)?,
        })
    }

    /// Number of slots, empty ones included.
    pub fn slots(&self) -> usize {
        self.sizes.len()
    }

    /// Number of coordinates.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The centroid of a slot's cluster.
    pub fn row(&self, slot: usize) -> &[f64] {
        &self.values[slot * self.columns..][..self.columns]
    }

    /// All centroids, slot after slot.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Number of members of a slot's cluster, 0 for an empty slot.
    pub fn size(&self, slot: usize) -> f64 {
        self.sizes[slot]
    }

    /// The distance of two clusters: the same bits in either order, on any device.
    pub fn distance(&self, i: usize, j: usize) -> f64 {
        let mut square = 0.0;
        for (a, b) in self.row(i).iter().zip(self.row(j)) {
            let difference = a - b;
            square += difference * difference;
        }
        self.distance_of(i, j, square)
    }

    /// The distance of two clusters, given the sum of squares between their centroids.
    #[inline(always)]
    pub fn distance_of(&self, i: usize, j: usize, square: f64) -> f64 {
        let (a, b) = (self.sizes[i], self.sizes[j]);
        (2.0 * (a * b) / (a + b) * square).sqrt()
    }

    /// Merges two clusters to one in the lower slot and empties the higher one.
    pub fn merge(&mut self, lower: usize, higher: usize) {
        let (a, b) = (self.sizes[lower], self.sizes[higher]);
        let (before, after) = self.values.split_at_mut(higher * self.columns);
        let centroid = &mut before[lower * self.columns..][..self.columns];
        for (to, from) in centroid.iter_mut().zip(&after[..self.columns]) {
            *to += b / (a + b) * (from - *to);
        }
        self.sizes[lower] = a + b;
        self.sizes[higher] = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_for_all_is_what_was_found_for_one_after_the_other() {
        let found = |i: u32| (0..i * 7 % 5).map(|j| (f64::from(j), i + j)).collect();
        for queries in [0, 1, 5000] {
            let all: Vec<Vec<(f64, u32)>> = (0..queries).map(found).collect();
            let mut expected = Nearest::default();
            all.iter().for_each(|found| expected.push(found));
            assert_eq!(Nearest::of_all(all.len(), |i| &all[i]), expected);
            assert_eq!(expected.len(), all.len());
        }
    }
}
