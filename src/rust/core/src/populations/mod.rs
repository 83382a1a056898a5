//! Populations of a tree without a number of them: clusters that a density valley keeps apart. And
//! how new observations are mapped to populations.
//!
//! [`PopulationSearch`] is the entry. Modules import only from those above them in this list:
//!
//! * [`columns`]: the observations;
//! * [`condensed`]: the clusters of a tree that have a minimum size;
//! * `moments`: means, scatters and their factors; `density`: the density of numbers on a line;
//! * [`valley`]: how deep the valley between two groups of observations is;
//! * [`search`]: groups of clusters that valleys keep apart, and a finer level below them;
//! * [`mixture`]: what is kept of populations, and how new observations are mapped to them.

pub mod columns;
pub mod condensed;
mod density;
pub mod mixture;
mod moments;
pub mod search;
#[cfg(test)]
mod tests;
pub mod valley;

pub use columns::Columns;
pub use condensed::Condensed;
pub use search::{Found, PopulationSearch, Separation};
