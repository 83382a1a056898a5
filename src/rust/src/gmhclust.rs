//! gmhclust(): Mahalanobis-average clustering.

use std::sync::Arc;

use extendr_api::prelude::*;
use gmhclust_core::mahalanobis::{
    self, AprioriPartition, Clusterer, Clustering, Distance, Options, SingularMerges, Subthreshold,
};
use gmhclust_core::{memory, Cpu, Error as CoreError, Merge, Monitor, Result as CoreResult};
use gmhclust_engine::{Engine, Workload};

use crate::arguments::Fields;
use crate::data::{Data, Rows};
use crate::job::{return_free_memory, Job};
use crate::memory::plan;
use crate::results::{components_to_r, r_integer};
use crate::rvalue::{self, Values};
use crate::{device, vector};

/// First words of a memory error about the smallest need of a clustering: a copy of the data, and
/// the tree. The device checks its own memory.
const TREE: &str = "the observations and their tree need";

/// Bytes per observation of a tree, including its copy in R.
const BYTES_PER_LEAF: usize = 60;

/// Starts a Mahalanobis-average clustering.
/// @param x as in job_gkmeans().
/// @param options list(threshold, subthreshold, distance, normalize, apriori_intra): a double, in
///   members; the names of a kind and of a distance, as for gmhclust(); flags.
/// @param apriori NULL, or an integer code for each observation; 0 means none.
/// @param inner NULL, or the merges within all apriori clusters, one cluster after the other, as in
///   the value of job_gmhclust_within().
/// @param device list(backend, threads, devices), made by check_device(): one of "auto", "cpu",
///   "cuda"; an integer, at least 1; NULL or the numbers of CUDA devices, from 0.
/// @return External pointer to the job.
/// @noRd
#[extendr]
fn job_gmhclust(
    x: Robj,
    options: List,
    apriori: Robj,
    inner: Nullable<List>,
    device: List,
) -> Robj {
    let prepare = |data: &Data| {
        let (n, columns) = data.dim()?;
        let each = BYTES_PER_LEAF + data.bytes_per_value() * columns;
        plan(TREE, (n * each) as f64)?;
        let options = options_of(&options)?;
        let apriori = Values::of_optional(&apriori, "apriori")?;
        let apriori = apriori.map(|codes| apriori_codes(&codes, n)).transpose()?;
        let inner = match (&apriori, &inner) {
            (Some(_), Nullable::NotNull(inner)) => Some(inner_merges(inner)?),
            _ => None,
        };
        let choice = device::choice(&device)?;
        Ok(move |monitor: &Monitor, rows: Rows| {
            let cpu = Arc::new(Cpu::new(choice.threads)?);
            let partition = cpu.install(|| match (apriori, &inner) {
                (Some(codes), Some(_)) => AprioriPartition::by_label(&codes).map(Some),
                (Some(codes), None) => AprioriPartition::new(&codes),
                (None, _) => Ok(None),
            })?;
            let work = match (&partition, &inner) {
                (Some(partition), Some(_)) => {
                    Workload::clustering_above(partition, columns, options.distance)
                }
                (partition, _) => {
                    Workload::clustering(n, columns, partition.as_ref(), options.distance)
                }
            };
            let engine = Engine::with_cpu(&choice, cpu, &work)?;
            let (x, cpu) = (rows.input(), engine.cpu());
            let mut clusterer = match (partition, inner) {
                (Some(partition), Some(inner)) => {
                    let inner = by_cluster(inner, &partition);
                    Clusterer::from_inner_merges(x, partition, inner, &options, cpu)
                }
                (partition, _) => Clusterer::new(x, partition, &options, cpu),
            }?;
            clusterer.check_memory()?;
            clusterer.announce(monitor);
            engine.run(monitor, |on| clusterer.merge_within(on, monitor))?;
            // The upper tree needs memory, too.
            return_free_memory(n);
            engine.run(monitor, |on| clusterer.merge(on, monitor))?;
            let singular = clusterer.count_singular(cpu, monitor)?;
            let clustering = clusterer.tree(cpu)?;
            Ok((clustering, singular, engine))
        })
    };
    Job::start_on(x, prepare, clustering_to_r).into_r()
}

/// Starts to cluster within apriori clusters only, not above them.
/// @param x,options as in job_gmhclust().
/// @param apriori an integer code for each observation; every code occurs at least twice.
/// @param device as in job_gmhclust().
/// @return External pointer to the job.
/// @noRd
#[extendr]
fn job_gmhclust_within(x: Robj, options: List, apriori: Robj, device: List) -> Robj {
    let prepare = |data: &Data| {
        let (n, columns) = data.dim()?;
        let each = BYTES_PER_LEAF + data.bytes_per_value() * columns;
        plan(TREE, (n * each) as f64)?;
        let options = options_of(&options)?;
        let apriori = apriori_codes(&Values::of(&apriori, "apriori")?, n)?;
        let choice = device::choice(&device)?;
        Ok(move |monitor: &Monitor, rows: Rows| {
            let cpu = Arc::new(Cpu::new(choice.threads)?);
            let partition = cpu.install(|| AprioriPartition::by_label(&apriori))?;
            let work = Workload::clustering(n, columns, Some(&partition), options.distance);
            let engine = Engine::with_cpu(&choice, cpu, &work)?;
            let mut within = Clusterer::new(rows.input(), Some(partition), &options, engine.cpu())?;
            engine.run(monitor, |on| within.merge_within(on, monitor))?;
            within.into_inner()
        })
    };
    Job::start_on(x, prepare, merges_to_r).into_r()
}

