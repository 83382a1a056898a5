//! The minimum spanning tree of points, and single linkage by it, without a matrix of distances.
//!
//! Borůvka's algorithm (1926): in every round, each component selects the least edge that leads out
//! of it, and all selected edges belong to the tree. Edges are ordered by weight and then by their
//! ends, so that no two edges are equal and the tree is unique.
//!
//! Each point keeps a few nearest points of other components, with a lower bound on all others.
//! Components only grow, so the list and the bound stay valid: the rest of the list is still
//! nearest. A point is searched again only when its list is used up and its bound is below the
//! least known edge of its component. The largest component never searches, since the other
//! components find the edges to it.
//!
//! Equal points are searched as one point. If they are nearer to each other than to all other
//! points, the edges between them come first in the order, and the tree has the edges from the
//! first of the equal points to each other one. An edge between two distinct points joins the first
//! of the points equal to each: this edge comes before all other edges of its weight between the
//! same two points.
//!
//! For a tree by mutual reachability distances ([`core_distances`]), the search finds the nearest
//! points by distance, which is a lower bound on the weight. If one of the points found has an edge
//! that is less than any edge to a farther point, this edge is the least. Otherwise the search is
//! repeated for twice as many points.

mod boruvka;
mod components;
mod core_distances;
mod disjoint_sets;
mod labelled_sets;
mod single_linkage;

pub use super::edge::Edge;
pub use boruvka::{reachability_tree, tree, tree_from_neighbours};
pub use single_linkage::{reachability_single, single, single_from_neighbours};
