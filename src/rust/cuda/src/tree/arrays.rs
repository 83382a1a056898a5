//! The arguments and the arrays of the kernels of tree.cu.

use std::mem::swap;
use std::ops::Range;

use gmhclust_core::mahalanobis::packed::packed_len;
use gmhclust_core::mahalanobis::{Distance, Problem};
use gmhclust_core::Merge;

use super::clusters::{padded_len, Clusters, BALL_SCALARS, COORDINATES, SCALARS};
use crate::arguments::{arguments, named_values};
use crate::blocks::banded_len;

// tree/launch.cuh defines the same constants; a test compares them.

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Nearest older clusters that are kept for each cluster.
pub const CANDIDATES: usize = 16;
/// Clusters that a search has room for.
const FOUND_ROOM: usize = 512;
/// Clusters whose distances to a node are computed together.
const DECIDED_TOGETHER: usize = 16;
/// Partial sums of a job: two for each direction of each distance.
const JOB_SUMS: usize = 4 * DECIDED_TOGETHER;
/// Bytes of shared memory for sums of members' distances.
const SUMS_BYTES: usize = 5_376;
/// Entries of each of the two ring buffers, `posted` and `done`.
const RING: usize = 16_384;
/// Slots that a search leaves out.
const SKIPPED: usize = 32;
/// Heads in a leaf of the priority queue.
const LEAF: usize = 32;
/// Largest number of leaves of the priority queue.
const MAX_LEAVES: usize = 32_768;
/// Largest number of regions, the balls around balls.
const MAX_REGIONS: usize = 1024;

/// Number of positions in a ball: one for each thread of a warp.
pub const BALL: usize = 32;
/// Clusters whose distances to a node the sequencer computes together.
const SEQUENCER_TOGETHER: usize = 8;
/// Index of the third moments in the spread of a shape, as in enum Spread.
const THIRD_MOMENTS: usize = 3;

/// Largest number of clusters: the room in the priority queue.
pub const MOST_CLUSTERS: usize = LEAF * MAX_LEAVES;
const _: () = assert!(MOST_CLUSTERS <= MAX_REGIONS * BALL * BALL);

/// Largest number of values of a recent cluster's row after its coordinates. One of them pads the
/// row to an odd length.
const RECENT_SCALARS: usize = 3;

/// The sizes of a module's lists, by the module's largest number of columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ListSizes {
    /// Jobs at a time.
    jobs: usize,
    /// Most recent merges that the sequencer has the unions of.
    recent: usize,
    /// Bytes of shared memory for the sequencer's state, without its lists and rows.
    sequencer_bytes: usize,
    /// Points that a warp searches for at a time at the start.
    points_a_warp: usize,
    /// Bytes of shared memory of a search.
    search_bytes: usize,
    /// Clusters whose distances a block computes at a time.
    block_together: usize,
}

/// Largest number of columns of the module with the shortest lists.
pub const FEW_COLUMNS: usize = 16;
const OF_FEW_COLUMNS: ListSizes = ListSizes {
    jobs: 128,
    recent: 64,
    sequencer_bytes: 37_248,
    points_a_warp: 8,
    search_bytes: 18_432,
    block_together: DECIDED_TOGETHER,
};
const OF_MANY_COLUMNS: ListSizes = ListSizes {
    jobs: 256,
    recent: 128,
    sequencer_bytes: 65_920,
    ..OF_FEW_COLUMNS
};
/// Largest number of columns whose coordinates fit in registers. With more columns, a block keeps
/// the whitening factor that it computes, in double precision, in device memory.
pub const MOST_IN_REGISTERS: usize = 64;
const OF_WIDE_TREES: ListSizes = ListSizes {
    points_a_warp: 4,
    search_bytes: 22_544,
    block_together: 6,
    ..OF_FEW_COLUMNS
};
/// Number of clusters for each job at a time, between the limits of [`TreeSizes::max_jobs`].
const CLUSTERS_A_JOB: usize = 256;
/// Largest number of jobs at a time with full distances.
const JOBS_WITH_MEMBERS: usize = 128;
/// Number of jobs at a time in wide trees.
const JOBS_OF_WIDE_TREES: usize = 32;
/// Largest number of pairs at the front of the queue that are merged speculatively. At most 32:
/// struct FirstEntries of tree/requests.cuh has one lane of a warp, and one bit of a word, for each
/// pair. With more, the kernel would write beyond an array. Up to 32, only the time depends on it.
const PAIRS: u32 = 32;
/// As [`PAIRS`], for wide trees.
const PAIRS_OF_WIDE_TREES: u32 = 8;
/// Largest number of jobs at a time.
pub const JOBS: usize = OF_MANY_COLUMNS.jobs;

