//! Agglomeration on GPUs and the CPU beside them: which problem is merged where, by the figures of
//! the [`policy`](crate::policy).
//!
//! - Many small problems are merged in thread blocks, one in each (`blocks`). Meanwhile the threads
//!   of the CPU merge those that would keep a block for too long.
//! - All blocks of a GPU together make the merges of a large problem (`tree`). Several such problems
//!   share the blocks, so that their trees grow beside each other.
//! - Other problems are merged by the algorithm of the core, with bounds from a GPU (`screen`), and
//!   from the CPU once few clusters are left.

mod agglomerator;
mod in_blocks;
mod share;
mod two_parts;
mod way;

pub use agglomerator::Agglomerator;
