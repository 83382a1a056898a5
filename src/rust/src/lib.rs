//! The boundary to R: converts arguments and results. Besides, it has arithmetic that must give the
//! bits of R's own C code (`squares`, `records`), and locks of folders (`folder_lock`).
//!
//! Every long computation is a [`job::Job`]. Each function that R users call has a file with the
//! functions that start its jobs. Such a function parses its arguments, prepares the work, and
//! names the function that converts the result to an R value.

mod arguments;
mod as_igraph;
mod data;
mod device;
mod digest;
mod finite;
mod folder;
mod folder_lock;
mod gcutree;
mod gdist;
mod ghclust;
mod gkmeans;
mod gknn;
mod gknn_blocks;
mod gmhclust;
mod gmst;
mod gneighbours;
mod gpu_devices;
mod graph;
mod job;
mod labels;
mod memory;
mod population_model;
mod populations;
mod records;
mod results;
mod rvalue;
mod spanning;
mod squares;
mod stability;
mod stored;
mod vector;

use extendr_api::prelude::*;
// extendr's top module has the name of the library, so the module of that name needs another one.
use gmhclust as clustering;

#[global_allocator]
static ALLOCATOR: gmhclust_reserve::Allocator = gmhclust_reserve::Allocator;

/// Makes extendr allocate its list of protected objects, several megabytes, while R loads the
/// library. At that time running out of memory is harmless; later, a lock would stay locked.
#[no_mangle]
pub extern "C" fn gmhclust_prepare() {
    drop(Robj::from(0));
}

extendr_module! {
    mod gmhclust;
    use clustering;
    use gdist;
    use gknn;
    use gknn_blocks;
    use digest;
    use finite;
    use records;
    use folder;
    use folder_lock;
    use gmst;
    use gneighbours;
    use as_igraph;
    use ghclust;
    use gkmeans;
    use gcutree;
    use populations;
    use population_model;
    use device;
    use gpu_devices;
    use job;
    use labels;
    use memory;
    use stability;
    use stored;
}
