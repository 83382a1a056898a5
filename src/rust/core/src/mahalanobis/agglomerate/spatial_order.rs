//! Clusters in spatial order, so that a screen can rule out whole groups of them.

use crate::mahalanobis::clusters::Clusters;

/// Clusters that spatial order keeps together: those of one group of a screen
/// (`GROUP_LANES` on the CPU, a tile on CUDA devices). Only the time depends on it.
pub const SPATIAL_GROUP: usize = 256;

/// Clusters that spatial order keeps together within a group: those of a block of the CPU's screen.
const SPATIAL_BLOCK: usize = 16;

/// Sorts slots so that neighbours in space are neighbours in the order: halves them recursively along
/// the coordinate that varies most, like a k-d tree.
pub fn sort_spatially(slots: &mut [u32], clusters: &Clusters) {
    if slots.len() <= SPATIAL_BLOCK {
        return;
    }
    let first = clusters.mean(slots[0]);
    let mut sums = vec![(0.0, 0.0); first.len()];
    for &slot in slots.iter() {
        let mean = clusters.mean(slot);
        for ((sum, squares), (x, first)) in sums.iter_mut().zip(mean.iter().zip(first)) {
            *sum += x - first;
            *squares += (x - first) * (x - first);
        }
    }
    let n = slots.len() as f64;
    let variation = |k: &usize| sums[*k].1 - sums[*k].0 * sums[*k].0 / n;
    let most = (0..first.len()).max_by(|a, b| variation(a).total_cmp(&variation(b)));
    let coordinate = most.expect("there is a column");
    let unit = if slots.len() > SPATIAL_GROUP {
        SPATIAL_GROUP
    } else {
        SPATIAL_BLOCK
    };
    let middle = (slots.len() / 2).next_multiple_of(unit);
    let value = |slot: &u32| clusters.mean(*slot)[coordinate];
    slots.select_nth_unstable_by(middle - 1, |a, b| {
        value(a).total_cmp(&value(b)).then(a.cmp(b))
    });
    let (left, right) = slots.split_at_mut(middle);
    rayon::join(
        || sort_spatially(left, clusters),
        || sort_spatially(right, clusters),
    );
}
