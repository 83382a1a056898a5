//! The kernels of mean_linkage.cu, their arguments and launch configurations.

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaStream, LaunchConfig, PushKernelArg};
use gmhclust_core::error::Result;
use gmhclust_core::linkage::geometric::SEARCHES_PER_MERGE;
use gmhclust_core::neighbours::MeanLinkage;

use super::margins::Margins;
use crate::arguments::arguments;
use crate::device::{Device, DriverResult};
use crate::{kernels, policy};

/// What a device does, for errors.
pub const LINKING: &str = "linkage by means";

// mean_linkage/launch.cuh defines the same constants; a test compares them.

/// Number of threads of a block.
pub const THREADS: u32 = 256;
/// Number of queries of the largest tiles.
pub const MOST_QUERIES: usize = 64;
/// Number of items for each block of a search.
pub const ITEMS_PER_BLOCK: usize = 4;

arguments! {
    /// As in mean_linkage/launch.cuh.
    #[derive(Default)]
    pub struct Counts {
        pub live: [u32; 2],
        pub changed: u32,
        pub open: u32,
        pub merges: u32,
        pub merges_after: [u32; 2],
        pub tied: u32,
        pub crowded: u32,
        pub given_up: u32,
        pub compared: u64,
    }
}

arguments! {
    /// As in mean_linkage/launch.cuh.
    #[derive(Default)]
    pub struct Clusters {
        pub means: u64,
        pub sizes: u64,
        pub variances: u64,
        pub single_means: u64,
        pub distances: u64,
        pub nearest: u64,
        pub merged_in: u64,
        pub live_after_even: u64,
        pub live_after_odd: u64,
        pub changed: u64,
        pub open: u64,
        pub least: u64,
        pub second: u64,
        pub least_slots: u64,
        pub heights: u64,
        pub lower: u64,
        pub higher: u64,
        pub counts: u64,
        pub tie_share: f64,
        pub tie_margin: f64,
        pub single_share: f64,
        pub single_margin: f64,
        pub scale: f64,
        pub most_open: u64,
        pub columns: u32,
        pub linkage: u32,
        pub searches_per_merge: u32,
    }
}

impl Clusters {
    /// The kernels' argument with the options of a linkage. All addresses are 0.
    pub fn new(columns: usize, linkage: MeanLinkage, margins: Margins, most_open: u64) -> Self {
        Self {
            tie_share: margins.tie_share,
            tie_margin: margins.tie_margin,
            single_share: margins.single_share,
            single_margin: margins.single_margin,
            scale: margins.scale,
            most_open,
            columns: columns as u32,
            linkage: linkage as u32,
            searches_per_merge: SEARCHES_PER_MERGE as u32,
            ..Self::default()
        }
    }
}

impl Counts {
    /// The counts at the start: all `n` clusters remain, and all are to be searched for, unless
    /// their nearest clusters are known.
    pub fn new(n: usize) -> Self {
        Self {
            live: [n as u32, 0],
            changed: n as u32,
            ..Self::default()
        }
    }

    /// Whether the rounds of `n` clusters should end: if the CPU's merges may be others
    /// (see mean_linkage.cu), or if searches with bounds take less time.
    pub fn should_end(&self, n: usize) -> bool {
        let may_differ = self.tied != 0 && self.crowded != 0;
        may_differ
            || self.given_up != 0
            || self.compared > policy::MEAN_LINKAGE_COMPARISONS * (n as u64).pow(2)
    }
}

/// Number of queries of all items of a search of `n` clusters by `blocks` blocks, at most: room for
/// their nearest references.
pub fn most_results(n: usize, blocks: u32) -> usize {
    let most_parts = ITEMS_PER_BLOCK * blocks as usize;
    MOST_QUERIES * (most_parts + n.div_ceil(MOST_QUERIES))
}

