//! The result of a clustering.

use crate::dendrogram::Dendrogram;

/// A clustering and where its apriori part ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Clustering {
    pub dendrogram: Dendrogram,
    /// How many merges, the first ones, lie within apriori clusters.
    pub apriori_merges: usize,
    /// For each of those, the label of its apriori cluster.
    pub apriori_labels: Vec<u32>,
}