/// Memory for the lists and rows of the sequencer, the block that makes the merges. Same order as
/// enum Placement in tree/launch.cuh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Placement {
    /// All in shared memory.
    AllInShared,
    /// The rows of jobs in device memory.
    JobRowsApart,
    /// The rows of jobs and the lists of candidates in device memory.
    ListsApart,
    /// All in device memory: also the rows of recent clusters.
    RecentRowsApart,
}

impl Placement {
    /// All placements. Each needs more shared memory than the next placement.
    pub const ALL: [Self; 4] = [
        Self::AllInShared,
        Self::JobRowsApart,
        Self::ListsApart,
        Self::RecentRowsApart,
    ];
}

/// The reason why a launch has ended: enum Status in tree/launch.cuh without its first value,
/// RUNNING, so that its numbers are one higher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The launch has taken as long as it may.
    TimeIsUp,
    /// The tree is complete.
    AllMerged,
    /// All clusters have become full-size: their shapes change.
    AllFullSize,
    /// The host asked the kernel to stop.
    Stopped,
    /// The kernel cannot go on; the CPU must make the tree.
    GaveUp,
    /// Many positions have no cluster any more.
    ManyGone,
    /// There is no room for the members of a union.
    NoRoom,
}

impl Status {
    /// The status with this number in tree/launch.cuh; `None` for RUNNING and for other numbers.
    pub fn of(number: u32) -> Option<Self> {
        use Status::*;
        [
            TimeIsUp,
            AllMerged,
            AllFullSize,
            Stopped,
            GaveUp,
            ManyGone,
            NoRoom,
        ]
        .get((number as usize).checked_sub(1)?)
        .copied()
    }
}

/// Indices of words of the control state, as in enum Control of tree/launch.cuh.
pub mod control {
    pub const STATUS: usize = 0;
    pub const STATE_STARTS: usize = 4;
    pub const MERGES: usize = 5;
    pub const BELOW_THRESHOLD: usize = 6;
    pub const NEXT_ID: usize = 7;
    pub const SHAPES_USED: usize = 8;
    pub const MEMBERS_USED: usize = 10;
    pub const CONTROL_WORDS: usize = 11;
}
use control::CONTROL_WORDS;

arguments! {
    /// As in tree/launch.cuh. The host uses only the size.
    pub struct Job {
        node: u32,
        slot: u32,
        lower_node: u32,
        higher_node: u32,
        is_new: u32,
        id: u32,
        waits_for: [u32; 2],
        awaited_ids: [u32; 2],
        births_below: u32,
        skipped: u32,
        skip: [u32; SKIPPED],
        made_at: u32,
        found_first: u32,
        below_floor: u32,
        bounds_too_loose: u32,
        newly_full_size: u32,
        lacks_room: u32,
        made: u32,
    }

    /// As in tree/launch.cuh. The host uses only the size.
    pub struct SharedWork {
        next: u32,
        done: u32,
        generation: u32,
        found: u32,
        from: f32,
        limit: f32,
        births_below: u32,
        node: u32,
        node_shape: u32,
        node_size: u32,
        node_start: u32,
        slots: [u32; DECIDED_TOGETHER],
        shapes: [u32; DECIDED_TOGETHER],
        sizes: [u32; DECIDED_TOGETHER],
        starts: [u32; DECIDED_TOGETHER],
    }

    /// As in tree/launch.cuh. The pointers are device addresses.
    pub struct Tree {
        pub threshold: f64,
        pub unit: f64,
        pub diagonal: f64,
        pub sum_error: f64,
        pub subthreshold: u32,
        pub normalize: u32,
        pub all_full_size: u32,
        pub midpoint: u32,
        pub dimensions: u32,
        pub clusters: u32,
        pub has_shapes: u32,
        pub shape_limit: u32,
        pub milliseconds: u32,
        pub batch: u32,
        pub max_jobs: u32,
        pub balls: u32,
        pub query_words: u32,
        pub placement: u32,
        pub merges_until: u32,
        pub log2_terms: u32,
        pub member_room: u32,
        pub arrays: TreeArrays<u64>,
        pub progress: u64,
        pub stop: u64,
    }
}

