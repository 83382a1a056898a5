//! Searches a condensed tree for groups of clusters that valleys keep apart.

use std::sync::Arc;

use rayon::prelude::*;

use super::columns::Columns;
use super::condensed_tree::CondensedTree;
use super::moments::{mean, Centred};
use super::valley::{Group, Valley, ENOUGH_POINTS};
use crate::error::Result;
use crate::monitor::Monitor;

/// Balanced depth of a valley below which two groups are apart, if the weighted depth is below
/// [`MAX_WEIGHTED_DEPTH`], too. The mean F1 score was within 0.005 of its best from 0.3 to 0.35.
/// Above 0.4, single populations were divided; below 0.25, some populations were missed.
///
/// This constant and the next three were chosen with a first version in R, on the cells of
/// `inst/benchmarks/populations.R`; no script in this repository varies them.
const MAX_BALANCED_DEPTH: f64 = 0.3;
/// Weighted depth that goes with [`MAX_BALANCED_DEPTH`]: with the same weight for both sides, the
/// thin tail of a skewed population looks like a population of its own. Without this limit, skewed
/// clouds were divided.
const MAX_WEIGHTED_DEPTH: f64 = 0.7;
/// Balanced depth below which two groups are apart, if the weighted depth is below
/// [`MAX_WEIGHTED_DEPTH_OF_SMALL_SIDE`], too: a side of 20 points has a wide kernel, which fills a
/// valley. Without this limit, 20 cells among 20,000 were mostly missed.
const MAX_BALANCED_DEPTH_OF_SMALL_SIDE: f64 = 0.5;
/// Weighted depth that goes with [`MAX_BALANCED_DEPTH_OF_SMALL_SIDE`].
const MAX_WEIGHTED_DEPTH_OF_SMALL_SIDE: f64 = 0.1;

/// The finer level stops at the first split from the top with at least this depth of the valley,
/// which is hardly a valley.
const NO_VALLEY_DEPTH: f64 = 0.9;

/// Smallest share of a cluster's members that must be left below a split for a finer level. If less
/// is left, most members would be in no population.
const MIN_SHARE_LEFT: f64 = 0.25;

/// The similarity of two groups: above 0, they belong together; otherwise they are apart.
fn similarity(valley: Valley) -> f64 {
    /// Factor of the weighted depth, so that the balanced depth mostly decides which groups are
    /// most similar. It does not decide whether groups are apart: only the sign matters there.
    const WEIGHTED: f64 = 0.1;

    if valley.weighted < MAX_WEIGHTED_DEPTH_OF_SMALL_SIDE
        && valley.balanced < MAX_BALANCED_DEPTH_OF_SMALL_SIDE
    {
        return valley.balanced - MAX_BALANCED_DEPTH_OF_SMALL_SIDE;
    }
    (valley.balanced - MAX_BALANCED_DEPTH).max(WEIGHTED * (valley.weighted - MAX_WEIGHTED_DEPTH))
}

/// The depth that decides about a valley: the balanced depth, unless only the weighted depth keeps
/// its sides apart.
fn deciding_depth(valley: Valley) -> f64 {
    let is_small = valley.weighted < MAX_WEIGHTED_DEPTH_OF_SMALL_SIDE
        && (MAX_BALANCED_DEPTH..MAX_BALANCED_DEPTH_OF_SMALL_SIDE).contains(&valley.balanced);
    if is_small {
        valley.weighted
    } else {
        valley.balanced
    }
}

/// The separation of a population from the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Separation {
    /// The most similar other population.
    pub nearest: usize,
    /// The depth of the valley between the two.
    pub valley: f64,
}

/// The populations of a condensed tree, as numbers of its clusters.
#[derive(Debug)]
pub struct FoundPopulations {
    /// The clusters of each population: the given groups, or the groups that valleys keep apart.
    pub groups: Vec<Vec<usize>>,
    /// The clusters of each population of the finer level.
    pub finer: Vec<Vec<usize>>,
    /// The depth of the valley of each split, from the top.
    pub valleys: Vec<f64>,
    /// By population; empty if there is only one.
    pub separation: Vec<Separation>,
}

