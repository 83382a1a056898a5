//! gcutree(), and functions that order and check the leaves of any tree.

use extendr_api::prelude::*;
use gmhclust_core::dendrogram::{self, Faults, Nodes};
use gmhclust_core::{
    cut, memory, optimal_order, Error as CoreError, Monitor, Result as CoreResult,
};

use crate::arguments;
use crate::job::Job;
use crate::memory::plan;
use crate::results::{integers_to_r, r_integer};
use crate::rvalue::{self, Values};
use crate::vector;

/// Starts to cut a tree into clusters.
/// @param merge integer matrix, component `merge` of a valid hclust object.
/// @param k integers: the number of clusters of each cut.
/// @return External pointer to the job. Its value is the cluster number of each observation, one
///   cut after the other.
/// @noRd
#[extendr]
fn job_cut_tree(merge: Robj, k: Robj) -> Robj {
    let merge = Values::of(&merge, "merge");
    let merges = merges(&merge);
    let prepare = || {
        let merge = merge?;
        let k = Values::<i32>::of(&k, "k")?.to_vec();
        // The tree and its clusters, and two copies of the cuts, here and in R.
        let bytes = merge.len() / 2 * (24 + 8 * k.len());
        plan("cutting the tree needs", bytes as f64)?;
        let merge = dendrogram::merge_rows(&merge)?;
        Ok(move |monitor: &Monitor| {
            let clusters = k.iter().map(|&k| usize::try_from(k).unwrap_or(0));
            cut::cuts(&merge, clusters, monitor)
        })
    };
    Job::start(merges, prepare(), integers_to_r).into_r()
}

/// Starts to order the leaves of a tree so that no branches cross.
/// @param merge as in job_cut_tree().
/// @return External pointer to the job. Its value is component `order` of the hclust object.
/// @noRd
#[extendr]
fn job_leaf_order(merge: Robj) -> Robj {
    let prepare = |merge: MergeRows| Ok(move |_: &Monitor| dendrogram::leaf_order(&merge));
    start_on_tree(&merge, prepare, integers_to_r)
}

/// Starts to order the leaves of a tree so that neighbours are close to each other.
/// @param merge as in job_cut_tree(), its first column on the left.
/// @param distances doubles: the finite values of a dist object of the leaves.
/// @param threads integer.
/// @return External pointer to the job. Its value is component `order` of the hclust object.
/// @noRd
#[extendr]
fn job_optimal_order(merge: Robj, distances: Robj, threads: i32) -> Robj {
    let merge = Values::of(&merge, "merge");
    let merges = merges(&merge);
    let prepare = || {
        let merge = merge?;
        plan(
            "ordering the leaves needs",
            optimal_order::bytes(merges + 1),
        )?;
        let merge = dendrogram::merge_rows(&merge)?;
        Ok(move |monitor: &Monitor, distances: &[f64]| {
            let cpu = arguments::cpu(threads)?;
            cpu.install(|| optimal_order::optimal_order(&merge, distances, monitor))
        })
    };
    Job::start_reading(merges, distances, prepare(), integers_to_r).into_r()
}

/// Starts to check a tree.
/// @param merge integer matrix of two columns with at least one row.
/// @param order integers.
/// @return External pointer to the job. Its value is a list of the fields of `Faults`: integers,
///   except `has_all`, a flag.
/// @noRd
#[extendr]
fn job_tree_faults(merge: Robj, order: Robj) -> Robj {
    let prepare = |merge: MergeRows| {
        let order = copied_order(&order)?;
        Ok(move |_: &Monitor| Faults::of(&merge, &order))
    };
    start_on_tree(&merge, prepare, faults_to_r)
}

fn faults_to_r(faults: Faults) -> CoreResult<Robj> {
    rvalue::list([
        ("unknown", integers_to_r(faults.unknown)?),
        ("repeated", integers_to_r(faults.repeated)?),
        ("missing", integers_to_r(faults.missing)?),
        ("early", integers_to_r(faults.early)?),
        ("has_all", rvalue::logical(faults.has_all)),
        ("crossing", integers_to_r(faults.crossing)?),
    ])
}

/// Number of heights that are below an earlier one. The caller suspends interrupts.
/// @param height doubles.
/// @return integer; NULL if R cannot give the values.
/// @noRd
#[extendr]
fn inversions_of(height: Robj) -> Robj {
    let count = Values::<f64>::of(&height, "height")
        .and_then(|height| vector::integer(r_integer(dendrogram::inversions(&height))));
    count.unwrap_or_else(|_| rvalue::null())
}

