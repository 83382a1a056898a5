//! Searches for nearest references on CUDA devices. A device sweeps in half or single precision.
//! Then it decides about the candidates in double precision, if it has memory for all rows in
//! double precision; otherwise the CPU does. kernels/neighbours.cu has the sweep in single
//! precision and the decision, and kernels/products.cu has the sweep in half precision.
//!
//! Each module imports only from the modules above it:
//! - [`layout`] and [`halves`]: rows, keys and tiles as the kernels read them;
//! - [`rows`] and [`positions`]: the copy of all points for the devices, and their order;
//! - [`work_queue`]: batches of queries for several devices;
//! - [`memory_plan`] and [`exact_rows`]: the division of a device's memory, and the copy of all
//!   points in double precision;
//! - [`sweeper`]: the trait of a device that sweeps, and the candidates that a sweep finds;
//! - [`sweep`], [`products`], [`scatter`], [`copier`], [`references`], [`decision`], [`launch`],
//!   [`query_batch`] and [`device_sweeper`]: a CUDA device that sweeps and decides;
//! - [`settle`] and [`search`]: the decision on the CPU, and the search as a whole.

mod copier;
mod decision;
mod device_sweeper;
mod exact_rows;
pub mod halves;
mod launch;
pub mod layout;
mod memory_plan;
mod positions;
pub mod products;
mod query_batch;
mod references;
mod rows;
mod scatter;
mod search;
mod settle;
pub mod sweep;
mod sweeper;
mod work_queue;

pub use memory_plan::usable_memory;
pub use search::CudaNeighbours;
