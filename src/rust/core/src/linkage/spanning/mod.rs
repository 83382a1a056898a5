//! The minimum spanning tree of points, and single linkage by it, without a matrix of distances.
//!
//! Borůvka's algorithm (1926): in every round each component takes the least edge that leads out of
//! it, and all of these are edges of the tree. Edges are ordered by weight and then by their ends,
//! so that no two are equal and the tree is unique.
//!
//! Each point keeps a few nearest points of other components, with a lower bound on all others. As
//! components only grow, both stay valid: the rest of the list is still the nearest, and a point is
//! searched again only when its list is used up and its bound is below the least known edge of its
//! component. The largest component never searches, for the others find the edges to it.
//!
//! Equal points are searched as one. Where they are nearer to each other than to all other points,
//! their edges come first in the order, and of these the tree has those from the first of them to
//! each other one. An edge between different points is one between the first of those equal to
//! either: it comes before all others of its weight between the same two points.

mod boruvka;
mod components;
mod disjoint_sets;
mod single_linkage;

pub use super::edge::Edge;
pub use boruvka::tree;
pub use single_linkage::single;