/// A search for the populations of a condensed tree.
pub struct PopulationSearch<'a> {
    tree: &'a CondensedTree,
    x: &'a Columns<'a>,
    /// By column: the centre and the unit of the values that valleys are computed from.
    scale: Vec<(f64, f64)>,
    monitor: &'a Monitor,
}

/// A group of clusters, in the order of the tree.
#[derive(Clone)]
struct ClusterGroup {
    clusters: Vec<usize>,
    group: Arc<Group>,
}

impl<'a> PopulationSearch<'a> {
    /// A search in a tree of the observations `x`.
    pub fn new(tree: &'a CondensedTree, x: &'a Columns<'a>, monitor: &'a Monitor) -> Self {
        let mut search = Self {
            tree,
            x,
            scale: Vec::new(),
            monitor,
        };
        search.scale = (0..x.count()).map(|j| search.scale_of(j)).collect();
        search
    }

    /// Finds the populations: the groups of clusters that are `given`, or the groups that valleys
    /// keep apart. `separation` describes these populations or, if `of_finer`, the populations of
    /// the finer level. Works on the threads of the calling pool.
    ///
    /// # Errors
    /// `Error::Interrupt`, and `Error::Memory` in a shortage.
    pub fn find(&self, given: Option<Vec<Vec<usize>>>, of_finer: bool) -> Result<FoundPopulations> {
        let valleys = self.split_valleys()?;
        let groups = match given {
            Some(groups) => groups,
            None => self.apart()?,
        };
        let finer = self.finer(&groups, &valleys);
        let separation = self.separation(if of_finer { &finer } else { &groups })?;
        Ok(FoundPopulations {
            groups,
            finer,
            valleys,
            separation,
        })
    }

    /// The mean and the standard deviation of evenly spread values of a column. Valleys depend on
    /// them by rounding only.
    fn scale_of(&self, column: usize) -> (f64, f64) {
        let value = |row| self.x.value(row, column);
        let some: Vec<f64> = self.some_rows(&[0]).map(value).collect();
        let centre = mean(&some);
        let squares = some.iter().map(|v| (v - centre) * (v - centre));
        let unit = (squares.sum::<f64>() / some.len() as f64).sqrt();
        let is_usable = unit.is_normal();
        (centre, if is_usable { unit } else { 1.0 })
    }