/// Limit on the cost of clustering a matrix that has no more rows than columns.
/// @return The largest n * p^3 that job_gmhclust() accepts for n rows and p columns, n <= p, unless
///   its options make no covariance. NULL if R has no memory for it.
/// @noRd
#[extendr]
fn gmhclust_degenerate_limit() -> Robj {
    vector::double(mahalanobis::MOST_DEGENERATE_WORK).unwrap_or_else(|_| rvalue::null())
}

/// The options of a clustering, from the list of job_gmhclust().
///
/// # Errors
/// `Error::Input` if an option is missing or has another type.
pub fn options_of(list: &List) -> CoreResult<Options> {
    let fields = Fields::new("options", list);
    let subthreshold: String = fields.get("subthreshold")?;
    let distance: String = fields.get("distance")?;
    Ok(Options {
        threshold: fields.get("threshold")?,
        subthreshold: Subthreshold::new(&subthreshold)?,
        distance: Distance::new(&distance)?,
        normalize: fields.get("normalize")?,
        apriori_intra: fields.get("apriori_intra")?,
    })
}

/// The codes of `n` observations.
///
/// # Errors
/// `Error::Input` if they are negative or not one for each observation, and `Error::Memory`.
pub fn apriori_codes(codes: &[i32], n: usize) -> CoreResult<Vec<u32>> {
    if codes.len() != n || codes.iter().any(|&code| code < 0) {
        let message = "`apriori` has codes that are missing or negative, or not one for each row";
        return Err(CoreError::Input(message.into()));
    }
    memory::collected("the codes need", codes.iter().map(|&code| code as u32))
}

/// The merges of all apriori clusters, from R's list of them.
fn inner_merges(inner: &List) -> CoreResult<Vec<Merge>> {
    let bad = || CoreError::Input("`inner` is no list of merges".into());
    let fields = Fields::new("inner", inner);
    let slots = |name: &str| -> CoreResult<Vec<u32>> {
        let slots = Values::<i32>::of(&fields.object(name)?, name)?;
        let slot = |&slot: &i32| u32::try_from(slot - 1).map_err(|_| bad());
        slots.iter().map(slot).collect()
    };
    let (lower, higher) = (slots("lower")?, slots("higher")?);
    let height = Values::<f64>::of(&fields.object("height")?, "height")?;
    let merges = lower.into_iter().zip(higher).zip(height.iter().copied());
    let merge = |((lower, higher), height)| Merge {
        lower,
        higher,
        height,
    };
    Ok(merges.map(merge).collect())
}

/// The merges of each apriori cluster, given those of one cluster after the other.
fn by_cluster(merges: Vec<Merge>, partition: &AprioriPartition) -> Vec<Vec<Merge>> {
    let mut merges = merges.into_iter();
    let of_clusters = partition.sizes();
    of_clusters
        .map(|size| merges.by_ref().take(size - 1).collect())
        .collect()
}

/// The merges within apriori clusters, one cluster after the other. Slots count from 1.
fn merges_to_r(inner: Vec<Vec<Merge>>) -> CoreResult<Robj> {
    let count = inner.iter().map(Vec::len).sum();
    let merges = || Counted(inner.iter().flatten(), count);
    let slots = |slot: fn(&Merge) -> u32| {
        vector::integers(merges().map(|merge| r_integer(slot(merge)) + 1))
    };
    rvalue::list([
        ("lower", slots(|merge| merge.lower)?),
        ("higher", slots(|merge| merge.higher)?),
        (
            "height",
            vector::doubles(merges().map(|merge| merge.height))?,
        ),
    ])
}

/// An iterator with a known number of items, for iterators that do not know theirs.
struct Counted<I>(I, usize);

impl<I: Iterator> Iterator for Counted<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        self.1 = self.1.saturating_sub(1);
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.1, Some(self.1))
    }
}

impl<I: Iterator> ExactSizeIterator for Counted<I> {}

fn clustering_to_r(
    (clustering, singular, engine): (Clustering, SingularMerges, Engine),
) -> CoreResult<Robj> {
    let Clustering {
        dendrogram,
        apriori_merges,
        apriori_labels,
    } = clustering;
    let cpu = engine.cpu();
    let [merge, height, order] = components_to_r(&dendrogram, cpu)?;
    let label = |merge: usize| r_integer(apriori_labels[merge]);
    let labels = vector::integers_on_threads(apriori_merges, label, cpu)?;
    rvalue::list([
        ("merge", merge),
        ("height", height),
        ("order", order),
        (
            "n_height_apriori",
            vector::integer(r_integer(apriori_merges))?,
        ),
        ("g_labels", labels),
        ("full_size", vector::integer(r_integer(singular.full_size))?),
        ("singular", vector::integer(r_integer(singular.singular))?),
        ("backend", rvalue::string(engine.name())?),
    ])
}

extendr_module! {
    mod clustering;
    fn job_gmhclust;
    fn job_gmhclust_within;
    fn gmhclust_degenerate_limit;
}
