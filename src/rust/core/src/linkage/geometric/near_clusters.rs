//! The clusters near a cluster.

/// The clusters near a cluster, with a lower bound on the distances of all others.
#[derive(Debug, Clone)]
pub struct NearClusters {
    /// Slots of near clusters at the time of the search.
    pub found: Vec<u32>,
    /// A lower bound on the distance of every cluster that contains none of the clusters found.
    pub lower_bound: f64,
}

impl NearClusters {
    /// The state before any search.
    pub fn unknown() -> Self {
        Self {
            found: Vec::new(),
            lower_bound: 0.0,
        }
    }

    /// Turns these near clusters of one cluster into the near clusters of its union with another
    /// cluster, whose near clusters are `other`. `sizes` are the sizes of the two clusters,
    /// `height` is their distance.
    ///
    /// By the Lance–Williams formula, with d(x, z) ≥ f(x) and d(y, z) ≥ f(y),
    ///
    /// d²(xy, z)·(|x|+|y|+|z|) ≥ (|x|+|z|)·f(x)² + (|y|+|z|)·f(y)² − |z|·d²(x, y),
    ///
    /// and as neither bound is below d(x, y), the bound on d²(xy, z) is least for |z| = 1.
    pub fn unite(&mut self, other: Self, sizes: [f64; 2], height: f64) {
        let [a, b] = sizes;
        self.found.extend(other.found);
        let sum = (a + 1.0) * (self.lower_bound * self.lower_bound)
            + (b + 1.0) * (other.lower_bound * other.lower_bound)
            - height * height;
        self.lower_bound = (sum / (a + b + 1.0)).sqrt();
    }
}
