//! Apriori clusters: each is clustered alone, then all of them are leaves of the top level.
//!
//! [`merge_within`] is the first part. [`upper_merges`] is the second, and [`tree`] joins both; the
//! merges of the first may come from another machine. Without apriori clusters, the leaves of the
//! top level are the observations.

use rayon::prelude::*;

use super::arranged::Arranged;
use super::clustering::Clustering;
use super::device::AgglomerationDevice;
use super::height_order::height_order;
use super::kept_merges::KeptMerges;
use super::options::{Distance, Options};
use super::partition::AprioriPartition;
use super::problem::{Problem, RowNumbers, UnionRule};
use crate::dendrogram::TreeBuilder;
use crate::error::{Error, Result};
use crate::memory;
use crate::merge::Merge;
use crate::monitor::Monitor;
use crate::observations::Observations;

/// Appends to `inner` the merges within each apriori cluster from number `inner.len()` on. A device
/// finds them in batches of about equal size, which have about `at_a_time` observations at most.
/// Slots are indices among the members of the cluster. After an error, `inner` keeps the finished
/// batches.
///
/// # Errors
/// The errors of the device.
pub fn merge_within(
    arranged: &Arranged<'_>,
    inner: &mut Vec<KeptMerges>,
    options: &Options,
    at_a_time: usize,
    device: &(impl AgglomerationDevice + ?Sized),
    monitor: &Monitor,
) -> Result<()> {
    let Some(partition) = &arranged.partition else {
        return Ok(());
    };
    let starts = partition.starts();
    let rows = |cluster: usize| starts[cluster] as u32..starts[cluster + 1] as u32;
    if !options.apriori_intra {
        for cluster in inner.len()..partition.clusters() {
            inner.push(KeptMerges::new(joined(rows(cluster).len()))?);
        }
        return Ok(());
    }
    while inner.len() < partition.clusters() {
        let first = inner.len();
        let left = partition.in_clusters() - starts[first];
        let batch = left.div_ceil(left.div_ceil(at_a_time.max(1)));
        let end = starts.partition_point(|&start| start < starts[first] + batch);
        let some = first..end.clamp(first + 1, partition.clusters());
        let problem = |cluster| Problem::of_observations(&arranged.x, rows(cluster), *options);
        let cpu = device.cpu();
        let problems: Vec<Problem> = cpu.install(|| some.into_par_iter().map(problem).collect());
        let found = device.agglomerate(&problems, monitor)?.into_par_iter();
        let kept = cpu.install(|| found.map(KeptMerges::new).collect::<Result<Vec<_>>>());
        inner.extend(kept?);
    }
    Ok(())
}

