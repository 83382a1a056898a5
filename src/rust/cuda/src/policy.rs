//! The policy: each size from which a GPU, or one way to use it, is faster than another.
//!
//! This is the only place of such figures; `planner.rs` of the engine and the devices of this crate
//! read them here, and a test holds the help pages against them (`tools/tests/test_policy.py`). A
//! figure changes the time of a job, never its result. What a kernel cannot do at all, for want of
//! registers or shared memory, is no policy: the module that launches the kernel says it.
//!
//! Of each figure: what it counts; the run that it came from, a file in `inst/benchmarks/results`,
//! or "not measured in the tree" where that has none; and what happens where it is wrong. The runs
//! were made on an H200 beside cores of an Intel Xeon.

/// The size from which on a GPU that is open is faster, and how much more for each thread of the
/// CPU pays for opening it.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    pub least: usize,
    pub per_thread: usize,
}

impl Sizes {
    /// The size from which on it pays to open a GPU beside this number of threads.
    pub fn beside(&self, threads: usize) -> usize {
        self.least + self.per_thread * threads
    }
}

/// A problem that a GPU only screens for: with more columns than its trees have, or on a GPU with
/// too little shared memory for them. The CPU also does the last merges, of fewer than `least`
/// clusters.
///
/// - Counts: active clusters of the largest problem.
/// - Run: 2026-11-21-h200-gmhclust.csv, rows `crossover`: beside 2 threads faster from 9,000 on,
///   beside 16 from between 16,000 and 30,000 on. `least` for the last merges: not measured in the
///   tree.
/// - If wrong: too low, launches for few clusters take longer than the CPU's sweeps; too high, the
///   CPU does the quadratic work of large problems.
pub const SCREEN_CLUSTERS: Sizes = Sizes {
    least: 8_192,
    per_thread: 1_000,
};

/// A problem with centroid distances whose merges a GPU makes itself.
///
/// - Counts: clusters of the problem at its start.
/// - Run: 2026-11-24-h200-gmhclust.csv, rows `crossover`: beside 16 threads, 14 columns, once the
///   GPU is open, as fast for 4,000 and faster for 9,000. In 32 columns, from between 2,000 and
///   4,000 on: not measured in the tree, nor is 0.2 s to open a GPU, which `per_thread` pays for.
/// - If wrong: too low, opening the GPU and single merges one after the other take longer than the
///   CPU; too high, a problem of 9,000 takes 1.5 times as long.
pub const TREE_CLUSTERS: Sizes = Sizes {
    least: 4_096,
    per_thread: 500,
};

/// As [`TREE_CLUSTERS`], with full distances.
///
/// - Counts: clusters of the problem at its start.
/// - Run: 2026-11-24-h200-gmhclust.csv, rows `crossover`: beside 16 threads, 14 columns, once the
///   GPU is open, 10% slower for 2,000 and faster for 4,000.
/// - If wrong: as [`TREE_CLUSTERS`]; too high, a problem of 4,000 takes twice as long.
pub const FULL_TREE_CLUSTERS: Sizes = Sizes {
    least: 2_048,
    per_thread: 250,
};

/// A problem of few clusters with many members, whose merges a GPU makes itself for the sake of the
/// sums over members, with full distances: the tree above apriori clusters.
///
/// - Counts: observations of the problem.
/// - Run: 2026-11-24-h200-gmhclust.csv, rows `cells1m`, were made with it; times with other
///   figures: not measured in the tree.
/// - If wrong: too low, the CPU would have finished before the data were on the GPU; too high, the
///   CPU adds up the members of large clusters.
pub const FULL_TREE_MEMBERS: usize = 1 << 15;

/// As [`FULL_TREE_MEMBERS`]: fewest clusters of such a problem.
///
/// - Counts: clusters of the problem at its start.
/// - Run: not measured in the tree.
/// - If wrong: too low, a GPU is started for a handful of merges; too high, those of few apriori
///   clusters of many observations are the CPU's.
pub const FULL_TREE_MEMBERS_CLUSTERS: usize = 64;

/// As [`FULL_TREE_MEMBERS`], in data with more columns than those for which the sums stay in
/// registers, 16: with this number of threads or more, such problems are the CPU's.
///
/// - Counts: threads of the CPU.
/// - Run: 2026-11-24-h200-gmhclust.csv, rows `apriori2k`, were made with it, beside 16 threads;
///   times with fewer threads: not measured in the tree.
/// - If wrong: the tree above apriori clusters is made by the slower of the two.
pub const FULL_TREE_MEMBERS_THREADS: usize = 9;

/// Apriori clusters that thread blocks merge, one block each.
///
/// - Counts: apriori clusters for each thread of the CPU.
/// - Run: not measured in the tree.
/// - If wrong: too low, most multiprocessors have no block; too high, the CPU alone merges what the
///   blocks would finish sooner.
pub const BLOCK_PROBLEMS_PER_THREAD: usize = 4;

/// As [`BLOCK_PROBLEMS_PER_THREAD`].
///
/// - Counts: observations of all apriori clusters together.
/// - Run: not measured in the tree.
/// - If wrong: too low, opening the GPU takes longer than the work; too high, the CPU does it
///   alone.
pub const BLOCK_OBSERVATIONS: Sizes = Sizes {
    least: 8_192,
    per_thread: 1_000,
};

/// Most observations of an apriori cluster that one block merges.
///
/// - Counts: observations of the apriori cluster.
/// - Run: not measured in the tree.
/// - If wrong: too high, the rest of the device waits for one block; too low, the CPU merges
///   clusters for which a block would be done in time.
pub const BLOCK_MOST_OBSERVATIONS: usize = 8_192;

