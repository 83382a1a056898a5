//! The result of a clustering.

use crate::dendrogram::Dendrogram;

/// A tree, and which of its merges are within apriori clusters.
#[derive(Debug, Clone, PartialEq)]
pub struct Clustering {
    pub dendrogram: Dendrogram,
    /// Number of merges within apriori clusters, which are the first ones.
    pub apriori_merges: usize,
    /// The label of the apriori cluster of each of these merges.
    pub apriori_labels: Vec<u32>,
}
