//! Compares a device's observations only with the centers near their own center.
//!
//! A center can be nearer to a member of a cluster than the cluster's center only if its distance
//! from the cluster's center is less than twice the member's distance. With many centers in few
//! columns, few centers are this near. See kernels/kmeans/near.cuh.

use cudarc::driver::{CudaFunction, CudaSlice, LaunchConfig, PushKernelArg};

use super::launch::{NEAR_BINS, NEAR_COLUMNS, NEAR_THREADS};
use super::lloyd::Lloyd;
use super::observations::DeviceObservations;
use super::update::Members;
use crate::arguments::arguments;
use crate::device::{unless_short, DriverResult};
use gmhclust_core::error::Result;

/// Largest number of centers in a cluster's list of near centers. If it is larger, lists take more
/// memory. If it is smaller, more observations are compared with all centers: with 2,048, 1 in 25
/// of 100,000,000 x 14 cells in 50,000 clusters.
const ROOM: usize = 8192;

/// Number of blocks for each cluster. If it is larger, most blocks of small clusters have nothing
/// to do. If it is smaller, all other blocks wait for a large cluster.
const BLOCKS_EACH: u32 = 8;

arguments! {
    /// As in kmeans/launch.cuh.
    pub struct Near {
        pub numbers: u64,
        pub starts: u64,
        pub centers: u64,
        pub ends: u64,
        pub scales: u64,
        pub counts: u64,
        pub room: u32,
    }
}

/// The sizes from which observations are compared only with near centers.
#[derive(Debug, Clone, Copy)]
pub struct NearPolicy {
    /// Smallest number of centers for which lists are made.
    pub centers: usize,
    /// At most 1 in this number of the comparisons with all centers may remain; 0 for no limit.
    pub ratio: usize,
}

/// Compares observations with near centers, on a device that assigns all observations.
pub struct NearSearch {
    list_near: CudaFunction,
    assign_near: CudaFunction,
    policy: NearPolicy,
    memory: NearMemory,
    room: usize,
}

/// Device memory: see `Near` in kmeans/launch.cuh.
struct NearMemory {
    centers: CudaSlice<u32>,
    ends: CudaSlice<u32>,
    scales: CudaSlice<f64>,
    counts: CudaSlice<u64>,
}

impl NearSearch {
    /// A search among this number of centers. Returns `None` if there are too few centers or too
    /// many columns, or if the device has too little memory.
    ///
    /// # Errors
    /// `Error::Device` when the device fails.
    pub fn new(
        at: &DeviceObservations,
        centers: usize,
        policy: NearPolicy,
    ) -> Result<Option<Self>> {
        if centers < policy.centers.max(2) || at.columns > NEAR_COLUMNS {
            return Ok(None);
        }
        let room = ROOM.min(centers - 1);
        let bytes = centers * (size_of::<u32>() * (room + NEAR_BINS) + size_of::<f64>());
        if !at.device.has_memory(bytes)? {
            return Ok(None);
        }
        let stream = &at.stream;
        let allocate = || -> DriverResult<_> {
            // SAFETY: the kernels write all of these before they read them.
            let (near, ends, scales) = unsafe {
                (
                    stream.alloc(centers * room)?,
                    stream.alloc(centers * NEAR_BINS)?,
                    stream.alloc(centers)?,
                )
            };
            Ok(NearMemory {
                centers: near,
                ends,
                scales,
                counts: stream.alloc_zeros(2)?,
            })
        };
        // Others may have taken the memory since `has_memory`.
        let Some(memory) = unless_short(allocate().map_err(|error| at.error(&error)))? else {
            return Ok(None);
        };
        Ok(Some(Self {
            list_near: at.kernel("list_near")?,
            assign_near: at.kernel("assign_near")?,
            policy,
            memory,
            room,
        }))
    }

    /// Assigns the observations of `lloyd` to their nearest centers. `members` has the observations
    /// sorted by their present clusters. Adds observations with too many near centers to the open
    /// observations. Returns `false`, and assigns nothing, if comparing with all centers is faster.
    ///
    /// # Errors
    /// `Error::Device` when the device fails.
    pub fn assign(
        &mut self,
        at: &DeviceObservations,
        lloyd: &Lloyd,
        members: &Members,
    ) -> Result<bool> {
        let zeroed = at.stream.memset_zeros(&mut self.memory.counts);
        zeroed.map_err(|error| at.error(&error))?;
        let near = Near {
            numbers: members.sorted_numbers,
            starts: members.starts,
            centers: at.at(&self.memory.centers),
            ends: at.at(&self.memory.ends),
            scales: at.at(&self.memory.scales),
            counts: at.at(&self.memory.counts),
            room: self.room as u32,
        };
        self.launch(at, &self.list_near, lloyd, &near, 1)?;
        let mut counts = [0; 2];
        at.fetch(&self.memory.counts.as_view(), &mut counts)?;
        let [compared, beyond] = counts.map(|count| count as f64);
        let (n, k) = (lloyd.assigned() as f64, f64::from(lloyd.clusters));
        if (compared + beyond * k) * self.policy.ratio as f64 > n * k {
            return Ok(false);
        }
        self.launch(at, &self.assign_near, lloyd, &near, BLOCKS_EACH)?;
        Ok(true)
    }

    fn launch(
        &self,
        at: &DeviceObservations,
        kernel: &CudaFunction,
        lloyd: &Lloyd,
        near: &Near,
        blocks_each: u32,
    ) -> Result<()> {
        let config = LaunchConfig {
            grid_dim: (lloyd.clusters, blocks_each, 1),
            block_dim: (NEAR_THREADS as u32, 1, 1),
            shared_mem_bytes: 0,
        };
        let mut launch = at.stream.launch_builder(kernel);
        // SAFETY: arguments as declared in kmeans/launch.cuh; all arrays have the sizes given
        // there, and live as long as `self`, the observations and their sort. All later work on
        // these arrays is on the same stream.
        let launched = unsafe { launch.arg(lloyd).arg(near).launch(config) };
        launched.map(drop).map_err(|error| at.error(&error))
    }
}
