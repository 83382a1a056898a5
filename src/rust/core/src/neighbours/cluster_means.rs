//! Clusters at the distances of a linkage that needs only their means.

use ndarray::Array2;
use rayon::prelude::*;

use crate::error::Result;
use crate::matrix::{self, RowSlices, STANDARD_LAYOUT};
use crate::memory;
use crate::metric::form::{Sum, SumOfSquares};
use crate::metric::{distance_of_rows, distances_of_rows, Points, DISTANCES_AT_ONCE};
use crate::tasks::on_slots;

/// Number of pairs of clusters whose unions are computed at a time. Only memory depends on it.
const UNIONS_AT_A_TIME: usize = 1 << 12;

/// Number of unions that a thread computes at a time. Only the time depends on it.
const UNIONS_PER_TASK: usize = 64;

/// A linkage whose distance of two clusters follows from three values of each: its mean, its size,
/// and v of [`MeanLinkage::Average`]. `enum MeanLinkage` in mean_linkage/launch.cuh has this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeanLinkage {
    /// √(2ab/(a+b))·‖α−β‖ for sizes a, b and means α, β: the root of twice the sum of squares that
    /// merging them adds (Ward 1963, as in the heights of `hclust(method = "ward.D2")`).
    Ward,
    /// The mean of ½‖x−y‖² over the pairs of a member x of one cluster and a member y of the other,
    /// which is ½‖α−β‖² + v(A) + v(B): v(A) is half the mean square of the distances between the
    /// members of A and their mean. For rows of unit length, ½‖x−y‖² is one minus their cosine.
    Average,
    /// As [`MeanLinkage::Average`], but in means each of the two parts of a cluster has the weight
    /// ½.
    Mcquitty,
}

impl MeanLinkage {
    /// The weight of the second of two clusters of these sizes in their union.
    fn share(self, [a, b]: [f64; 2]) -> f64 {
        match self {
            Self::Ward | Self::Average => b / (a + b),
            Self::Mcquitty => 0.5,
        }
    }
}

/// The clusters that remain to be merged in a linkage by means. Numbers of clusters are from 0.
#[derive(Debug, Clone, Copy)]
pub struct RemainingClusters<'a> {
    pub linkage: MeanLinkage,
    /// Number of coordinates of a mean.
    pub columns: usize,
    /// The means, one after the other. All are different.
    pub means: &'a [f64],
    /// By cluster: number of members.
    pub sizes: &'a [f64],
    /// By cluster: v of [`MeanLinkage::Average`].
    pub half_variances: &'a [f64],
    /// By cluster: the distance of the nearest other cluster; and its number. `None` if they are to
    /// be searched for.
    pub nearest: Option<(&'a [f64], &'a [u32])>,
}

impl RemainingClusters<'_> {
    /// Number of clusters.
    pub fn count(&self) -> usize {
        self.sizes.len()
    }
}

/// Clusters by mean and size, in slots.
#[derive(Debug, Clone)]
pub struct ClusterMeans {
    linkage: MeanLinkage,
    /// A row for each slot.
    means: Array2<f64>,
    /// By slot: number of members, 0 for an empty slot.
    sizes: Vec<f64>,
    /// By slot: half the variance, v of [`MeanLinkage::Average`]; Ward's linkage does not use it.
    half_variances: Vec<f64>,
}

