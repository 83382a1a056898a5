//! From observations to a tree: the work is divided by apriori clusters, agglomerated and joined.

use super::apriori::{self, OBSERVATIONS_AT_A_TIME};
use super::arranged::{Arranged, Input};
use super::clustering::Clustering;
use super::device::AgglomerationDevice;
use super::input::{check, check_labels, check_magnitude};
use super::options::Options;
use super::partition::AprioriPartition;
use super::singular::{self, SingularMerges};
use crate::cpu::Cpu;
use crate::dendrogram::Dendrogram;
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
    check_labels(x.nrows(), apriori.map(<[u32]>::len))?;
    let partition = apriori.map(AprioriPartition::new).transpose()?.flatten();
    Clusterer::new(x, partition, options, device.cpu())?.run(device, monitor)
}

/// A clustering that can be run again, on another device, after a device failed. It keeps the
/// merges within apriori clusters.
#[derive(Debug)]
pub struct Clusterer<'a> {
    arranged: Arranged<'a>,
    options: Options,
    /// The merges within the first apriori clusters, as far as they are known.
    inner: Vec<Vec<Merge>>,
}

impl<'a> Clusterer<'a> {
    /// A clustering with the options of [`cluster`]. Copies a matrix, and observations in apriori
    /// clusters, on the threads of `cpu`.
    ///
    /// # Errors
    /// `Error::Input` and `Error::Memory`, as [`cluster`], and as
    /// [`Observations::copied`] for a matrix.
    pub fn new(
        x: impl Into<Input<'a>>,
        partition: Option<AprioriPartition>,
        options: &Options,
        cpu: &Cpu,
    ) -> Result<Self> {
        let input = x.into();
        let labels = partition.as_ref().map(|partition| partition.order().len());
        check(input.dim(), labels, options)?;
        if partition.is_some() {
            apriori::check_memory(&input, options)?;
        }
        let arranged = Arranged::new(input, partition, cpu)?;
        check_magnitude(arranged.x.largest())?;
        Ok(Self {
            arranged,
            options: *options,
            inner: Vec::new(),
        })
    }

    /// As [`Self::new`], given the merges of [`Self::into_inner`] in all apriori clusters.
    ///
    /// # Errors
    /// As [`Self::new`], and `Error::Input` if `inner` does not fit the apriori clusters, or if
    /// they are trivial.
    pub fn above(
        x: impl Into<Input<'a>>,
        partition: AprioriPartition,
        inner: Vec<Vec<Merge>>,
        options: &Options,
        cpu: &Cpu,
    ) -> Result<Self> {
        if partition.is_trivial() {
            let message = "`apriori` has no clusters to go on from";
            return Err(Error::Input(message.into()));
        }
        apriori::check_merges(&partition, &inner)?;
        Ok(Self {
            inner,
            ..Self::new(x, Some(partition), options, cpu)?
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
        self.merge_within(device, monitor)?;
        let above = apriori::merges_above(&self.arranged, &self.options, device, monitor)?;
        let inner = std::mem::take(&mut self.inner);
        let tree = || apriori::tree(&self.arranged, inner, &above);
        device.cpu().install(tree)
    }

    /// Clusters within each apriori cluster that is not clustered yet.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn merge_within(
        &mut self,
        device: &(impl AgglomerationDevice + ?Sized),
        monitor: &Monitor,
    ) -> Result<()> {
        apriori::merge_within(
            &self.arranged,
            &mut self.inner,
            &self.options,
            OBSERVATIONS_AT_A_TIME,
            device,
            monitor,
        )
    }

    /// The merges within the apriori clusters that are clustered. The slots are the indices of the
    /// observations of a cluster. They depend on no other observations.
    pub fn into_inner(self) -> Vec<Vec<Merge>> {
        self.inner
    }

    /// Counts merges of a tree of these observations that make full-size clusters, and those with a
    /// singular covariance, by the definition's test of pivots.
    ///
    /// Takes about O(n·p²) time on the threads of `cpu`, and about 20 bytes for each observation.
    ///
    /// # Errors
    /// `Error::Memory` if there is too little memory, and `Error::Interrupt`.
    pub fn count_singular(
        &self,
        tree: &Dendrogram,
        cpu: &Cpu,
        monitor: &Monitor,
    ) -> Result<SingularMerges> {
        let threshold = self.options.threshold;
        cpu.install(|| singular::count_singular(&self.arranged, tree, threshold, monitor))
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
    pub fn new(n: usize, partition: Option<&AprioriPartition>) -> Self {
        match partition {
            None => Self {
                largest: n,
                apriori_clusters: 0,
                observations: 0,
            },
            Some(partition) => {
                let above = Self::above(partition);
                Self {
                    largest: partition.sizes().max().unwrap_or(0).max(above.largest),
                    apriori_clusters: partition.clusters(),
                    observations: partition.in_clusters(),
                }
            }
        }
    }

    /// The sizes of a clustering where the merges within apriori clusters are known.
    pub fn above(partition: &AprioriPartition) -> Self {
        let loose = partition.order().len() - partition.in_clusters();
        Self {
            largest: partition.clusters() + loose,
            apriori_clusters: 0,
            observations: 0,
        }
    }
}
