//! Finds the populations of a tree, without a given number: clusters that density valleys keep
//! apart. Maps new observations to populations.
//!
//! [`PopulationSearch`] is the entry point. Modules import only from those above them in this list:
//!
//! * [`columns`]: the observations;
//! * [`condense`](mod@condense): the clusters of a tree between its splits; [`hdbscan`]: the masses
//!   of these clusters by densities, and outlier scores;
//! * [`condensed_tree`]: the observations of these clusters;
//! * `moments`: means, scatters and their factors; `density`: the density of numbers on a line;
//! * [`valley`]: the depth of the density valley between two groups of observations;
//! * [`search`]: groups of clusters that valleys keep apart, and a finer level below them;
//! * [`mixture`]: the shapes of populations, and the mapping of new observations to them.

pub mod columns;
pub mod condense;
pub mod condensed_tree;
mod density;
pub mod hdbscan;
pub mod mixture;
mod moments;
pub mod search;
#[cfg(test)]
mod tests;
pub mod valley;

pub use columns::Columns;
pub use condense::{condense, Cluster};
pub use condensed_tree::CondensedTree;
pub use search::{FoundPopulations, PopulationSearch, Separation};
