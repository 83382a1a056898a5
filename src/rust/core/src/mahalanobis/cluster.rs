//! From observations to a tree: the work is divided by apriori clusters, agglomerated and joined.

use super::apriori::{self, AprioriPartition, Arranged};
use super::clustering::Clustering;
use super::device::AgglomerationDevice;
use super::input::check;
use super::options::Options;
use crate::error::{Error, Result};
use crate::merge::Merge;
use crate::monitor::Monitor;
use crate::observations::Observations;

/// Clusters the rows of `x`.
///
/// `apriori` holds one label per observation, 0 for none; labels with one member count as 0.
/// `apriori` is ignored if no cluster is left, or if one cluster has all observations.
///
/// With n observations in p columns, takes O(n²p) time in practice and O(np + (n/3)p²) memory.
///
/// # Errors
/// `Error::Input` for a threshold that is not positive, for the wrong number of labels, and for
/// values so large that fourth powers of their distances overflow; and the errors of the device.
pub fn cluster(
    x: &Observations,
    apriori: Option<&[u32]>,
    options: &Options,
    device: &(impl AgglomerationDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Clustering> {
    Clusterer::new(x, apriori, options)?.run(device, monitor)
}

/// Clusters within each apriori cluster, and does not join the apriori clusters. Returns the merges
/// for each label of two or more observations, in increasing order of labels. The slots are the
/// indices of the observations of that label. The merges of a cluster depend on no other
/// observations.
///
/// # Errors
/// As [`cluster`].
pub fn cluster_within(
    x: &Observations,
    apriori: &[u32],
    options: &Options,
    device: &(impl AgglomerationDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Vec<Vec<Merge>>> {
    check(x, Some(apriori), options)?;
    let partition = AprioriPartition::by_label(apriori);
    Arranged::new(x, Some(&partition), device.cpu())?.within(options, device, monitor)
}

/// As [`cluster`] with apriori clusters, given the merges of [`cluster_within`] in all of them.
///
/// # Errors
/// As [`cluster`], and `Error::Input` if `inner` does not fit the apriori clusters, or if there are
/// none.
pub fn cluster_above(
    x: &Observations,
    apriori: &[u32],
    inner: &[Vec<Merge>],
    options: &Options,
    device: &(impl AgglomerationDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Clustering> {
    check(x, Some(apriori), options)?;
    let partition = AprioriPartition::new(apriori)
        .ok_or_else(|| Error::Input("`apriori` has no clusters to go on from".into()))?;
    apriori::check_merges(&partition, inner)?;
    Arranged::new(x, Some(&partition), device.cpu())?.above(inner, options, device, monitor)
}

/// A clustering that can be run again, on another device, after a device failed. It keeps the
/// merges within apriori clusters.
#[derive(Debug)]
pub struct Clusterer<'a> {
    x: &'a Observations,
    options: &'a Options,
    apriori: Option<AprioriPartition>,
    /// The merges within the apriori clusters, once they are known.
    inner: Option<Vec<Vec<Merge>>>,
}

impl<'a> Clusterer<'a> {
    /// A clustering with the arguments of [`cluster`].
    ///
    /// # Errors
    /// `Error::Input` and `Error::Memory`, as [`cluster`].
    pub fn new(x: &'a Observations, apriori: Option<&[u32]>, options: &'a Options) -> Result<Self> {
        check(x, apriori, options)?;
        Ok(Self {
            x,
            options,
            apriori: apriori.and_then(AprioriPartition::new),
            inner: None,
        })
    }

    /// Clusters on a device, as [`cluster`] does.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn run(
        &mut self,
        device: &(impl AgglomerationDevice + ?Sized),
        monitor: &Monitor,
    ) -> Result<Clustering> {
        let (x, options) = (self.x, self.options);
        if self.apriori.is_some() {
            apriori::check_memory(x, options)?;
        }
        let arranged = Arranged::new(x, self.apriori.as_ref(), device.cpu())?;
        let inner = match self.inner.take() {
            Some(inner) => inner,
            None => arranged.within(options, device, monitor)?,
        };
        let inner = self.inner.insert(inner);
        arranged.above(inner, options, device, monitor)
    }
}

/// The sizes of the problems of a clustering. The choice of a device depends on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProblemSizes {
    /// Number of clusters at the start of the largest problem.
    pub largest: usize,
    /// Number of problems within apriori clusters.
    pub apriori_clusters: usize,
    /// Number of observations in apriori clusters.
    pub observations: usize,
}

impl ProblemSizes {
    /// The sizes of a clustering of `n` observations.
    pub fn new(n: usize, apriori: Option<&[u32]>) -> Self {
        match apriori.and_then(AprioriPartition::new) {
            None => Self {
                largest: n,
                apriori_clusters: 0,
                observations: 0,
            },
            Some(partition) => {
                let top = partition.clusters.len() + partition.loose.len();
                Self {
                    largest: partition.sizes().max().unwrap_or(0).max(top),
                    apriori_clusters: partition.clusters.len(),
                    observations: partition.sizes().sum(),
                }
            }
        }
    }

    /// The sizes of a clustering where the merges within apriori clusters are known.
    pub fn above(apriori: &[u32]) -> Self {
        let partition = AprioriPartition::by_label(apriori);
        Self {
            largest: partition.clusters.len() + partition.loose.len(),
            apriori_clusters: 0,
            observations: 0,
        }
    }
}
