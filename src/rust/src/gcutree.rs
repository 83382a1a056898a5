//! gcutree(), and functions that order and check the leaves of any tree.

use extendr_api::prelude::*;
use gmhclust_core::{cut, dendrogram, Monitor};

use crate::job::Job;
use crate::memory::plan;
use crate::results::integers_to_r;

/// Starts to cut a tree into clusters.
/// @param merge integer matrix, component `merge` of a valid hclust object.
/// @param k integers: the number of clusters of each cut.
/// @return External pointer to the job. Its value is the cluster number of each observation, one
///   cut after the other.
/// @noRd
#[extendr]
fn job_cut_tree(merge: RMatrix<i32>, k: Vec<i32>) -> ExternalPtr<Job> {
    let prepare = || {
        // The tree and its clusters, and the cuts, once here and once in R.
        let bytes = merge.nrows() * (24 + 8 * k.len());
        plan("cutting the tree needs", bytes as f64)?;
        let merge = dendrogram::merge_rows(merge.data())?;
        Ok(move |monitor: &Monitor| {
            let clusters = k.iter().map(|&k| usize::try_from(k).unwrap_or(0));
            cut::cuts(&merge, clusters, monitor)
        })
    };
    ExternalPtr::new(Job::start(merge.nrows(), prepare(), integers_to_r))
}

/// Starts to order the leaves of a tree so that no branches cross.
/// @param merge as in job_cut_tree().
/// @return External pointer to the job. Its value is component `order` of the hclust object.
/// @noRd
#[extendr]
fn job_leaf_order(merge: RMatrix<i32>) -> ExternalPtr<Job> {
    let prepare = || {
        let merge = dendrogram::merge_rows(merge.data())?;
        Ok(move |_: &Monitor| dendrogram::leaf_order(&merge))
    };
    ExternalPtr::new(Job::start(merge.nrows(), prepare(), integers_to_r))
}

/// Starts to search for crossing branches.
/// @param merge as in job_cut_tree().
/// @param order integers, a permutation of the observations.
/// @return External pointer to the job. Its value is the numbers of the merges whose branches
///   cross.
/// @noRd
#[extendr]
fn job_crossings(merge: RMatrix<i32>, order: Vec<i32>) -> ExternalPtr<Job> {
    let prepare = || {
        let merge = dendrogram::merge_rows(merge.data())?;
        Ok(move |_: &Monitor| dendrogram::crossings(&merge, &order))
    };
    ExternalPtr::new(Job::start(merge.nrows(), prepare(), integers_to_r))
}

extendr_module! {
    mod gcutree;
    fn job_cut_tree;
    fn job_leaf_order;
    fn job_crossings;
}
