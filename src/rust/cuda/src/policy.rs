//! The policy: the sizes of work from which a GPU is faster than the CPU, or from which one way to
//! use a GPU is faster than another way.
//!
//! This table is the only place of these figures. `planner.rs` of the engine and the devices of
//! this crate read them here, and a test compares the help pages with them
//! (`tools/tests/test_policy.py`). A figure changes the time of a computation, never its result.
//! Limits of a kernel, by its registers or shared memory, are not policy: the module that launches
//! the kernel defines them.
//!
//! Each figure has three entries:
//!
//! - what it counts, with the unit,
//! - the benchmark run that it came from, a file in `inst/benchmarks/results`, or "no result file",
//! - what happens if it is wrong.
//!
//! The runs were made on an H200, compared with cores of an Intel Xeon.

/// A size that grows with the number of CPU threads: an open GPU is faster from size `least` on.
/// Each CPU thread adds `per_thread`, to pay for opening the GPU.
#[derive(Debug, Clone, Copy)]
pub struct ThreadThreshold {
    pub least: usize,
    pub per_thread: usize,
}

impl ThreadThreshold {
    /// The size from which opening a GPU is faster than using this number of CPU threads.
    pub fn for_threads(&self, threads: usize) -> usize {
        self.least + self.per_thread * threads
    }
}

/// Minimum size of a problem with centroid distances for which a GPU makes all merges (`tree`).
///
/// - Counts: clusters of the problem at its start.
/// - Run: 2026-11-24-h200-gmhclust.csv, rows `crossover`: in 14 columns, the open GPU is as fast as
///   16 threads for 4,000 clusters and faster for 9,000. Without a result file: that in 32
///   columns the GPU is faster from between 2,000 and 4,000 clusters on, and that opening a GPU
///   takes 0.2 s, for which `per_thread` pays.
/// - If wrong: if it is too low, opening the GPU and making single merges one after the other take
///   longer than the CPU. If it is too high, a problem of 9,000 clusters takes 1.5 times as long.
pub const TREE_CLUSTERS: ThreadThreshold = ThreadThreshold {
    least: 4_096,
    per_thread: 500,
};

/// As [`TREE_CLUSTERS`], with full Mahalanobis distances.
///
/// - Counts: clusters of the problem at its start.
/// - Run: 2026-11-24-h200-gmhclust.csv, rows `crossover`: in 14 columns, the open GPU is 10% slower
///   than 16 threads for 2,000 clusters and faster for 4,000.
/// - If wrong: if it is too low, as for [`TREE_CLUSTERS`]. If it is too high, a problem of 4,000
///   clusters takes twice as long.
pub const FULL_TREE_CLUSTERS: ThreadThreshold = ThreadThreshold {
    least: 2_048,
    per_thread: 250,
};

/// Minimum number of observations of a problem with full Mahalanobis distances for which a GPU
/// makes all merges (`tree`) although there are few clusters. The sums over members take most of
/// the time of such a problem. An example is the tree above apriori clusters.
///
/// - Counts: observations of the problem.
/// - Run: 2026-11-24-h200-gmhclust.csv, rows `cells1m`, were made with this figure; times with
///   other figures: no result file.
/// - If wrong: if it is too low, copying the data to the GPU takes longer than the CPU's
///   computation. If it is too high, the CPU computes the sums over the members of large clusters.
pub const FULL_TREE_MEMBERS: usize = 1 << 15;

/// Minimum number of clusters of a problem that [`FULL_TREE_MEMBERS`] gives to a GPU.
///
/// - Counts: clusters of the problem at its start.
/// - Run: 2026-11-27-h200-gmhclust.csv, rows `groups2m`, were made with this figure; with 64, the
///   call with full distances took 24 s. Without a result file, on the same host: the tree above
///   a million cells took 0.62 s on the GPU and 0.67 s on 16 cores for 400 clusters by k-means. It
///   took 12.8 s on the GPU and 0.8 s on 16 cores for 200 random groups, such as samples, which
///   overlap so much that bounds rule out no pair.
/// - If wrong: if it is too low, the GPU takes many times as long as the CPU above a few apriori
///   clusters that overlap. If it is too high, the CPU makes the merges of a few apriori clusters
///   with many observations each.
pub const FULL_TREE_MEMBERS_CLUSTERS: usize = 512;

