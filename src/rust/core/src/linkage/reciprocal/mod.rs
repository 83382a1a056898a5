//! Reducible linkages by reciprocal nearest neighbours: all pairs of reciprocal nearest neighbours
//! merge at the same time (Murtagh 1983, doi:10.1093/comjnl/26.4.354).
//!
//! Merging reads few dissimilarities. Each cluster keeps a few candidates, its nearest clusters in
//! the device's last pass over all dissimilarities, and a lower bound on its dissimilarity to all
//! other clusters. When clusters merge, the dissimilarities of the candidates to the new cluster
//! are looked up; the lower bounds still hold for all others, since the linkage is reducible.
//! Merging continues until too many clusters have no candidate below their bounds, so that no
//! reciprocal pair is known. Then the device contracts the matrix: in one pass, it replaces merged
//! clusters by their unions and finds new candidates.
//!
//! A pass is worth its time only if the matrix has shrunk by a share of its rows. If it shrinks
//! less (chains of growing clusters, or many equal dissimilarities), [`super::chain`] merges the
//! rest. So the time is O(n²), whatever the data.

mod known_neighbours;
mod nodes;
mod state;

pub use state::merges;
