//! Clusters at the distances of Ward's linkage.

use ndarray::{s, Array2};

use crate::error::Result;
use crate::matrix::{self, RowSlices};
use crate::memory;
use crate::observations::Observations;

/// Clusters by centroid and size, in slots.
///
/// Their distance is Ward's, √(2ab/(a+b))·‖α−β‖ for sizes a, b and centroids α, β: the root of
/// twice the sum of squares that merging them adds (Ward 1963, as in the heights of `hclust(method
/// = "ward.D2")`).
#[derive(Debug, Clone)]
pub struct Centroids {
    /// A row for each slot.
    centroids: Array2<f64>,
    /// By slot: number of members, 0 for an empty slot.
    sizes: Vec<f64>,
}

impl Centroids {
    /// One cluster for each observation.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn new(x: &Observations) -> Result<Self> {
        Ok(Self {
            centroids: matrix::stacked(&[x.view()], x.ncols())?,
            sizes: memory::filled(memory::OBSERVATIONS, x.nrows(), 1.0)?,
        })
    }

    /// Number of slots, empty ones included.
    pub fn slots(&self) -> usize {
        self.sizes.len()
    }

    /// Number of coordinates.
    pub fn columns(&self) -> usize {
        self.centroids.ncols()
    }

    /// The centroid of a slot's cluster.
    pub fn row(&self, slot: usize) -> &[f64] {
        self.centroids.row_slice(slot)
    }

    /// All centroids, slot by slot.
    pub fn values(&self) -> &[f64] {
        self.centroids.values()
    }

    /// Number of members of a slot's cluster, 0 for an empty slot.
    pub fn size(&self, slot: usize) -> f64 {
        self.sizes[slot]
    }

    /// The distance of two clusters: the same bits in either order, on any device. O(p) time.
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
        let rows = (s![lower, ..], s![higher, ..]);
        let (mut centroid, other) = self.centroids.multi_slice_mut(rows);
        centroid.zip_mut_with(&other, |to, from| *to += b / (a + b) * (from - *to));
        self.sizes[lower] = a + b;
        self.sizes[higher] = 0.0;
    }
}
