//! The members of clusters.

use crate::error::Result;
use crate::memory;

/// What needs memory here.
const CLUSTERS: &str = "the clusters of the observations need";

/// The members of clusters.
pub struct Members {
    /// Cluster after cluster, in increasing order.
    observations: Vec<u32>,
    ends: Vec<usize>,
}

impl Members {
    pub fn new(cluster: &[u32], k: usize) -> Result<Self> {
        // Starts that become ends as members come.
        let mut ends = memory::filled(CLUSTERS, k + 1, 0)?;
        for &c in cluster {
            ends[c as usize + 1] += 1;
        }
        for c in 0..k {
            ends[c + 1] += ends[c];
        }
        let mut observations = memory::filled(CLUSTERS, cluster.len(), 0)?;
        for (i, &c) in cluster.iter().enumerate() {
            observations[ends[c as usize]] = i as u32;
            ends[c as usize] += 1;
        }
        ends.truncate(k);
        Ok(Self { observations, ends })
    }

    pub fn of(&self, cluster: usize) -> &[u32] {
        let start = if cluster == 0 {
            0
        } else {
            self.ends[cluster - 1]
        };
        &self.observations[start..self.ends[cluster]]
    }
}
