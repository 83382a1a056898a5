//! The state of a tree before its first merge.

use bytemuck::cast_slice;
use gmhclust_core::mahalanobis::agglomerate::sort_spatially;
use gmhclust_core::mahalanobis::clusters::Clusters;
use gmhclust_core::mahalanobis::distance::log2_ceil;
use gmhclust_core::mahalanobis::packed::packed_len;
use gmhclust_core::mahalanobis::screen::ClusterFrame;
use gmhclust_core::mahalanobis::{BoundingBox, Distance, Problem, UnionRule};
use gmhclust_core::monitor::Monitor;
use rayon::prelude::*;

use super::arrays::{control, Placement, Tree, TreeArrays, TreeSizes, BALL};
use super::clusters::{self, by_columns, Scalars, LOW, SCALARS};
use crate::blocks::to_bands;

/// Number of a shape or cluster that does not exist, as in base.cuh.
const NONE: u32 = u32::MAX;
/// Flag in the number of a shape: its whitening factor is the identity. As in mahalanobis.cuh.
const IDENTITY: u32 = 1 << 31;

/// Approximate duration of a launch, in milliseconds. A device that also draws a desktop kills a
/// kernel that runs for some seconds.
const MILLISECONDS: u32 = 250;

/// Number of positions whose rows one task computes. Only the time depends on it.
const PART: usize = 4096;

/// The rows of the clusters at some positions, in the interleaved layout of the device, and the
/// packed whitening factors of these clusters. Each factor has the number of its shape.
struct RowsOfPart {
    rows: Vec<f32>,
    factors: Vec<(u32, Vec<f32>)>,
}

/// The initial content of the device's arrays. Other arrays need no content.
pub struct Start {
    pub sizes: TreeSizes,
    center: Vec<f64>,
    means: Vec<f64>,
    members: Vec<u32>,
    shapes: Vec<u32>,
    ids: Vec<u32>,
    /// The slot at each position.
    slots_at: Vec<u32>,
    /// The position of each slot.
    positions: Vec<u32>,
    scatters: Vec<f64>,
    factors: Vec<f64>,
    /// The observations. This field and the next three are empty for centroid distances.
    x: Vec<f64>,
    /// The numbers of the observations, by cluster.
    member_numbers: Vec<u32>,
    /// The index of each cluster's first member in `member_numbers`.
    member_starts: Vec<u32>,
    /// The quanta and the moments of each shape.
    spreads: Vec<f64>,
    /// The coordinates and the scalars of the cluster at each position, in single precision.
    rows: Vec<f32>,
    /// The packed whitening factors in single precision, column by column.
    single_factors: Vec<f32>,
    control: [u32; control::CONTROL_WORDS],
    unit: f64,
    diagonal: f64,
    sum_error: f64,
}

impl Tree {
    /// Sets the usual duration of a launch, and the usual number of pairs to merge speculatively.
    pub fn use_usual_pace(&mut self, sizes: &TreeSizes) {
        self.milliseconds = MILLISECONDS;
        self.batch = sizes.max_pairs();
    }
}

impl Start {
    /// The state for a problem with this bounding box, for the module for up to `most_columns`
    /// columns.
    ///
    /// # Errors
    /// As [`Clusters::new`].
    pub fn new(
        problem: &Problem,
        bounding_box: &BoundingBox,
        most_columns: usize,
        monitor: &Monitor,
    ) -> gmhclust_core::error::Result<Self> {
        let (n, p) = (problem.clusters(), problem.x.ncols());
        let full_size = problem.options.shape_rule(true);
        let below = (0..n).filter(|&slot| !full_size.is_full_size(problem.size_of(slot)));
        let below = below.count();
        let rule = problem.options.shape_rule(below == 0);
        let clusters = Clusters::new(problem, bounding_box.diagonal(), &rule, monitor)?;
        let frame = ClusterFrame::of_problem(problem, bounding_box);
        let mut slots_at: Vec<u32> = (0..n as u32).collect();
        sort_spatially(&mut slots_at, &clusters);
        let mut positions = vec![0; n];
        for (position, &slot) in slots_at.iter().enumerate() {
            positions[slot as usize] = position as u32;
        }
        let with_scatter = (0..n as u32).filter(|&slot| clusters.scatter(slot).is_some());
        let with_scatter: Vec<u32> = with_scatter.collect();
        let shaped = with_scatter.len();
        let sizes = TreeSizes::new(problem, most_columns, shaped);
        let mut start = Self {
            sizes,
            center: frame.center().to_vec(),
            means: Vec::new(),
            members: (0..n).map(|slot| problem.size_of(slot) as u32).collect(),
            shapes: vec![NONE; n],
            ids: (0..n as u32).collect(),
            scatters: Vec::with_capacity(shaped * packed_len(p)),
            factors: Vec::new(),
            x: Vec::new(),
            member_numbers: Vec::new(),
            member_starts: Vec::new(),
            spreads: Vec::new(),
            rows: Vec::new(),
            single_factors: Vec::new(),
            control: [0; control::CONTROL_WORDS],
            unit: frame.unit(),
            diagonal: bounding_box.diagonal(),
            sum_error: frame.sum_error(),
            slots_at,
            positions,
        };
        start.control[control::BELOW_THRESHOLD] = below as u32;
        start.control[control::NEXT_ID] = n as u32;
        start.control[control::SHAPES_USED] = shaped as u32;
        start.put_shapes(&clusters, &with_scatter);
        if sizes.distance == Distance::FullMahalanobis {
            start.put_members(problem);
        }
        start.put_rows(&clusters, &frame);
        start.slots_at.resize(sizes.capacity, 0);
        start.means = clusters.into_means();
        Ok(start)
    }

