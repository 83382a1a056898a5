//! The result of a clustering.

use crate::dendrogram::Dendrogram;

/// A tree, and the end of its part within apriori clusters.
#[derive(Debug, Clone, PartialEq)]
pub struct Clustering {
    pub dendrogram: Dendrogram,
    /// Number of merges within apriori clusters, which are the first ones.
    pub apriori_merges: usize,
    /// The label of the apriori cluster of each of those.
    pub apriori_labels: Vec<u32>,
}