/// Minimum mean number of members of clusters that are tested for overlap. If most pairs of
/// clusters overlap, the CPU makes the merges of a problem with full Mahalanobis distances.
///
/// - Counts: members of a cluster at the start of the problem.
/// - Run: no result file.
/// - If wrong: if it is too low, single observations that are near each other count as overlapping,
///   and the CPU merges them. If it is too high, the GPU takes many times as long as the CPU.
pub const OVERLAP_MEMBERS: usize = 16;

/// Squared distance of two clusters below which they overlap, if they have [`OVERLAP_MEMBERS`]
/// members.
///
/// - Counts: shares of the number of columns, for distances in standard deviations. The mean
///   squared distance of a member to its own cluster is the number of columns.
/// - Run: no result file. On an H200 with 16 cores, the tree above 1,000 random groups of
///   1,000 x 14 cells took the CPU 8 to 10 s, and the GPU was stopped after 150 s.
/// - If wrong: if it is too low, as for a high [`OVERLAP_MEMBERS`]. If it is too high, the CPU
///   makes trees that a GPU makes faster.
pub const OVERLAP_SHARE: f64 = 0.25;

/// Minimum number of CPU threads with which the CPU merges a problem that [`FULL_TREE_MEMBERS`]
/// would give to a GPU. Applies to data with more than 16 columns, for which the GPU cannot keep
/// the sums in registers.
///
/// - Counts: threads of the CPU.
/// - Run: 2026-11-24-h200-gmhclust.csv, rows `apriori2k`, were made with this figure and 16
///   threads. Without a result file: on an H200, this row with full distances takes 4.3 s if 16
///   threads make the tree above, and 4.6 s if the GPU does; times with fewer threads.
/// - If wrong: the slower of CPU and GPU makes the tree above apriori clusters.
pub const FULL_TREE_MEMBERS_THREADS: usize = 9;

/// Minimum number of apriori clusters for which the GPU's thread blocks make their merges. Each
/// block merges one apriori cluster at a time.
///
/// - Counts: apriori clusters for each CPU thread.
/// - Run: no result file.
/// - If wrong: if it is too low, most multiprocessors have no block to run. If it is too high, the
///   CPU alone merges clusters that thread blocks would finish sooner.
pub const BLOCK_PROBLEMS_PER_THREAD: usize = 4;

/// Minimum number of observations for which the GPU's thread blocks merge apriori clusters,
/// together with [`BLOCK_PROBLEMS_PER_THREAD`].
///
/// - Counts: observations of all apriori clusters together.
/// - Run: no result file.
/// - If wrong: if it is too low, opening the GPU takes longer than the work. If it is too high, the
///   CPU does work alone that the GPU does faster.
pub const BLOCK_OBSERVATIONS: ThreadThreshold = ThreadThreshold {
    least: 8_192,
    per_thread: 1_000,
};

/// Largest number of observations of an apriori cluster that one thread block merges.
///
/// - Counts: observations of the apriori cluster.
/// - Run: no result file. On an H200 with 16 cores, 20,000,000 x 14 cells in 2,000 apriori clusters
///   by k-means, of 530 to 40,525, took 16.6 s with 16,384, 14.9 s with 20,480, and 13.6 s with
///   this number and with 32,768.
/// - If wrong: if it is too high, the rest of the GPU waits for one block. If it is too low, the
///   CPU merges clusters that a block would finish in time, or more trees are made, each of which
///   takes more of the GPU than a block.
pub const BLOCK_MOST_OBSERVATIONS: usize = 24_576;

