//! Mahalanobis-average hierarchical clustering (Fišer et al. 2012, doi:10.1002/cyto.a.21148;
//! Šmelko et al. 2021, doi:10.1007/978-3-030-85665-6_36).
//!
//! [`cluster`] is the entry: it splits the work by apriori clusters ([`apriori`]), has the backend
//! agglomerate each part, and joins the results to one tree. [`cluster_within`] and [`cluster_above`]
//! are its two halves, for work that several machines share. [`shape`] and [`distance`] say what a
//! cluster's shape and the distance of two clusters are; [`agglomerate`] finds the merges on the
//! CPU; [`reference`] finds them slowly and obviously.

pub mod agglomerate;
pub mod apriori;
pub mod clusters;
pub mod distance;
mod duplicates;
mod forest;
mod lanes;
mod members;
mod queue;
#[cfg(test)]
pub mod reference;
pub mod shape;
#[cfg(test)]
mod tests;

use crate::backend::{Backend, Merge, Workload};
use crate::dendrogram::{Dendrogram, TreeBuilder};
use crate::error::{Error, Result};
use crate::matrix::{bounding_box, Matrix};
use crate::memory;
use crate::monitor::Monitor;
use apriori::{Arranged, Partition};
use shape::ShapeRule;

/// What stands in for the covariance of a cluster below the threshold; w = members / threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subthreshold {
    /// w·cov + (1−w)·f·I with f = det(cov)^(1/p), and f = 1 where cov is singular.
    Mahal,
    /// The same with f = 1.
    Mahal0,
    /// The identity, and for every cluster until all are full-size.
    Euclid,
    /// The identity.
    EuclidMahal,
}

/// The choices of a clustering.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// The Mahalanobis threshold T, in members: a cluster with as many is full-size.
    pub threshold: f64,
    pub subthreshold: Subthreshold,
    /// Distances between means (CMD) instead of means of distances (FMD).
    pub quick: bool,
    /// Normalise the shapes also when all clusters are full-size.
    pub normalize: bool,
    /// Whether apriori clusters are clustered inside, or just joined at height 0.
    pub apriori_intra: bool,
}

impl Options {
    /// The rule for shapes while all current clusters are full-size, or not.
    pub fn shape_rule(&self, all_full_size: bool) -> ShapeRule {
        ShapeRule {
            threshold: self.threshold,
            subthreshold: self.subthreshold,
            normalizing: self.normalize || !all_full_size,
            all_full_size,
        }
    }
}

impl Options {
    /// Whether any of `n` observations in `p` dimensions can form a cluster with another shape than the
    /// identity: the covariance of p members or fewer is singular.
    fn may_have_shapes(&self, n: usize, p: usize) -> bool {
        match self.subthreshold {
            Subthreshold::Mahal | Subthreshold::Mahal0 => n > 2,
            Subthreshold::Euclid | Subthreshold::EuclidMahal => n > p,
        }
    }
}

/// What a union of two clusters takes from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Union {
    /// The mean and the shape of all members.
    Shape,
    /// The mean of all members, and the identity as its shape.
    Mean,
    /// The middle between the two clusters' means, for its mean, and the identity.
    Midpoint,
}

/// Clusters to merge to one: cluster s, in slot s, holds the observations
/// `members[starts[s]..starts[s + 1]]` of `x`.
#[derive(Debug, Clone)]
pub struct Problem<'a> {
    pub x: &'a Matrix,
    pub starts: Vec<usize>,
    pub members: Vec<u32>,
    pub options: Options,
    /// Other than [`Union::Shape`] only where the members of each cluster at the start are equal,
    /// none becomes full-size and distances are those of means.
    pub union: Union,
}

impl<'a> Problem<'a> {
    /// One cluster for each of these observations.
    pub fn of_observations(x: &'a Matrix, members: Vec<u32>, options: Options) -> Self {
        Self {
            x,
            starts: (0..=members.len()).collect(),
            members,
            options,
            union: Union::Shape,
        }
    }

    /// One cluster for each observation, at the Euclidean distances of their means.
    pub fn of_centroids(x: &'a Matrix, union: Union) -> Self {
        let n = x.rows();
        let options = Options {
            threshold: n as f64 + 1.0,
            subthreshold: Subthreshold::Euclid,
            quick: true,
            normalize: true,
            apriori_intra: true,
        };
        Self {
            union,
            ..Self::of_observations(x, (0..n as u32).collect(), options)
        }
    }

    /// Bytes that its agglomeration takes at least, beside the observations: means in double and
    /// single precision, members for full distances, and a few candidates for each cluster. See
    /// *Time and memory* in the help page of `gmhclust()`.
    pub fn working_memory(&self) -> f64 {
        let p = self.x.columns();
        let each = if self.options.quick {
            32 * p + 400
        } else {
            48 * p + 600
        };
        self.clusters() as f64 * each as f64
    }