/// The kernels of a round.
pub struct MeanLinkageKernels {
    convert: CudaFunction,
    merge: CudaFunction,
    collect: CudaFunction,
    /// The kernels that find nearest clusters, in the order of their launches.
    search: [CudaFunction; 4],
    /// Number of blocks of each kernel.
    pub blocks: u32,
}

impl MeanLinkageKernels {
    /// The kernels, for a device.
    ///
    /// # Errors
    /// `Error::Device` when the device fails.
    pub fn new(device: &Device) -> Result<Self> {
        let kernel = |name: &str| device.kernel(&kernels::MEAN_LINKAGE, name);
        let search = ["sweep", "decide", "search", "settle"].map(kernel);
        let [sweep, decide, search, settle] = search;
        let search = [sweep?, decide?, search?, settle?];
        let blocks = || -> DriverResult<u32> {
            device.context.bind_to_thread()?;
            let each =
                search[0].occupancy_max_active_blocks_per_multiprocessor(THREADS, 0, None)?;
            Ok(each.max(1) * device.multiprocessors()?)
        };
        let blocks = blocks().map_err(|error| device.error(LINKING, &error))?;
        Ok(Self {
            convert: kernel("convert")?,
            merge: kernel("merge")?,
            collect: kernel("collect")?,
            search,
            blocks,
        })
    }

    /// Prepares the first round of `count` clusters. Searches for the nearest clusters of all if
    /// `search`.
    ///
    /// # Safety
    /// `clusters` has addresses of memory as mean_linkage/launch.cuh says, which lives until the
    /// stream is done.
    pub unsafe fn begin(
        &self,
        stream: &Arc<CudaStream>,
        clusters: &Clusters,
        count: u32,
        search: bool,
    ) -> DriverResult<()> {
        // SAFETY: as the caller says.
        unsafe {
            self.start(stream, &self.convert, clusters, count)?;
            if search {
                self.search(stream, clusters, 0)?;
            }
        }
        Ok(())
    }

    /// # Safety
    /// As [`Self::begin`].
    unsafe fn search(
        &self,
        stream: &Arc<CudaStream>,
        clusters: &Clusters,
        round: u32,
    ) -> DriverResult<()> {
        // SAFETY: as the caller says.
        let start = |kernel| unsafe { self.start(stream, kernel, clusters, round) };
        self.search.iter().try_for_each(start)
    }

    /// Starts a round.
    ///
    /// # Safety
    /// As [`Self::begin`].
    pub unsafe fn round(
        &self,
        stream: &Arc<CudaStream>,
        clusters: &Clusters,
        round: u32,
    ) -> DriverResult<()> {
        // SAFETY: as the caller says.
        unsafe {
            self.start(stream, &self.merge, clusters, round)?;
            self.start(stream, &self.collect, clusters, round)?;
            self.search(stream, clusters, round)
        }
    }

    /// Starts a kernel, whose second argument is the round, or the number of clusters.
    ///
    /// # Safety
    /// As [`Self::begin`].
    unsafe fn start(
        &self,
        stream: &Arc<CudaStream>,
        kernel: &CudaFunction,
        clusters: &Clusters,
        number: u32,
    ) -> DriverResult<()> {
        let config = LaunchConfig {
            grid_dim: (self.blocks, 1, 1),
            block_dim: (THREADS, 1, 1),
            shared_mem_bytes: 0,
        };
        let mut launch = stream.launch_builder(kernel);
        // SAFETY: the arguments are as declared in mean_linkage.cu; the caller says the rest.
        unsafe { launch.arg(clusters).arg(&number).launch(config) }?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{check, constants};

    #[test]
    fn arguments_are_those_of_the_kernels() {
        check(
            "mean_linkage/launch.cuh",
            &[],
            &[Counts::layout(), Clusters::layout()],
            &constants![THREADS, ITEMS_PER_BLOCK],
        );
        let queries = [("SIDE * MOST_EACH", MOST_QUERIES as u64)];
        check("mean_linkage/launch.cuh", &[], &[], &queries);
    }
}