    /// Whether all clusters are points: no cluster has a shape and, for full Mahalanobis distances,
    /// each has a single member.
    pub fn are_points(&self) -> bool {
        let TreeSizes {
            observations,
            clusters,
            ..
        } = self.sizes;
        self.control[control::SHAPES_USED] == 0 && (observations == 0 || observations == clusters)
    }

    /// Stores the scatters, the factors and the moments of the clusters in `slots`, which have a
    /// shape.
    fn put_shapes(&mut self, clusters: &Clusters, slots: &[u32]) {
        let p = self.sizes.dimensions;
        for (number, &slot) in (0..).zip(slots) {
            self.scatters
                .extend_from_slice(clusters.scatter(slot).unwrap_or_default());
            let whitening = clusters.profile(slot).whitening;
            let is_identity = whitening.is_empty();
            self.shapes[slot as usize] = number | if is_identity { IDENTITY } else { 0 };
            let zeros = vec![0.0; packed_len(p)];
            let packed = if is_identity { &zeros } else { whitening };
            self.factors.extend(to_bands(packed, p));
            if self.sizes.distance == Distance::FullMahalanobis {
                let (fourth, third, quanta) = clusters.members_moments(slot).expect("a scatter");
                self.spreads.extend([quanta.high, quanta.low, fourth]);
                self.spreads.extend_from_slice(third);
            }
        }
    }

    /// Stores the observations, cluster by cluster.
    fn put_members(&mut self, problem: &Problem) {
        let p = self.sizes.dimensions;
        self.x = vec![0.0; problem.members.len() * p];
        let rows = self.x.par_chunks_mut(p).enumerate();
        rows.for_each(|(index, row)| row.copy_from_slice(problem.row(index)));
        let members = problem.members.len() as u32;
        self.member_numbers = (0..members).collect();
        let slots = 0..problem.clusters();
        self.member_starts = slots
            .map(|slot| problem.indices_of(slot).start as u32)
            .collect();
        self.control[control::MEMBERS_USED] = members;
    }

    /// Stores the rows of all clusters, by position, and their whitening factors in single
    /// precision.
    fn put_rows(&mut self, clusters: &Clusters, frame: &ClusterFrame) {
        let (p, capacity) = (self.sizes.dimensions, self.sizes.capacity);
        let words = p + SCALARS;
        // The index of value k of the row at a position. The rows of BALL consecutive positions are
        // interleaved.
        let index =
            |position: usize, k: usize| position / BALL * BALL * words + k * BALL + position % BALL;
        let parts: Vec<RowsOfPart> = self
            .slots_at
            .par_chunks(PART)
            .map(|slots| {
                let positions = slots.len().next_multiple_of(BALL);
                let mut part = RowsOfPart {
                    rows: vec![0.0; words * positions],
                    factors: Vec::new(),
                };
                for (position, &slot) in slots.iter().enumerate() {
                    let view = frame.view(&clusters.profile(slot));
                    let shape = self.shapes[slot as usize];
                    let shape = if view.whitening.is_empty() {
                        NONE
                    } else {
                        shape
                    };
                    let scalars: [f32; SCALARS] = bytemuck::cast(Scalars::new(&view, shape));
                    for (k, value) in view.mean.iter().chain(&scalars).enumerate() {
                        part.rows[index(position, k)] = *value;
                    }
                    if shape != NONE {
                        part.factors.push((shape, by_columns(&view.whitening, p)));
                    }
                }
                part
            })
            .collect();
        self.rows = vec![0.0; words * capacity];
        let places = self.rows.par_chunks_mut(PART * words);
        places
            .zip(&parts)
            .for_each(|(to, part)| to[..part.rows.len()].copy_from_slice(&part.rows));
        for position in self.slots_at.len()..capacity {
            // NaN: there is no cluster at this position.
            self.rows[index(position, p + LOW)] = f32::from_bits(u32::MAX);
        }
        let packed = packed_len(p);
        let shaped = self.control[control::SHAPES_USED] as usize;
        self.single_factors = vec![0.0; shaped * packed];
        for (shape, factor) in parts.iter().flat_map(|part| &part.factors) {
            self.single_factors[*shape as usize * packed..][..packed].copy_from_slice(factor);
        }
    }