named_values! {
    /// The arrays of the kernels, in struct Tree of tree/launch.cuh.
    pub struct TreeArrays {
        center,
        x,
        means,
        floor_values,
        floor_ties,
        candidate_values,
        candidate_slots,
        candidate_ids,
        counts,
        sizes,
        shapes,
        member_starts,
        ids,
        firsts,
        births,
        positions,
        head_values,
        head_ties,
        leaf_values,
        leaf_ties,
        leaf_owners,
        scatters,
        factors,
        spreads,
        free_shapes,
        members,
        spare_members,
        slots_at,
        births_at,
        spare_slots_at,
        spare_births_at,
        moves,
        spare_rows,
        ball_rows,
        region_rows,
        rows,
        list_values,
        list_slots,
        list_ids,
        recent_rows,
        jobs,
        shared_work,
        sums,
        block_factors,
        queries,
        found,
        posted,
        done,
        heights,
        lower,
        higher,
        control,
        radius_factor,
    }
}

/// The byte range of each array in one allocation of device memory. Separate allocations would take
/// longer than a small tree.
#[derive(Debug, Clone)]
pub struct TreeLayout {
    pub arrays: TreeArrays<Range<usize>>,
    /// The ranges of the rows and of the whitening factors in single precision.
    pub clusters: [Range<usize>; 2],
    pub bytes: usize,
}

/// Largest number of blocks that make the merges of a tree. All of them may call for help with a
/// sweep at the same time; the length of the ring of posts limits it.
pub const MOST_BLOCKS: usize = 168;
/// Number of blocks of the kernels that start a tree, gather members or compute shapes again, for
/// each block of the merging kernel. Only the time, and the memory for [`MOST_LAUNCHED`] factors of
/// wide trees, depend on it.
pub const BLOCKS_PER_MERGING_BLOCK: usize = 4;
/// Largest number of blocks of a launch that compute whitening factors.
const MOST_LAUNCHED: usize = BLOCKS_PER_MERGING_BLOCK * MOST_BLOCKS;

/// Alignment of every array, in bytes.
const ALIGNMENT: usize = 256;

/// The sizes that determine the lengths of all arrays.
#[derive(Debug, Clone, Copy)]
pub struct TreeSizes {
    pub dimensions: usize,
    /// Largest number of columns of the module.
    pub most_columns: usize,
    pub clusters: usize,
    /// Number of positions: a multiple of [`THREADS`].
    pub capacity: usize,
    /// Largest number of shapes at a time; 0 if no cluster can have a shape.
    pub shapes: usize,
    pub distance: Distance,
    /// Number of observations; 0 for centroid distances.
    pub observations: usize,
}

/// Room for the members of unions, as a multiple of the number of observations. With less room, the
/// members of active clusters are gathered more often.
const MEMBER_ROOM: usize = 64;
/// Smallest room for the members of unions, as a multiple of the number of observations: a limit of
/// [`MOST_MEMBER_ROOM`] is not applied below it.
const LEAST_MEMBER_ROOM: usize = 4;
/// Largest room for the members of unions, in members of 4 bytes each (1 GiB), unless
/// [`LEAST_MEMBER_ROOM`] gives more.
const MOST_MEMBER_ROOM: usize = 1 << 28;
/// Largest number of observations of a tree. The kernels count, in 32 bits, the members of
/// DECIDED_TOGETHER = 16 clusters and 16 times those of a node, 17 times this number at most.
pub const MOST_OBSERVATIONS: usize = 1 << 27;