/// The merges of the apriori clusters and the loose observations. A slot is the index of an apriori
/// cluster, or of a loose observation after them.
///
/// # Errors
/// `Error::Memory` if there is not enough memory, and the errors of the device. [`tree`] checks for
/// overflow.
pub fn upper_merges(
    arranged: &Arranged<'_>,
    options: &Options,
    device: &(impl AgglomerationDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Vec<Merge>> {
    let n = arranged.x.nrows();
    let starts_by = |partition| upper_leaf_starts(n, Some(partition));
    let top = Problem {
        x: &arranged.x,
        members: RowNumbers::Consecutive(0..n as u32),
        starts: arranged.partition.as_ref().map(starts_by).transpose()?,
        options: *options,
        union: UnionRule::Shape,
    };
    let mut merges = device.agglomerate(&[top], monitor)?;
    Ok(merges.swap_remove(0))
}

/// For each leaf of the upper tree, its first row among `n` rows: apriori clusters, then loose
/// rows; then `n`.
///
/// # Errors
/// `Error::Memory` if there is not enough memory.
pub fn upper_leaf_starts(n: usize, partition: Option<&AprioriPartition>) -> Result<Vec<usize>> {
    let (clusters, loose) = match partition {
        Some(partition) => partition.starts().split_at(partition.clusters()),
        None => (&[][..], &[0][..]),
    };
    let mut starts = memory::room(
        memory::COPY_OF_OBSERVATIONS,
        clusters.len() + n - loose[0] + 1,
    )?;
    starts.extend_from_slice(clusters);
    starts.extend(loose[0]..=n);
    Ok(starts)
}

/// The tree of `n` observations with these merges within apriori clusters and above them. Works on
/// the threads of the calling pool.
///
/// # Errors
/// `Error::Memory` if there is not enough memory, `Error::Input` if distances overflow.
pub fn tree(
    n: usize,
    partition: Option<&AprioriPartition>,
    inner: Vec<KeptMerges>,
    above: &[Merge],
) -> Result<Clustering> {
    let mut tree = TreeBuilder::new(n)?;
    let apriori_labels = match partition {
        Some(partition) => interleave(partition, inner, &mut tree)?,
        None => Vec::new(),
    };
    // By slot, the observation that represents it in the tree.
    let slots = match partition {
        Some(sorted) => {
            let starts = upper_leaf_starts(n, partition)?;
            let rows = starts[..starts.len() - 1].iter();
            let slots = rows.map(|&row| sorted.order()[row]);
            memory::collected(memory::COPY_OF_OBSERVATIONS, slots)?
        }
        None => memory::collected(memory::COPY_OF_OBSERVATIONS, 0..n as u32)?,
    };
    tree.append(&slots, above);
    Ok(Clustering {
        dendrogram: tree.finish()?.finite("x")?,
        apriori_merges: apriori_labels.len(),
        apriori_labels,
    })
}

/// The merges that join a cluster of this size without clustering its members: all at height 0.
fn joined(size: usize) -> Vec<Merge> {
    let merge = |higher| Merge {
        lower: 0,
        higher,
        height: 0.0,
    };
    (1..size as u32).map(merge).collect()
}

/// Checks that there is memory for the merges of all apriori clusters and for the tree, as the help
/// page of `gmhclust()` says. The clustering of each problem checks its own memory.
///
/// # Errors
/// `Error::Memory`, which says how much memory is needed.
pub fn check_memory(x: &Observations, options: &Options) -> Result<()> {
    let p = x.ncols();
    let each = match options.distance {
        Distance::Centroid => 80,
        Distance::FullMahalanobis => 24 * p + 80,
    };
    memory::check_working("clustering in apriori clusters", x.nrows(), each)
}

/// Checks that the merges of each cluster join all its members.
///
/// # Errors
/// `Error::Input` if they do not.
pub fn check_merges(partition: &AprioriPartition, inner: &[Vec<Merge>]) -> Result<()> {
    let joins_all = |(size, merges): (usize, &Vec<Merge>)| {
        let mut is_active = vec![true; size];
        let joins_two = |merge: &Merge| {
            let (lower, higher) = (merge.lower as usize, merge.higher as usize);
            let two = lower < higher && higher < size && is_active[lower] && is_active[higher];
            if two {
                is_active[higher] = false;
            }
            two && !merge.height.is_nan()
        };
        merges.len() + 1 == size && merges.iter().all(joins_two)
    };
    let fit = inner.len() == partition.clusters();
    if fit && partition.sizes().zip(inner).all(joins_all) {
        return Ok(());
    }
    Err(Error::Input(
        "`apriori` does not fit the merges that were found within its clusters".into(),
    ))
}

/// Appends the merges of all apriori clusters to the tree by height (ties: the smaller label
/// first); the merges of one cluster stay in order. Returns the label of each merge. Works on the
/// threads of the calling pool.
fn interleave(
    partition: &AprioriPartition,
    inner: Vec<KeptMerges>,
    tree: &mut TreeBuilder,
) -> Result<Vec<u32>> {
    let inner = inner.into_par_iter().map(|merges| merges.to_vec());
    let inner: Vec<Vec<Merge>> = inner.collect::<Result<_>>()?;
    let order = height_order(&inner)?;
    let sequences = inner.into_iter().enumerate();
    let sequences = sequences.map(|(cluster, merges)| (partition.members(cluster), merges));
    tree.append_interleaved(sequences.collect(), &order)?;
    let labels = order.par_iter();
    let labels = labels.map(|&(cluster, _)| partition.labels()[cluster as usize]);
    memory::collected_on_threads(memory::COPY_OF_OBSERVATIONS, labels)
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use super::*;
    use crate::cpu::Cpu;
    use crate::mahalanobis::{Clusterer, Subthreshold};
    use crate::observations::Input;
    use crate::testing::{draw, Data, FailingDevice, Random};

    const OPTIONS: Options = Options {
        threshold: 4.0,
        subthreshold: Subthreshold::Mahal,
        distance: Distance::FullMahalanobis,
        normalize: false,
        apriori_intra: true,
    };

    #[test]
    fn merges_of_apriori_clusters_follow_one_another_by_height() {
        let partition = AprioriPartition::by_label(&[5, 2, 5, 2, 5, 2, 5]).unwrap();
        let merge = |lower, higher, height| Merge {
            lower,
            higher,
            height,
        };
        let inner = [
            vec![merge(0, 1, 2.0), merge(0, 2, 4.0)],
            vec![merge(1, 2, 1.0), merge(1, 3, 4.0), merge(0, 1, 3.0)],
        ];
        let mut tree = TreeBuilder::new(7).unwrap();
        let inner = inner.map(|merges| KeptMerges::new(merges).unwrap());
        let labels = interleave(&partition, inner.into(), &mut tree).unwrap();
        assert_eq!(labels, [5, 2, 2, 5, 5]);
        tree.join(0, 1, 5.0);
        let tree = tree.finish().unwrap();
        assert_eq!(tree.height, [1.0, 2.0, 4.0, 4.0, 3.0, 5.0]);
        assert_eq!(tree.merge[..3], [[-3, -5], [-2, -4], [-6, 2]]);
    }

    #[test]
    fn clusters_are_merged_in_batches_of_about_equal_size() {
        let x = draw(&mut Random::of(19), Data::Mixture, 300, 3);
        let labels: Vec<u32> = (0..300).map(|i| i * i % 17).collect();
        let cpu = Cpu::new(2).unwrap();
        let partition = AprioriPartition::new(&labels).unwrap();
        let arranged = Arranged::new((&x).into(), partition, &cpu).unwrap();
        let sizes: Vec<usize> = arranged.partition.iter().flat_map(|p| p.sizes()).collect();
        let all: usize = sizes.iter().sum();
        let largest = sizes.iter().max().unwrap();
        let found = |at_a_time| {
            let (mut inner, monitor) = (Vec::new(), Monitor::default());
            let device = FailingDevice::after(usize::MAX, Error::Interrupt);
            let within = merge_within(
                &arranged, &mut inner, &OPTIONS, at_a_time, &device, &monitor,
            );
            within.unwrap();
            (device.agglomerated(), (inner, monitor.progress().0))
        };
        let (together, expected) = found(usize::MAX / 2);
        assert_eq!(together, [all]);
        assert!(expected.0.len() > 5);
        for at_a_time in [0, 1, 40, 100, 150, 270, all - 1] {
            let (batches, merges) = found(at_a_time);
            assert_eq!(merges, expected, "{at_a_time}");
            assert!(
                batches.len() <= all.div_ceil(at_a_time.max(1)),
                "{batches:?}"
            );
            // Batches end with whole clusters.
            let (least, most) = (batches.iter().min().unwrap(), batches.iter().max().unwrap());
            assert!(most - least <= 2 * largest, "{at_a_time}: {batches:?}");
        }
    }

    #[test]
    fn a_matrix_has_the_tree_of_its_observations() {
        let x = draw(&mut Random::of(23), Data::Mixture, 200, 4);
        let labels: Vec<u32> = (0..200).map(|i| i * 3 % 7).collect();
        let cpu = Cpu::new(2).unwrap();
        let columns = x.view().reversed_axes().as_standard_layout().into_owned();
        let tree = |input: Input, labels: Option<&[u32]>| {
            let partition = labels.and_then(|labels| AprioriPartition::new(labels).unwrap());
            let clusterer = Clusterer::new(input, partition, &OPTIONS, &cpu).unwrap();
            clusterer.run(&cpu, &Monitor::default()).unwrap()
        };
        for labels in [None, Some(&labels[..])] {
            let by_columns = tree(Input::Matrix(columns.t()), labels);
            assert_eq!(by_columns, tree(Input::Matrix(x.view()), labels));
            assert_eq!(by_columns, tree((&x).into(), labels));
        }
    }

    #[test]
    fn a_value_that_is_not_finite_is_named_by_its_place_in_the_data() {
        let mut x = Array2::zeros((6, 2));
        x[[2, 1]] = f64::NAN;
        x[[4, 0]] = f64::INFINITY;
        let partition = AprioriPartition::new(&[3, 2, 2, 1, 1, 3]).unwrap();
        let cpu = Cpu::new(2).unwrap();
        let found = Clusterer::new(Input::Matrix(x.view()), partition, &OPTIONS, &cpu);
        let message = "`x` has NaN in row 3, column 2; clustering needs finite values";
        assert_eq!(found.unwrap_err(), Error::Input(message.into()));
    }
}