/// Smallest number of observations with which thread blocks begin while the observations of other
/// apriori clusters are copied to the GPU.
///
/// - Counts: observations of apriori clusters.
/// - Run: no result file.
/// - If wrong: if it is too low, starting kernels takes longer than what they do meanwhile. If it
///   is too high, the GPU waits while observations are copied.
pub const BLOCK_CHUNK_OBSERVATIONS: usize = 1 << 19;

/// Largest number of apriori clusters that large thread blocks merge, if they have the same size.
/// If there are more, with centroid distances and up to 32 columns, blocks of half as many threads
/// merge them.
///
/// - Counts: apriori clusters for each multiprocessor. Those of different sizes count by the
///   squares of their sizes.
/// - Run: no result file. On an H200, which runs 4 large blocks or 8 others on each of
///   its 132 multiprocessors, 1,000,000 x 14 cells in 1,000 apriori clusters by k-means took
///   0.41 s with large blocks and 0.445 s with others; 20,000,000 in 2,000 of one size 9.2 and
///   7.9 s.
/// - If wrong: if it is too low, the rest of the GPU waits for the blocks with the largest
///   clusters. If it is too high, fewer blocks share a multiprocessor, which then waits more often.
pub const LARGE_BLOCK_PROBLEMS: usize = 6;

/// Times of thread blocks and of trees. They decide which apriori clusters blocks merge. A CPU
/// thread is assumed to take the square of the size of an apriori cluster, which defines the unit.
#[derive(Debug, Clone, Copy)]
pub struct BlockCosts {
    /// Time of one block for an apriori cluster, divided by the square of the cluster's size.
    pub alone: f64,
    /// Time of all blocks of a GPU for many apriori clusters, divided by the sum of the squares of
    /// their sizes.
    pub together: f64,
    /// Time of a merge of an apriori cluster that all blocks of a GPU together merge as a tree,
    /// while they make other trees, and while other blocks merge other apriori clusters.
    pub merge_in_tree: f64,
    /// The same time if no blocks merge other apriori clusters: see [`CPU_SHARE_BESIDE_TREES`].
    pub merge_in_only_trees: f64,
}

/// Costs with centroid distances.
///
/// - Counts: see [`BlockCosts`].
/// - Run: 2026-11-30-h200-gmhclust.csv, rows `cells1m`, `cells1m300` and `groups20m`, were made
///   with these costs. Without a result file, on an H200 with 16 cores, in blocks of 128 threads:
///   100 apriori clusters of 1,000, 2,000 and 4,000 x 14 cells took a block each 56, 142 and 384
///   ms, and a CPU thread 85, 235 and 650 ms while the other 15 were busy; 1,056 of them took all
///   blocks 0.18, 0.40 and 0.92 s. One of 10,000 took a CPU thread 1.1 s while the others were
///   idle, and a block 1.9 s; as one of 400 trees, 18 ms. With costs of 1.6, 0.005 and 165, the CPU
///   got most of 300 apriori clusters of 1,000,000 cells by k-means, which took 3.9 s; with 0.6,
///   0.002 and 80, and trees from 2,048 observations on, 1.35 s. With blocks of 256 threads, a cost
///   of 1.3 or 1.0 instead of 1.6 made no difference beyond the noise.
/// - If wrong: blocks and CPU threads do not end at the same time, and one side waits for the
///   other; or trees are made one after the other that blocks would have made together.
pub const BLOCK_COSTS: BlockCosts = BlockCosts {
    alone: 1.6,
    together: 0.002,
    merge_in_tree: 240.0,
    merge_in_only_trees: 150.0,
};

/// If blocks merge none, a merge in a tree is assumed to take [`BlockCosts::merge_in_only_trees`],
/// provided that the CPU needs at most this share of the trees' time for the apriori clusters that
/// are too small for trees. Otherwise it is assumed to take [`BlockCosts::merge_in_tree`].
///
/// - Counts: shares of the time of the trees, by [`BLOCK_COSTS`].
/// - Run: no result file.
/// - If wrong: if it is too high, trees wait for the CPU. If it is too low, one small apriori
///   cluster makes blocks merge all large ones.
pub const CPU_SHARE_BESIDE_TREES: f64 = 0.25;

