//! cut_populations(): populations that valleys keep apart.

use std::cmp::Ordering;

use extendr_api::prelude::*;
use gmhclust_core::populations::{Condensed, Search, Separation};
use gmhclust_core::{dendrogram, Cpu, Error as CoreError, Monitor, Result as CoreResult};

use crate::job::Job;
use crate::memory::plan;
use crate::results::{integers_to_r, r_integer};
use crate::rvalue::{self, Values};
use crate::vector;

/// Bytes for each leaf, and for each observation.
const BYTES_PER_LEAF: usize = 72;
const BYTES_PER_OBSERVATION: usize = 8;

/// What a search found, by cluster from 0.
struct Found {
    clusters: usize,
    groups: Vec<Vec<usize>>,
    finer: Vec<Vec<usize>>,
    /// The depth of the valley of each split, from the top.
    valleys: Vec<f64>,
    separation: Vec<Separation>,
}

/// Starts to look for the populations of a tree.
/// @param x double matrix of finite values, observations in rows.
/// @param merge integer matrix, component `merge` of a valid hclust object.
/// @param members doubles: the members of each leaf.
/// @param leaf NULL, or integers: the leaf of each observation; NULL if they are the leaves.
/// @param node,split integers, as of condense().
/// @param chosen NULL, or integers: the population of each cluster of condense(), 0 for none.
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
    merge: Robj,
    members: Robj,
    leaf: Robj,
    node: Robj,
    split: Robj,
    chosen: Robj,
    finer: bool,
    threads: i32,
) -> Robj {
    let prepare = || {
        let (rows, columns) = rvalue::size(&x, "x")?;
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
        if observations != rows || columns == 0 {
            return Err(CoreError::Input("the data do not fit the tree".into()));
        }
        let threads = usize::try_from(threads).unwrap_or(1).max(1);
        Ok(move |monitor: &Monitor, values: &[f64]| {
            let compare = |a: u32, b: u32| {
                let columns = values.chunks_exact(rows);
                let mut pairs = columns.map(|column| (column[a as usize], column[b as usize]));
                let differ = pairs.find(|(a, b)| a != b);
                differ.map_or(Ordering::Equal, |(a, b)| a.total_cmp(&b))
            };
            let tree = Condensed::new(&merge, &members, leaf.as_deref(), &node, &split, compare)?;
            Cpu::new(threads)?.install(|| {
                let search = Search::new(&tree, values, rows, monitor);
                let by_cluster = search.split_valleys()?;
                let groups = match chosen {
                    Some(chosen) => chosen,
                    None => search.apart()?,
                };
                let fine = search.finer(&groups, &by_cluster);
                let separation = search.separation(if finer { &fine } else { &groups })?;
                let mut valleys = Vec::with_capacity(tree.len() / 2);
                valleys.resize(tree.len() / 2, f64::NAN);
                for (first, valley) in tree.children.iter().zip(&by_cluster) {
                    if let (Some(first), Some(valley)) = (first, valley) {
                        // The first of two clusters 2s and 2s + 1 from 1.
                        valleys[(first - 1) / 2] = *valley;
                    }
                }
                Ok(Found {
                    clusters: tree.len(),
                    groups,
                    finer: fine,
                    valleys,
                    separation,
                })
            })
        })
    };
    let (rows, work) = (rvalue::rows(&x), prepare());
    Job::start_reading(rows, x, work, found_to_r).into_r()
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

fn found_to_r(found: Found) -> CoreResult<Robj> {
    let numbers = |groups: &[Vec<usize>]| {
        let mut numbers = vec![0; found.clusters];
        for (group, clusters) in groups.iter().enumerate() {
            clusters
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
    fn job_populations;
}
