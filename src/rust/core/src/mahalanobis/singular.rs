//! The number of merges of a tree that make full-size clusters with a singular covariance.
//!
//! A full-size cluster with a singular covariance has the Euclidean metric. Agglomeration does not
//! count these clusters, neither on the CPU nor on a GPU; they are counted afterwards, from the
//! observations that each merge joins: first within each apriori cluster, then above them.

mod full_size;
mod merge_tree;

use std::collections::HashMap;

use rayon::prelude::*;

use self::full_size::{is_surely_regular, FullSize};
use self::merge_tree::{MergeTree, Node};
use super::apriori::upper_leaf_starts;
use super::arranged::Arranged;
use super::kept_merges::KeptMerges;
use crate::error::Result;
use crate::matrix::RowSlices;
use crate::merge::Merge;
use crate::monitor::Monitor;
use crate::observations::Observations;

/// Smallest number of rows that are worth a task. Only the time depends on it.
const ROWS_AT_A_TIME: usize = 1 << 12;

/// Numbers of merges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SingularMerges {
    /// Merges that make a cluster of at least the threshold's number of members.
    pub full_size: usize,
    /// Merges among these that make a cluster with a singular covariance.
    pub singular: usize,
}

impl SingularMerges {
    fn sum(parts: &[Self]) -> Self {
        Self {
            full_size: parts.iter().map(|part| part.full_size).sum(),
            singular: parts.iter().map(|part| part.singular).sum(),
        }
    }
}

/// Counts the merges that make full-size clusters, and the merges among these that make a cluster
/// with a singular covariance, by the definition's test of pivots. The merges are those within
/// apriori clusters (`inner`) and `above` them.
///
/// Runs in the thread pool of the caller.
///
/// # Errors
/// `Error::Memory` if there is too little memory, and `Error::Interrupt`.
pub fn count_singular(
    arranged: &Arranged<'_>,
    inner: &[KeptMerges],
    above: &[Merge],
    threshold: f64,
    monitor: &Monitor,
) -> Result<SingularMerges> {
    let partition = arranged.partition.as_ref();
    let starts = upper_leaf_starts(arranged.x.nrows(), partition)?;
    let top = MergeTree::new(above, |slot| starts[slot] as u32..starts[slot + 1] as u32)?;
    let count = Count {
        x: &arranged.x,
        threshold,
        monitor,
    };
    let within = |cluster: usize| {
        let first = starts[cluster] as u32;
        MergeTree::new(&inner[cluster].to_vec()?, |slot| {
            let row = first + slot as u32;
            row..row + 1
        })
    };
    let clusters = || (0..inner.len()).into_par_iter();
    let bound = count.bound_on_diagonal();
    let count_if_regular = |tree: &MergeTree| count.count_if_regular(tree, bound);
    let regular = clusters().map(|cluster| count_if_regular(&within(cluster)?));
    let regular: Result<Option<Vec<usize>>> = match count_if_regular(&top)? {
        Some(full_size) => regular.chain([Ok(Some(full_size))]).collect(),
        None => Ok(None),
    };
    if let Some(full_size) = regular? {
        return Ok(SingularMerges {
            full_size: full_size.into_iter().sum(),
            singular: 0,
        });
    }
    let counted = clusters().map(|cluster| {
        let tree = within(cluster)?;
        let (counts, mut known) = count.count_in_tree(&tree, HashMap::new())?;
        Ok((counts, known.remove(&tree.root())))
    });
    let mut counts = Vec::new();
    let mut known = HashMap::new();
    for ((in_cluster, cluster), slot) in counted.collect::<Result<Vec<_>>>()?.into_iter().zip(1..) {
        counts.push(in_cluster);
        known.extend(cluster.map(|cluster| (-slot, cluster)));
    }
    counts.push(count.count_in_tree(&top, known)?.0);
    Ok(SingularMerges::sum(&counts))
}

/// Full-size clusters by their nodes.
type Known = HashMap<Node, FullSize>;

/// How merges are counted.
struct Count<'a> {
    x: &'a Observations,
    threshold: f64,
    monitor: &'a Monitor,
}

