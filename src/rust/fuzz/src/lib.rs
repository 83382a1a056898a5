//! The checks of the fuzz targets, one module each. `core/tests/fuzz.rs` includes them, to repeat
//! the inputs in `corpus`.

pub mod bytes;
pub mod folder;
pub mod manifest;
pub mod numbers;
