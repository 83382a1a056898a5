//! cut_populations(): populations that valleys keep apart.

use extendr_api::prelude::*;
use gmhclust_core::dendrogram::{self, Nodes};
use gmhclust_core::populations::hdbscan::{masses_and_outliers, ExitRule};
use gmhclust_core::populations::{
    condense, Cluster, CondensedTree, FoundPopulations, PopulationSearch,
};
use gmhclust_core::{Error as CoreError, Monitor, Result as CoreResult};

use crate::data::{Data, Rows};
use crate::job::Job;
use crate::memory::plan;
use crate::results::{integers_to_r, r_integer};
use crate::rvalue::{self, Values};
use crate::{arguments, vector};

/// Bytes that a search takes for each leaf.
const BYTES_PER_LEAF: usize = 72;
/// Bytes that a search takes for each observation.
const BYTES_PER_OBSERVATION: usize = 8;

/// Bytes that condensing a tree takes for each leaf.
const BYTES_PER_CONDENSED_LEAF: usize = 64;

/// Starts to find the clusters of a condensed tree.
/// @param merge integer matrix, component `merge` of a valid hclust object.
/// @param height doubles: the height of each merge.
/// @param members doubles: the members of each leaf.
/// @param least double: the smallest number of members of a cluster.
/// @param min_points double: 0, or `min_points` of a tree by mutual reachability distances.
/// @return External pointer to the job. Its value is list(node, parent, split, merge, size, mass,
///   outlier). By cluster: the node at which it begins, from 1; its parent, the number of the split
///   that divides it, and the merge that makes this split, 0 for none; its number of members; its
///   mass, see clusters_of_greatest_mass(). Of a tree by mutual reachability distances, the mass is
///   that of HDBSCAN, and `outlier` has the outlier score of each leaf; else, `outlier` is NULL.
/// @noRd
#[extendr]
fn job_condense(merge: Robj, height: Robj, members: Robj, least: f64, min_points: f64) -> Robj {
    let merge = Values::<i32>::of(&merge, "merge");
    let merges = merge.as_ref().map_or(0, |merge| merge.len() / 2);
    let prepare = || {
        plan(
            "condensing the tree needs",
            (BYTES_PER_CONDENSED_LEAF * merges) as f64,
        )?;
        let merge = dendrogram::merge_rows(&merge?)?;
        Ok(move |_: &Monitor, values: &[&[f64]]| {
            let (heights, members) = (values[0], values[1]);
            let nodes = Nodes::of(&merge);
            let sizes = nodes.sizes(members)?;
            let mut clusters = condense(nodes, &sizes, heights, least)?;
            let exit = match least > min_points {
                true => ExitRule::WithSide,
                false => ExitRule::Alone,
            };
            let outliers = (min_points > 0.0)
                .then(|| masses_and_outliers(nodes, &sizes, heights, least, exit, &mut clusters));
            Ok((clusters, outliers.transpose()?))
        })
    };
    Job::start_reading_all(merges, vec![height, members], prepare(), condensed_to_r).into_r()
}

fn condensed_to_r((clusters, outliers): (Vec<Cluster>, Option<Vec<f64>>)) -> CoreResult<Robj> {
    let integers = |of: fn(&Cluster) -> Option<usize>| {
        let number = |cluster| of(cluster).map_or(0, |number| r_integer(number) + 1);
        vector::integers(clusters.iter().map(number))
    };
    let doubles = |of: fn(&Cluster) -> f64| vector::doubles(clusters.iter().map(of));
    let outliers = outliers.map(|outliers| vector::doubles(outliers.into_iter()));
    rvalue::list([
        ("node", integers(|cluster| Some(cluster.node))?),
        ("parent", integers(|cluster| cluster.parent)?),
        (
            "split",
            integers(|cluster| cluster.split.map(|split| split.number))?,
        ),
        (
            "merge",
            integers(|cluster| cluster.split.map(|split| split.row))?,
        ),
        ("size", doubles(|cluster| cluster.size)?),
        ("mass", doubles(|cluster| cluster.mass)?),
        (
            "outlier",
            outliers.transpose()?.unwrap_or_else(rvalue::null),
        ),
    ])
}