impl ClusterMeans {
    /// One cluster for each point; `sizes` has, by point, the number of observations that are equal
    /// to it.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn new(points: &Points, sizes: &[f64], linkage: MeanLinkage) -> Result<Self> {
        Ok(Self {
            linkage,
            means: matrix::stacked_on_threads(&[points.view()], points.columns())?,
            sizes: memory::collected(memory::COPY_OF_OBSERVATIONS, sizes.iter().copied())?,
            half_variances: memory::zeros(memory::COPY_OF_OBSERVATIONS, sizes.len())?,
        })
    }

    /// The linkage of the distances.
    pub fn linkage(&self) -> MeanLinkage {
        self.linkage
    }

    /// Number of slots, including empty slots.
    pub fn slots(&self) -> usize {
        self.sizes.len()
    }

    /// Number of coordinates.
    pub fn columns(&self) -> usize {
        self.means.ncols()
    }

    /// The mean of a slot's cluster.
    pub fn row(&self, slot: usize) -> &[f64] {
        self.means.row_slice(slot)
    }

    /// All means, slot by slot.
    pub fn values(&self) -> &[f64] {
        self.means.values()
    }

    /// The clusters of these slots, in slots from 0.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn select(&self, slots: &[u32]) -> Result<Self> {
        let of_slots = |values: &[f64]| {
            let values = slots.iter().map(|&slot| values[slot as usize]);
            memory::collected(memory::COPY_OF_OBSERVATIONS, values)
        };
        Ok(Self {
            linkage: self.linkage,
            means: matrix::take_rows(self.values(), self.columns(), slots)?,
            sizes: of_slots(&self.sizes)?,
            half_variances: of_slots(&self.half_variances)?,
        })
    }

    /// All clusters, if no slot is empty. `nearest` has, by slot, the distance of the nearest
    /// cluster, and its slot.
    pub fn remaining<'a>(&'a self, nearest: (&'a [f64], &'a [u32])) -> RemainingClusters<'a> {
        RemainingClusters {
            linkage: self.linkage,
            columns: self.columns(),
            means: self.values(),
            sizes: &self.sizes,
            half_variances: &self.half_variances,
            nearest: Some(nearest),
        }
    }

    /// Number of members of a slot's cluster, 0 for an empty slot.
    pub fn size(&self, slot: usize) -> f64 {
        self.sizes[slot]
    }

    /// The form whose value [`ClusterMeans::distance_of`] turns into a distance.
    pub fn form(&self) -> Sum<SumOfSquares, false> {
        Sum {
            term: SumOfSquares,
            columns: self.columns() as f64,
        }
    }

    /// The distance of two clusters: the same bits in either order, on any device. O(p) time.
    pub fn distance(&self, i: usize, j: usize) -> f64 {
        let square = distance_of_rows(self.form(), self.row(i), self.row(j));
        self.distance_of(i, j, square)
    }

    /// The distances of a cluster from some others, in little more time than one.
    pub fn distances(
        &self,
        i: usize,
        others: &[usize; DISTANCES_AT_ONCE],
    ) -> [f64; DISTANCES_AT_ONCE] {
        let rows = others.map(|j| self.row(j));
        let mut distances = distances_of_rows(self.form(), self.row(i), rows);
        for (distance, &j) in distances.iter_mut().zip(others) {
            *distance = self.distance_of(i, j, *distance);
        }
        distances
    }

    /// The distance of two clusters, given the sum of squares between their means.
    #[inline(always)]
    pub fn distance_of(&self, i: usize, j: usize, square: f64) -> f64 {
        match self.linkage {
            MeanLinkage::Ward => {
                let (a, b) = (self.sizes[i], self.sizes[j]);
                (2.0 * (a * b) / (a + b) * square).sqrt()
            }
            MeanLinkage::Average | MeanLinkage::Mcquitty => {
                0.5 * square + (self.half_variances[i] + self.half_variances[j])
            }
        }
    }

    /// Merges pairs of clusters, which are sorted, each into the lower slot, and empties the higher
    /// slots. No slot may be in two pairs. Works on the threads of the calling rayon pool.
    pub fn merge(&mut self, pairs: &[(u32, u32)]) {
        let p = self.columns();
        let mut means = vec![0.0; pairs.len().min(UNIONS_AT_A_TIME) * p];
        for pairs in pairs.chunks(UNIONS_AT_A_TIME) {
            let unions = pairs.par_iter().zip(means.par_chunks_exact_mut(p));
            let half_variances: Vec<f64> = unions
                .with_min_len(UNIONS_PER_TASK)
                .map(|(&(lower, higher), mean)| self.union(lower as usize, higher as usize, mean))
                .collect();
            let unions: Vec<(u32, &[f64])> = (pairs.iter().map(|&(lower, _)| lower))
                .zip(means.chunks_exact(p))
                .collect();
            let all = self.means.as_slice_mut().expect(STANDARD_LAYOUT);
            on_slots(
                all,
                p,
                &unions,
                |&(lower, _)| lower,
                |&(_, mean), row| row.copy_from_slice(mean),
            );
            for (&(lower, higher), half_variance) in pairs.iter().zip(half_variances) {
                let (lower, higher) = (lower as usize, higher as usize);
                self.half_variances[lower] = half_variance;
                self.sizes[lower] += self.sizes[higher];
                self.sizes[higher] = 0.0;
            }
        }
    }

    /// Writes the mean of the union of two clusters to `mean`. Returns half its variance.
    fn union(&self, lower: usize, higher: usize, mean: &mut [f64]) -> f64 {
        let share = self.linkage.share([self.sizes[lower], self.sizes[higher]]);
        let rows = self.row(lower).iter().zip(self.row(higher));
        let mut square = 0.0;
        for (mean, (from, to)) in mean.iter_mut().zip(rows) {
            let difference = to - from;
            square += difference * difference;
            *mean = from + share * difference;
        }
        let [a, b] = [lower, higher].map(|slot| self.half_variances[slot]);
        (1.0 - share) * a + share * b + 0.5 * share * (1.0 - share) * square
    }
}