    /// Calls `put` for each array that needs content. `put` copies bytes to the front of the array.
    /// `rows` and `factors` are the arrays in single precision.
    ///
    /// # Errors
    /// The errors of `put`.
    pub fn copy<A, E>(
        &self,
        arrays: &TreeArrays<A>,
        [rows, factors]: &[A; 2],
        mut put: impl FnMut(&A, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let births: Vec<u32> = (0..self.sizes.capacity as u32).collect();
        let radius_factor = [1.0f64];
        let contents: [(&A, &[u8]); 19] = [
            (&arrays.center, cast_slice(&self.center)),
            (&arrays.x, cast_slice(&self.x)),
            (&arrays.members, cast_slice(&self.member_numbers)),
            (&arrays.member_starts, cast_slice(&self.member_starts)),
            (&arrays.spreads, cast_slice(&self.spreads)),
            (&arrays.means, cast_slice(&self.means)),
            (&arrays.sizes, cast_slice(&self.members)),
            (&arrays.shapes, cast_slice(&self.shapes)),
            (&arrays.ids, cast_slice(&self.ids)),
            (&arrays.births, cast_slice(&self.positions)),
            (&arrays.positions, cast_slice(&self.positions)),
            (&arrays.slots_at, cast_slice(&self.slots_at)),
            (&arrays.births_at, cast_slice(&births)),
            (&arrays.scatters, cast_slice(&self.scatters)),
            (&arrays.factors, cast_slice(&self.factors)),
            (&arrays.control, cast_slice(&self.control)),
            (&arrays.radius_factor, cast_slice(&radius_factor)),
            (rows, cast_slice(&self.rows)),
            (factors, cast_slice(&self.single_factors)),
        ];
        for (array, bytes) in contents {
            put(array, bytes)?;
        }
        Ok(())
    }

    /// The kernels' second argument. `rows` and `factors` are the addresses of the arrays in single
    /// precision.
    pub fn clusters(&self, [rows, factors]: [u64; 2]) -> clusters::Clusters {
        clusters::Clusters {
            rows,
            factors,
            dimensions: self.sizes.dimensions as u32,
            full_distances: u32::from(self.sizes.distance == Distance::FullMahalanobis),
        }
    }

    /// The kernels' first argument. `arrays` has the addresses of the arrays, and `watch` is the
    /// address of two words: the number of merges done, and whether to stop.
    pub fn tree(&self, problem: &Problem, arrays: TreeArrays<u64>, watch: u64) -> Tree {
        let options = &problem.options;
        let mut tree = Tree {
            threshold: options.threshold,
            unit: self.unit,
            diagonal: self.diagonal,
            sum_error: self.sum_error,
            subthreshold: options.subthreshold as u32,
            normalize: u32::from(options.normalize),
            all_full_size: u32::from(self.control[control::BELOW_THRESHOLD] == 0),
            midpoint: u32::from(problem.union == UnionRule::Midpoint),
            dimensions: self.sizes.dimensions as u32,
            clusters: self.sizes.clusters as u32,
            has_shapes: u32::from(self.sizes.shapes > 0),
            shape_limit: self.sizes.shapes as u32,
            milliseconds: 0,
            batch: 0,
            max_jobs: self.sizes.max_jobs() as u32,
            balls: self.sizes.balls() as u32,
            query_words: self.sizes.query_words() as u32,
            placement: Placement::AllInShared as u32,
            merges_until: u32::MAX,
            log2_terms: log2_ceil(self.sizes.observations),
            member_room: self.sizes.member_room() as u32,
            arrays,
            progress: watch,
            stop: watch + 4,
        };
        tree.use_usual_pace(&self.sizes);
        tree
    }
}
