//! Reducible linkages by reciprocal nearest neighbours: all pairs of clusters that are each other's
//! nearest merge at a time (Murtagh 1983, doi:10.1093/comjnl/26.4.354).
//!
//! Merging looks at few dissimilarities. Each cluster keeps a few candidates, its nearest clusters
//! in the device's last pass over all dissimilarities, and a lower bound on its dissimilarity to
//! all others. When clusters merge, the dissimilarities of the candidates to the new cluster are
//! looked up, and for the others the lower bounds still hold, as the linkage is reducible. Merging
//! goes on until too many clusters have no candidate below their bounds, so that no reciprocal pair
//! is known. Then the device contracts the matrix: in one pass it replaces merged clusters by their
//! unions and finds candidates anew.
//!
//! A pass pays only if the matrix has shrunk by a share of its rows. Where it shrinks less (chains
//! of ever larger clusters, or many equal dissimilarities), [`super::chain`] merges the rest. So
//! time is O(n²) whatever the data.

mod known_neighbours;
mod nodes;
mod state;

pub use state::merges;
