//! Full-size clusters: their moments, and bounds that tell if their covariance is singular.

use pulp::{Simd, WithSimd};

use super::merge_tree::CHECK;
use crate::error::Result;
use crate::mahalanobis::cholesky::cholesky;
use crate::mahalanobis::packed::packed_len;
use crate::mahalanobis::running_moments::RunningMoments;
use crate::mahalanobis::shape;
use crate::matrix::RowSlices;
use crate::memory;
use crate::observations::Observations;
use crate::simd::dispatch;

/// A full-size cluster.
#[derive(Debug, Clone)]
pub struct FullSize {
    pub members: usize,
    pub mean: Vec<f64>,
    /// The diagonal of the scatter.
    pub diagonal: Vec<f64>,
    /// A lower bound on the pivots of the scatter; 0 if the scatter is singular. More members make
    /// no pivot smaller: d_k is the reciprocal of an element of the inverse of the first k rows and
    /// columns.
    pub least_pivot: f64,
    /// The scatter of a singular cluster with more members than dimensions; otherwise empty.
    pub scatter: Vec<f64>,
}

/// Whether a covariance has an inverse, by a lower bound on its pivots and an upper bound on its
/// diagonal, with room for rounding.
pub fn is_surely_regular(least_pivot: f64, diagonal: f64, columns: usize) -> bool {
    least_pivot > 4.0 * f64::EPSILON * columns as f64 * diagonal
}

impl FullSize {
    /// The cluster of some rows.
    pub fn of(x: &Observations, members: &[u32]) -> Result<Self> {
        let p = x.ncols();
        let mut cluster = Self {
            members: 1,
            mean: memory::copied(CHECK, x.row_slice(members[0] as usize))?,
            diagonal: memory::zeros(CHECK, p)?,
            least_pivot: 0.0,
            scatter: Vec::new(),
        };
        let others = &members[1..];
        if members.len() > p {
            cluster.scatter = memory::zeros(CHECK, packed_len(p))?;
            return Ok(cluster.with(x, others));
        }
        let rows = others.iter().map(|&row| x.row_slice(row as usize));
        rows.for_each(|row| cluster.add(1, row, &[], 0.0));
        Ok(cluster)
    }

    /// Adds a cluster to all fields except the scatter. An empty diagonal stands for zeros.
    pub fn add(&mut self, members: usize, mean: &[f64], diagonal: &[f64], least_pivot: f64) {
        let (a, b) = (self.members as f64, members as f64);
        let weight = a * b / (a + b);
        for (k, sum) in self.diagonal.iter_mut().enumerate() {
            let delta = mean[k] - self.mean[k];
            *sum += diagonal.get(k).unwrap_or(&0.0) + weight * delta * delta;
        }
        shape::move_towards(shape::share(self.members, members), &mut self.mean, mean);
        self.members += members;
        self.least_pivot = self.least_pivot.max(least_pivot);
    }

    pub fn is_surely_regular(&self) -> bool {
        let largest = self.diagonal.iter().copied().fold(0.0, f64::max);
        is_surely_regular(self.least_pivot, largest, self.mean.len())
    }

    /// Adds members to a cluster that has its scatter.
    pub fn with(self, x: &Observations, members: &[u32]) -> Self {
        dispatch(WithMembers {
            cluster: self,
            x,
            members,
        })
    }
}

struct WithMembers<'a> {
    cluster: FullSize,
    x: &'a Observations,
    members: &'a [u32],
}

impl WithSimd for WithMembers<'_> {
    type Output = FullSize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> FullSize {
        let FullSize {
            mut members,
            mut mean,
            mut scatter,
            ..
        } = self.cluster;
        let p = mean.len();
        let mut moments = RunningMoments::new(members, &mean, &scatter);
        for &member in self.members {
            moments.add(simd, self.x.row_slice(member as usize));
        }
        moments.write(&mut mean, &mut scatter);
        members += self.members.len();
        let diagonal = (0..p).map(|i| scatter[packed_len(i) + i]).collect();
        // The test of pivots does not depend on the scale, so the scatter can stand in for the
        // covariance.
        let (mut factor, mut pivots) = (vec![0.0; packed_len(p)], vec![0.0; p]);
        let mut rows = Vec::new();
        let mut least_pivot = 0.0;
        if cholesky(simd, &scatter, p, &mut factor, &mut pivots, &mut rows, None) {
            least_pivot = pivots.into_iter().fold(f64::INFINITY, f64::min);
            scatter = Vec::new();
        }
        FullSize {
            members,
            mean,
            diagonal,
            least_pivot,
            scatter,
        }
    }
}
