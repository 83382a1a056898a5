//! Nearest references on the CPU: sweeps in single precision prune most references, and exact
//! distances decide among the remaining candidates.
//!
//! If single precision cannot separate references, as in tight groups that are far from each other,
//! a sweep abandons the query early, and all distances of the query are computed in double
//! precision. This takes a few times as long as a sweep, whatever the data.

mod device;
mod exact;
mod frames;
mod open_query;
mod reference_blocks;
mod search_space;
mod searcher;
mod sweep;
mod sweep_terms;
mod top_k;

pub use searcher::CpuNeighbours;
pub use top_k::TopK;
