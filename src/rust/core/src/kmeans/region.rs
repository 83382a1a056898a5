//! Boxes around projections of observations.
//!
//! A center is compared with a box by the same operations, in the same order, as with a projection.
//! Rounding keeps the order of numbers, so a box excludes a center only if each projection in it
//! does.

use super::directions::{Projected, DIRECTIONS, SLACK};

/// A box around the projections of some observations, and the greatest of their
/// [search radii](super::leaves::Leaves).
#[derive(Debug, Clone, Copy)]
pub struct Region {
    pub low: [f32; DIRECTIONS],
    pub high: [f32; DIRECTIONS],
    pub search_radius: f32,
}

impl Region {
    /// The region of no observations.
    pub const EMPTY: Self = Self {
        low: [f32::INFINITY; DIRECTIONS],
        high: [f32::NEG_INFINITY; DIRECTIONS],
        search_radius: 0.0,
    };

    /// The region of the observations of both regions.
    pub fn and(mut self, other: &Self) -> Self {
        for k in 0..DIRECTIONS {
            self.low[k] = self.low[k].min(other.low[k]);
            self.high[k] = self.high[k].max(other.high[k]);
        }
        self.search_radius = self.search_radius.max(other.search_radius);
        self
    }

    /// Whether an observation of the region may be nearer to this center than to all before.
    pub fn is_open(&self, center: &Projected) -> bool {
        let mut square = 0.0;
        for ((&low, &high), &at) in self.low.iter().zip(&self.high).zip(&center.coordinates) {
            let difference = (low - at).max(at - high).max(0.0);
            square += difference * difference;
        }
        may_be_nearer(square, self.search_radius, center.error)
    }
}

/// Whether projections account for nearly all of the distances between rows of this many columns.
/// If not, boxes exclude little, and observations are compared fastest in the order of their rows.
/// Only the time depends on it.
pub fn projections_tell_most(columns: usize) -> bool {
    columns <= 2 * DIRECTIONS
}

/// Whether an observation may be nearer to a center, given the squared distance of their
/// projections. The least normal number covers the rounding of squares that underflow.
#[inline(always)]
pub fn may_be_nearer(square: f32, search_radius: f32, error: f32) -> bool {
    let limit = search_radius + error;
    square * (1.0 - SLACK) <= limit * limit + f32::MIN_POSITIVE
}