/// Time that a block takes for an apriori cluster with centroid distances, while all
/// multiprocessors have as many blocks as they can. It says how many of the largest clusters the
/// CPU merges meanwhile.
///
/// - Counts: the time of one thread of the CPU for the same cluster, as its multiple.
/// - Run: 2026-11-24-h200-gmhclust.csv, rows `cells1m`, were made with it; the times of a block and
///   of a thread: not measured in the tree.
/// - If wrong: blocks and threads do not end at the same time, and one of the two waits.
pub const BLOCK_PER_CORE: f64 = 2.5;

/// As [`BLOCK_PER_CORE`], with full distances.
///
/// - Counts: the time of one thread of the CPU for the same cluster, as its multiple.
/// - Run: as of [`BLOCK_PER_CORE`]: not measured in the tree.
/// - If wrong: as [`BLOCK_PER_CORE`].
pub const FULL_BLOCK_PER_CORE: f64 = 3.4;

/// An apriori cluster that all blocks of a GPU together merge, after they have merged the others,
/// instead of a thread of the CPU beside them.
///
/// - Counts: observations of the apriori cluster.
/// - Run: not measured in the tree.
/// - If wrong: too low, threads of the CPU idle while blocks work; too high, all wait for a thread
///   with a large apriori cluster.
pub const TREE_BESIDE_BLOCKS_CLUSTERS: usize = 4_096;

/// Work on pairs of observations: distances, searches, spanning trees and k-means.
///
/// - Counts: pairs of observations to compare, times columns, for each thread of the CPU.
/// - Run: not measured in the tree (distances.R, beside 2 and 16 threads).
/// - If wrong: too low, opening the GPU takes longer than the work; too high, the CPU does work
///   that a GPU does many times faster.
pub const PAIR_COORDINATES_PER_THREAD: usize = 1 << 31;

/// A request for neighbours within a search; the CPU answers smaller ones.
///
/// - Counts: pairs of observations in the request, times columns.
/// - Run: not measured in the tree (neighbours.R).
/// - If wrong: too low, launches and copies take longer than the CPU; too high, the last passes of
///   spanning trees and linkages are slow.
pub const REQUEST_COORDINATES: usize = 1 << 26;

/// A search in half precision, before one in single precision.
///
/// - Counts: columns.
/// - Run: not measured in the tree.
/// - If wrong: too low, near references are too near to be told apart by bounds in half precision,
///   and the search is made twice; too high, data of few columns miss the tensor cores.
pub const HALF_COLUMNS: usize = 8;

/// Queries of a batch that half precision may leave open, however small the batch is. With more,
/// also than a share of the batch ([`HALF_OPEN_RATIO`], [`HALF_HOST_RATIO`]), single precision
/// takes over.
///
/// - Counts: queries of a batch.
/// - Run: not measured in the tree.
/// - If wrong: too low, a few hard queries of a small batch end half precision; too high, the CPU
///   searches for them one by one.
pub const HALF_FEW_OPEN: usize = 64;

/// As [`HALF_FEW_OPEN`]: the share of a batch that may be swept for a second time.
///
/// - Counts: queries of the batch for each open one.
/// - Run: not measured in the tree.
/// - If wrong: too low, second sweeps take longer than single precision; too high, half precision
///   is given up where it is faster.
pub const HALF_OPEN_RATIO: usize = 4;

/// As [`HALF_FEW_OPEN`]: the share of a batch that may fall back to the CPU.
///
/// - Counts: queries of the batch for each open one.
/// - Run: not measured in the tree.
/// - If wrong: too low, the GPU waits for the CPU; too high, half precision is given up where it is
///   faster.
pub const HALF_HOST_RATIO: usize = 256;

/// An iteration of k-means; the CPU does smaller ones.
///
/// - Counts: observations, times centers, times columns.
/// - Run: not measured in the tree (kmeans.R).
/// - If wrong: too low, copies and launches take longer than the CPU; too high, the CPU does what a
///   GPU does faster.
pub const KMEANS_COORDINATES: usize = 1 << 26;

/// As [`KMEANS_COORDINATES`], for each of several GPUs: 2 ms of an iteration.
///
/// - Counts: observations, times centers, times columns, for each GPU.
/// - Run: not measured in the tree: an estimate, still to be measured by row `4m` of kmeans.R.
///   Passing on assignments and centers takes about 1 ms for a million observations.
/// - If wrong: too low, GPUs pass on assignments for longer than they compute; too high, one GPU
///   does the work while others idle.
pub const KMEANS_COORDINATES_PER_DEVICE: usize = 1 << 33;

/// A linkage with its matrix on the GPU.
///
/// - Counts: observations.
/// - Run: not measured in the tree. By linkage.R, faster from fewer than 1,000 on for points, and
///   for given dissimilarities from 1,000 beside 2 threads to 3,000 beside 16.
/// - If wrong: too low, the copy of the matrix and opening the GPU take longer than the CPU; too
///   high, the CPU goes through a large matrix.
pub const MATRIX_OBSERVATIONS: usize = 4_096;

/// A nearest-neighbour chain on a GPU that has the matrix; the CPU takes smaller ones over.
///
/// - Counts: clusters that are left when the chain begins.
/// - Run: not measured in the tree (linkage.R).
/// - If wrong: too low, steps that wait for each other take longer than on the CPU; too high, a
///   large matrix is copied to the CPU.
pub const CHAIN_CLUSTERS: usize = 2_048;
