//! gcutree(), and functions that order and check the leaves of any tree.

use extendr_api::prelude::*;
use gmhclust_core::{cut, dendrogram, Monitor, Result as CoreResult};

use crate::job::Job;
use crate::memory::plan;
use crate::results::integers_to_r;
use crate::rvalue::Values;

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
    let merge = Values::of(&merge, "merge");
    let merges = merges(&merge);
    let prepare = || {
        let merge = dendrogram::merge_rows(&merge?)?;
        Ok(move |_: &Monitor| dendrogram::leaf_order(&merge))
    };
    Job::start(merges, prepare(), integers_to_r).into_r()
}

/// Starts to search for crossing branches.
/// @param merge as in job_cut_tree().
/// @param order integers, a permutation of the observations.
/// @return External pointer to the job. Its value is the numbers of the merges whose branches
///   cross.
/// @noRd
#[extendr]
fn job_crossings(merge: Robj, order: Robj) -> Robj {
    let merge = Values::of(&merge, "merge");
    let merges = merges(&merge);
    let prepare = || {
        let merge = dendrogram::merge_rows(&merge?)?;
        let order = Values::<i32>::of(&order, "order")?.to_vec();
        Ok(move |_: &Monitor| dendrogram::crossings(&merge, &order))
    };
    Job::start(merges, prepare(), integers_to_r).into_r()
}

/// The number of merges, for the size of the memory reserve.
fn merges(merge: &CoreResult<Values<i32>>) -> usize {
    merge.as_ref().map_or(0, |merge| merge.len() / 2)
}

extendr_module! {
    mod gcutree;
    fn job_cut_tree;
    fn job_leaf_order;
    fn job_crossings;
}
