//! The arguments of the kernels of tree.cu, and the arrays that they work in.

use gmhclust_core::mahalanobis::packed::packed_len;

use crate::arguments::{arguments, named_values};
use crate::blocks::banded_len;
use crate::screen::{BALL_SCALARS, SCALARS, TILE};

// As in tree_launch.cuh.
pub const THREADS: u32 = 256;
pub const CANDIDATES: usize = 16;
pub const POOL: usize = 512;
pub const SEARCHES: usize = 128;
const FOUND_ROOM: usize = 512;
pub const MINIMA: usize = 8;
const RECENT: usize = 128;
const SKIPPED: usize = 8;
const LEAF: usize = 128;
const GROUP_LEAVES: usize = 128;
const MOST_GROUPS_OF_LEAVES: usize = 256;
const CHAIN_BYTES: usize = 45_056;

/// Most clusters that the queue has room for.
pub const MOST_CLUSTERS: usize = LEAF * GROUP_LEAVES * MOST_GROUPS_OF_LEAVES;

/// Coordinates of a query before those of its mean, as in screen_launch.cuh.
const COORDINATES: usize = SCALARS + 5;

/// Why a launch has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    RoundsDone,
    AllMerged,
    AllFullSize,
    Stopped,
    GaveUp,
}

impl Status {
    /// For its number in tree_launch.cuh.
    pub fn of(number: u32) -> Option<Self> {
        use Status::*;
        [RoundsDone, AllMerged, AllFullSize, Stopped, GaveUp]
            .get((number as usize).checked_sub(1)?)
            .copied()
    }
}

/// Words of the state, as enum Control has them.
pub mod control {
    pub const ARRIVED: usize = 0;
    pub const STATUS: usize = 1;
    pub const MERGES: usize = 2;
    pub const BELOW_THRESHOLD: usize = 3;
    pub const NEXT_ID: usize = 4;
    pub const NEXT_START: usize = 5;
    pub const SHAPES_USED: usize = 6;
    pub const COUNT_ROUNDS: usize = 10;
    pub const CONTROL_WORDS: usize = 19;
}
use control::CONTROL_WORDS;

pub const TUNINGS: usize = 8;

arguments! {
    /// As in tree_launch.cuh; only its size is of interest.
    pub struct Search {
        node: u32,
        slot: u32,
        lower_node: u32,
        higher_node: u32,
        is_new: u32,
        order: u32,
        outcome: u32,
        found: u32,
        skipped: u32,
        skip: [u32; SKIPPED],
    }

    /// As in tree_launch.cuh; the pointers are addresses on the device.
    pub struct Tree {
        pub threshold: f64,
        pub unit: f64,
        pub subthreshold: u32,
        pub normalize: u32,
        pub all_full_size: u32,
        pub midpoint: u32,
        pub dimensions: u32,
        pub clusters: u32,
        pub has_shapes: u32,
        pub shape_limit: u32,
        pub rounds: u32,
        pub batch: u32,
        pub arrays: Arrays<u64>,
        pub progress: u64,
        pub stop: u64,
    }
}

named_values! {
    /// The arrays that the kernels work in, in struct Tree.
    pub struct Arrays {
        center,
        means,
        floor_values,
        floor_ties,
        candidate_values,
        candidate_slots,
        candidate_ids,
        counts,
        firsts,
        sizes,
        shapes,
        ids,
        sweeps,
        limits,
        orders,
        positions,
        head_values,
        head_ties,
        leaf_values,
        leaf_ties,
        leaf_owners,
        scatters,
        factors,
        free_shapes,
        slots_at,
        orders_at,
        tentative_rows,
        searches,
        queries,
        query_factors,
        found,
        found_counts,
        minima,
        heights,
        lower,
        higher,
        control,
        tuning,
    }
}

/// The sizes that the lengths of arrays follow from.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    pub dimensions: usize,
    /// Dimensions of the kernel: those that it keeps in registers.
    pub padded: usize,
    pub clusters: usize,
    /// Positions: a multiple of [`TILE`].
    pub capacity: usize,
    /// Most shapes; 0 where no cluster has one.
    pub shapes: usize,
}

impl Sizes {
    /// Number of positions for as many clusters.
    pub fn capacity_for(clusters: usize) -> usize {
        clusters.next_multiple_of(TILE)
    }

