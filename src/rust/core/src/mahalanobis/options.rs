//! The choices of a clustering.

use super::subthreshold::{ShapeRule, Subthreshold};
use crate::error::{Error, Result};

/// The distance between two clusters: the average of both directed distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distance {
    /// Centroid Mahalanobis distance (CMD): from the mean of one cluster to the other cluster.
    Centroid,
    /// Full Mahalanobis distance (FMD): the mean of the distances from the members of one cluster
    /// to the other cluster.
    FullMahalanobis,
}

impl Distance {
    /// Both distances.
    pub const ALL: [Self; 2] = [Self::FullMahalanobis, Self::Centroid];

    /// The distance of this name, as in the arguments of `gmhclust()`.
    ///
    /// # Errors
    /// `Error::Input` for other names.
    pub fn new(name: &str) -> Result<Self> {
        match name {
            "full" => Ok(Self::FullMahalanobis),
            "centroid" => Ok(Self::Centroid),
            other => Err(Error::Input(format!(
                "`distance` is {other:?}; it must be \"full\" or \"centroid\""
            ))),
        }
    }
}

/// The choices of a clustering.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// The Mahalanobis threshold T, in members. A cluster of at least this size is full-size.
    pub threshold: f64,
    pub subthreshold: Subthreshold,
    pub distance: Distance,
    /// Whether to go on normalising shapes after all clusters have become full-size.
    pub normalize: bool,
    /// Whether to cluster the members of each apriori cluster; if not, they are joined at height 0.
    pub apriori_intra: bool,
}

impl Options {
    /// The rule for shapes, given whether all active clusters are full-size.
    pub fn shape_rule(&self, all_full_size: bool) -> ShapeRule {
        ShapeRule {
            threshold: self.threshold,
            subthreshold: self.subthreshold,
            normalizing: self.normalize || !all_full_size,
            all_full_size,
        }
    }
}