impl TreeSizes {
    /// The sizes for a problem with `shaped` clusters that have a shape at the start, for the
    /// module for up to `most_columns` columns.
    pub fn new(problem: &Problem, most_columns: usize, shaped: usize) -> Self {
        let clusters = problem.clusters();
        Self {
            dimensions: problem.x.ncols(),
            most_columns,
            clusters,
            capacity: Self::capacity_for(clusters),
            shapes: if problem.has_shapes() {
                shaped + (clusters - shaped) / 2 + JOBS + 1
            } else {
                0
            },
            distance: problem.options.distance,
            observations: match problem.options.distance {
                Distance::Centroid => 0,
                Distance::FullMahalanobis => problem.members.len(),
            },
        }
    }

    /// Number of positions for this number of clusters.
    pub fn capacity_for(clusters: usize) -> usize {
        clusters.next_multiple_of(THREADS as usize)
    }

    /// Bytes of each array.
    pub fn bytes(&self) -> TreeArrays<usize> {
        let TreeSizes {
            dimensions: p,
            clusters: n,
            capacity,
            shapes,
            observations,
            ..
        } = *self;
        let nodes = n + JOBS;
        let leaves = n.div_ceil(LEAF);
        TreeArrays {
            center: 8 * p,
            x: 8 * observations * p,
            means: 8 * nodes * p,
            floor_values: 8 * nodes,
            floor_ties: 8 * nodes,
            candidate_values: 8 * nodes * CANDIDATES,
            candidate_slots: 4 * nodes * CANDIDATES,
            candidate_ids: 4 * nodes * CANDIDATES,
            counts: 4 * nodes,
            sizes: 4 * nodes,
            shapes: 4 * nodes,
            member_starts: 4 * nodes,
            ids: 4 * n,
            firsts: 4 * n,
            births: 4 * n,
            positions: 4 * n,
            head_values: 8 * n,
            head_ties: 8 * n,
            leaf_values: 8 * leaves,
            leaf_ties: 8 * leaves,
            leaf_owners: 4 * leaves,
            scatters: 8 * shapes * packed_len(p),
            factors: 8 * shapes * banded_len(p),
            spreads: match self.distance {
                Distance::Centroid => 0,
                Distance::FullMahalanobis => 8 * shapes * self.spread_len(),
            },
            free_shapes: 4 * shapes,
            // A block that reads a cluster while it changes may read beyond the room.
            members: 4 * (self.member_room() + observations),
            spare_members: 4 * observations,
            slots_at: 4 * capacity,
            births_at: 4 * capacity,
            spare_slots_at: 4 * capacity,
            spare_births_at: 4 * capacity,
            moves: 4 * capacity,
            spare_rows: self.rows_bytes(),
            ball_rows: 4 * (p + BALL_SCALARS) * self.balls(),
            region_rows: 4 * (p + BALL_SCALARS) * self.balls().div_ceil(BALL),
            rows: 4 * JOBS * (p + SCALARS),
            list_values: 8 * JOBS * CANDIDATES,
            list_slots: 4 * JOBS * CANDIDATES,
            list_ids: 4 * JOBS * CANDIDATES,
            recent_rows: 4 * OF_MANY_COLUMNS.recent * (p + RECENT_SCALARS),
            jobs: JOBS * size_of::<Job>(),
            // One for each job, and one for the sequencer.
            shared_work: (JOBS + 1) * size_of::<SharedWork>(),
            sums: 8 * (JOBS + 1) * JOB_SUMS,
            block_factors: if self.is_wide() {
                8 * MOST_LAUNCHED * banded_len(p)
            } else {
                0
            },
            queries: 4 * JOBS * self.query_words(),
            found: 8 * JOBS * FOUND_ROOM,
            posted: 8 * RING,
            done: 8 * RING,
            heights: 8 * n,
            lower: 4 * n,
            higher: 4 * n,
            control: 4 * CONTROL_WORDS,
            radius_factor: 8,
        }
    }

    /// The layout of everything that a tree needs in device memory.
    pub fn layout(&self) -> TreeLayout {
        let mut end = 0usize;
        let mut place = |&bytes: &usize| {
            let start = end.next_multiple_of(ALIGNMENT);
            end = start + bytes;
            start..end
        };
        let arrays = self.bytes().map(&mut place);
        let clusters = self.clusters_bytes().map(|bytes| place(&bytes));
        TreeLayout {
            arrays,
            clusters,
            bytes: end,
        }
    }

