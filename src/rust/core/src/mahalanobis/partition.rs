//! Which observations are in which apriori cluster.

use rayon::prelude::*;

use crate::error::Result;
use crate::memory;
use crate::tasks::pieces;

/// First words of a memory error, before the number of bytes.
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
    /// or one label has all. Works on the threads of the calling pool.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn new(labels: &[u32]) -> Result<Option<Self>> {
        let partition = Self::by_label(labels)?;
        Ok((!partition.is_trivial()).then_some(partition))
    }

    /// The partition by one label per observation, 0 for none, also if it is trivial. Works on the
    /// threads of the calling pool.
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
        let sizes = sizes(labels, most)?;
        let (mut of_clusters, mut starts, mut end) = (Vec::new(), Vec::new(), 0);
        for (label, &size) in (0..).zip(&sizes) {
            if label > 0 && size > 1 {
                of_clusters.push(label);
                starts.push(end);
                end += size;
            }
        }
        starts.push(end);
        // By label: the number of its cluster, or `none`, the number of clusters.
        let none = of_clusters.len() as u32;
        let mut cluster_of = memory::filled(LABELS, most + 1, none)?;
        for (&label, cluster) in of_clusters.iter().zip(0..) {
            cluster_of[label as usize] = cluster;
        }
        let cluster = |&label: &u32| cluster_of[label as usize] as usize;
        let order = in_order(labels.iter().map(cluster), &starts)?;
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

/// Maximum number of sorting tasks, since each task reads all labels. Only the time depends on it.
const TASKS: usize = 16;

fn tasks() -> usize {
    rayon::current_num_threads().min(TASKS)
}

/// Number of observations with each label up to `most`. Each task counts some of the labels.
fn sizes(labels: &[u32], most: usize) -> Result<Vec<usize>> {
    let mut sizes = memory::zeros::<usize>(LABELS, most + 1)?;
    let each = sizes.len().div_ceil(tasks());
    let tasks = sizes.par_chunks_mut(each).enumerate();
    tasks.for_each(|(task, sizes)| {
        let first = (task * each) as u32;
        for &label in labels {
            if let Some(size) = sizes.get_mut(label.wrapping_sub(first) as usize) {
                *size += 1;
            }
        }
    });
    Ok(sizes)
}

/// The observations, sorted by cluster, and by index within each. `clusters` has the cluster of
/// each observation; `starts` has the place of the first one of each cluster. Each task places
/// those of some clusters.
fn in_order(
    clusters: impl ExactSizeIterator<Item = usize> + Clone + Sync,
    starts: &[usize],
) -> Result<Vec<u32>> {
    let n = clusters.len();
    let mut order = memory::zeros::<u32>(LABELS, n)?;
    let tasks = tasks();
    let bound = |task: usize| starts.partition_point(|&start| start < task * n / tasks);
    let mut bounds: Vec<usize> = (0..tasks).map(bound).collect();
    bounds.push(starts.len());
    let start = |cluster: usize| starts.get(cluster).copied().unwrap_or(n);
    let lengths = bounds
        .windows(2)
        .map(|pair| start(pair[1]) - start(pair[0]));
    let places: Vec<&mut [u32]> = pieces(&mut order, lengths).collect();
    let tasks = places.into_par_iter().zip(bounds.par_windows(2));
    tasks.for_each(|(places, bounds)| {
        let (first, end) = (bounds[0], bounds[1]);
        // By cluster, the place of its next observation.
        let mut next: Vec<usize> = (first..end).map(|c| starts[c] - starts[first]).collect();
        for (cluster, i) in clusters.clone().zip(0..) {
            if let Some(next) = next.get_mut(cluster.wrapping_sub(first)) {
                places[*next] = i;
                *next += 1;
            }
        }
    });
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Cpu;
    use crate::testing::Random;

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
    fn the_number_of_threads_changes_nothing() {
        let mut random = Random::of(43);
        for (n, most) in [(1, 1), (9, 3), (1_000, 5), (1_000, 700), (5_000, 1)] {
            let labels: Vec<u32> = (0..n).map(|_| random.below(most + 1) as u32).collect();
            let on = |threads| {
                let cpu = Cpu::new(threads).unwrap();
                cpu.install(|| AprioriPartition::by_label(&labels)).unwrap()
            };
            let one = on(1);
            let mut expected: Vec<u32> = (0..n).collect();
            expected.sort_by_key(|&i| {
                let label = labels[i as usize];
                one.labels().binary_search(&label).unwrap_or(one.clusters())
            });
            assert_eq!(one.order(), expected);
            for threads in [2, 3, 7] {
                assert_eq!(on(threads), one);
            }
        }
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
