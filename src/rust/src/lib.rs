//! The R boundary: converts arguments and results, nothing else.
//!
//! Every long computation is a [`job::Job`]. A file for each R verb has the functions that start
//! its jobs: each parses its arguments, prepares the work, and names the function that makes the
//! result an R value.

mod arguments;
mod device;
mod engine;
mod folder;
mod gcutree;
mod gdist;
mod ghclust;
mod gkmeans;
mod gknn;
mod gknn_blocks;
mod gmhclust;
mod gmst;
mod gpu_devices;
mod graph;
mod job;
mod reserve;
mod results;
mod vector;
mod workload;

use extendr_api::prelude::*;
// The name of the library is that of the whole module below.
use gmhclust as clustering;

/// Makes extendr allocate its list of protected objects, several megabytes, while R loads the
/// library, where running out of memory does no harm; later it would leave a lock behind.
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
    use folder;
    use gmst;
    use ghclust;
    use gkmeans;
    use gcutree;
    use gpu_devices;
    use job;
}