    /// Number of clusters at the start.
    pub fn clusters(&self) -> usize {
        self.starts.len() - 1
    }

    /// The observations in a slot's cluster at the start.
    #[inline(always)]
    pub fn members_of(&self, slot: usize) -> &[u32] {
        &self.members[self.starts[slot]..self.starts[slot + 1]]
    }

    /// Mean and packed scatter of a slot's cluster at the start, its members taken one by one until
    /// `monitor` says stop.
    #[inline(always)]
    pub fn moments(&self, slot: usize, mean: &mut [f64], scatter: &mut [f64], monitor: &Monitor) {
        let members = self.members_of(slot);
        mean.copy_from_slice(self.x.row(members[0] as usize));
        scatter.fill(0.0);
        for (count, &member) in members.iter().enumerate().skip(1) {
            if monitor.stopped() {
                return;
            }
            shape::merge(count, mean, scatter, 1, self.x.row(member as usize), &[]);
        }
    }

    /// The least and the greatest value of all observations of the problem in each dimension.
    pub fn bounding_box(&self) -> (Vec<f64>, Vec<f64>) {
        bounding_box(self.rows(), self.x.columns())
    }

    /// The observations of all clusters.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        let row = |&member: &u32| self.x.row(member as usize);
        self.members.iter().map(row)
    }

    /// Whether a cluster can get another shape than the identity on the way to one. Where it cannot,
    /// all that counts is its mean, and its members.
    pub fn has_shapes(&self) -> bool {
        self.union == Union::Shape
            && self
                .options
                .may_have_shapes(self.members.len(), self.x.columns())
    }

    /// The diagonal of the bounding box, an upper bound on the distances of observations.
    pub fn diagonal(&self) -> f64 {
        let (least, greatest) = self.bounding_box();
        distance::to_cluster(&greatest, &least, &[])
    }
}

/// A clustering and where its apriori part ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Clustering {
    pub dendrogram: Dendrogram,
    /// How many merges, the first ones, lie within apriori clusters.
    pub apriori_merges: usize,
    /// For each of those, the label of its apriori cluster.
    pub apriori_labels: Vec<u32>,
}

/// Fourth powers of distances between values up to this magnitude do not overflow.
const LARGEST_VALUE: f64 = 1e70;

/// Clusters the rows of `x`.
///
/// `apriori` holds one label per observation, 0 for none; labels with one member count as none,
/// and where no cluster is left, or one holds everything, it is as if `apriori` were not given.
///
/// Takes O(n²p) time in practice and O(np + (n/3)p²) memory.
///
/// # Errors
/// `Error::Input` for a threshold that is not positive, labels of the wrong number, or values so
/// large that fourth powers of their distances overflow; what the backend returns otherwise.
pub fn cluster(
    x: &Matrix,
    apriori: Option<&[u32]>,
    options: &Options,
    backend: &dyn Backend,
    monitor: &Monitor,
) -> Result<Clustering> {
    check(x, apriori, options)?;
    let partition = apriori.and_then(Partition::new);
    match partition {
        None => {
            let problem = Problem::of_observations(x, (0..x.rows() as u32).collect(), *options);
            let merges = backend.agglomerate(&[problem], monitor)?;
            let mut tree = TreeBuilder::new(x.rows())?;
            let slots = memory::collected(memory::OBSERVATIONS, 0..x.rows() as u32)?;
            tree.append(&slots, &merges[0]);
            Ok(Clustering {
                dendrogram: tree.finish()?,
                apriori_merges: 0,
                apriori_labels: Vec::new(),
            })
        }
        Some(partition) => {
            let arranged = Arranged::new(x, &partition, backend)?;
            let inner = apriori::within(&arranged, options, backend, monitor)?;
            apriori::above(&arranged, &partition, &inner, options, backend, monitor)
        }
    }
}

/// Clusters within each apriori cluster, and nothing above: for each label that two observations or
/// more have, in increasing order, the merges of its observations, whose slots they are in their
/// order. The merges of a cluster do not depend on what else there is.
///
/// # Errors
/// As [`cluster`].
pub fn cluster_within(
    x: &Matrix,
    apriori: &[u32],
    options: &Options,
    backend: &dyn Backend,
    monitor: &Monitor,
) -> Result<Vec<Vec<Merge>>> {
    check(x, Some(apriori), options)?;
    let arranged = Arranged::new(x, &Partition::by_label(apriori), backend)?;
    apriori::within(&arranged, options, backend, monitor)
}

