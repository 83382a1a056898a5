//! The members of clusters.

use super::CLUSTERS;
use crate::error::Result;
use crate::memory;

/// The members of clusters, in compressed sparse row layout.
pub struct KMeansMembers {
    /// The observations, cluster by cluster, each cluster's in increasing order.
    observations: Vec<u32>,
    /// By cluster: the end of its observations.
    ends: Vec<usize>,
}

impl KMeansMembers {
    /// Groups observations by the number of their cluster, below `k`. O(n + k) time.
    pub fn new(cluster: impl ExactSizeIterator<Item = u32> + Clone, k: usize) -> Result<Self> {
        // The entries are starts until the loop over the observations turns them into ends.
        let mut ends = memory::filled(CLUSTERS, k + 1, 0)?;
        for c in cluster.clone() {
            ends[c as usize + 1] += 1;
        }
        for c in 0..k {
            ends[c + 1] += ends[c];
        }
        let mut observations = memory::filled(CLUSTERS, cluster.len(), 0)?;
        for (i, c) in cluster.enumerate() {
            observations[ends[c as usize]] = i as u32;
            ends[c as usize] += 1;
        }
        ends.truncate(k);
        Ok(Self { observations, ends })
    }

    /// The members of a cluster, in increasing order.
    pub fn of(&self, cluster: usize) -> &[u32] {
        let start = if cluster == 0 {
            0
        } else {
            self.ends[cluster - 1]
        };
        &self.observations[start..self.ends[cluster]]
    }
}