    /// Bytes of each array.
    pub fn bytes(&self) -> Arrays<usize> {
        let Sizes {
            dimensions: p,
            clusters: n,
            capacity,
            shapes,
            ..
        } = *self;
        let nodes = n + POOL;
        let leaves = n.div_ceil(LEAF);
        Arrays {
            center: 8 * p,
            means: 8 * nodes * p,
            floor_values: 8 * nodes,
            floor_ties: 8 * nodes,
            candidate_values: 8 * nodes * CANDIDATES,
            candidate_slots: 4 * nodes * CANDIDATES,
            candidate_ids: 4 * nodes * CANDIDATES,
            counts: 4 * nodes,
            firsts: 4 * nodes,
            sizes: 4 * nodes,
            shapes: 4 * nodes,
            ids: 4 * nodes,
            sweeps: 4 * nodes,
            limits: 4 * nodes,
            orders: 4 * n,
            positions: 4 * n,
            head_values: 8 * n,
            head_ties: 8 * n,
            leaf_values: 8 * leaves,
            leaf_ties: 8 * leaves,
            leaf_owners: 4 * leaves,
            scatters: 8 * shapes * packed_len(p),
            factors: 8 * shapes * banded_len(p),
            free_shapes: 4 * shapes,
            slots_at: 4 * capacity,
            orders_at: 4 * capacity,
            tentative_rows: 4 * POOL * (p + SCALARS),
            searches: SEARCHES * size_of::<Search>(),
            queries: 4 * SEARCHES * (COORDINATES + self.padded),
            query_factors: 4 * SEARCHES * crate::screen::padded_len(p),
            found: 8 * SEARCHES * FOUND_ROOM,
            found_counts: 4 * SEARCHES,
            minima: 4 * SEARCHES * MINIMA,
            heights: 8 * n,
            lower: 4 * n,
            higher: 4 * n,
            control: 4 * CONTROL_WORDS,
            tuning: 8 * TUNINGS,
        }
    }

    /// Bytes of the rows, the balls and the whitening factors in single precision.
    pub fn screen_bytes(&self) -> [usize; 3] {
        let p = self.dimensions;
        [
            4 * (p + SCALARS) * self.capacity,
            4 * (p + BALL_SCALARS) * (self.capacity / TILE),
            4 * self.shapes * packed_len(p),
        ]
    }

    /// Bytes of shared memory of a block of `grow`, of `blocks`.
    pub fn shared_bytes(&self, blocks: u32) -> usize {
        let p = self.dimensions;
        let chain = CHAIN_BYTES + 8 * (RECENT * (p + 2)).div_ceil(2);
        let vectors = 8 * 2 * p * (THREADS / 32) as usize;
        let workspace = 8 * (banded_len(p) + packed_len(p) + 2 * p) + vectors;
        let worker = workspace.max(4 * SEARCHES * (COORDINATES + self.padded));
        if blocks == 1 {
            chain + worker
        } else {
            worker.max(chain + workspace)
        }
    }

    /// Bytes of shared memory of a block of `start_anew`.
    pub fn start_bytes(&self) -> usize {
        let p = self.dimensions;
        let vectors = 8 * 2 * p * (THREADS / 32) as usize;
        8 * (banded_len(p) + packed_len(p) + 2 * p) + vectors + 4 * (p + SCALARS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{check, constants};

    #[test]
    fn arguments_are_laid_out_as_the_kernels_read_them() {
        use control::*;
        let mut constants = constants![
            THREADS,
            CANDIDATES,
            POOL,
            SEARCHES,
            FOUND_ROOM,
            MINIMA,
            RECENT,
            SKIPPED,
            LEAF,
            GROUP_LEAVES,
            MOST_GROUPS_OF_LEAVES,
            CHAIN_BYTES,
            COORDINATES,
            ARRIVED,
            STATUS,
            MERGES,
            BELOW_THRESHOLD,
            NEXT_ID,
            NEXT_START,
            SHAPES_USED,
            COUNT_ROUNDS,
            CONTROL_WORDS,
            TUNINGS,
        ]
        .to_vec();
        let names = ["ROUNDS_DONE", "ALL_MERGED", "ALL_FULL_SIZE", "STOPPED", "GAVE_UP"];
        constants.extend(names.into_iter().zip(1..));
        let tree = Tree::layout().with_fields_of("arrays", &Arrays::<u64>::fields());
        check(
            "tree_launch.cuh",
            &[],
            &[Search::layout(), tree],
            &constants,
        );
        assert_eq!(Status::of(1), Some(Status::RoundsDone));
        assert_eq!(Status::of(5), Some(Status::GaveUp));
        assert_eq!((Status::of(0), Status::of(6)), (None, None));
    }
}