/// Thread blocks leave further apriori clusters to trees and to the CPU only if this reduces the
/// time to less than this share.
///
/// - Counts: shares of the time without leaving the further clusters, by [`BLOCK_COSTS`].
/// - Run: no result file.
/// - If wrong: if it is too high, the CPU gets many small clusters to save next to nothing. If it
///   is too low, blocks take longer than they need.
pub const WORTH_LEAVING: f64 = 0.95;

/// Costs with full Mahalanobis distances.
///
/// - Counts: see [`BlockCosts`].
/// - Run: 2026-11-30-h200-gmhclust.csv, rows `cells1m` and `cells1m300`, were made with these
///   costs, and `groups2m` with trees alone. Without a result file, on an H200 with 16 cores, in
///   blocks of 256 threads: 1,000,000 x 14 cells in 1,000 apriori clusters by k-means took 1.00 s
///   with 23 of them on the CPU, 1.09 s with 7 and 1.24 s with 2; in 300 apriori clusters 3.1 s
///   with 14 trees. With a cost of 180 for a merge in a tree, 94 of the 300 were trees and 194 on
///   the CPU, which took 4.0 s.
/// - If wrong: as for [`BLOCK_COSTS`].
pub const FULL_BLOCK_COSTS: BlockCosts = BlockCosts {
    alone: 2.2,
    together: 0.008,
    merge_in_tree: 260.0,
    merge_in_only_trees: 60.0,
};

/// Minimum size of an apriori cluster that all blocks of a GPU together merge (`tree`) because it
/// would take a single block too long. A CPU thread merges smaller clusters that would take a block
/// too long.
///
/// - Counts: observations of the apriori cluster.
/// - Run: as for [`BLOCK_COSTS`]; no result file: with half this size and full distances,
///   1,000,000 cells in 1,000 apriori clusters by k-means took 3.5 s instead of 2.7 s.
/// - If wrong: if it is too low, CPU threads are idle while the GPU works. If it is too high, all
///   other threads and the GPU wait for one CPU thread with a large apriori cluster.
pub const TREE_BESIDE_BLOCKS_CLUSTERS: usize = 4_096;

/// Minimum work on pairs of observations for which a GPU is opened: distances, neighbour searches,
/// spanning trees and k-means.
///
/// - Counts: pairs of observations to compare, times columns, for each CPU thread. For k-means, see
///   [`KMEANS_REST_CENTERS`], too.
/// - Run: no result file (distances.R, with 2 and 16 threads).
/// - If wrong: if it is too low, opening the GPU takes longer than the work. If it is too high, the
///   CPU does work that a GPU does many times faster.
pub const PAIR_COORDINATES_PER_THREAD: usize = 1 << 31;

/// Minimum size of one request of a neighbour search for which the GPU answers it; the CPU answers
/// smaller requests.
///
/// - Counts: pairs of observations in the request, times columns.
/// - Run: no result file. On an H200 with 16 cores, single linkage of 16,384 x 128 took 0.044 s
///   with this figure or a quarter of it, and 0.048 s with 16 times as much; other linkages did
///   not change.
/// - If wrong: if it is too low, kernel launches and copies take longer than the CPU. If it is too
///   high, the last passes of spanning trees and linkages are slow.
pub const REQUEST_COORDINATES: usize = 1 << 22;

/// Number of queries from which a request to a GPU takes longer with more queries; smaller requests
/// all take about the same time. A spanning tree divides its searches into requests of this size or
/// more, since the edges found by one request make searches of the next ones unnecessary.
///
/// - Counts: queries.
/// - Run: no result file (linkage.R).
/// - If wrong: if it is too low, launches take longer than the searches. If it is too high, more
///   points are searched.
pub const REQUEST_QUERIES: usize = 1 << 16;