/// Starts to check that merges join parts of their own cluster.
/// @param merge as in job_cut_tree().
/// @param leaves integers: the cluster of each observation.
/// @param merges integers: the cluster of each of the first merges, at most all.
/// @return External pointer to the job. Its value is a flag.
/// @noRd
#[extendr]
fn job_joins_own(merge: Robj, leaves: Robj, merges: Robj) -> Robj {
    let prepare = |merge: MergeRows| {
        let copy = |values: &Robj, name| {
            memory::copied(
                "a copy of the clusters needs",
                &Values::<i32>::of(values, name)?,
            )
        };
        let (leaves, merges) = (copy(&leaves, "leaves")?, copy(&merges, "merges")?);
        if leaves.len() != merge.len() + 1 || merges.len() > merge.len() {
            return Err(CoreError::Input(
                "`leaves` or `merges` does not fit the tree".into(),
            ));
        }
        Ok(move |_: &Monitor| Ok(dendrogram::joins_own(&merge, &leaves, &merges)))
    };
    start_on_tree(&merge, prepare, |own| Ok(rvalue::logical(own)))
}

/// Starts to count the members of the nodes of a tree. Nodes are the n leaves, then the merges.
/// @param merge as in job_cut_tree().
/// @param members doubles: the members of each leaf.
/// @return External pointer to the job. Its value is the number of members of each node, doubles.
/// @noRd
#[extendr]
fn job_node_sizes(merge: Robj, members: Robj) -> Robj {
    let merge = Values::of(&merge, "merge");
    let merges = merges(&merge);
    let prepare = || {
        let merge = dendrogram::merge_rows(&merge?)?;
        Ok(move |_: &Monitor, members: &[f64]| Nodes::of(&merge).sizes(members))
    };
    let to_r = |sizes: Vec<f64>| vector::doubles(sizes.into_iter());
    Job::start_reading(merges, members, prepare(), to_r).into_r()
}

/// Starts to find the places of the nodes of a tree in an order of its leaves.
/// @param merge as in job_cut_tree().
/// @param order integers: all leaves.
/// @return External pointer to the job. Its value is list(first, last), integers: for each node,
///   the places of its first and its last leaf.
/// @noRd
#[extendr]
fn job_node_places(merge: Robj, order: Robj) -> Robj {
    let prepare = |merge: MergeRows| {
        let order = copied_order(&order)?;
        Ok(move |_: &Monitor| Nodes::of(&merge).places(&order))
    };
    let to_r = |(first, last)| {
        rvalue::list([
            ("first", integers_to_r(first)?),
            ("last", integers_to_r(last)?),
        ])
    };
    start_on_tree(&merge, prepare, to_r)
}

/// Starts to find the innermost of some nodes around each leaf of a tree.
/// @param merge as in job_cut_tree().
/// @param nodes integers from 1; a node comes after all nodes that contain it.
/// @return External pointer to the job. Its value is, for each leaf, the index in `nodes` of the
///   last one that contains it, 0 for none.
/// @noRd
#[extendr]
fn job_leaves_inside(merge: Robj, nodes: Robj) -> Robj {
    let prepare = |merge: MergeRows| {
        let nodes = arguments::numbers(&nodes, "nodes")?;
        Ok(move |_: &Monitor| Nodes::of(&merge).around_leaves(nodes.into_iter()))
    };
    start_on_tree(&merge, prepare, integers_to_r)
}

/// The rows of component `merge`.
type MergeRows = Vec<[i32; 2]>;

/// Starts a job on a tree. `prepare` makes the work from the rows of R's matrix `merge`.
fn start_on_tree<T, W>(
    merge: &Robj,
    prepare: impl FnOnce(MergeRows) -> CoreResult<W>,
    to_r: fn(T) -> CoreResult<Robj>,
) -> Robj
where
    T: Send + 'static,
    W: FnOnce(&Monitor) -> CoreResult<T> + Send + 'static,
{
    let merge = Values::of(merge, "merge");
    let merges = merges(&merge);
    let work = merge.and_then(|merge| prepare(dendrogram::merge_rows(&merge)?));
    Job::start(merges, work, to_r).into_r()
}

fn copied_order(order: &Robj) -> CoreResult<Vec<i32>> {
    let order = Values::<i32>::of(order, "order")?;
    memory::copied("a copy of the order needs", &order)
}

/// The number of merges, for the size of the memory reserve.
fn merges(merge: &CoreResult<Values<i32>>) -> usize {
    merge.as_ref().map_or(0, |merge| merge.len() / 2)
}

extendr_module! {
    mod gcutree;
    fn job_cut_tree;
    fn job_leaf_order;
    fn job_optimal_order;
    fn job_tree_faults;
    fn job_joins_own;
    fn job_node_sizes;
    fn job_node_places;
    fn job_leaves_inside;
    fn inversions_of;
}
