//! The merges of a problem: Müllner's generic algorithm (arXiv:1109.2378), with lower bounds in
//! place of exact distances until these are needed.
//!
//! A pair of clusters belongs to the younger of the two. Each cluster keeps lower bounds on the
//! distances to its few nearest older clusters (`candidates`) and a floor, a lower bound on the
//! distances to all other older clusters. One priority queue orders the clusters by the smallest of
//! their bounds and floor. The algorithm processes the head of the queue one step at a time. It
//! replaces a bound by the exact distance, and a floor by the candidates of a new sweep. An exact
//! distance at the head is the height of the next merge. Since older clusters never change, only
//! the new cluster of a merge is swept against all others.
//!
//! The bounds come from a [screen](super::screen). To keep all threads busy, the most probable next
//! merges are prepared together (`preparation`). Each thread makes a merge tentatively, searches
//! for the candidates of the union, and goes on with the probable next merge of this union
//! (`successors`). A tentative merge depends on its two clusters only, so it stays valid while both
//! are active.

mod active;
mod agglomeration;
mod candidates;
mod entry;
mod merges_in_parallel;
mod merging;
mod one_problem;
mod preparation;
mod queue;
mod radius;
mod replace_bounds;
mod spatial_order;
mod successors;
mod sweeps;
mod tentative;
mod work;

pub use merges_in_parallel::{check_memory, merges_in_parallel};
pub use one_problem::{merges_of, merges_on_cpu, with_cpu_screens, DistinctProblem, UnitedProblem};
pub use spatial_order::sort_spatially;
pub use work::work;
