//! What HDBSCAN computes from trees by mutual reachability distances: the masses of clusters, and
//! the outlier scores GLOSH of leaves. Densities are 1 / height.
//!
//! Campello, Moulavi and Sander (2013), doi:10.1007/978-3-642-37456-2_14, and with Zimek (2015),
//! doi:10.1145/2733381.

use super::condense::Cluster;
use crate::dendrogram::Nodes;
use crate::error::Result;
use crate::memory;

/// First words of a memory error, before the number of bytes.
const NEEDS: &str = "densities need";

/// The row at which a member leaves its last cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitRule {
    /// The row that joins the leaf itself.
    Alone,
    /// The row at which the leaf's side, of too few members, falls off.
    WithSide,
}

/// Sets the mass of each of the `clusters` of [`condense()`](super::condense::condense), and
/// returns the outlier score GLOSH of each leaf. `sizes`, `heights` and `least` are as there. O(n)
/// time.
///
/// A mass is the sum over the members of the difference of two densities: where the member leaves
/// the cluster, and where the cluster begins. A score is 1 minus the ratio of two densities: that
/// at which the leaf leaves its last cluster, and the greatest at which any leaf leaves that
/// cluster or a cluster below it.
///
/// A group of equal observations that is joined at height 0, where the density is infinite, adds
/// nothing to masses. Otherwise, each of these groups would be the densest cluster.
///
/// # Errors
/// `Error::Memory`.
pub fn masses_and_outliers(
    nodes: Nodes<'_>,
    sizes: &[f64],
    heights: &[f64],
    least: f64,
    exit: ExitRule,
    clusters: &mut [Cluster],
) -> Result<Vec<f64>> {
    let densities = densities(heights)?;
    let rows = exit_rows(nodes, sizes, least, exit)?;
    let around = nodes.around_leaves(clusters.iter().map(|cluster| cluster.node))?;
    let last_cluster = |leaf: usize| around[leaf] as usize - 1;
    let row_of_parent = |parent: usize| clusters[parent].split.map(|split| split.row);
    let begins = clusters.iter().map(|cluster| {
        let row = cluster.parent.and_then(row_of_parent);
        densities[row.unwrap_or(heights.len() - 1)]
    });
    let begins: Vec<f64> = memory::collected(NEEDS, begins)?;
    let mut greatest: Vec<f64> = memory::zeros(NEEDS, clusters.len())?;
    for cluster in clusters.iter_mut() {
        cluster.mass = 0.0;
    }
    for (leaf, &row) in rows.iter().enumerate() {
        let (number, density) = (last_cluster(leaf), densities[row as usize]);
        greatest[number] = greatest[number].max(density);
        if heights[row as usize] > 0.0 {
            clusters[number].mass += density - begins[number];
        }
    }
    for number in 0..clusters.len() {
        let Some(split) = clusters[number].split else {
            continue;
        };
        if heights[split.row] > 0.0 {
            let sides = 2 * split.number + 1;
            let members = clusters[sides].size + clusters[sides + 1].size;
            clusters[number].mass += members * (densities[split.row] - begins[number]);
        }
    }
    // Parents come before their parts.
    for number in (1..clusters.len()).rev() {
        if let Some(parent) = clusters[number].parent {
            greatest[parent] = greatest[parent].max(greatest[number]);
        }
    }
    let scores = rows.iter().enumerate();
    let scores =
        scores.map(|(leaf, &row)| 1.0 - densities[row as usize] / greatest[last_cluster(leaf)]);
    memory::collected(NEEDS, scores)
}

/// The density of each row: 1 / height, in units in which the highest row has density 1. A height
/// of 0 counts as the lowest positive height.
fn densities(heights: &[f64]) -> Result<Vec<f64>> {
    let highest = heights.iter().copied().fold(0.0, f64::max);
    if highest == 0.0 {
        return memory::filled(NEEDS, heights.len(), 1.0);
    }
    let relative = || heights.iter().map(|height| height / highest);
    let positive = relative().filter(|&height| height > 0.0);
    // The reciprocal of anything lower would overflow in sums.
    let lowest = positive.fold(1.0, f64::min).max(1e-290);
    memory::collected(NEEDS, relative().map(|height| 1.0 / height.max(lowest)))
}

/// By leaf, the row at which it leaves its last cluster.
fn exit_rows(nodes: Nodes<'_>, sizes: &[f64], least: f64, exit: ExitRule) -> Result<Vec<u32>> {
    let n = nodes.leaves();
    let mut rows: Vec<u32> = memory::zeros(NEEDS, nodes.count())?;
    for (node, joined) in nodes.rows().rev() {
        let is_fallen = exit == ExitRule::WithSide && sizes[node] < least;
        let here = if is_fallen {
            rows[node]
        } else {
            (node - n) as u32
        };
        for part in joined {
            rows[part] = here;
        }
    }
    rows.truncate(n);
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::populations::condense::condense;

    /// (1, 2), then 3, then 4; and (5, 6), then 7.
    const MERGE: [[i32; 2]; 6] = [[-1, -2], [-5, -6], [-3, 1], [-7, 2], [-4, 3], [4, 5]];
    const HEIGHTS: [f64; 6] = [1.0, 0.0, 2.0, 2.5, 4.0, 10.0];

    #[test]
    fn members_leave_alone_or_with_their_side() {
        let nodes = Nodes::of(&MERGE);
        let sizes = nodes.sizes(&[1.0; 7]).unwrap();
        let rows = |least, exit| exit_rows(nodes, &sizes, least, exit).unwrap();
        assert_eq!(rows(3.0, ExitRule::Alone), [0, 0, 2, 4, 1, 1, 3]);
        assert_eq!(rows(3.0, ExitRule::WithSide), [2, 2, 2, 4, 3, 3, 3]);
        assert_eq!(rows(4.0, ExitRule::WithSide), [4, 4, 4, 4, 5, 5, 5]);
    }

    #[test]
    fn masses_and_scores_are_those_of_the_definition() {
        let nodes = Nodes::of(&MERGE);
        let sizes = nodes.sizes(&[1.0; 7]).unwrap();
        let mut clusters = condense(nodes, &sizes, &HEIGHTS, 3.0).unwrap();
        let scores =
            masses_and_outliers(nodes, &sizes, &HEIGHTS, 3.0, ExitRule::Alone, &mut clusters)
                .unwrap();
        // Densities are 10 / height; that of height 0 is 10 / 1, and adds no mass.
        let masses: Vec<f64> = clusters.iter().map(|cluster| cluster.mass).collect();
        let first = 4.0 - 1.0;
        let second = 2.0 * (10.0 - 1.0) + (5.0 - 1.0) + (2.5 - 1.0);
        for (mass, expected) in masses.iter().zip([0.0, first, second]) {
            assert!((mass - expected).abs() < 1e-12, "{masses:?}");
        }
        let expected = [0.0, 0.0, 0.5, 0.75, 0.0, 0.0, 0.6];
        for (score, expected) in scores.iter().zip(expected) {
            assert!((score - expected).abs() < 1e-12, "{scores:?}");
        }
    }
}
