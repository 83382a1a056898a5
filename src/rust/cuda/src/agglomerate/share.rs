//! Divides a GPU's blocks among several trees that are made at the same time.

/// The share of a GPU's blocks that a tree gets, from 0 to 1. It equals the tree's share of the
/// work of all trees that the GPU makes at the same time. A small tree is hardly slower with few
/// blocks, so several trees take less time together than one after the other.
///
/// `sizes` has the number of clusters of each problem in the order of their ranks, the largest
/// first, and 0 for a problem that no GPU merges as a tree. The problem at `rank` goes to GPU
/// `rank` modulo `devices`. `threads` threads start the problems. The work of a tree is assumed to
/// be the square of its size.
pub fn share_of_blocks(sizes: &[usize], rank: usize, devices: usize, threads: usize) -> f64 {
    let work = |&size: &usize| (size as f64).powi(2);
    let beside = threads.div_ceil(devices);
    let all: f64 = sizes[rank..]
        .iter()
        .step_by(devices)
        .take(beside)
        .map(work)
        .sum();
    work(&sizes[rank]) / all
}

#[cfg(test)]
mod tests {
    use super::share_of_blocks;

    #[test]
    fn a_tree_alone_has_all_blocks_and_equal_ones_have_equal_shares() {
        assert_eq!(share_of_blocks(&[500], 0, 1, 16), 1.0);
        let equal = [100; 40];
        assert_eq!(share_of_blocks(&equal, 0, 1, 16), 1.0 / 16.0);
        // There are fewer problems left than threads.
        assert_eq!(share_of_blocks(&equal, 38, 1, 16), 0.5);
        assert_eq!(share_of_blocks(&equal, 39, 1, 16), 1.0);
        assert_eq!(share_of_blocks(&equal, 0, 1, 1), 1.0);
    }

    #[test]
    fn a_large_tree_beside_small_ones_has_nearly_all_blocks() {
        let mut sizes = [100; 40];
        sizes[0] = 10_000;
        assert!(share_of_blocks(&sizes, 0, 1, 16) > 0.99);
        assert_eq!(share_of_blocks(&sizes, 1, 1, 16), 1.0 / 16.0);
        // Problems without a tree need no blocks.
        assert_eq!(share_of_blocks(&[9, 0, 0, 9], 0, 1, 16), 0.5);
    }

    #[test]
    fn trees_on_another_gpu_take_no_share() {
        let equal = [100; 40];
        assert_eq!(share_of_blocks(&equal, 0, 2, 16), 1.0 / 8.0);
        assert_eq!(share_of_blocks(&equal, 38, 2, 16), 1.0);
    }
}
