//! Clusters to merge to one.

use super::options::Options;
use super::subthreshold::Subthreshold;
use super::{distance, shape};
use crate::matrix::{bounding_box, Matrix};
use crate::monitor::Monitor;

/// What a union of two clusters takes from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Union {
    /// The mean and the shape of all members.
    Shape,
    /// The mean of all members, and the identity as its shape.
    Mean,
    /// The middle between the two clusters' means, for its mean, and the identity.
    Midpoint,
}

/// Clusters to merge to one: cluster s, in slot s, holds the observations
/// `members[starts[s]..starts[s + 1]]` of `x`.
#[derive(Debug, Clone)]
pub struct Problem<'a> {
    pub x: &'a Matrix,
    pub starts: Vec<usize>,
    pub members: Vec<u32>,
    pub options: Options,
    /// Other than [`Union::Shape`] only where the members of each cluster at the start are equal,
    /// none becomes full-size and distances are those of means.
    pub union: Union,
}

impl<'a> Problem<'a> {
    /// One cluster for each of these observations.
    pub fn of_observations(x: &'a Matrix, members: Vec<u32>, options: Options) -> Self {
        Self {
            x,
            starts: (0..=members.len()).collect(),
            members,
            options,
            union: Union::Shape,
        }
    }

    /// One cluster for each observation, at the Euclidean distances of their means.
    pub fn of_centroids(x: &'a Matrix, union: Union) -> Self {
        let n = x.rows();
        let options = Options {
            threshold: n as f64 + 1.0,
            subthreshold: Subthreshold::Euclid,
            quick: true,
            normalize: true,
            apriori_intra: true,
        };
        Self {
            union,
            ..Self::of_observations(x, (0..n as u32).collect(), options)
        }
    }

    /// Bytes that its agglomeration takes at least, beside the observations: means in double and
    /// single precision, members for full distances, and a few candidates for each cluster. See
    /// *Time and memory* in the help page of `gmhclust()`.
    pub fn working_memory(&self) -> f64 {
        let p = self.x.columns();
        let each = if self.options.quick {
            32 * p + 400
        } else {
            48 * p + 600
        };
        self.clusters() as f64 * each as f64
    }

    /// Number of clusters at the start.
    pub fn clusters(&self) -> usize {
        self.starts.len() - 1
    }

    /// The observations in a slot's cluster at the start.
    #[inline(always)]
    pub fn members_of(&self, slot: usize) -> &[u32] {
        &self.members[self.starts[slot]..self.starts[slot + 1]]
    }

    /// Mean and packed scatter of a slot's cluster at the start, its members taken one by one until
    /// `monitor` says stop.
    #[inline(always)]
    pub fn moments(&self, slot: usize, mean: &mut [f64], scatter: &mut [f64], monitor: &Monitor) {
        let members = self.members_of(slot);
        mean.copy_from_slice(self.x.row(members[0] as usize));
        scatter.fill(0.0);
        for (count, &member) in members.iter().enumerate().skip(1) {
            if monitor.stopped() {
                return;
            }
            shape::merge(count, mean, scatter, 1, self.x.row(member as usize), &[]);
        }
    }

    /// The least and the greatest value of all observations of the problem in each dimension.
    pub fn bounding_box(&self) -> (Vec<f64>, Vec<f64>) {
        bounding_box(self.rows(), self.x.columns())
    }

    /// The observations of all clusters.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        let row = |&member: &u32| self.x.row(member as usize);
        self.members.iter().map(row)
    }

    /// Whether a cluster can get another shape than the identity on the way to one. Where it cannot,
    /// all that counts is its mean, and its members.
    pub fn has_shapes(&self) -> bool {
        self.union == Union::Shape
            && self
                .options
                .may_have_shapes(self.members.len(), self.x.columns())
    }

    /// The diagonal of the bounding box, an upper bound on the distances of observations.
    pub fn diagonal(&self) -> f64 {
        let (least, greatest) = self.bounding_box();
        distance::to_cluster(&greatest, &least, &[])
    }
}
