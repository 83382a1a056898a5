//! The condensed matrix: dissimilarities of all pairs of clusters, in the order of R's `dist`.

use bytemuck::Zeroable;
use rayon::prelude::*;

use super::dissimilarity_source::DissimilaritySource;
use crate::distances::{DistanceDevice, Pairs};
use crate::error::{Error, Result};
use crate::memory;
use crate::monitor::Monitor;
use crate::tasks::pieces;

/// The type of a stored dissimilarity. All arithmetic is in double precision.
pub trait Stored: Copy + Default + Send + Sync + 'static + Zeroable {
    /// The largest accepted magnitude of a dissimilarity, after squaring for ward.D2. Sums in
    /// double precision then do not overflow, see `LARGEST_SIZE` in matrix.rs; a stored height may.
    const LARGEST: f64;

    /// Rounds a dissimilarity to its stored form.
    fn store(value: f64) -> Self;

    /// The dissimilarity in double precision.
    fn load(self) -> f64;

    /// The stored values as doubles; `scratch` holds them unless they are stored as doubles.
    fn to_doubles<'a>(stored: &'a [Self], scratch: &'a mut [f64]) -> &'a [f64];

    /// The stored values, to be overwritten, if they are doubles.
    fn as_doubles_mut(stored: &mut [Self]) -> Option<&mut [f64]>;

    /// Values rounded to the stored precision, as doubles; `scratch` holds them if they change.
    fn rounded<'a>(values: &'a [f64], scratch: &'a mut [f64]) -> &'a [f64];
}

impl Stored for f64 {
    const LARGEST: f64 = 1e150;

    #[inline(always)]
    fn store(value: f64) -> Self {
        value
    }

    #[inline(always)]
    fn load(self) -> f64 {
        self
    }

    fn to_doubles<'a>(stored: &'a [Self], _: &'a mut [f64]) -> &'a [f64] {
        stored
    }

    fn as_doubles_mut(stored: &mut [Self]) -> Option<&mut [f64]> {
        Some(stored)
    }

    fn rounded<'a>(values: &'a [f64], _: &'a mut [f64]) -> &'a [f64] {
        values
    }
}

impl Stored for f32 {
    // Ward's dissimilarities of n clusters are up to n / 2 times as large as the given
    // dissimilarities.
    const LARGEST: f64 = 1e30;

    #[inline(always)]
    fn store(value: f64) -> Self {
        value as f32
    }

    #[inline(always)]
    fn load(self) -> f64 {
        f64::from(self)
    }

    fn to_doubles<'a>(stored: &'a [Self], scratch: &'a mut [f64]) -> &'a [f64] {
        let values = stored.iter().map(|value| value.load());
        fill(scratch, stored.len(), values)
    }

    fn as_doubles_mut(_: &mut [Self]) -> Option<&mut [f64]> {
        None
    }

    fn rounded<'a>(values: &'a [f64], scratch: &'a mut [f64]) -> &'a [f64] {
        let stored = values.iter().map(|&value| Self::store(value).load());
        fill(scratch, values.len(), stored)
    }
}

/// Writes `len` values to the front of `scratch`.
fn fill(scratch: &mut [f64], len: usize, values: impl Iterator<Item = f64>) -> &[f64] {
    let scratch = &mut scratch[..len];
    scratch
        .iter_mut()
        .zip(values)
        .for_each(|(to, value)| *to = value);
    scratch
}

/// Approximate number of dissimilarities (128 MiB) that are computed as doubles at a time, before
/// they are stored as singles. Only memory and speed depend on it.
const AT_A_TIME: usize = if cfg!(test) { 1 << 10 } else { 1 << 24 };

/// Checks that the dissimilarities of a cluster to the clusters in higher slots are finite and not
/// too large to be stored as `T`.
///
/// # Errors
/// `Error::Input`, which names the first dissimilarity that cannot be stored.
pub fn check<T: Stored>(row: &[f64], slot: usize) -> Result<()> {
    // NaN is in no range.
    let is_usable = |value: &f64| (-T::LARGEST..=T::LARGEST).contains(value);
    if row.iter().fold(true, |fine, value| fine & is_usable(value)) {
        return Ok(());
    }
    let at = row.iter().position(|value| !is_usable(value));
    let at = at.expect("there is one");
    let other = slot + 1 + at;
    let value = match row[at] {
        value if value.is_finite() => format!("{value:e}"),
        // R's words for a missing, an undefined and an infinite value.
        _ => "NA/NaN/Inf".into(),
    };
    Err(Error::Input(format!(
        "`x` has {value} between observations {} and {}; dissimilarities, given or computed from \
         rows, must be finite, and at most {:e} (ward.D2: its square root): rescale `x` if they \
         overflow",
        slot + 1,
        other + 1,
        T::LARGEST
    )))
}

/// Number of pairs of `n` clusters.
pub fn pairs(n: usize) -> usize {
    n * n.saturating_sub(1) / 2
}

