//! The state of a tree before its first merge.

use bytemuck::cast_slice;
use gmhclust_core::mahalanobis::agglomerate::sort_spatially;
use gmhclust_core::mahalanobis::clusters::Clusters as ClustersOnHost;
use gmhclust_core::mahalanobis::distance::log2_ceil;
use gmhclust_core::mahalanobis::packed::packed_len;
use gmhclust_core::mahalanobis::screen::ClusterFrame;
use gmhclust_core::mahalanobis::{BoundingBox, Distance, Problem, UnionRule};
use gmhclust_core::monitor::Monitor;
use gmhclust_core::Cpu;
use rayon::prelude::*;

use super::arrays::{control, Placement, Tree, TreeArrays, TreeSizes, BALL};
use super::clusters::{self, by_columns, Scalars, LOW, SCALARS};
use crate::blocks::{banded_len, to_bands};

/// Number of a shape or cluster that does not exist, as in base.cuh.
const NONE: u32 = u32::MAX;
/// Flag in the number of a shape: its whitening factor is the identity. As in
/// cluster/mahalanobis.cuh.
const IDENTITY: u32 = 1 << 31;

/// Approximate duration of a launch, in milliseconds. A device that also draws a desktop kills a
/// kernel that runs for some seconds.
const MILLISECONDS: u32 = 250;

/// What the host keeps of the state before the first merge.
pub struct Start {
    pub sizes: TreeSizes,
    all_full_size: bool,
    /// Whether any cluster has a shape before the first merge.
    starts_with_shapes: bool,
    unit: f64,
    diagonal: f64,
    sum_error: f64,
}

