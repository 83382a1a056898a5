//! Clusters to merge to one.

use std::ops::Range;

use pulp::Simd;

use super::distance;
use super::options::{Distance, Options};
use super::running_moments::RunningMoments;
use super::subthreshold::Subthreshold;
use crate::matrix::{bounding_box_on_threads, RowSlices};
use crate::monitor::Monitor;
use crate::observations::Observations;

/// The mean and the shape of the union of two clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnionRule {
    /// The mean and the shape of all members.
    Shape,
    /// The mean of all members; the shape is the identity.
    Mean,
    /// The midpoint between the means of both clusters; the shape is the identity.
    Midpoint,
}

/// The numbers of some rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowNumbers {
    Consecutive(Range<u32>),
    Listed(Vec<u32>),
}

impl RowNumbers {
    pub fn len(&self) -> usize {
        match self {
            Self::Consecutive(rows) => rows.len(),
            Self::Listed(rows) => rows.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The row at an index below [`Self::len`].
    #[inline(always)]
    pub fn at(&self, index: usize) -> u32 {
        debug_assert!(index < self.len());
        match self {
            Self::Consecutive(rows) => rows.start + index as u32,
            Self::Listed(rows) => rows[index],
        }
    }
}

/// Clusters to merge to one. The cluster in slot s consists of the observations of `x` with the
/// numbers `members`, from index `starts[s]` to the next start.
#[derive(Debug, Clone)]
pub struct Problem<'a> {
    pub x: &'a Observations,
    /// The rows of all members, one cluster after the other.
    pub members: RowNumbers,
    /// By slot, the index of the first member; then the number of members. `None` if each member is
    /// a cluster.
    pub starts: Option<Vec<usize>>,
    pub options: Options,
    /// A rule other than [`UnionRule::Shape`] requires that all members of a cluster at the start
    /// are equal, that no cluster becomes full-size, and that distances are [`Distance::Centroid`].
    pub union: UnionRule,
}

impl<'a> Problem<'a> {
    /// A problem with one cluster per observation in `members`.
    pub fn of_observations(x: &'a Observations, members: Range<u32>, options: Options) -> Self {
        Self {
            x,
            members: RowNumbers::Consecutive(members),
            starts: None,
            options,
            union: UnionRule::Shape,
        }
    }

    /// A problem with one cluster per row of `x`, and Euclidean distances between means.
    pub fn of_centroids(x: &'a Observations, union: UnionRule) -> Self {
        let n = x.nrows();
        let options = Options {
            threshold: n as f64 + 1.0,
            subthreshold: Subthreshold::Euclid,
            distance: Distance::Centroid,
            normalize: true,
            apriori_intra: true,
        };
        Self {
            union,
            ..Self::of_observations(x, 0..n as u32, options)
        }
    }

    /// A lower bound on the bytes that agglomeration takes besides the observations: means in
    /// double and single precision, members for full Mahalanobis distances, and a few candidates
    /// per cluster. Less than what inst/benchmarks/memory.R measured, which is in the help page of
    /// `gmhclust()`: a clustering for which there is room must not be refused.
    pub fn working_memory(&self) -> f64 {
        let p = self.x.ncols();
        let each = match self.options.distance {
            Distance::Centroid => 32 * p + 400,
            // Assumes one cluster of two or more members per ten observations.
            Distance::FullMahalanobis => 48 * p + 630 + 6 * p * (p + 1) / 5,
        };
        self.clusters() as f64 * each as f64
    }

    /// Number of clusters at the start.
    pub fn clusters(&self) -> usize {
        match &self.starts {
            Some(starts) => starts.len() - 1,
            None => self.members.len(),
        }
    }

    /// The indices of the members of a slot's cluster at the start.
    #[inline(always)]
    pub fn indices_of(&self, slot: usize) -> Range<usize> {
        match &self.starts {
            Some(starts) => starts[slot]..starts[slot + 1],
            None => slot..slot + 1,
        }
    }

    /// The observations in a slot's cluster at the start.
    #[inline(always)]
    pub fn members_of(&self, slot: usize) -> impl ExactSizeIterator<Item = u32> + Clone + '_ {
        self.indices_of(slot).map(|index| self.members.at(index))
    }

    /// Computes the mean and the packed scatter of a slot's cluster at the start, member by member,
    /// until `monitor` says stop.
    #[inline(always)]
    pub fn moments<S: Simd>(
        &self,
        simd: S,
        slot: usize,
        mean: &mut [f64],
        scatter: &mut [f64],
        monitor: &Monitor,
    ) {
        let mut rows = self.rows_of(slot);
        mean.copy_from_slice(rows.next().expect("clusters have members"));
        scatter.fill(0.0);
        let mut moments = RunningMoments::new(1, mean, scatter);
        for row in rows {
            if monitor.stopped() {
                return;
            }
            moments.add(simd, row);
        }
        moments.write(mean, scatter);
    }

    /// The bounding box of all observations of the problem. Takes O(n·p) operations.
    pub fn bounding_box(&self) -> BoundingBox {
        let row = |index: usize| self.row(index);
        let (least, greatest) = bounding_box_on_threads(self.members.len(), row, self.x.ncols());
        BoundingBox { least, greatest }
    }

    /// The observations of all clusters.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        (0..self.members.len()).map(|index| self.row(index))
    }

    /// Number of members of a slot's cluster at the start.
    pub fn size_of(&self, slot: usize) -> usize {
        self.indices_of(slot).len()
    }

    /// The observations of a slot's cluster at the start.
    #[inline(always)]
    pub fn rows_of(&self, slot: usize) -> impl ExactSizeIterator<Item = &[f64]> {
        self.indices_of(slot).map(|index| self.row(index))
    }

    /// The observation at an index of `members`.
    #[inline(always)]
    pub fn row(&self, index: usize) -> &[f64] {
        self.x.row_slice(self.members.at(index) as usize)
    }

    /// Whether any cluster can get a shape other than the identity. If none can, no moments are
    /// needed.
    pub fn has_shapes(&self) -> bool {
        let (n, p) = (self.members.len(), self.x.ncols());
        self.union == UnionRule::Shape && self.options.subthreshold.may_have_shapes(n, p)
    }
}

/// The bounding box of some observations: the least and the greatest value in each dimension.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundingBox {
    pub least: Vec<f64>,
    pub greatest: Vec<f64>,
}

impl BoundingBox {
    /// The length of the diagonal: an upper bound on the Euclidean distance between any two
    /// observations.
    pub fn diagonal(&self) -> f64 {
        distance::to_cluster(&self.greatest, &self.least, &[])
    }

    /// The largest absolute difference, in any coordinate, between an observation and `center`.
    pub fn largest_offset(&self, center: &[f64]) -> f64 {
        let bounds = self.least.iter().zip(&self.greatest);
        center
            .iter()
            .zip(bounds)
            .fold(0.0f64, |offset, (c, (l, g))| offset.max(c - l).max(g - c))
    }
}
