//! Agglomeration on GPUs and the CPU. Each problem is merged in one of three ways, chosen by the
//! figures of the [`policy`](crate::policy):
//!
//! - Many small problems are merged in thread blocks, one problem in each block (`blocks`).
//!   Meanwhile the CPU's threads merge the problems that would take a block too long.
//! - All blocks of a GPU together make the merges of a large problem (`tree`). Several large
//!   problems share the blocks, so that they are merged at the same time.
//! - Other problems are merged by the algorithm of the core, on the CPU.

mod agglomerator;
mod in_blocks;
mod overlap;
mod share;
mod two_parts;
mod way;

pub use agglomerator::Agglomerator;
