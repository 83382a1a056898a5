//! The screen on a CUDA device; the kernels are in kernels/screen.cu.
//!
//! The host collects changes and sends them with the next requests. A batch of requests takes two
//! launches and no copy: the kernels read the requests from the host's memory and write the answers
//! there, and the host polls the word that is written last. Most batches are so small that the
//! requests fit into the kernel's arguments; such a batch takes one launch.

mod changes;
mod cuda_screen;
mod device_clusters;
mod factors;
mod kernels;
mod wire;

pub use cuda_screen::CudaScreen;
pub use kernels::{fits, Clusters, BALL_SCALARS, TILE};
pub use wire::{padded_len, Scalars, LOW, SCALARS};
