//! ghclust(): hierarchical clustering by linkage.

use extendr_api::prelude::*;
use gmhclust_core::dendrogram::Dendrogram;
use gmhclust_core::linkage::{
    matrix, points, DissimilaritySource, Linkage, Recurrence, StoredPrecision,
};
use gmhclust_core::{memory, Monitor, Result as CoreResult};
use gmhclust_engine::{Engine, Workload};

use crate::job::Job;
use crate::memory::plan;
use crate::results::tree_to_r;
use crate::rvalue::{self, Values};
use crate::spanning::Spanning;
use crate::{arguments, device, vector};

/// First words of a memory error about the smallest need of a linkage: copies of data, and the
/// tree. The device checks its own memory.
const TREE: &str = "the observations and their tree need";

/// Bytes per observation of a tree, including its copy in R.
const BYTES_PER_LEAF: usize = 60;

/// Starts linkage of observations with given dissimilarities.
/// @param x double vector, the values of a dist object.
/// @param n integer, its number of observations.
/// @param method the full name of a linkage, as in hclust().
/// @param members NULL, or doubles, the number of members of each observation.
/// @param single whether to keep dissimilarities in single precision.
/// @param device as in job_gmhclust().
/// @return External pointer to the job.
/// @noRd
#[extendr]
fn job_ghclust_dist(
    x: Robj,
    n: i32,
    method: &str,
    members: Robj,
    single: bool,
    device: List,
) -> Robj {
    let n = usize::try_from(n).unwrap_or(0);
    let prepare = || {
        let recurrence = recurrence(method, single)?;
        let choice = device::choice(&device)?;
        plan(TREE, (BYTES_PER_LEAF * n) as f64)?;
        let members = members_of(&members)?;
        Ok(move |monitor: &Monitor, values: &[f64]| {
            let engine = Engine::new(&choice, &Workload::linkage(recurrence.linkage, n))?;
            let source = DissimilaritySource::Given(values);
            let tree = engine.run(monitor, |on| {
                matrix::linkage(source, n, recurrence, members.clone(), on, monitor)
            })?;
            Ok((tree, engine))
        })
    };
    Job::start_reading(n, x, prepare(), tree_to_r).into_r()
}

/// Starts linkage of observations by their distances.
/// @param x double matrix of finite values, observations in rows.
/// @param method,members,single as in job_ghclust_dist().
/// @param metric as in job_gdist().
/// @param spanning as in job_gmst() with `method` "single"; otherwise list(1L, NULL).
/// @param device as in job_gmhclust().
/// @return External pointer to the job.
/// @noRd
#[extendr]
fn job_ghclust_points(
    x: Robj,
    method: &str,
    members: Robj,
    single: bool,
    metric: List,
    spanning: List,
    device: List,
) -> Robj {
    let prepare = || {
        let recurrence = recurrence(method, single)?;
        let metric = arguments::metric("metric", &metric)?;
        let choice = device::choice(&device)?;
        let (n, columns) = rvalue::size(&x, "x")?;
        plan(TREE, (n * (BYTES_PER_LEAF + 16 * columns)) as f64)?;
        let members = members_of(&members)?;
        let Spanning { min_points, known } = Spanning::of(&spanning)?;
        Ok(move |monitor: &Monitor, values: &[f64]| {
            let (linkage, with_members) = (recurrence.linkage, members.is_some());
            let work = Workload::linkage_of_points(linkage, &metric, with_members, n, columns);
            let engine = Engine::new(&choice, &work)?;
            let x = vector::observations(values, columns, engine.cpu())?;
            let (tree, cores) = engine.run(monitor, |on| {
                if let Some(known) = &known {
                    return points::single_from_neighbours(
                        &x, metric, min_points, known, on, monitor,
                    );
                }
                if min_points > 1 {
                    let (tree, cores) =
                        points::reachability_linkage(&x, metric, min_points, on, monitor)?;
                    return Ok((tree, Some(cores)));
                }
                let tree = points::linkage(&x, metric, recurrence, members.clone(), on, monitor)?;
                Ok((tree, None))
            })?;
            Ok(((tree, engine), cores))
        })
    };
    let work = prepare();
    Job::start_reading(rvalue::rows(&x), x, work, tree_and_cores_to_r).into_r()
}

/// A tree, and the core distances of its leaves, or NULL.
fn tree_and_cores_to_r(
    (tree, cores): ((Dendrogram, Engine), Option<Vec<f64>>),
) -> CoreResult<Robj> {
    let cores = cores.map(|cores| vector::doubles(cores.into_iter()));
    rvalue::list([
        ("tree", tree_to_r(tree)?),
        ("core", cores.transpose()?.unwrap_or_else(rvalue::null)),
    ])
}

fn recurrence(method: &str, single: bool) -> CoreResult<Recurrence> {
    Ok(Recurrence {
        linkage: Linkage::new(method)?,
        precision: if single {
            StoredPrecision::Single
        } else {
            StoredPrecision::Double
        },
    })
}

/// A copy of `members`, or `None` for NULL.
fn members_of(members: &Robj) -> CoreResult<Option<Vec<f64>>> {
    let members = Values::of_optional(members, "members")?;
    let copied = |members: &Values<f64>| memory::copied("the numbers of members need", members);
    members.as_ref().map(copied).transpose()
}

extendr_module! {
    mod ghclust;
    fn job_ghclust_dist;
    fn job_ghclust_points;
}