/// As [`cluster`] with apriori clusters, given what [`cluster_within`] found in all of them.
///
/// # Errors
/// As [`cluster`], and `Error::Input` where `inner` is not of these clusters, or where they amount
/// to none.
pub fn cluster_above(
    x: &Matrix,
    apriori: &[u32],
    inner: &[Vec<Merge>],
    options: &Options,
    backend: &dyn Backend,
    monitor: &Monitor,
) -> Result<Clustering> {
    check(x, Some(apriori), options)?;
    let partition = Partition::new(apriori)
        .ok_or_else(|| Error::Input("`apriori` has no clusters to go on from".into()))?;
    apriori::check_merges(&partition, inner)?;
    let arranged = Arranged::new(x, &partition, backend)?;
    apriori::above(&arranged, &partition, inner, options, backend, monitor)
}

/// What a clustering of `n` observations has to agglomerate.
pub fn workload(n: usize, apriori: Option<&[u32]>) -> Workload {
    match apriori.and_then(Partition::new) {
        None => Workload::Agglomeration {
            largest: n,
            small: 0,
            observations: 0,
        },
        Some(partition) => {
            let top = partition.clusters.len() + partition.loose.len();
            Workload::Agglomeration {
                largest: partition.sizes().max().unwrap_or(0).max(top),
                small: partition.clusters.len(),
                observations: partition.sizes().sum(),
            }
        }
    }
}

/// What is to agglomerate where the merges within apriori clusters are known.
pub fn workload_above(apriori: &[u32]) -> Workload {
    let partition = Partition::by_label(apriori);
    Workload::Agglomeration {
        largest: partition.clusters.len() + partition.loose.len(),
        small: 0,
        observations: 0,
    }
}

/// In more dimensions than this, memory and time are those of p × p matrices.
const WIDE: usize = 256;

/// Fewer than this many p × p covariances are held at a time, for each observation.
const SHAPES_PER_OBSERVATION: f64 = 0.1;

/// Where there are no more observations than dimensions, n·p³ must not exceed this, which takes about
/// an hour: all covariances are singular, and most likely the matrix is the wrong way round.
const MOST_DEGENERATE_WORK: f64 = 1e13;

/// That shapes in this many dimensions can be computed.
///
/// # Errors
/// `Error::Input` for many more dimensions than observations, `Error::Memory` where this machine has
/// too little.
fn check_width(x: &Matrix, options: &Options) -> Result<()> {
    let (rows, columns) = (x.rows(), x.columns());
    if columns <= WIDE || !options.may_have_shapes(rows, columns) {
        return Ok(());
    }
    let (n, p) = (rows as f64, columns as f64);
    // A scatter, a whitening factor and its forms in single precision; and what it takes to make one.
    let bytes = 12.0 * p * p * (SHAPES_PER_OBSERVATION * n).max(1.0) + 40.0 * p * p;
    let advice = "observations go in rows; reduce the dimensions first, for example to principal \
                  components";
    if rows <= columns && n * p * p * p > MOST_DEGENERATE_WORK {
        return Err(Error::Input(format!(
            "`X` has {rows} rows and {columns} columns, and every merge would factorise a {columns} × \
             {columns} covariance: {columns} columns need about {} and hours; {advice}",
            memory::in_words(bytes),
        )));
    }
    let what = format!("the covariances in {columns} dimensions need about");
    memory::check(&what, bytes).map_err(|error| match error {
        Error::Memory(message) => Error::Memory(format!("{message}; {advice}")),
        other => other,
    })
}

fn check(x: &Matrix, apriori: Option<&[u32]>, options: &Options) -> Result<()> {
    check_width(x, options)?;
    if !(options.threshold > 0.0 && options.threshold.is_finite()) {
        return Err(Error::Input(format!(
            "`threshold` is {}, it needs to be a positive number",
            options.threshold
        )));
    }
    if let Some(labels) = apriori {
        if labels.len() != x.rows() {
            return Err(Error::Input(format!(
                "`apriori` has {} labels, it needs one for each of the {} rows of `X`",
                labels.len(),
                x.rows()
            )));
        }
    }
    check_magnitude(x)
}

/// That powers of distances do not overflow.
///
/// # Errors
/// `Error::Input` where they do.
pub fn check_magnitude(x: &Matrix) -> Result<()> {
    check_largest(largest(x.values()))
}

/// The largest magnitude of a value.
pub fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0f64, |m, v| m.max(v.abs()))
}

/// As [`check_magnitude`], given the largest magnitude of a value.
///
/// # Errors
/// As there.
pub fn check_largest(largest: f64) -> Result<()> {
    if largest > LARGEST_VALUE {
        return Err(Error::Input(format!(
            "`X` has values of magnitude {largest:e}, whose fourth powers overflow; \
             rescale it to at most {LARGEST_VALUE:e}"
        )));
    }
    Ok(())
}
