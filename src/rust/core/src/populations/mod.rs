//! Populations: what is kept of them, and how new observations are mapped to them.

pub mod mixture;
