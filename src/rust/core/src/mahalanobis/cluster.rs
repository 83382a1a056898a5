//! From observations to a tree: the work is divided by apriori clusters, agglomerated and joined.

use super::agglomerate::work;
use super::apriori;
use super::arranged::Arranged;
use super::clustering::Clustering;
use super::device::AgglomerationDevice;
use super::input::{check, check_labels};
use super::kept_merges::KeptMerges;
use super::options::Options;
use super::partition::AprioriPartition;
use super::singular::{self, SingularMerges};
use crate::cpu::Cpu;
use crate::error::{Error, Result};
use crate::magnitude::check_magnitude;
use crate::merge::Merge;
use crate::monitor::Monitor;
use crate::observations::{Input, Observations};

/// The message of a panic if the tree or its counts are asked for before all merges are known.
const ALL_KNOWN: &str = "all merges are known";

/// Clusters the rows of `x`.
///
/// `apriori` holds one label per observation, 0 for none; labels with one member count as 0.
/// `apriori` is ignored if no cluster is left, or if one cluster has all observations.
///
/// For n observations in p columns: O(n²p) time in practice; O(np²) memory in the worst case.
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
    let partition = apriori.map(|labels| device.cpu().install(|| AprioriPartition::new(labels)));
    let partition = partition.transpose()?.flatten();
    let clusterer = Clusterer::new(x, partition, options, device.cpu())?;
    clusterer.check_memory()?;
    clusterer.run(device, monitor)
}