/// Number of sweeps of a cluster by a GPU that take as long as copying it to the GPU. A search
/// among clusters copies the remaining ones anew to leave out those that were merged away.
///
/// - Counts: queries.
/// - Run: no result file. On an H200 with 16 CPU threads, Ward's linkage of 200,000
///   points in 64 columns took 2.2 s when a tenth of all clusters had to be merged away for a copy,
///   2.0 s with 8,192 and 1.9 s with this figure.
/// - If wrong: if it is too low, all clusters are copied every few rounds. If it is too high, the
///   GPU mostly sweeps clusters that no longer exist.
pub const SWEEPS_PER_COPY: usize = 1 << 16;

/// Minimum number of columns for which a neighbour search sweeps in half precision first. It then
/// sweeps in single precision only if half precision leaves too many queries open.
///
/// - Counts: columns.
/// - Run: no result file.
/// - If wrong: if it is too low, bounds in half precision cannot separate near references, and the
///   search is made twice. If it is too high, searches in few columns do not use the tensor cores.
pub const HALF_COLUMNS: usize = 8;

/// Number of queries that a frame other than the last one may leave open in a batch of any size.
/// The next frame, with tighter bounds, takes over if more queries stay open than this number plus
/// a share of the batch ([`OPEN_RATIO`], [`HOST_RATIO`]).
///
/// - Counts: queries of a batch.
/// - Run: no result file.
/// - If wrong: if it is too low, a few hard queries of a small batch end the use of a fast frame.
///   If it is too high, the CPU searches for many open queries, one by one.
pub const FEW_OPEN: usize = 64;

/// Besides [`FEW_OPEN`] queries, 1 in this number of queries of a batch may stay open after the
/// first sweep. A second sweep collects more candidates of open queries.
///
/// - Counts: queries of the batch for each open query.
/// - Run: no result file.
/// - If wrong: if it is too low, second sweeps take longer than the next frame. If it is too high,
///   a frame is abandoned although it is faster.
pub const OPEN_RATIO: usize = 4;

/// Besides [`FEW_OPEN`] queries, 1 in this number of queries of a batch may stay open after the
/// second sweep. The CPU searches for these queries.
///
/// - Counts: queries of the batch for each open query.
/// - Run: no result file.
/// - If wrong: if it is too low, the GPU waits for the CPU. If it is too high, a frame is abandoned
///   although it is faster.
pub const HOST_RATIO: usize = 256;

/// Minimum size of an iteration of k-means on the GPU; the CPU does smaller iterations.
///
/// - Counts: observations, times centers, times columns.
/// - Run: no result file. An H200 and 16 CPU threads took the same time for 10 iterations
///   of 5,000 x 14 with 2 centers; the H200 took a quarter of the time for 500,000 x 14 with 10.
/// - If wrong: if it is too low, copies and kernel launches take longer than the CPU. If it is too
///   high, the CPU does work that a GPU does faster.
pub const KMEANS_COORDINATES: usize = 1 << 18;

/// Number of centers whose comparisons take the CPU as long as the rest of an iteration of k-means,
/// the sums over all observations. They count for [`PAIR_COORDINATES_PER_THREAD`].
///
/// - Counts: centers.
/// - Run: no result file. 16 CPU threads took 0.19 s for 10 iterations of 500,000 x 14
///   with 10 centers, about as long as opening the GPU.
/// - If wrong: if it is too low, the CPU clusters many observations around few centers although
///   opening a GPU would pay. If it is too high, a GPU is opened for work that takes the CPU less
///   time.
pub const KMEANS_REST_CENTERS: usize = 256;

/// Minimum size of each GPU's share of an iteration of k-means, if several GPUs share the
/// iteration: about 2 ms of work.
///
/// - Counts: observations, times centers, times columns, for each GPU.
/// - Run: no result file: an estimate, still to be measured by row `4m` of kmeans.R.
///   Exchanging assignments and centers takes about 1 ms for a million observations.
/// - If wrong: if it is too low, GPUs exchange assignments for longer than they compute. If it is
///   too high, one GPU does the work while others are idle.
pub const KMEANS_COORDINATES_PER_DEVICE: usize = 1 << 33;

