//! Sorts clusters in spatial order, so that a search can rule out whole groups of clusters.

use rayon::prelude::*;

use crate::mahalanobis::clusters::Clusters;

/// Number of clusters that spatial order keeps together: the number of clusters in a group of a
/// screen (`GROUP_LANES`). Only the time depends on it.
pub const SPATIAL_GROUP: usize = 256;

/// Number of clusters that spatial order keeps together within a group: the number of clusters in a
/// block of a screen. Only the time depends on it.
const SPATIAL_BLOCK: usize = 16;

/// Smallest number of clusters whose projections on a direction one thread computes. Only the time
/// depends on it.
const PART: usize = 4096;

/// Largest sample of clusters from which a direction is computed. Only the time depends on it.
const DIRECTION_SAMPLE: usize = 512;

/// Number of power iterations for a direction. More iterations hardly make balls smaller. Only the
/// time depends on it.
const DIRECTION_ITERATIONS: usize = 4;

/// Sorts slots so that neighbours in space are neighbours in the order. Halves the slots
/// recursively along the first principal component of their clusters' means.
pub fn sort_spatially(slots: &mut [u32], clusters: &Clusters) {
    if slots.len() <= SPATIAL_BLOCK {
        return;
    }
    let unit = if slots.len() > SPATIAL_GROUP {
        SPATIAL_GROUP
    } else {
        SPATIAL_BLOCK
    };
    let middle = (slots.len() / 2).next_multiple_of(unit);
    let direction = principal_direction(slots, clusters);
    let along = |&slot: &u32| (dot(clusters.mean(slot), &direction), slot);
    let mut keyed: Vec<(f64, u32)> = slots.par_iter().with_min_len(PART).map(along).collect();
    keyed.select_nth_unstable_by(middle - 1, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    for (slot, (_, sorted)) in slots.iter_mut().zip(keyed) {
        *slot = sorted;
    }
    let (left, right) = slots.split_at_mut(middle);
    rayon::join(
        || sort_spatially(left, clusters),
        || sort_spatially(right, clusters),
    );
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Approximates the first principal component of some clusters' means, from a sample of these
/// means. Uses power iteration from the coordinate that varies most.
fn principal_direction(slots: &[u32], clusters: &Clusters) -> Vec<f64> {
    let step = slots.len().div_ceil(DIRECTION_SAMPLE);
    let sample = || slots.iter().step_by(step).map(|&slot| clusters.mean(slot));
    let p = clusters.mean(slots[0]).len();
    let count = sample().count() as f64;
    let mut center = vec![0.0; p];
    for mean in sample() {
        let sums = center.iter_mut().zip(mean);
        sums.for_each(|(sum, x)| *sum += x / count);
    }
    let centered = |mean: &[f64], k: usize| mean[k] - center[k];
    let variation = |k: usize| sample().map(|mean| centered(mean, k).powi(2)).sum::<f64>();
    let variations: Vec<f64> = (0..p).map(variation).collect();
    let most = (0..p).max_by(|&a, &b| variations[a].total_cmp(&variations[b]));
    let mut direction = vec![0.0; p];
    direction[most.expect("there is a column")] = 1.0;
    for _ in 0..DIRECTION_ITERATIONS {
        let offset = dot(&center, &direction);
        let mut next = vec![0.0; p];
        for mean in sample() {
            let along = dot(mean, &direction) - offset;
            for (k, sum) in next.iter_mut().enumerate() {
                *sum += along * centered(mean, k);
            }
        }
        let largest = next.iter().fold(0.0f64, |largest, x| largest.max(x.abs()));
        // `largest` is 0 if all means are the same, and infinite or NaN if squares overflow.
        if !(largest > 0.0 && largest.is_finite()) {
            break;
        }
        direction = next.iter().map(|x| x / largest).collect();
    }
    direction
}