impl Count<'_> {
    fn is_full_size(&self, tree: &MergeTree, node: Node) -> bool {
        f64::from(tree.size(node)) >= self.threshold
    }

    /// Whether a merge makes a full-size cluster of two that are not. Such clusters are independent
    /// of each other.
    fn makes_first_full_size(&self, tree: &MergeTree, merge: Node) -> bool {
        let is_full_size = |part| tree.size(part) > 1 && self.is_full_size(tree, part);
        is_full_size(merge) && !tree.parts(merge).into_iter().any(is_full_size)
    }

    /// An upper bound on the diagonal of the scatter of any cluster.
    fn bound_on_diagonal(&self) -> f64 {
        let x = self.x;
        // Squares of distances from any row are at least those from the mean.
        let center = x.row_slice(x.nrows() / 2);
        let add = |mut sums: Vec<f64>, row: usize| {
            let values = x.row_slice(row).iter().zip(center);
            let squares = values.map(|(value, center)| (value - center) * (value - center));
            sums.iter_mut()
                .zip(squares)
                .for_each(|(sum, square)| *sum += square);
            sums
        };
        let zeros = || vec![0.0; x.ncols()];
        let sums = (0..x.nrows())
            .into_par_iter()
            .with_min_len(ROWS_AT_A_TIME)
            .fold(zeros, add)
            .reduce(zeros, |a, b| a.iter().zip(b).map(|(a, b)| a + b).collect());
        2.0 * sums.into_iter().fold(0.0, f64::max)
    }

    /// The number of full-size clusters of a tree; `None` if bounds do not prove that all have
    /// regular covariances. Tests only the smallest full-size clusters: more members make no pivot
    /// smaller, and `bound` is at least every diagonal.
    fn count_if_regular(&self, tree: &MergeTree, bound: f64) -> Result<Option<usize>> {
        let first = tree.all().into_par_iter();
        let irregular = first
            .filter(|&merge| self.makes_first_full_size(tree, merge))
            .map(|merge| {
                self.monitor.check()?;
                let cluster = FullSize::of(self.x, tree.of(merge))?;
                Ok(is_surely_regular(
                    cluster.least_pivot,
                    bound,
                    self.x.ncols(),
                ))
            })
            .find_any(|regular| !matches!(regular, Ok(true)));
        match irregular {
            Some(Err(error)) => Err(error),
            Some(Ok(_)) => Ok(None),
            None => {
                let all = tree.all().into_par_iter();
                Ok(Some(
                    all.filter(|&merge| self.is_full_size(tree, merge)).count(),
                ))
            }
        }
    }

    /// Counts in a tree; also returns its full-size clusters that are part of no other. `known` are
    /// the full-size leaves.
    fn count_in_tree(&self, tree: &MergeTree, mut known: Known) -> Result<(SingularMerges, Known)> {
        let is_full_size = |&merge: &Node| self.is_full_size(tree, merge);
        let branches = tree.branches()?;
        let known_in = |branch: &[Node], known: &mut Known| -> Known {
            let parts = branch.iter().flat_map(|&merge| tree.parts(merge));
            parts
                .filter_map(|part| Some((part, known.remove(&part)?)))
                .collect()
        };
        let branches: Vec<(Vec<Node>, Known)> = branches
            .into_iter()
            .map(|branch| {
                let known = known_in(&branch, &mut known);
                (branch, known)
            })
            .collect();
        let in_branches = branches.into_par_iter().map(|(branch, known)| {
            self.count_merges(tree, branch.into_iter().filter(is_full_size), known)
        });
        let mut counts = Vec::new();
        for (in_branch, left) in in_branches.collect::<Result<Vec<_>>>()? {
            counts.push(in_branch);
            known.extend(left);
        }
        let above = || tree.above_branches().filter(is_full_size);
        let first: Vec<Node> = above()
            .filter(|&merge| self.makes_first_full_size(tree, merge))
            .collect();
        let first = first.into_par_iter().map(|merge| {
            self.monitor.check()?;
            Ok((merge, FullSize::of(self.x, tree.of(merge))?))
        });
        known.extend(first.collect::<Result<Vec<_>>>()?);
        let (in_others, known) = self.count_merges(tree, above(), known)?;
        counts.push(in_others);
        Ok((SingularMerges::sum(&counts), known))
    }

    /// Counts merges of full-size clusters, in their order. `known` has full-size clusters that may
    /// be parts of these merges; it is returned with the new clusters in place of their parts.
    fn count_merges(
        &self,
        tree: &MergeTree,
        merges: impl Iterator<Item = Node>,
        mut known: Known,
    ) -> Result<(SingularMerges, Known)> {
        let mut counts = SingularMerges::default();
        for merge in merges {
            let cluster = match known.remove(&merge) {
                Some(cluster) => cluster,
                None => {
                    self.monitor.check()?;
                    self.union_of_merge(tree, merge, &mut known)?
                }
            };
            counts.full_size += 1;
            counts.singular += usize::from(cluster.least_pivot == 0.0);
            known.insert(merge, cluster);
        }
        Ok((counts, known))
    }

    /// The cluster of a merge. Takes its full-size parts out of `known`.
    fn union_of_merge(&self, tree: &MergeTree, merge: Node, known: &mut Known) -> Result<FullSize> {
        let x = self.x;
        let [a, b] = tree.parts(merge);
        let (mut cluster, other, part) = match (known.remove(&a), known.remove(&b)) {
            (Some(cluster), other) => (cluster, other, b),
            (None, Some(cluster)) => (cluster, None, a),
            (None, None) => return FullSize::of(x, tree.of(merge)),
        };
        let others = tree.of(part);
        let scatter = std::mem::take(&mut cluster.scatter);
        let before = cluster.clone();
        match other {
            Some(other) => cluster.add(
                other.members,
                &other.mean,
                &other.diagonal,
                other.least_pivot,
            ),
            None => {
                let rows = others.iter().map(|&row| x.row_slice(row as usize));
                rows.for_each(|row| cluster.add(1, row, &[], 0.0));
            }
        }
        if cluster.is_surely_regular() {
            return Ok(cluster);
        }
        if scatter.is_empty() {
            return FullSize::of(x, tree.of(merge));
        }
        Ok(FullSize { scatter, ..before }.with(x, others))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Cpu;
    use crate::dendrogram::Dendrogram;
    use crate::mahalanobis::{AprioriPartition, Clusterer, Distance, Options, Subthreshold};
    use crate::testing::{draw, observations, Data, Random, DATA};

    /// The counts by the definition, from the members of each merge.
    fn obvious(x: &Observations, tree: &Dendrogram, threshold: f64) -> SingularMerges {
        let mut counts = SingularMerges::default();
        let mut members: Vec<Vec<u32>> = Vec::new();
        for row in &tree.merge {
            let of = |id: i32| match id {
                id if id < 0 => vec![id.unsigned_abs() - 1],
                id => members[id as usize - 1].clone(),
            };
            let all = row.map(of).concat();
            if all.len() as f64 >= threshold {
                counts.full_size += 1;
                let cluster = FullSize::of(x, &all).unwrap();
                counts.singular += usize::from(cluster.least_pivot == 0.0);
            }
            members.push(all);
        }
        counts
    }

    const OPTIONS: Options = Options {
        threshold: 10.0,
        subthreshold: Subthreshold::Mahal,
        distance: Distance::Centroid,
        normalize: false,
        apriori_intra: true,
    };

    /// The counts, and the counts by the definition.
    fn counted(
        x: &Observations,
        partition: Option<AprioriPartition>,
        threshold: f64,
    ) -> (SingularMerges, SingularMerges) {
        let (cpu, monitor) = (Cpu::new(2).unwrap(), Monitor::default());
        let options = Options {
            threshold,
            ..OPTIONS
        };
        let mut clusterer = Clusterer::new(x, partition, &options, &cpu).unwrap();
        clusterer.merge(&cpu, &monitor).unwrap();
        let found = clusterer.count_singular(&cpu, &monitor);
        let tree = clusterer.tree(&cpu).unwrap().dendrogram;
        (found.unwrap(), obvious(x, &tree, threshold))
    }

    #[test]
    fn counts_are_those_of_the_definition() {
        let mut singular = 0;
        for (seed, data) in (1..).zip(DATA) {
            for threshold in [1.0, 3.0, 5.0, 12.0, 100.0] {
                let x = draw(&mut Random(seed), data, 60, 3);
                let (found, expected) = counted(&x, None, threshold);
                assert_eq!(found, expected, "{data:?}, {threshold}");
                singular += found.singular;
            }
        }
        assert!(singular > 0);
    }

    #[test]
    fn counts_above_apriori_clusters_are_those_of_the_definition() {
        let mut singular = 0;
        for (seed, data) in (1..).zip(DATA) {
            for (threshold, clusters) in [(3.0, 5), (10.0, 3), (10.0, 12), (40.0, 7), (90.0, 2)] {
                let x = draw(&mut Random(seed), data, 90, 3);
                // Every tenth observation is loose.
                let label = |i: u32| if i % 10 == 0 { 0 } else { 1 + i * 7 % clusters };
                let labels: Vec<u32> = (0..90).map(label).collect();
                let partition = AprioriPartition::new(&labels).unwrap();
                let (found, expected) = counted(&x, partition, threshold);
                let case = format!("{data:?}, {threshold}, {clusters}: {found:?}, {expected:?}");
                assert_eq!(found.full_size, expected.full_size, "{case}");
                // Rounding, in another order of the rows, may decide if a pivot is 0.
                let different = found.singular.abs_diff(expected.singular);
                assert!(
                    different <= usize::from(matches!(data, Data::ZeroInflated)),
                    "{case}"
                );
                singular += found.singular;
            }
        }
        assert!(singular > 0);
    }

    #[test]
    fn a_far_value_makes_the_covariances_of_its_clusters_singular() {
        let mut values = draw(&mut Random::of(2), Data::Plain, 80, 2)
            .values()
            .to_vec();
        values[31] = 1e12;
        let (found, expected) = counted(&observations(values, 80, 2), None, 10.0);
        assert_eq!(found, expected);
        assert!(found.singular > 0 && found.singular < found.full_size);
    }

    #[test]
    fn a_constant_column_makes_all_covariances_singular() {
        let x = draw(&mut Random::of(1), Data::Plain, 50, 2);
        let regular = counted(&x, None, 10.0).0;
        assert!(regular.full_size > 0 && regular.singular == 0);
        let rows = (0..50).map(|i| [x.row_slice(i), &[7.0]].concat());
        let with_constant = observations(rows.flatten().collect(), 50, 3);
        let found = counted(&with_constant, None, 10.0).0;
        assert!(found.full_size > 0 && found.singular == found.full_size);
    }
}
