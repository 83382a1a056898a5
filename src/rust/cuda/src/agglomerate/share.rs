//! Divides problems among GPUs, and a GPU's blocks among several trees that are made at the same
//! time.

use std::cmp::Reverse;

use gmhclust_core::mahalanobis::Problem;

/// The indices of the problems of each device. Problems are assigned round-robin, in decreasing
/// order of size.
pub fn round_robin_by_size(problems: &[&Problem<'_>], devices: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..problems.len()).collect();
    order.sort_by_key(|&index| Reverse(problems[index].clusters()));
    let share = |device| order.iter().copied().skip(device).step_by(devices);
    (0..devices).map(|device| share(device).collect()).collect()
}

/// The share of a GPU's blocks that a tree gets, from 0 to 1. It equals the tree's share of the
/// work of this tree and the next `together` - 1 trees by rank. A small tree is hardly slower with
/// few blocks, so several trees take less time together than one after the other.
///
/// `sizes` has the number of clusters of each tree of the GPU in the order of their ranks, the
/// largest first. The GPU makes `together` trees at the same time. The work of a tree is assumed to
/// be the square of its size.
pub fn share_of_blocks(sizes: &[usize], rank: usize, together: usize) -> f64 {
    let work = |&size: &usize| (size as f64).powi(2);
    let all: f64 = sizes[rank..].iter().take(together).map(work).sum();
    work(&sizes[rank]) / all
}

#[cfg(test)]
mod tests {
    use gmhclust_core::testing::{observations, CENTROID_OPTIONS};

    use super::*;

    #[test]
    fn every_device_gets_problems_of_every_size() {
        let x = observations((0..9).map(f64::from).collect(), 9, 1);
        let problem = |n: u32| Problem::of_observations(&x, 0..n, CENTROID_OPTIONS);
        let problems = [3, 9, 5, 7, 2].map(problem);
        let problems: Vec<&Problem> = problems.iter().collect();
        assert_eq!(round_robin_by_size(&problems, 1), [vec![1, 3, 2, 0, 4]]);
        assert_eq!(
            round_robin_by_size(&problems, 2),
            [vec![1, 2, 4], vec![3, 0]]
        );
        assert_eq!(round_robin_by_size(&problems[..1], 2), [vec![0], vec![]]);
    }

    #[test]
    fn a_tree_alone_has_all_blocks_and_equal_ones_have_equal_shares() {
        assert_eq!(share_of_blocks(&[500], 0, 16), 1.0);
        let equal = [100; 40];
        assert_eq!(share_of_blocks(&equal, 0, 16), 1.0 / 16.0);
        // Fewer trees are left.
        assert_eq!(share_of_blocks(&equal, 38, 16), 0.5);
        assert_eq!(share_of_blocks(&equal, 39, 16), 1.0);
        assert_eq!(share_of_blocks(&equal, 0, 1), 1.0);
    }

    #[test]
    fn a_large_tree_beside_small_ones_has_nearly_all_blocks() {
        let mut sizes = [100; 40];
        sizes[0] = 10_000;
        assert!(share_of_blocks(&sizes, 0, 16) > 0.99);
        assert_eq!(share_of_blocks(&sizes, 1, 16), 1.0 / 16.0);
    }
}