/// Starts to look for the populations of a tree.
/// @param x as in job_gkmeans().
/// @param columns integers, the numbers of the columns to use.
/// @param merge integer matrix, component `merge` of a valid hclust object.
/// @param members doubles: the members of each leaf.
/// @param leaf NULL, or integers: the leaf of each observation; NULL if they are the leaves.
/// @param node,split integers, as in the value of job_condense().
/// @param chosen NULL, or integers: the population of each cluster of job_condense(), 0 for none.
/// @param finer whether `separation` is that of the finer level.
/// @param threads integer.
/// @return External pointer to the job. Its value is list(groups, finer, valleys, nearest,
///   separation): by cluster, the number of the population that it is part of, 0 for none, `chosen`
///   if given; the same of the finer level; by split, the depth of its valley; by population, the
///   most alike other one, and the depth of the valley towards it.
/// @noRd
#[extendr]
#[allow(clippy::too_many_arguments)]
fn job_populations(
    x: Robj,
    columns: Robj,
    merge: Robj,
    members: Robj,
    leaf: Robj,
    node: Robj,
    split: Robj,
    chosen: Robj,
    finer: bool,
    threads: i32,
) -> Robj {
    let prepare = |data: &Data| {
        let (rows, _) = data.dim()?;
        let used = arguments::numbers(&columns, "columns")?;
        let merge = Values::of(&merge, "merge")?;
        let bytes = BYTES_PER_LEAF * merge.len() / 2 + BYTES_PER_OBSERVATION * rows;
        plan("finding populations needs", bytes as f64)?;
        let merge = dendrogram::merge_rows(&merge)?;
        let members = Values::<f64>::of(&members, "members")?.to_vec();
        let leaf = Values::<i32>::of_optional(&leaf, "leaf")?.map(|leaf| leaf.to_vec());
        let node = Values::<i32>::of(&node, "node")?.to_vec();
        let split = Values::<i32>::of(&split, "split")?.to_vec();
        let chosen = Values::<i32>::of_optional(&chosen, "chosen")?;
        let chosen = chosen.map(|chosen| groups_of(&chosen));
        let observations = leaf.as_ref().map_or(members.len(), Vec::len);
        if observations != rows || used.is_empty() {
            return Err(CoreError::Input("the data do not fit the tree".into()));
        }
        Ok(move |monitor: &Monitor, x: Rows| {
            let x = x.columns(&used)?;
            let compare = |a: u32, b: u32| x.compare(a, b);
            let tree =
                CondensedTree::new(&merge, &members, leaf.as_deref(), &node, &split, compare)?;
            let search = PopulationSearch::new(&tree, &x, monitor);
            let found = arguments::cpu(threads)?.install(|| search.find(chosen, finer))?;
            Ok((tree.len(), found))
        })
    };
    Job::start_on(x, prepare, found_to_r).into_r()
}

/// The clusters of each group, from the number of the group of each cluster.
fn groups_of(chosen: &[i32]) -> Vec<Vec<usize>> {
    let count = chosen.iter().copied().max().unwrap_or(0).max(0) as usize;
    let mut groups = vec![Vec::new(); count];
    for (cluster, &group) in chosen.iter().enumerate() {
        if group > 0 {
            groups[group as usize - 1].push(cluster);
        }
    }
    groups
}

/// The populations found in a tree, given its number of clusters, as an R list.
fn found_to_r((clusters, found): (usize, FoundPopulations)) -> CoreResult<Robj> {
    let numbers = |groups: &[Vec<usize>]| {
        let mut numbers = vec![0; clusters];
        for (group, its_clusters) in groups.iter().enumerate() {
            its_clusters
                .iter()
                .for_each(|&c| numbers[c] = r_integer(group) + 1);
        }
        integers_to_r(numbers)
    };
    let nearest = found.separation.iter().map(|s| r_integer(s.nearest) + 1);
    rvalue::list([
        ("groups", numbers(&found.groups)?),
        ("finer", numbers(&found.finer)?),
        ("valleys", vector::doubles(found.valleys.iter().copied())?),
        ("nearest", vector::integers(nearest)?),
        (
            "separation",
            vector::doubles(found.separation.iter().map(|s| s.valley))?,
        ),
    ])
}

extendr_module! {
    mod populations;
    fn job_condense;
    fn job_populations;
}
