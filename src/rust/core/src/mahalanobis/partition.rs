//! Which observations are in which apriori cluster.

use crate::error::Result;
use crate::memory;

/// The start of memory errors: what needs the memory.
const LABELS: &str = "sorting the observations by apriori cluster needs";

/// The observations, divided into apriori clusters in increasing label, and loose observations.
#[derive(Debug, Clone, PartialEq)]
pub struct AprioriPartition {
    /// By cluster, its label.
    labels: Vec<u32>,
    /// The observations of each cluster, in increasing index, then the loose ones.
    order: Vec<u32>,
    /// By cluster, the place in `order` of its first observation; then that of the first loose one.
    starts: Vec<usize>,
}

impl AprioriPartition {
    /// The partition by one label per observation, 0 for none; `None` if no label has two members
    /// or one label has all.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn new(labels: &[u32]) -> Result<Option<Self>> {
        let partition = Self::by_label(labels)?;
        Ok((!partition.is_trivial()).then_some(partition))
    }

    /// The partition by one label per observation, 0 for none, also if it is trivial.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn by_label(labels: &[u32]) -> Result<Self> {
        let most = labels.iter().copied().max().unwrap_or(0) as usize;
        if most > labels.len() {
            // Replaces large labels by their ranks, to keep the table of sizes small.
            let mut distinct = memory::copied(LABELS, labels)?;
            distinct.push(0);
            distinct.sort_unstable();
            distinct.dedup();
            let rank = |&label: &u32| distinct.partition_point(|&other| other < label) as u32;
            let ranks = memory::collected(LABELS, labels.iter().map(rank))?;
            let mut partition = Self::by_label(&ranks)?;
            for label in &mut partition.labels {
                *label = distinct[*label as usize];
            }
            return Ok(partition);
        }
        let mut sizes = memory::zeros::<usize>(LABELS, most + 1)?;
        for &label in labels {
            sizes[label as usize] += 1;
        }
        let (mut of_clusters, mut starts, mut end) = (Vec::new(), Vec::new(), 0);
        // By label, the next place of a member; `None` where the members are loose.
        let mut places = memory::filled(LABELS, most + 1, None)?;
        for (label, &size) in (0..).zip(&sizes) {
            if label > 0 && size > 1 {
                of_clusters.push(label);
                starts.push(end);
                places[label as usize] = Some(end);
                end += size;
            }
        }
        starts.push(end);
        let mut order = memory::zeros::<u32>(LABELS, labels.len())?;
        for (&label, i) in labels.iter().zip(0..) {
            let place = places[label as usize].as_mut().unwrap_or(&mut end);
            order[*place] = i;
            *place += 1;
        }
        Ok(Self {
            labels: of_clusters,
            order,
            starts,
        })
    }

    /// Whether there is no cluster, or one with all observations.
    pub fn is_trivial(&self) -> bool {
        self.clusters() == 0 || self.members(0).len() == self.order.len()
    }

    /// Number of clusters.
    pub fn clusters(&self) -> usize {
        self.labels.len()
    }

    /// The label of each cluster.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// The observations in a cluster, in increasing index.
    pub fn members(&self, cluster: usize) -> &[u32] {
        &self.order[self.starts[cluster]..self.starts[cluster + 1]]
    }

    /// Number of observations in each cluster.
    pub fn sizes(&self) -> impl Iterator<Item = usize> + '_ {
        self.starts.windows(2).map(|pair| pair[1] - pair[0])
    }

    /// All observations: those of each cluster in turn, then the loose ones in increasing index.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// By cluster, the place of its first observation in [`Self::order`], then the place of the
    /// first loose observation.
    pub fn starts(&self) -> &[usize] {
        &self.starts
    }

    /// Number of clusters and loose observations.
    pub fn leaves_above(&self) -> usize {
        self.clusters() + self.order.len() - self.in_clusters()
    }

    /// Number of observations in clusters.
    pub fn in_clusters(&self) -> usize {
        self.starts[self.clusters()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(partition: &AprioriPartition) -> Vec<(u32, Vec<u32>)> {
        let clusters = 0..partition.clusters();
        let cluster = |c: usize| (partition.labels()[c], partition.members(c).to_vec());
        clusters.map(cluster).collect()
    }

    #[test]
    fn lonely_labels_and_zero_mean_none() {
        let of = |labels: &[u32]| AprioriPartition::new(labels).unwrap();
        let partition = of(&[7, 0, 3, 7, 5, 3, 0]).unwrap();
        assert_eq!(members(&partition), [(3, vec![2, 5]), (7, vec![0, 3])]);
        assert_eq!(partition.order(), [2, 5, 0, 3, 1, 4, 6]);
        assert_eq!(partition.in_clusters(), 4);
        assert_eq!(of(&[1, 2, 3, 0]), None);
        assert_eq!(of(&[4, 4, 4]), None);
        assert!(of(&[4, 4, 0]).is_some());
    }

    #[test]
    fn labels_may_be_any_numbers() {
        let most = u32::MAX;
        let partition = AprioriPartition::new(&[most, 9, 0, most, 70, 9, 8]).unwrap();
        let partition = partition.unwrap();
        assert_eq!(members(&partition), [(9, vec![1, 5]), (most, vec![0, 3])]);
        assert_eq!(partition.order()[4..], [2, 4, 6]);
    }
}
