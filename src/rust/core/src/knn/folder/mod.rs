//! Neighbours in a folder that other programs can read: a [`Manifest`], and for each
//! block of queries two matrices in `.npy` files and a file of checksums. The help page of
//! `read_gknn()` describes them.
//!
//! A block's file of checksums is written last, so its presence marks a finished block. Each block
//! has its own file of checksums, outside of the manifest, because processes on several machines
//! write blocks at the same time. No file is decoded before its checksum has been compared, and no
//! file determines which other files are read or how many bytes.

mod file_names;
mod files;
mod manifest;
mod neighbour_folder;
mod npy;
#[cfg(test)]
mod tests;

pub use files::{is_full, unwritable};
pub use manifest::{Digests, Manifest, MetricOptions, SearchDescription};
pub use neighbour_folder::{begin, Folder, Missing};