/// The initial content of the device's arrays. Other arrays need no content.
pub struct Contents<'a> {
    sizes: TreeSizes,
    control: [u32; control::CONTROL_WORDS],
    clusters: ClustersOnHost<'a>,
    frame: ClusterFrame,
    /// The slots of the clusters with a shape, by the number of the shape.
    shaped: Vec<u32>,
    /// The number of members of each cluster.
    cluster_sizes: Vec<u32>,
    /// The number of each cluster's shape, with [`IDENTITY`] if it is the identity, or [`NONE`].
    shapes: Vec<u32>,
    /// The id of each cluster: its slot.
    ids: Vec<u32>,
    /// The slot at each position.
    slots_at: Vec<u32>,
    /// The position of each slot.
    positions: Vec<u32>,
    /// The observations. This field and the next two are empty for centroid distances.
    x: Vec<f64>,
    /// The numbers of the observations, by cluster.
    member_numbers: Vec<u32>,
    /// The index of each cluster's first member in `member_numbers`.
    member_starts: Vec<u32>,
    /// The coordinates and the scalars of the cluster at each position, in single precision.
    rows: Vec<f32>,
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
    /// columns. Works on the threads of the calling pool.
    ///
    /// # Errors
    /// As [`ClustersOnHost::new`].
    pub fn new<'a>(
        problem: &'a Problem<'a>,
        bounding_box: &BoundingBox,
        most_columns: usize,
        monitor: &'a Monitor,
    ) -> gmhclust_core::error::Result<(Self, Contents<'a>)> {
        let n = problem.clusters();
        let full_size = problem.options.shape_rule(true);
        let below = (0..n).filter(|&slot| !full_size.is_full_size(problem.size_of(slot)));
        let below = below.count();
        let rule = problem.options.shape_rule(below == 0);
        let diagonal = bounding_box.diagonal();
        let clusters = ClustersOnHost::new(problem, diagonal, &rule, monitor)?;
        let frame = ClusterFrame::of_problem(problem, bounding_box);
        let with_scatter = (0..n as u32).filter(|&slot| clusters.scatter(slot).is_some());
        let shaped: Vec<u32> = with_scatter.collect();
        let sizes = TreeSizes::new(problem, most_columns, shaped.len());
        let mut control = [0; control::CONTROL_WORDS];
        control[control::BELOW_THRESHOLD] = below as u32;
        control[control::NEXT_ID] = n as u32;
        control[control::SHAPES_USED] = shaped.len() as u32;
        if sizes.distance == Distance::FullMahalanobis {
            control[control::MEMBERS_USED] = problem.members.len() as u32;
        }
        let start = Self {
            sizes,
            all_full_size: below == 0,
            starts_with_shapes: !shaped.is_empty(),
            unit: frame.unit(),
            diagonal,
            sum_error: frame.sum_error(),
        };
        let mut contents = Contents {
            sizes,
            control,
            clusters,
            frame,
            shaped,
            cluster_sizes: (0..n).map(|slot| problem.size_of(slot) as u32).collect(),
            shapes: vec![NONE; n],
            ids: (0..n as u32).collect(),
            slots_at: (0..n as u32).collect(),
            positions: vec![0; n],
            x: Vec::new(),
            member_numbers: Vec::new(),
            member_starts: Vec::new(),
            rows: Vec::new(),
        };
        sort_spatially(&mut contents.slots_at, &contents.clusters);
        for (position, &slot) in contents.slots_at.iter().enumerate() {
            contents.positions[slot as usize] = position as u32;
        }
        for (number, &slot) in (0..).zip(&contents.shaped) {
            let is_identity = contents.clusters.profile(slot).whitening.is_empty();
            contents.shapes[slot as usize] = number | if is_identity { IDENTITY } else { 0 };
        }
        if sizes.distance == Distance::FullMahalanobis {
            contents.put_members(problem);
        }
        contents.put_rows();
        contents.slots_at.resize(sizes.capacity, 0);
        Ok((start, contents))
    }

    /// Whether all clusters are points: no cluster has a shape and, for full Mahalanobis distances,
    /// each has a single member.
    pub fn are_points(&self) -> bool {
        let TreeSizes {
            observations,
            clusters,
            ..
        } = self.sizes;
        !self.starts_with_shapes && (observations == 0 || observations == clusters)
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
            all_full_size: u32::from(self.all_full_size),
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

impl Contents<'_> {
    /// Stores the observations, cluster by cluster.
    fn put_members(&mut self, problem: &Problem) {
        let p = self.sizes.dimensions;
        self.x = vec![0.0; problem.members.len() * p];
        let rows = self.x.par_chunks_mut(p).enumerate();
        rows.for_each(|(index, row)| row.copy_from_slice(problem.row(index)));
        self.member_numbers = (0..problem.members.len() as u32).collect();
        let slots = 0..problem.clusters();
        self.member_starts = slots
            .map(|slot| problem.indices_of(slot).start as u32)
            .collect();
    }

    /// Stores the rows of all clusters, by position.
    fn put_rows(&mut self) {
        let p = self.sizes.dimensions;
        let words = p + SCALARS;
        // The rows of BALL consecutive positions are interleaved.
        let index = |position: usize, k: usize| k * BALL + position % BALL;
        let mut rows = vec![0.0; words * self.sizes.capacity];
        let of_balls = rows.par_chunks_mut(words * BALL).enumerate();
        of_balls.for_each(|(ball, rows)| {
            for position in ball * BALL..(ball + 1) * BALL {
                let Some(&slot) = self.slots_at.get(position) else {
                    // NaN: there is no cluster at this position.
                    rows[index(position, p + LOW)] = f32::from_bits(u32::MAX);
                    continue;
                };
                let view = self.frame.view(&self.clusters.profile(slot));
                let shape = match view.whitening.is_empty() {
                    true => NONE,
                    false => self.shapes[slot as usize],
                };
                let scalars: [f32; SCALARS] = bytemuck::cast(Scalars::new(&view, shape));
                for (k, value) in view.mean.iter().chain(&scalars).enumerate() {
                    rows[index(position, k)] = *value;
                }
            }
        });
        self.rows = rows;
    }

    /// The values of `write` for each cluster with a shape, `len` values each, by the number of the
    /// shape. Initially, they are zero.
    fn of_shapes<T: Copy + Default + Send>(
        &self,
        len: usize,
        write: impl Fn(u32, &mut [T]) + Sync,
    ) -> Vec<T> {
        let mut values = vec![T::default(); len * self.shaped.len()];
        let places = values.par_chunks_exact_mut(len).zip(&self.shaped);
        places.for_each(|(to, &slot)| write(slot, to));
        values
    }

    /// The packed scatters.
    fn scatters(&self) -> Vec<f64> {
        self.of_shapes(packed_len(self.sizes.dimensions), |slot, to| {
            to.copy_from_slice(self.clusters.scatter(slot).expect("a shape"));
        })
    }

    /// The whitening factors in bands; zeros for the identity.
    fn factors(&self) -> Vec<f64> {
        let p = self.sizes.dimensions;
        self.of_shapes(banded_len(p), |slot, to| {
            let whitening = self.clusters.profile(slot).whitening;
            if !whitening.is_empty() {
                to.copy_from_slice(&to_bands(whitening, p));
            }
        })
    }

    /// The packed whitening factors in single precision, column by column; zeros for the identity.
    fn single_factors(&self) -> Vec<f32> {
        let p = self.sizes.dimensions;
        self.of_shapes(packed_len(p), |slot, to| {
            let view = self.frame.view(&self.clusters.profile(slot));
            if !view.whitening.is_empty() {
                to.copy_from_slice(&by_columns(&view.whitening, p));
            }
        })
    }

    /// The quanta and the moments, for full Mahalanobis distances.
    fn spreads(&self) -> Vec<f64> {
        if self.sizes.distance == Distance::Centroid {
            return Vec::new();
        }
        self.of_shapes(3 + self.sizes.dimensions, |slot, to| {
            let (fourth, third, quanta) = self.clusters.members_moments(slot).expect("a shape");
            to[..3].copy_from_slice(&[quanta.high, quanta.low, fourth]);
            to[3..].copy_from_slice(third);
        })
    }

    /// Calls `put` for each array that needs content. `put` copies bytes to the front of the array.
    /// `rows` and `factors` are the arrays in single precision. The threads of `cpu` make the
    /// contents by shape, one array after the other, so that the host holds one of them at a time:
    /// an upper tree may have a shape for each cluster.
    ///
    /// # Errors
    /// The errors of `put`.
    pub fn copy<A, E>(
        &self,
        arrays: &TreeArrays<A>,
        [rows, factors]: &[A; 2],
        cpu: &Cpu,
        mut put: impl FnMut(&A, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let births: Vec<u32> = (0..self.sizes.capacity as u32).collect();
        let radius_factor = [1.0f64];
        let contents: [(&A, &[u8]); 15] = [
            (&arrays.center, cast_slice(self.frame.center())),
            (&arrays.x, cast_slice(&self.x)),
            (&arrays.members, cast_slice(&self.member_numbers)),
            (&arrays.member_starts, cast_slice(&self.member_starts)),
            (&arrays.means, cast_slice(self.clusters.means())),
            (&arrays.sizes, cast_slice(&self.cluster_sizes)),
            (&arrays.shapes, cast_slice(&self.shapes)),
            (&arrays.ids, cast_slice(&self.ids)),
            (&arrays.births, cast_slice(&self.positions)),
            (&arrays.positions, cast_slice(&self.positions)),
            (&arrays.slots_at, cast_slice(&self.slots_at)),
            (&arrays.births_at, cast_slice(&births)),
            (&arrays.control, cast_slice(&self.control)),
            (&arrays.radius_factor, cast_slice(&radius_factor)),
            (rows, cast_slice(&self.rows)),
        ];
        for (array, bytes) in contents {
            put(array, bytes)?;
        }
        put(&arrays.spreads, cast_slice(&cpu.install(|| self.spreads())))?;
        put(
            &arrays.scatters,
            cast_slice(&cpu.install(|| self.scatters())),
        )?;
        put(&arrays.factors, cast_slice(&cpu.install(|| self.factors())))?;
        put(factors, cast_slice(&cpu.install(|| self.single_factors())))
    }
}