    /// At most [`ENOUGH_POINTS`] rows of some clusters, evenly spread in the order of the tree.
    fn some_rows(&self, clusters: &[usize]) -> impl Iterator<Item = usize> + '_ {
        let total: usize = clusters.iter().map(|&c| self.tree.size[c]).sum();
        let count = total.min(ENOUGH_POINTS);
        let ends: Vec<usize> = clusters
            .iter()
            .scan(0, |end, &c| {
                *end += self.tree.size[c];
                Some(*end)
            })
            .collect();
        let starts: Vec<usize> = clusters.iter().map(|&c| self.tree.start[c]).collect();
        let step = total as f64 / count as f64;
        (0..count).map(move |i| {
            let place = if count == total {
                i
            } else {
                ((i as f64 + 0.5) * step) as usize
            };
            let part = ends.partition_point(|&end| end <= place);
            let before = if part == 0 { 0 } else { ends[part - 1] };
            self.tree.order[starts[part] + place - before] as usize
        })
    }

    fn part(&self, mut clusters: Vec<usize>) -> ClusterGroup {
        clusters.sort_unstable_by_key(|&cluster| self.tree.start[cluster]);
        let rows: Vec<usize> = self.some_rows(&clusters).collect();
        let mut points = Vec::with_capacity(rows.len() * self.scale.len());
        for (j, &(centre, unit)) in self.scale.iter().enumerate() {
            let value = |&row: &usize| (self.x.value(row, j) - centre) / unit;
            points.extend(rows.iter().map(value));
        }
        let members = clusters.iter().map(|&c| self.tree.members[c]).sum();
        let group = Arc::new(Group::new(Centred::new(points, rows.len()), members));
        ClusterGroup { clusters, group }
    }

    /// The valley of each pair, on the threads of the calling pool.
    fn valleys(&self, pairs: &[(&ClusterGroup, &ClusterGroup)]) -> Result<Vec<Valley>> {
        let one = |&(a, b): &(&ClusterGroup, &ClusterGroup)| {
            self.monitor.check()?;
            // The order makes the bits independent of which group comes first.
            let first = |part: &ClusterGroup| self.tree.start[part.clusters[0]];
            let (a, b) = if first(a) <= first(b) { (a, b) } else { (b, a) };
            Ok(Valley::between(&a.group, &b.group))
        };
        pairs.par_iter().with_max_len(1).map(one).collect()
    }

    /// By split, from the top, the depth of the valley between its two sides.
    fn split_valleys(&self) -> Result<Vec<f64>> {
        let splits = self.tree.splits();
        self.monitor.expect(splits as u64);
        let one = |split: usize| {
            self.monitor.advance(1);
            let first = CondensedTree::first_of_split(split);
            let sides = (self.part(vec![first]), self.part(vec![first + 1]));
            let valleys = self.valleys(&[(&sides.0, &sides.1)])?;
            Ok(deciding_depth(valleys[0]))
        };
        let all = (0..splits).into_par_iter().with_max_len(1);
        all.map(one).collect()
    }

    /// The populations: groups of clusters, any two of which are apart. A cluster with several
    /// populations is in none of them.
    ///
    /// Works from the leaves of the condensed tree to its root. At each split, the groups of one
    /// side are compared with the groups of the other. While any two groups are not apart, the two
    /// most similar groups are joined.
    fn apart(&self) -> Result<Vec<Vec<usize>>> {
        let clusters = self.tree.len();
        self.monitor.expect(clusters as u64);
        let mut parts: Vec<Vec<ClusterGroup>> = vec![Vec::new(); clusters];
        for cluster in (0..clusters).rev() {
            self.monitor.advance(1);
            let alone = || vec![self.part(vec![cluster])];
            parts[cluster] = match self.tree.children[cluster] {
                None => alone(),
                Some(first) => {
                    let sides = [first, first + 1].map(|side| std::mem::take(&mut parts[side]));
                    let joined = self.joined(sides)?;
                    // The whole cluster, with all that fell off it.
                    if joined.len() == 1 {
                        alone()
                    } else {
                        joined
                    }
                }
            };
        }
        let groups = std::mem::take(&mut parts[0]).into_iter();
        Ok(groups.map(|part| part.clusters).collect())
    }

    /// Joins groups of two sides until all are apart. The groups within each side are already
    /// apart.
    fn joined(&self, [first, second]: [Vec<ClusterGroup>; 2]) -> Result<Vec<ClusterGroup>> {
        let on_first = first.len();
        let mut parts: Vec<ClusterGroup> = first.into_iter().chain(second).collect();
        let pairs = (0..on_first).flat_map(|i| (on_first..parts.len()).map(move |j| (i, j)));
        let pairs: Vec<(usize, usize)> = pairs.collect();
        let of = |&(i, j): &(usize, usize)| (&parts[i], &parts[j]);
        let valleys = self.valleys(&pairs.iter().map(of).collect::<Vec<_>>())?;
        let mut known = vec![vec![f64::NEG_INFINITY; parts.len()]; parts.len()];
        for ((i, j), valley) in pairs.into_iter().zip(valleys) {
            known[i][j] = similarity(valley);
        }
        while let Some((i, j)) = most_similar(&known) {
            let second = parts.remove(j);
            known.remove(j);
            for row in &mut known {
                row.remove(j);
            }
            let clusters = [&parts[i].clusters[..], &second.clusters].concat();
            parts[i] = self.part(clusters);
            let others: Vec<usize> = (0..parts.len()).filter(|&other| other != i).collect();
            let pairs: Vec<_> = others.iter().map(|&o| (&parts[i], &parts[o])).collect();
            for (&other, valley) in others.iter().zip(self.valleys(&pairs)?) {
                known[i.min(other)][i.max(other)] = similarity(valley);
            }
        }
        Ok(parts)
    }

    /// The finer level: the splits from the top, in the order of merges, up to the first without a
    /// valley, and all splits with several of `groups` below. `valleys` are the depths of the
    /// splits' valleys.
    fn finer(&self, groups: &[Vec<usize>], valleys: &[f64]) -> Vec<Vec<usize>> {
        let tree = self.tree;
        // By cluster, the group that contains it.
        let mut within: Vec<Option<usize>> = vec![None; tree.len()];
        for (number, group) in groups.iter().enumerate() {
            group
                .iter()
                .for_each(|&cluster| within[cluster] = Some(number));
        }
        let mut is_reached = vec![false; tree.len()];
        is_reached[0] = true;
        let mut found = Vec::new();
        let mut has_valley = true;
        // The clusters in the order of their splits, then the clusters without a split.
        let mut clusters: Vec<usize> = (0..tree.len()).collect();
        clusters.sort_by_key(|&cluster| tree.children[cluster].unwrap_or(usize::MAX));
        for cluster in clusters {
            let Some(first) = tree.children[cluster] else {
                if is_reached[cluster] {
                    found.push(vec![cluster]);
                }
                continue;
            };
            if let Some(group) = within[cluster] {
                within[first] = Some(group);
                within[first + 1] = Some(group);
                let left = tree.members[first] + tree.members[first + 1];
                let divides = has_valley && left >= MIN_SHARE_LEFT * tree.members[cluster];
                if divides
                    && is_reached[cluster]
                    && valleys[CondensedTree::split_of(first)] >= NO_VALLEY_DEPTH
                {
                    has_valley = false;
                }
                if !(divides && has_valley) {
                    if is_reached[cluster] {
                        found.push(vec![cluster]);
                    }
                    continue;
                }
            }
            is_reached[first] = is_reached[cluster];
            is_reached[first + 1] = is_reached[cluster];
        }
        found
    }

    /// By group, the most similar other group; empty if there is only one.
    fn separation(&self, groups: &[Vec<usize>]) -> Result<Vec<Separation>> {
        if groups.len() < 2 {
            return Ok(Vec::new());
        }
        let parts = groups.par_iter().map(|group| self.part(group.clone()));
        let parts: Vec<ClusterGroup> = parts.collect();
        let pairs = (0..parts.len()).flat_map(|j| (0..j).map(move |i| (i, j)));
        let pairs: Vec<(usize, usize)> = pairs.collect();
        let of = |&(i, j): &(usize, usize)| (&parts[i], &parts[j]);
        let valleys = self.valleys(&pairs.iter().map(of).collect::<Vec<_>>())?;
        // Of equally similar groups, the first one.
        let mut nearest: Vec<Option<(usize, Valley)>> = vec![None; parts.len()];
        for ((i, j), valley) in pairs.into_iter().zip(valleys) {
            for (group, other) in [(i, j), (j, i)] {
                let is_nearer =
                    nearest[group].is_none_or(|(_, best)| similarity(valley) > similarity(best));
                if is_nearer {
                    nearest[group] = Some((other, valley));
                }
            }
        }
        let separation = nearest
            .into_iter()
            .flatten()
            .map(|(nearest, valley)| Separation {
                nearest,
                valley: deciding_depth(valley),
            });
        Ok(separation.collect())
    }
}

/// The two most similar groups, if they are not apart.
fn most_similar(known: &[Vec<f64>]) -> Option<(usize, usize)> {
    let mut best = None;
    let mut most = 0.0;
    for (i, row) in known.iter().enumerate() {
        for (j, &similarity) in row.iter().enumerate().skip(i + 1) {
            if similarity > most {
                most = similarity;
                best = Some((i, j));
            }
        }
    }
    best
}