    /// Room for the members of unions, in observations.
    pub fn member_room(&self) -> usize {
        let n = self.observations;
        (MEMBER_ROOM * n).min(MOST_MEMBER_ROOM.max(LEAST_MEMBER_ROOM * n))
    }

    /// Number of values of the spread of a shape.
    pub fn spread_len(&self) -> usize {
        THIRD_MOMENTS + self.dimensions
    }

    /// Number of balls, each around the clusters at [`BALL`] positions.
    pub fn balls(&self) -> usize {
        self.capacity / BALL
    }

    /// Number of words of a query and its whitening factor.
    pub fn query_words(&self) -> usize {
        let query = (COORDINATES + self.most_columns).next_multiple_of(4);
        (query + padded_len(self.dimensions)).next_multiple_of(4)
    }

    /// Bytes of the rows, and bytes of the whitening factors in single precision.
    pub fn clusters_bytes(&self) -> [usize; 2] {
        [
            self.rows_bytes(),
            4 * self.shapes * packed_len(self.dimensions),
        ]
    }

    fn rows_bytes(&self) -> usize {
        4 * (self.dimensions + SCALARS) * self.capacity
    }

    /// Bytes of shared memory of a worker, a block that does jobs.
    pub fn job_bytes(&self) -> usize {
        self.lists().search_bytes + 4 * self.query_words() + self.workspace_bytes()
    }

    /// Largest number of jobs at a time. With too many jobs, the device prepares unions that are
    /// never merged. With too few jobs, blocks wait. The length of the ring of posts limits the
    /// number of jobs with full distances, see tree/help.cuh.
    ///
    /// Measured on an H200. Full distances: 128 jobs were 1.6 (30,000 x 41) and 1.4 (60,000 x 37)
    /// times as fast as 256 jobs. Centroid distances: 128 jobs were 1.1 times as fast for 30,000 x
    /// 50, and 256 jobs were 1.1 times as fast for 60,000 x 37. Wide trees: 32 jobs with 8 pairs
    /// were 1.2 (30,000 x 64) and 1.35 (30,000 x 100) times as fast as 64 jobs with 32 pairs.
    pub fn max_jobs(&self) -> usize {
        let most = self.lists().jobs;
        match self.distance {
            _ if self.is_wide() => JOBS_OF_WIDE_TREES,
            Distance::FullMahalanobis => JOBS_WITH_MEMBERS,
            Distance::Centroid => (self.clusters / CLUSTERS_A_JOB).clamp(OF_FEW_COLUMNS.jobs, most),
        }
    }

    /// Largest number of pairs that are merged speculatively at a time.
    pub fn max_pairs(&self) -> u32 {
        if self.is_wide() {
            PAIRS_OF_WIDE_TREES
        } else {
            PAIRS
        }
    }

    fn lists(&self) -> ListSizes {
        if self.is_wide() {
            OF_WIDE_TREES
        } else if self.most_columns > FEW_COLUMNS {
            OF_MANY_COLUMNS
        } else {
            OF_FEW_COLUMNS
        }
    }

    /// Number of points whose neighbours a warp searches for at a time at the start.
    pub fn points_a_warp(&self) -> usize {
        self.lists().points_a_warp
    }

    /// Whether the module is for more columns than registers have room for. Blocks of a wide tree
    /// compute whitening factors in device memory.
    pub fn is_wide(&self) -> bool {
        self.most_columns > MOST_IN_REGISTERS
    }

    /// Bytes of shared memory of the sequencer, with its lists and rows in this placement.
    pub fn sequencer_bytes(&self, placement: Placement) -> usize {
        let (p, lists) = (self.dimensions, self.lists());
        let in_shared = |apart: Placement, bytes: usize| if placement < apart { bytes } else { 0 };
        let job_rows = in_shared(Placement::JobRowsApart, 4 * lists.jobs * (p + SCALARS));
        let candidates = in_shared(Placement::ListsApart, 16 * lists.jobs * CANDIDATES);
        let recent_rows = 4 * lists.recent * (p + RECENT_SCALARS);
        let recent_rows = in_shared(Placement::RecentRowsApart, recent_rows);
        let sums = match self.distance {
            Distance::Centroid => 0,
            Distance::FullMahalanobis => SUMS_BYTES,
        };
        let rows = job_rows + candidates + recent_rows + 16;
        lists.sequencer_bytes + rows + self.sequencer_scratch_bytes() + sums
    }

