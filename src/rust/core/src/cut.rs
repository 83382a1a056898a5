//! Cutting a tree into clusters, as R's `cutree()` numbers them, in linear time.

use crate::error::{Error, Result};
use crate::memory;
use crate::monitor::Monitor;

/// First words of a memory error, before the number of bytes.
const NEEDS: &str = "cutting the tree needs";

/// The cluster of each observation after all but the last `clusters - 1` merges.
///
/// `merge` holds the `n - 1` rows of an R `hclust`, each after the rows that it refers to. Clusters
/// are numbered from 1, in the order of their first observations. O(n) time and memory.
///
/// # Errors
/// `Error::Input` unless `clusters` is from 1 to n; `Error::Memory`.
pub fn cut(merge: &[[i32; 2]], clusters: usize) -> Result<Vec<i32>> {
    let n = merge.len() + 1;
    if clusters < 1 || clusters > n {
        return Err(Error::Input(format!(
            "`k` is {clusters}; it must be from 1 to {n}"
        )));
    }
    let done = n - clusters;
    // By observation and by merge: the last merge before the cut that contains it; 0 for none.
    let mut cluster = memory::zeros(NEEDS, n)?;
    let mut last = memory::zeros(NEEDS, done)?;
    for row in (0..done).rev() {
        if last[row] == 0 {
            last[row] = row as i32 + 1;
        }
        for id in merge[row] {
            if id < 0 {
                cluster[-id as usize - 1] = last[row];
            } else {
                last[id as usize - 1] = last[row];
            }
        }
    }
    // From here on, `last` holds, by merge, the number of its cluster.
    last.fill(0);
    let mut count = 0;
    for cluster in &mut cluster {
        let mut alone = 0;
        let number = match *cluster {
            0 => &mut alone,
            merge => &mut last[merge as usize - 1],
        };
        if *number == 0 {
            count += 1;
            *number = count;
        }
        *cluster = *number;
    }
    Ok(cluster)
}

/// As [`cut`], for several numbers of clusters; results are concatenated.
///
/// # Errors
/// As [`cut`], and `Error::Interrupt`.
pub fn cuts(
    merge: &[[i32; 2]],
    clusters: impl ExactSizeIterator<Item = usize>,
    monitor: &Monitor,
) -> Result<Vec<i32>> {
    let mut all = memory::room(NEEDS, (merge.len() + 1) * clusters.len())?;
    for clusters in clusters {
        monitor.check()?;
        all.extend(cut(merge, clusters)?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::{any, Strategy};
    use proptest::sample::Index;

    use super::*;
    use crate::dendrogram::{Dendrogram, TreeBuilder};
    use crate::testing::shrink::for_all;

    /// The plain algorithm: each merge in turn renames the clusters of all observations.
    fn cut_slowly(merge: &[[i32; 2]], clusters: usize) -> Vec<i32> {
        let n = merge.len() + 1;
        let mut name: Vec<i32> = (1..=n as i32).map(|i| -i).collect();
        for (row, pair) in merge.iter().take(n - clusters).enumerate() {
            for name in &mut name {
                if pair.contains(name) {
                    *name = row as i32 + 1;
                }
            }
        }
        let mut seen: Vec<i32> = Vec::new();
        for name in &mut name {
            let number = seen.iter().position(|other| other == name);
            *name = number.unwrap_or_else(|| {
                seen.push(*name);
                seen.len() - 1
            }) as i32
                + 1;
        }
        name
    }

    /// The tree in which each merge joins two of the remaining clusters, given by their indices.
    fn tree(merged: Vec<(Index, Index)>) -> Dendrogram {
        let n = merged.len() + 1;
        let mut clusters: Vec<u32> = (0..n as u32).collect();
        let mut tree = TreeBuilder::new(n).unwrap();
        for (a, b) in merged {
            let mut take = |which: Index| clusters.swap_remove(which.index(clusters.len()));
            let (a, b) = (take(a), take(b));
            clusters.push(a);
            tree.join(a, b, 0.0);
        }
        tree.finish().unwrap()
    }

    #[test]
    fn every_cut_of_random_trees_is_that_of_merging_one_by_one() {
        let trees = vec(any::<(Index, Index)>(), 1..40).prop_map(|merged| tree(merged).merge);
        for_all(80, trees, |merge| {
            let n = merge.len() + 1;
            let found = cuts(&merge, 1..n + 1, &Monitor::default()).unwrap();
            for (clusters, found) in (1..).zip(found.chunks(n)) {
                let expected = cut_slowly(&merge, clusters);
                assert_eq!(found, expected, "{clusters} of {n}");
            }
        });
    }

    #[test]
    fn clusters_are_numbered_by_their_first_observation() {
        let merge = [[-2, -4], [-1, -3], [1, 2]];
        assert_eq!(cut(&merge, 4), Ok(vec![1, 2, 3, 4]));
        assert_eq!(cut(&merge, 3), Ok(vec![1, 2, 3, 2]));
        assert_eq!(cut(&merge, 2), Ok(vec![1, 2, 1, 2]));
        assert_eq!(cut(&merge, 1), Ok(vec![1, 1, 1, 1]));
    }

    #[test]
    fn numbers_of_clusters_that_cannot_be_are_refused() {
        for clusters in [0, 3] {
            let error = cut(&[[-1, -2]], clusters).unwrap_err();
            let message = format!("`k` is {clusters}; it must be from 1 to 2");
            assert_eq!(error, Error::Input(message));
        }
    }
}
