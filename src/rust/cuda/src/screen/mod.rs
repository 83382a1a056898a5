//! The screen on a CUDA device; kernels/screen.cu has the kernels.
//!
//! The host collects changes and sends them with the next requests. A batch of requests takes two
//! launches and no copy: the kernels read the requests from the host's memory and write the answers
//! there, and the host polls the word that is written last. A small batch, as most of them are,
//! takes one launch, with the requests among the kernel's arguments.

mod changes;
mod cuda_screen;
mod device_clusters;
mod factors;
mod kernels;
mod wire;

pub use cuda_screen::CudaScreen;
pub use kernels::{fits, Clusters, BALL_SCALARS, TILE};
pub use wire::{padded_len, Scalars, LOW, SCALARS};