/// Bytes of the doubles that the distances of `n` clusters take at a time before they are stored as
/// singles.
pub fn room_for_doubles(n: usize) -> f64 {
    (pairs(n).min(AT_A_TIME) * size_of::<f64>()) as f64
}

/// The start of the row of cluster `i` of `n`: its dissimilarities to clusters i + 1, …, n − 1.
#[inline(always)]
pub fn row_start(n: usize, i: usize) -> usize {
    i * (2 * n - 1 - i) / 2
}

/// The position of the dissimilarity of two different clusters of `n`.
#[inline(always)]
pub fn position(n: usize, i: usize, j: usize) -> usize {
    let (low, high) = (i.min(j), i.max(j));
    row_start(n, low) + high - low - 1
}

/// The dissimilarities of `n` clusters, row by row. A row holds a cluster's dissimilarities to
/// later clusters only.
#[derive(Debug, Clone, PartialEq)]
pub struct CondensedMatrix<T> {
    values: Vec<T>,
    n: usize,
}

impl<T: Stored> CondensedMatrix<T> {
    /// A matrix for `n` clusters, in the memory of a former matrix if that is large enough. Its
    /// values are meaningless.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn reusing(mut memory: Vec<T>, n: usize) -> Result<Self> {
        let len = pairs(n);
        if memory.capacity() >= len {
            memory.resize(len, T::default());
            return Ok(Self { values: memory, n });
        }
        drop(memory);
        let what = format!("the dissimilarities of {n} clusters need");
        let values = memory::zeros(&what, len)?;
        Ok(Self { values, n })
    }

    /// A copy of given dissimilarities, or the distances of points.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory, and the errors of the device.
    pub fn from_source(
        source: DissimilaritySource,
        n: usize,
        device: &(impl DistanceDevice + ?Sized),
        monitor: &Monitor,
    ) -> Result<Self> {
        match source {
            DissimilaritySource::Given(values) => Self::of(values, n),
            DissimilaritySource::Points(points) => {
                let distances =
                    |pairs: &Pairs, out: &mut [f64]| device.distances(points, pairs, out, monitor);
                Self::filled(n, distances)
            }
        }
    }

    /// A matrix of the values that `fill` writes for all pairs of `n` clusters, some columns at a
    /// time.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory, and the errors of `fill`.
    pub fn filled(n: usize, fill: impl Fn(&Pairs, &mut [f64]) -> Result<()>) -> Result<Self> {
        let mut matrix = Self::reusing(Vec::new(), n)?;
        let pairs = Pairs::within(n);
        if let Some(values) = T::as_doubles_mut(&mut matrix.values) {
            fill(&pairs, values)?;
            return Ok(matrix);
        }
        let mut scratch = Vec::new();
        let mut first = 0;
        while first < pairs.columns() {
            let more = pairs.part(first..pairs.columns());
            let fitting = (1..more.columns()).take_while(|&j| more.column(j).start < AT_A_TIME);
            let part = more.part(0..1 + fitting.count());
            scratch.resize(part.count(), 0.0);
            fill(&part, &mut scratch)?;
            let to = &mut matrix.values[row_start(n, first)..][..scratch.len()];
            to.par_iter_mut()
                .with_min_len(1 << 12)
                .zip(&scratch)
                .for_each(|(to, &value)| *to = T::store(value));
            first += part.columns();
        }
        Ok(matrix)
    }

    /// A copy of the dissimilarities of all pairs of `n` clusters.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn of(values: &[f64], n: usize) -> Result<Self> {
        let mut copy = Self::reusing(Vec::new(), n)?;
        let rows = copy.rows_mut().into_par_iter().enumerate();
        rows.with_min_len(64).for_each(|(i, to)| {
            let from = &values[row_start(n, i)..][..n - 1 - i];
            for (to, &value) in to.iter_mut().zip(from) {
                *to = T::store(value);
            }
        });
        Ok(copy)
    }

    /// Number of clusters.
    pub fn clusters(&self) -> usize {
        self.n
    }

    /// The dissimilarities of cluster `i` to the clusters after it.
    #[inline(always)]
    pub fn row(&self, i: usize) -> &[T] {
        &self.values[row_start(self.n, i)..][..self.n - 1 - i]
    }

    /// All rows.
    pub fn rows_mut(&mut self) -> Vec<&mut [T]> {
        pieces(&mut self.values, (0..self.n).rev()).collect()
    }

    /// The dissimilarity of two different clusters.
    #[inline(always)]
    pub fn get(&self, i: usize, j: usize) -> f64 {
        self.values[position(self.n, i, j)].load()
    }

    /// Sets the dissimilarity of two different clusters.
    #[inline(always)]
    pub fn set(&mut self, i: usize, j: usize, value: f64) {
        self.values[position(self.n, i, j)] = T::store(value);
    }

    /// All values.
    pub fn values_mut(&mut self) -> &mut [T] {
        &mut self.values
    }

    /// The memory, for [`CondensedMatrix::reusing`].
    pub fn into_memory(self) -> Vec<T> {
        self.values
    }
}