    /// Bytes of the sequencer's working memory, `sequencer_doubles` in tree/union.cuh: for the
    /// distances that it computes together, or for a factor and a mean.
    fn sequencer_scratch_bytes(&self) -> usize {
        let scratch = self.scratch_bytes(SEQUENCER_TOGETHER);
        if self.is_wide() {
            return scratch;
        }
        let target = banded_len(self.dimensions) + self.dimensions;
        scratch.max(8 * target.next_multiple_of(2))
    }

    /// Bytes of shared memory of a block of `reshape_all`.
    pub fn reshape_bytes(&self) -> usize {
        self.workspace_bytes() + 4 * self.query_words()
    }

    /// Bytes of struct Workspace in tree/union.cuh.
    fn workspace_bytes(&self) -> usize {
        let p = self.dimensions;
        let factor = if self.is_wide() { 0 } else { banded_len(p) };
        8 * (factor + 3 * p) + self.scratch_bytes(self.lists().block_together)
    }

    /// Bytes of working memory to compute the distances of `together` pairs at a time.
    fn scratch_bytes(&self, together: usize) -> usize {
        8 * 3 * (self.dimensions | 1) * together
    }
}

impl Tree {
    /// Swaps the arrays of positions with the spare arrays. The kernels must have copied all
    /// clusters to the first `left` positions of the spare arrays, without gaps.
    pub fn use_spare(&mut self, clusters: &mut Clusters, left: u32) {
        let arrays = &mut self.arrays;
        swap(&mut arrays.slots_at, &mut arrays.spare_slots_at);
        swap(&mut arrays.births_at, &mut arrays.spare_births_at);
        swap(&mut clusters.rows, &mut arrays.spare_rows);
        self.balls = left.div_ceil(BALL as u32);
    }
}

