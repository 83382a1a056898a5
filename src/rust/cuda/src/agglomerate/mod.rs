//! Agglomeration on GPUs and the CPU. A problem is merged at one of three places; the figures of
//! the [`policy`](crate::policy) choose among them:
//!
//! - Thread blocks merge many small problems, each block one problem at a time (`blocks`).
//!   Meanwhile the CPU's threads merge the problems that would take a block too long.
//! - Many blocks of a GPU together make the merges of a large problem (`tree`). Each tree gets a
//!   share of the blocks, so several trees grow at the same time.
//! - The algorithm of the core merges all other problems on the CPU.

mod agglomerator;
mod in_blocks;
mod in_trees;
mod merge_site;
mod overlap;
mod share;
mod turns;
mod two_parts;

pub use agglomerator::Agglomerator;
