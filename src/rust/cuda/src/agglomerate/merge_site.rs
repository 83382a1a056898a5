//! Chooses where each problem is merged.

use std::cmp::Reverse;

use gmhclust_core::mahalanobis::{Distance, Problem};

use crate::policy::{self, BlockCosts};

/// Where the merges of a problem are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeSite {
    /// In a thread block of a GPU.
    Block,
    /// On the CPU alone, while thread blocks merge other problems.
    Cpu,
    /// As a tree, by many blocks of a GPU together, if `Agglomerator::has_tree`; otherwise on the
    /// CPU. Also the default for problems that no block merges.
    Tree,
}

/// Chooses where each problem is merged.
///
/// If fewer than `fewest` problems `fit` into a block, blocks merge none. Otherwise they merge
/// these, except for some of the largest; if `fewest` is 0, without exceptions. `has_tree` is
/// called for the largest fitting problem only. If it is true, excepted problems of at least
/// [`policy::TREE_BESIDE_BLOCKS_CLUSTERS`] clusters become trees. Meanwhile `threads` CPU threads
/// merge the other excepted problems.
pub fn merge_sites(
    problems: &[Problem<'_>],
    fit: &[bool],
    fewest: usize,
    threads: usize,
    has_tree: impl Fn(&Problem) -> bool,
) -> Vec<MergeSite> {
    let mut merge_sites = vec![MergeSite::Tree; problems.len()];
    let size = |number: usize| problems[number].clusters();
    let mut fitting: Vec<usize> = (0..problems.len()).filter(|&i| fit[i]).collect();
    fitting.sort_by_key(|&number| Reverse(size(number)));
    let largest = match fitting.first() {
        Some(&number) if fitting.len() >= fewest => &problems[number],
        _ => return merge_sites,
    };
    let costs = match largest.options.distance {
        Distance::Centroid => &policy::BLOCK_COSTS,
        Distance::FullMahalanobis => &policy::FULL_BLOCK_COSTS,
    };
    let trees = has_tree(largest);
    let has_tree = |size| trees && size >= policy::TREE_BESIDE_BLOCKS_CLUSTERS;
    let sizes: Vec<usize> = fitting.iter().map(|&number| size(number)).collect();
    let front = match fewest {
        0 => 0,
        _ => front_to_leave(&sizes, has_tree, threads, costs),
    };
    let (left, in_blocks) = fitting.split_at(front);
    for &number in in_blocks {
        merge_sites[number] = MergeSite::Block;
    }
    for &number in left {
        if !has_tree(size(number)) {
            merge_sites[number] = MergeSite::Cpu;
        }
    }
    merge_sites
}

/// The number of problems at the front of `sizes` that thread blocks should not merge. `sizes` is
/// in decreasing order.
///
/// Many blocks of a GPU together merge the problems at the front that have a tree (`has_tree`),
/// before or after the blocks merge the rest; these trees take less time if there is no rest.
/// Meanwhile `threads` CPU threads merge the other problems at the front. The time of a problem on
/// a CPU thread is assumed to be the square of its size; `costs` has the other times.
fn front_to_leave(
    sizes: &[usize],
    has_tree: impl Fn(usize) -> bool,
    threads: usize,
    costs: &BlockCosts,
) -> usize {
    let square = |size: usize| (size * size) as f64;
    let mut in_blocks: f64 = sizes.iter().map(|&size| square(size)).sum();
    let (mut merges_in_trees, mut on_cpu, mut longest) = (0.0, 0.0, 0.0f64);
    // The shortest time, and the number of problems at the front for which it is reached.
    let mut shortest = (f64::INFINITY, 0);
    for front in 0..=sizes.len() {
        let size = sizes.get(front).copied().unwrap_or(0);
        let of_blocks = (costs.alone * square(size)).max(costs.together * in_blocks);
        let of_cpu = longest.max(on_cpu / threads as f64);
        let in_only_trees = costs.merge_in_only_trees * merges_in_trees;
        let are_trees =
            front == sizes.len() && of_cpu <= policy::CPU_SHARE_BESIDE_TREES * in_only_trees;
        let in_trees = if are_trees {
            in_only_trees
        } else {
            costs.merge_in_tree * merges_in_trees
        };
        let time = (in_trees + of_blocks).max(of_cpu);
        if time < policy::WORTH_LEAVING * shortest.0 {
            shortest = (time, front);
        }
        in_blocks -= square(size);
        if has_tree(size) {
            merges_in_trees += size as f64;
        } else {
            on_cpu += square(size);
            longest = longest.max(square(size));
        }
    }
    shortest.1
}

#[cfg(test)]
mod tests {
    use gmhclust_core::testing::{observations, CENTROID_OPTIONS};

    use super::*;

    #[test]
    fn problems_that_would_keep_a_block_too_long_are_left_to_others() {
        let costs = BlockCosts {
            alone: 2.0,
            together: 0.005,
            merge_in_tree: 150.0,
            merge_in_only_trees: 150.0,
        };
        let front = |sizes: &[usize], has_tree: bool, threads| {
            front_to_leave(sizes, |size| has_tree && size > 500, threads, &costs)
        };
        // Blocks are not slower with a larger number of equal problems.
        assert_eq!(front(&[100; 50], false, 8), 0);
        // A much larger problem takes less time on a core.
        let mut sizes = [10; 50];
        sizes[0] = 600;
        assert_eq!(front(&sizes, false, 8), 1);
        assert_eq!(front(&sizes, true, 8), 1);
        // More threads take more of the problems.
        let sizes: Vec<usize> = (1..=100).rev().map(|size| 10 * size).collect();
        let [two, sixteen] = [2, 16].map(|threads| front(&sizes, false, threads));
        assert!(0 < two && two < sixteen && sixteen < 50, "{two}, {sixteen}");
        assert_eq!(front(&[], false, 2), 0);
    }

    #[test]
    fn a_few_large_problems_are_trees_and_many_go_to_blocks() {
        let front =
            |count: usize| front_to_leave(&vec![10_000; count], |_| true, 16, &policy::BLOCK_COSTS);
        assert_eq!(front(20), 20);
        assert_eq!(front(2000), 0);
    }

    #[test]
    fn only_trees_take_less_time_than_trees_beside_blocks() {
        let costs = BlockCosts {
            alone: 2.0,
            together: 0.005,
            merge_in_tree: 150.0,
            merge_in_only_trees: 50.0,
        };
        let front = |sizes: &[usize]| front_to_leave(sizes, |size| size > 500, 16, &costs);
        assert_eq!(front(&[10_000; 300]), 300);
        // The CPU takes the small ones.
        let with_small = |count| [&[10_000; 300][..], &vec![400; count]].concat();
        assert_eq!(front(&with_small(1)), 301);
        assert_eq!(front(&with_small(10_000)), 0);
    }

    #[test]
    fn blocks_merge_many_small_problems_and_threads_those_that_are_much_larger() {
        let x = observations((0..6000).map(f64::from).collect(), 6000, 1);
        let problem = |n: u32| Problem::of_observations(&x, 0..n, CENTROID_OPTIONS);
        let sizes = [10, 12, 600, 11, 10, 10, 5000, 10, 10];
        let problems: Vec<Problem> = sizes.into_iter().map(problem).collect();
        let mut fit = [true; 9];
        fit[1] = false;
        // The numbers of the problems in blocks, and the numbers of the problems on the CPU.
        let divided = |fit: &[bool], fewest, has_tree| {
            let merge_sites = merge_sites(&problems, fit, fewest, 4, |_| has_tree);
            let that_go =
                |site| -> Vec<usize> { (0..9).filter(|&i| merge_sites[i] == site).collect() };
            (that_go(MergeSite::Block), that_go(MergeSite::Cpu))
        };
        let but_one = vec![0, 2, 3, 4, 5, 7, 8];
        assert_eq!(divided(&fit, 8, false), (but_one, vec![6]));
        // If all blocks together merge the largest problem, the next largest decides.
        assert_eq!(divided(&fit, 8, true), (vec![0, 3, 4, 5, 7, 8], vec![2]));
        assert_eq!(divided(&fit, 9, true), (vec![], vec![]));
        assert_eq!(
            divided(&fit, 0, true),
            (vec![0, 2, 3, 4, 5, 6, 7, 8], vec![])
        );
        assert_eq!(divided(&[false; 9], 0, true), (vec![], vec![]));
    }
}
