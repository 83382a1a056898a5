//! The merges of a problem: Müllner's generic algorithm (arXiv:1109.2378), with distances kept lazy
//! by lower bounds.
//!
//! A pair of clusters belongs to the younger of the two. Each cluster keeps lower bounds on the
//! distances to its few nearest older clusters (`candidates`) and a floor under all others; one
//! priority queue orders the clusters by the least of these. The head of the queue is settled one
//! step at a time: a bound is replaced by the distance that decides, a floor by a new sweep, and a
//! distance is a merge. Since older clusters never change, only the new cluster of a merge is swept
//! against all.
//!
//! The bounds come from a [`Screen`](super::screen::Screen) on some device, which the caller makes
//! ([`with_screens`]). To keep it busy, the
//! merges that are probably the next ones are prepared together (`preparation`). A tentative merge
//! depends on its two clusters only, so that it stays valid for as long as both are active. While
//! the device works, the host looks further ahead (`lookahead`). Where threads search the screen,
//! each prepares a merge with those that probably follow it (`successors`).

mod active;
mod agglomeration;
mod candidates;
mod decide;
mod entry;
mod lookahead;
mod merging;
mod one_problem;
mod preparation;
mod queue;
mod radius;
mod side_by_side;
mod spatial_order;
mod successors;
mod sweeps;
mod tentative;
mod work;

pub use agglomeration::NewScreen;
pub use one_problem::{merges_of, merges_on_cpu, with_cpu_screens, with_screens, DistinctProblem};
pub use side_by_side::{side_by_side, Turn};
pub use spatial_order::sort_spatially;
pub use work::work;