/// A clustering that can go on, on another device, after a device failed: it keeps the merges that
/// are known, until they are joined to a tree.
#[derive(Debug)]
pub struct Clusterer<'a> {
    arranged: Arranged<'a>,
    options: Options,
    /// The merges within the first apriori clusters, as far as they are known.
    inner: Vec<KeptMerges>,
    /// The merges of the upper tree, whose leaves are the apriori clusters and the loose
    /// observations, once they are known.
    upper: Option<Vec<Merge>>,
    /// Whether the monitor knows of the work.
    work_announced: bool,
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
        let arranged = Arranged::new(input, partition, cpu)?;
        check_magnitude(arranged.x.largest())?;
        Ok(Self {
            arranged,
            options: *options,
            inner: Vec::new(),
            upper: None,
            work_announced: false,
        })
    }

    /// As [`Self::new`], given the merges of [`Self::into_inner`] in all apriori clusters.
    ///
    /// # Errors
    /// As [`Self::new`], and `Error::Input` if `inner` does not fit the apriori clusters, or if
    /// they are trivial.
    pub fn from_inner_merges(
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
        let kept = inner.into_iter().map(KeptMerges::new);
        Ok(Self {
            inner: kept.collect::<Result<_>>()?,
            ..Self::new(x, Some(partition), options, cpu)?
        })
    }

    /// Checks that there is memory for the merges of apriori clusters and for the tree.
    ///
    /// # Errors
    /// `Error::Memory`, which says how much memory is needed.
    pub fn check_memory(&self) -> Result<()> {
        match self.arranged.partition {
            Some(_) => apriori::check_memory(&self.arranged.x, &self.options),
            None => Ok(()),
        }
    }

    /// Clusters on a device, as [`cluster`] does.
    ///
    /// # Errors
    /// As [`Self::merge`] and [`Self::tree`].
    pub fn run(
        mut self,
        device: &(impl AgglomerationDevice + ?Sized),
        monitor: &Monitor,
    ) -> Result<Clustering> {
        self.merge(device, monitor)?;
        self.tree(device.cpu())
    }

    /// Tells the monitor of the work of [`Self::merge`]. Call this first if [`Self::merge_within`]
    /// is called before `merge`.
    pub fn announce(&mut self, monitor: &Monitor) {
        self.expect(self.work_within() + self.upper_work(), monitor);
    }

    /// Finds all merges that are not known yet, on a device.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn merge(
        &mut self,
        device: &(impl AgglomerationDevice + ?Sized),
        monitor: &Monitor,
    ) -> Result<()> {
        self.announce(monitor);
        self.merge_rest_within(device, monitor)?;
        if self.upper.is_none() {
            let merges = apriori::upper_merges(&self.arranged, &self.options, device, monitor)?;
            self.upper = Some(merges);
        }
        Ok(())
    }

    /// Finds the merges within each apriori cluster that are not known yet, on a device.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn merge_within(
        &mut self,
        device: &(impl AgglomerationDevice + ?Sized),
        monitor: &Monitor,
    ) -> Result<()> {
        self.expect(self.work_within(), monitor);
        self.merge_rest_within(device, monitor)
    }

    fn merge_rest_within(
        &mut self,
        device: &(impl AgglomerationDevice + ?Sized),
        monitor: &Monitor,
    ) -> Result<()> {
        apriori::merge_within(
            &self.arranged,
            &mut self.inner,
            &self.options,
            device.observations_at_a_time(),
            device,
            monitor,
        )
    }

    /// Tells the monitor of the work, once.
    fn expect(&mut self, work: u64, monitor: &Monitor) {
        if !self.work_announced {
            monitor.expect(work);
            self.work_announced = true;
        }
    }

    /// The progress units of the merges within apriori clusters that are not known.
    fn work_within(&self) -> u64 {
        let partition = self.arranged.partition.as_ref();
        let unknown = partition.filter(|_| self.options.apriori_intra);
        unknown.map_or(0, |partition| {
            let sizes = partition.sizes().skip(self.inner.len());
            sizes.map(work).sum()
        })
    }

    /// The progress units of the merges above the apriori clusters.
    fn upper_work(&self) -> u64 {
        let n = self.arranged.x.nrows();
        let partition = self.arranged.partition.as_ref();
        work(partition.map_or(n, AprioriPartition::leaves_above))
    }

    /// The tree of all merges. Copies of the observations are freed first.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory, `Error::Input` if distances overflow.
    ///
    /// # Panics
    /// If not all merges are known.
    pub fn tree(self, cpu: &Cpu) -> Result<Clustering> {
        let upper = self.upper.expect(ALL_KNOWN);
        let Arranged { x, partition } = self.arranged;
        let n = x.nrows();
        drop(x);
        cpu.install(|| apriori::tree(n, partition.as_ref(), self.inner, &upper))
    }

    /// The merges within the apriori clusters that are clustered. The slots are the indices of the
    /// observations of a cluster. They depend on no other observations.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn into_inner(self) -> Result<Vec<Vec<Merge>>> {
        let merges = self.inner.into_iter().map(|merges| merges.to_vec());
        merges.collect()
    }

    /// Counts the merges that make full-size clusters, and those with a singular covariance, by the
    /// definition's test of pivots.
    ///
    /// Takes about O(n·p²) time on the threads of `cpu`, and about 40 bytes for each leaf above the
    /// apriori clusters.
    ///
    /// # Errors
    /// `Error::Memory` if there is too little memory, and `Error::Interrupt`.
    ///
    /// # Panics
    /// If not all merges are known.
    pub fn count_singular(&self, cpu: &Cpu, monitor: &Monitor) -> Result<SingularMerges> {
        let (inner, threshold) = (&self.inner, self.options.threshold);
        let upper = self.upper.as_ref().expect(ALL_KNOWN);
        cpu.install(|| singular::count_singular(&self.arranged, inner, upper, threshold, monitor))
    }
}

/// The sizes of the problems of a clustering. The choice of a device depends on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProblemSizes {
    /// Number of clusters at the start of the largest problem.
    pub largest: usize,
    /// Number of problems that can be merged at the same time: those within apriori clusters, or
    /// the draws of `stability()`; 0 if there is only the largest problem.
    pub apriori_clusters: usize,
    /// Number of observations in these problems, if each of their clusters is one observation at
    /// the start; otherwise 0.
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
        Self {
            largest: partition.leaves_above(),
            apriori_clusters: 0,
            observations: 0,
        }
    }
}