/// Converts the bytes of heights (`f64`) and of lower and higher slots (`u32`) to merges.
pub fn to_merges(heights: &[u8], lower: &[u8], higher: &[u8]) -> Vec<Merge> {
    let heights: Vec<f64> = bytemuck::pod_collect_to_vec(heights);
    let lower: Vec<u32> = bytemuck::pod_collect_to_vec(lower);
    let higher: Vec<u32> = bytemuck::pod_collect_to_vec(higher);
    let pairs = lower.into_iter().zip(higher);
    let merge = |((lower, higher), height)| Merge {
        lower,
        higher,
        height,
    };
    pairs.zip(heights).map(merge).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{check, constants};

    /// The help of `gpu_devices()` says that a T4 has room for 43 columns, a V100 for 135, and an
    /// A100 for all.
    #[test]
    fn blocks_of_small_gpus_have_room() {
        // An upper bound on the static shared memory of the kernel, Entries and Shared.
        const FIXED: usize = 14 << 10;
        let needed = |p: usize, most_columns: usize| {
            let sizes = TreeSizes {
                dimensions: p,
                most_columns,
                clusters: 1000,
                capacity: TreeSizes::capacity_for(1000),
                shapes: 1000,
                distance: Distance::FullMahalanobis,
                observations: 1000,
            };
            let sequencer = sizes.sequencer_bytes(Placement::RecentRowsApart);
            FIXED + sequencer.max(sizes.job_bytes())
        };
        let fits = |p, most_columns, kilobytes: usize| needed(p, most_columns) <= kilobytes << 10;
        assert!(fits(FEW_COLUMNS, FEW_COLUMNS, 64) && !fits(FEW_COLUMNS + 1, 52, 64));
        assert!(fits(43, 104, 64) && !fits(44, 104, 64) && !fits(44, 208, 64));
        assert!(fits(52, 52, 96) && fits(135, 208, 96) && !fits(136, 208, 96));
        assert!(fits(208, 208, 163));
    }

    /// The help of `gpu_devices()` says that a cluster takes about 5 p² + 32 p + 420 bytes. Full
    /// distances take half a kilobyte more in 14 columns, and 1.5 kilobytes more in 100.
    #[test]
    fn clusters_take_the_memory_that_the_help_says() {
        let clusters = 100_000;
        let each = |dimensions: usize, most_columns, distance| {
            let sizes = TreeSizes {
                dimensions,
                most_columns,
                clusters,
                capacity: TreeSizes::capacity_for(clusters),
                shapes: clusters / 2 + JOBS + 1,
                distance,
                observations: match distance {
                    Distance::Centroid => 0,
                    Distance::FullMahalanobis => clusters,
                },
            };
            sizes.layout().bytes as f64 / clusters as f64
        };
        for (p, most_columns) in [(14, 16), (52, 52), (100, 104), (208, 208)] {
            let said = (5 * p * p + 32 * p + 420) as f64;
            let found = each(p, most_columns, Distance::Centroid);
            assert!((0.94..1.06).contains(&(found / said)), "{p}: {found}");
        }
        for (p, most_columns, said) in [(14, 16, 500.0), (100, 104, 1500.0)] {
            let full = each(p, most_columns, Distance::FullMahalanobis);
            let more = full - each(p, most_columns, Distance::Centroid);
            assert!((0.8..1.2).contains(&(more / said)), "{p}: {more}");
        }
    }

    #[test]
    fn arguments_are_laid_out_as_the_kernels_read_them() {
        use control::*;
        let mut constants = constants![
            THREADS,
            CANDIDATES,
            RING,
            FOUND_ROOM,
            SKIPPED,
            LEAF,
            MAX_LEAVES,
            MAX_REGIONS,
            SUMS_BYTES,
            DECIDED_TOGETHER,
            SEQUENCER_TOGETHER,
            JOBS_WITH_MEMBERS,
            JOB_SUMS,
            THIRD_MOMENTS,
            COORDINATES,
            STATUS,
            STATE_STARTS,
            MERGES,
            BELOW_THRESHOLD,
            NEXT_ID,
            SHAPES_USED,
            MEMBERS_USED,
            CONTROL_WORDS,
        ]
        .to_vec();
        let names = [
            "TIME_IS_UP",
            "ALL_MERGED",
            "ALL_FULL_SIZE",
            "STOPPED",
            "GAVE_UP",
            "MANY_GONE",
            "NO_ROOM",
        ];
        constants.extend(names.into_iter().zip(1..));
        let placements = [
            "ALL_IN_SHARED",
            "JOB_ROWS_APART",
            "LISTS_APART",
            "RECENT_ROWS_APART",
        ];
        let numbers = Placement::ALL.map(|placement| placement as u64);
        constants.extend(placements.into_iter().zip(numbers));
        let tree = Tree::layout().with_fields_of("arrays", &TreeArrays::<u64>::fields());
        check(
            "tree/launch.cuh",
            &[],
            &[Job::layout(), SharedWork::layout(), tree],
            &constants,
        );
        let few = format!("DIMENSIONS={FEW_COLUMNS}");
        let many = format!("DIMENSIONS={}", FEW_COLUMNS + 1);
        let wide = format!("DIMENSIONS={}", MOST_IN_REGISTERS + 1);
        for (dimensions, lists) in [
            (few, OF_FEW_COLUMNS),
            (many, OF_MANY_COLUMNS),
            (wide, OF_WIDE_TREES),
        ] {
            let sizes = [
                ("JOBS", lists.jobs as u64),
                ("RECENT", lists.recent as u64),
                ("SEQUENCER_BYTES", lists.sequencer_bytes as u64),
                ("POINTS_A_WARP", lists.points_a_warp as u64),
                ("SEARCH_BYTES", lists.search_bytes as u64),
                ("BLOCK_TOGETHER", lists.block_together as u64),
            ];
            check("tree/launch.cuh", &[&dimensions], &[], &sizes);
        }
        assert_eq!(Status::of(1), Some(Status::TimeIsUp));
        assert_eq!(Status::of(7), Some(Status::NoRoom));
        assert_eq!((Status::of(0), Status::of(8)), (None, None));
    }
}