/// Minimum size of an iteration of k-means that compares in half precision first, on tensor cores.
/// Smaller iterations compare in single precision at once.
///
/// - Counts: centers, times columns beyond [`KMEANS_HALF_COLUMNS`]. In few columns, comparing the
///   sums with thresholds takes as long as computing the sums in single precision. With few
///   centers, computing the thresholds and the distances to own centers does.
/// - Run: no result file. On an H200, the kernels took 1.7 ms in half precision and 1.3
///   ms in single precision for a million cells and 1,000 centers in 14 columns, and 2.4 and 4.0 ms
///   in 64 columns.
/// - If wrong: the kernels of an iteration take up to twice as long.
pub const KMEANS_HALF_COORDINATES: usize = 1 << 14;

/// Number of columns that do not count for [`KMEANS_HALF_COORDINATES`].
///
/// - Counts: columns.
/// - Run: no result file, as for [`KMEANS_HALF_COORDINATES`].
/// - If wrong: as for [`KMEANS_HALF_COORDINATES`].
pub const KMEANS_HALF_COLUMNS: usize = 12;

/// 1 in this number of observations may stay open in half precision. The GPU compares open
/// observations in double precision. If more observations stay open, the GPU compares all in single
/// precision. If this happens after the first iteration, it does so in all later iterations, too.
///
/// - Counts: observations of a GPU for each open observation.
/// - Run: no result file. Double precision has 1 in 64 of the operations of single
///   precision on consumer cards.
/// - If wrong: if it is too low, double precision takes longer than single precision would. If it
///   is too high, half precision is given up although it is faster.
pub const KMEANS_OPEN_RATIO: usize = 64;

/// Maximum number of open observations for which each has a thread block. More observations are
/// compared in tiles: tiles read the centers less often, but one after the other.
///
/// - Counts: observations.
/// - Run: no result file. On an H200, a few open observations of a million took 0.5 ms in
///   blocks and 3.5 ms in tiles, with 10,000 centers in 64 columns.
/// - If wrong: an iteration takes some milliseconds longer.
pub const KMEANS_FEW_OPEN: usize = 1 << 11;

/// Number of drawn centers from which observations are in groups.
///
/// - Counts: centers.
/// - Run: no result file. On an H200, k-means with one iteration of 40,000,000 x 14 cells
///   in 20,000 clusters took 7.7, 7.8 and 8.4 s with 256, 512 and 2,048, and 17.3 s without groups.
///   For 1,000,000 x 14 cells in 1,000 clusters, all took the same time.
/// - If wrong: if it is too low, groups are wide and a draw reads most of them. If it is too high,
///   draws read all observations.
pub const KMEANS_GROUPED_CENTERS: usize = 1 << 9;

/// Minimum number of observations for which draws on the GPU compare 8-bit codes first.
///
/// - Counts: observations.
/// - Run: no result file: an estimate. With fewer observations, the launches of kernels
///   take most of the time of a draw.
/// - If wrong: if it is too low, codes are written for nothing. If it is too high, a draw reads
///   more bytes: in 14 columns, seven times as many.
pub const KMEANS_CODED_OBSERVATIONS: usize = 1 << 20;

/// Number of drawn centers from which observations with codes are in groups.
///
/// - Counts: centers.
/// - Run: no result file: an estimate. Sorting the observations takes as long as a few
///   draws that read all of them.
/// - If wrong: if it is too low, sorting takes longer than it saves. If it is too high, draws read
///   all observations.
pub const KMEANS_CODED_CENTERS: usize = 1 << 6;

/// Minimum number of centers for which an iteration of k-means on the GPU compares observations
/// only with the centers near their own, up to 32 columns.
///
/// - Counts: centers.
/// - Run: no result file. On an H100, an iteration of 100,000,000 x 14 cells with 50,000
///   centers took 2.2 s with all centers. From the third iteration on, it took about 1 s with near
///   centers.
/// - If wrong: if it is too low, lists of near centers take longer to make than they save. If it is
///   too high, all centers are compared.
pub const KMEANS_NEAR_CENTERS: usize = 4_096;

/// Observations are compared only with near centers if this takes at most 1 in this number of the
/// comparisons with all centers.
///
/// - Counts: comparisons with all centers for each comparison with a near center.
/// - Run: no result file: a comparison in double precision takes as long as about 8 in
///   single or half precision.
/// - If wrong: an iteration compares in the slower of two ways.
pub const KMEANS_NEAR_RATIO: usize = 8;

/// The GPU adds up the squares within clusters if no cluster has more than 1 in this number of the
/// observations. One thread adds the squares of a cluster, one after the other.
///
/// - Counts: observations for each observation of the largest cluster.
/// - Run: no result file. For 1,000,000 x 14 in 1,000 clusters, the sums took an H200 0.2
///   to 0.6 ms, and 16 threads of the CPU 21 ms.
/// - If wrong: if it is too low, one thread of the GPU adds for longer than the CPU. If it is too
///   high, the CPU adds while the GPU is idle.
pub const KMEANS_SQUARES_RATIO: usize = 8;

/// Minimum size of a linkage for which the GPU has the dissimilarity matrix.
///
/// - Counts: observations.
/// - Run: no result file. By linkage.R, the GPU is faster from fewer than 1,000
///   observations on for points; for given dissimilarities, from 1,000 on compared with 2 threads,
///   and from 3,000 on compared with 16.
/// - If wrong: if it is too low, copying the matrix and opening the GPU take longer than the CPU.
///   If it is too high, the CPU searches a large matrix.
pub const MATRIX_OBSERVATIONS: usize = 4_096;

/// Largest size of a linkage by means (Ward's linkage of points, and average and McQuitty's linkage
/// by correlations) for which a GPU compares all clusters with all others in each round. Searches
/// with bounds make the first merges of larger ones.
///
/// - Counts: square of the number of remaining clusters, times columns.
/// - Run: 2026-11-30-h200-linkage.csv, rows `cells20k` (ward.D2) and `genes20k`, were made in this
///   way. Without a result file, on an H200 with 16 cores: Ward's linkage of 100,000 x 64 took 0.39
///   s in this way and 0.56 s by searches, 150,000 x 14 cells 0.25 and 0.40 s. 200,000 x 64 took
///   1.12 s with this limit, 1.30 s by searches, and 2.2 s where the rounds began at once;
///   1,000,000 x 14 cells took the same time with 1/10 of the limit and with twice the limit.
/// - If wrong: if it is too low, the GPU waits for the CPU's decisions, round after round. If it is
///   too high, comparing all clusters takes longer than searches with bounds.
pub const MEAN_LINKAGE_COORDINATES: usize = 1 << 40;

/// Largest number of comparisons of a linkage by means in rounds on a GPU. With more, searches with
/// bounds take over.
///
/// - Counts: pairs of clusters, as a multiple of the square of the number of points.
/// - Run: no result file. 16,384 profiles of 128 columns took 4 times the first search. If many
///   clusters share their nearest cluster, each merge repeats the searches of them all: 100 points
///   at slowly increasing distances from each other exceed this figure.
/// - If wrong: if it is too low, merges are made twice. If it is too high, such data take long.
pub const MEAN_LINKAGE_COMPARISONS: u64 = 16;

/// Minimum size of a nearest-neighbour chain on a GPU that has the matrix. The CPU takes over
/// smaller chains.
///
/// - Counts: clusters that are left when the chain begins.
/// - Run: no result file (linkage.R).
/// - If wrong: if it is too low, the steps of the chain take longer than on the CPU, because each
///   waits for the step before. If it is too high, a large matrix is copied to the CPU.
pub const CHAIN_CLUSTERS: usize = 2_048;
