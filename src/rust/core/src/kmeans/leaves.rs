//! The leaves of a k-d tree of observations, for draws of centers. Most leaves are far from a new
//! center, so that a few comparisons of the center with boxes replace comparisons with most
//! observations (Bentley, Communications of the ACM 18, 1975, doi:10.1145/361002.361007).
//!
//! The tree divides projections to a few directions, in single precision ([`Region`]).

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::directions::{Directions, Projected, DIRECTIONS, ITERATIONS, SAMPLE};
use super::margin::Margin;
use super::region::{may_be_nearer, projections_tell_most, Region};
use super::CLUSTERS;
use crate::error::Result;
use crate::matrix::RowSlices;
use crate::memory;
use crate::monitor::Monitor;
use crate::observations::Observations;
use crate::simd::dispatch;
use crate::single_precision::{up, UNIT_ROUNDOFF};

/// Number of observations of a leaf; the last leaf may have fewer. Only the time depends on it.
const LEAF: usize = 256;

/// Number of leaves of a branch; the last branch may have fewer. Only the time depends on it.
const LEAVES: usize = 64;

/// Leaves are used if the comparisons of the draws are at least this multiple of the operations of
/// the projections. If too low, draws of few centers take longer; if too high, draws of many do.
const MIN_WORTHWHILE_RATIO: usize = 4;

/// Number of observations by which the direction of a split is chosen. Only the time depends on
/// it.
const SPLIT_SAMPLE: usize = 128;

/// Smallest number of observations whose split is worth a task. Only the time depends on it.
const MIN_PARALLEL_SPLIT: usize = 1 << 14;

/// Number of 32-bit fields of a projected observation: its coordinates, and two more.
const FIELDS: usize = DIRECTIONS + 2;
/// The field with the bound on the error of the coordinates.
const ERROR: usize = DIRECTIONS;
/// The field with the number of the observation's row.
const ROW: usize = DIRECTIONS + 1;

/// The bits of the fields of an observation; after `to_leaf()`, a leaf's fields are transposed.
type Fields = [u32; FIELDS];

/// All observations, in the order of the leaves.
pub struct Leaves<'a> {
    x: &'a Observations,
    directions: Directions,
    /// By leaf, each field of its [`LEAF`] observations, one field after the other; the last leaf
    /// repeats its last observation.
    fields: Vec<Fields>,
    /// By observation: an upper bound on the distance to the nearest center, in units of the frame,
    /// plus the bound on the error of the observation's projection.
    search_radius: Vec<f32>,
    /// By observation: the number of the nearest center.
    nearest: Vec<u32>,
    leaves: Vec<Region>,
    branches: Vec<Region>,
}

/// An observation that is nearer to a new center than to all before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Nearer {
    pub row: usize,
    /// Its squared distance to the center.
    pub square: f64,
}

/// A branch, and the parts of [`Leaves`] that a new center changes in it.
struct Branch<'a> {
    fields: &'a [Fields],
    search_radius: &'a mut [f32],
    nearest: &'a mut [u32],
    leaves: &'a mut [Region],
    region: &'a mut Region,
}

impl<'a> Leaves<'a> {
    /// Whether draws of `k` centers among `n` observations take longer than making the projections
    /// and the tree.
    pub fn is_worthwhile(n: usize, k: usize) -> bool {
        let of_directions = 2 * ITERATIONS * SAMPLE.min(n);
        MIN_WORTHWHILE_RATIO * DIRECTIONS * (of_directions + n) <= n.saturating_mul(k)
    }

    /// Projects all observations, scaled by [`scale_of`](super::frame::scale_of), on the
    /// threads of the calling pool. Sorts them into leaves if projections account for most of the
    /// distances ([`projections_tell_most`]).
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory, `Error::Interrupt` when the monitor says
    /// stop.
    pub fn new(x: &'a Observations, scale: f64, monitor: &Monitor) -> Result<Self> {
        let directions = Directions::new(x, scale);
        let n = x.nrows();
        let count = n.div_ceil(LEAF);
        let mut fields: Vec<Fields> = memory::zeros(CLUSTERS, count * LEAF)?;
        let project = |(row, fields): (usize, &mut Fields)| {
            let projected = directions.project(x.row_slice(row));
            for (field, value) in fields.iter_mut().zip(projected.coordinates) {
                *field = value.to_bits();
            }
            fields[ERROR] = projected.error.to_bits();
            fields[ROW] = row as u32;
        };
        fields[..n].par_iter_mut().enumerate().for_each(project);
        if projections_tell_most(x.ncols()) {
            split(&mut fields[..n], monitor)?;
        }
        let last = fields[n - 1];
        fields[n..].fill(last);
        let leaves: Vec<Region> = fields.par_chunks_mut(LEAF).map(to_leaf).collect();
        let joined = |leaves: &[Region]| leaves.iter().fold(Region::EMPTY, Region::and);
        Ok(Self {
            x,
            directions,
            fields,
            search_radius: memory::filled(CLUSTERS, n, f32::INFINITY)?,
            nearest: memory::filled(CLUSTERS, n, 0)?,
            branches: leaves.chunks(LEAVES).map(joined).collect(),
            leaves,
        })
    }

    /// Adds the first center, given the squared distances from it, by row.
    pub fn add_first(&mut self, squares: &[f64]) {
        let (scale, margin) = (self.directions.scale, Margin::new(self.x.ncols()));
        self.fields
            .par_chunks(LEAF)
            .zip(self.search_radius.par_chunks_mut(LEAF))
            .zip(&mut self.leaves)
            .for_each(|((fields, search_radii), leaf)| {
                let fields = fields.as_flattened();
                for (i, search_radius) in search_radii.iter_mut().enumerate() {
                    let square = squares[fields[ROW * LEAF + i] as usize];
                    let error = f32::from_bits(fields[ERROR * LEAF + i]);
                    *search_radius = search_radius_of(square, error, scale, margin);
                }
                leaf.search_radius = search_radii
                    .iter()
                    .fold(0.0, |most, &radius| most.max(radius));
            });
        for (branch, leaves) in self.branches.iter_mut().zip(self.leaves.chunks(LEAVES)) {
            branch.search_radius = leaves
                .iter()
                .map(|leaf| leaf.search_radius)
                .fold(0.0, f32::max);
        }
    }

    /// Adds a row of `x` as the center `number`, from 1. `squares` has, by row, the squared
    /// distances to the nearest center before. Returns the observations that are nearer to the new
    /// center.
    ///
    /// `is_settled(row, nearest)` returns whether a row is certainly not nearer to the new center,
    /// given the number of its nearest center.
    pub fn add(
        &mut self,
        row: usize,
        number: u32,
        squares: &[f64],
        is_settled: impl Fn(usize, u32) -> bool + Sync,
    ) -> Vec<Vec<Nearer>> {
        let x = self.x;
        let new = NewCenter {
            x,
            values: x.row_slice(row),
            projected: self.directions.project(x.row_slice(row)),
            scale: self.directions.scale,
            margin: Margin::new(x.ncols()),
            number,
        };
        const OBSERVATIONS: usize = LEAVES * LEAF;
        let open: Vec<Branch> = self
            .fields
            .chunks(OBSERVATIONS)
            .zip(self.search_radius.chunks_mut(OBSERVATIONS))
            .zip(self.nearest.chunks_mut(OBSERVATIONS))
            .zip(self.leaves.chunks_mut(LEAVES))
            .zip(&mut self.branches)
            .filter(|(_, region)| region.is_open(&new.projected))
            .map(
                |((((fields, search_radius), nearest), leaves), region)| Branch {
                    fields,
                    search_radius,
                    nearest,
                    leaves,
                    region,
                },
            )
            .collect();
        let visit = |branch: Branch| branch.visit(&new, squares, &is_settled);
        match open.len() {
            0 | 1 => open.into_iter().map(visit).collect(),
            _ => open.into_par_iter().map(visit).collect(),
        }
    }
}

/// A new center.
struct NewCenter<'a> {
    x: &'a Observations,
    values: &'a [f64],
    projected: Projected,
    scale: f64,
    margin: Margin,
    number: u32,
}

/// Number of observations that are compared with a center at a time: sums that do not wait for each
/// other.
const ROWS: usize = 4;

impl NewCenter<'_> {
    /// The [`square`](super::margin::square) of each row.
    fn squares(&self, rows: [usize; ROWS]) -> [f64; ROWS] {
        let mut sums = [0.0; ROWS];
        let rows = rows.map(|row| &self.x.row_slice(row)[..self.values.len()]);
        for (k, &value) in self.values.iter().enumerate() {
            for (sum, row) in sums.iter_mut().zip(rows) {
                let difference = row[k] - value;
                *sum += difference * difference;
            }
        }
        sums
    }
}

/// The search radius of an observation, given its squared distance to its nearest center and the
/// error of its projection.
fn search_radius_of(square: f64, error: f32, scale: f64, margin: Margin) -> f32 {
    let distance = margin.above(square.sqrt()) * scale * (1.0 + 4.0 * UNIT_ROUNDOFF);
    up(distance + f64::from(error))
}

impl Branch<'_> {
    /// The observations that are nearer to a new center than before.
    fn visit(
        self,
        new: &NewCenter,
        squares: &[f64],
        is_settled: impl Fn(usize, u32) -> bool,
    ) -> Vec<Nearer> {
        let mut nearer = Vec::new();
        let mut open = Vec::new();
        let leaves = self
            .fields
            .chunks(LEAF)
            .zip(self.search_radius.chunks_mut(LEAF))
            .zip(self.nearest.chunks_mut(LEAF))
            .zip(&mut *self.leaves);
        let mut changed = false;
        for (((fields, search_radius), nearest), leaf) in leaves {
            if !leaf.is_open(&new.projected) {
                continue;
            }
            let fields = fields.as_flattened();
            open.clear();
            dispatch(OpenKernel {
                center: &new.projected,
                fields,
                search_radius,
                open: &mut open,
            });
            let row = |i: u32| fields[ROW * LEAF + i as usize] as usize;
            open.retain(|&i| !is_settled(row(i), nearest[i as usize]));
            let before = nearer.len();
            for open in open.chunks(ROWS) {
                let rows = std::array::from_fn(|at| row(open[at.min(open.len() - 1)]));
                for ((&i, row), square) in open.iter().zip(rows).zip(new.squares(rows)) {
                    if square < squares[row] {
                        let i = i as usize;
                        nearest[i] = new.number;
                        let error = f32::from_bits(fields[ERROR * LEAF + i]);
                        search_radius[i] = search_radius_of(square, error, new.scale, new.margin);
                        nearer.push(Nearer { row, square });
                    }
                }
            }
            if nearer.len() > before {
                leaf.search_radius = search_radius
                    .iter()
                    .fold(0.0, |most, &radius| most.max(radius));
                changed = true;
            }
        }
        if changed {
            let search_radii = self.leaves.iter().map(|leaf| leaf.search_radius);
            self.region.search_radius = search_radii.fold(0.0, f32::max);
        }
        nearer
    }
}

/// Sorts observations into leaves: divides them recursively by the coordinate that varies most. The
/// first part has a multiple of the size of a branch or, within a branch, of a leaf.
fn split(fields: &mut [Fields], monitor: &Monitor) -> Result<()> {
    let n = fields.len();
    if n <= LEAF {
        return Ok(());
    }
    monitor.check()?;
    let unit = if n > LEAVES * LEAF { LEAVES } else { 1 } * LEAF;
    let middle = (n / 2).next_multiple_of(unit);
    let step = n.div_ceil(SPLIT_SAMPLE);
    let spread = |k: usize| {
        let values = fields.iter().step_by(step);
        let values = values.map(|fields| f64::from(f32::from_bits(fields[k])));
        let (count, sum, squares) = values.fold((0.0, 0.0, 0.0), |(count, sum, squares), value| {
            (count + 1.0, sum + value, squares + value * value)
        });
        squares - sum * sum / count
    };
    let spreads: [f64; DIRECTIONS] = std::array::from_fn(spread);
    let widest = (0..DIRECTIONS).max_by(|&a, &b| spreads[a].total_cmp(&spreads[b]));
    let k = widest.expect("there are directions");
    let along = |fields: &Fields| f32::from_bits(fields[k]);
    fields.select_nth_unstable_by(middle - 1, |a, b| along(a).total_cmp(&along(b)));
    let (left, right) = fields.split_at_mut(middle);
    if n < MIN_PARALLEL_SPLIT {
        split(left, monitor)?;
        return split(right, monitor);
    }
    let (left, right) = rayon::join(|| split(left, monitor), || split(right, monitor));
    left.and(right)
}

/// Arranges the fields of a leaf one after the other; returns its region.
fn to_leaf(observations: &mut [Fields]) -> Region {
    let mut arranged = [0; FIELDS * LEAF];
    let mut region = Region {
        search_radius: f32::INFINITY,
        ..Region::EMPTY
    };
    for (i, fields) in observations.iter().enumerate() {
        for (k, &field) in fields.iter().enumerate() {
            arranged[k * LEAF + i] = field;
        }
        let sides = region.low.iter_mut().zip(&mut region.high);
        for ((low, high), &field) in sides.zip(fields) {
            let value = f32::from_bits(field);
            *low = low.min(value);
            *high = high.max(value);
        }
    }
    observations.as_flattened_mut().copy_from_slice(&arranged);
    region
}

/// Appends the observations of a leaf that may be nearer to a center than to all before.
struct OpenKernel<'a> {
    center: &'a Projected,
    fields: &'a [u32],
    search_radius: &'a [f32],
    open: &'a mut Vec<u32>,
}

impl WithSimd for OpenKernel<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self {
            center,
            fields,
            search_radius,
            open,
        } = self;
        let mut squares = [0.0f32; LEAF];
        for (row, &center) in fields.chunks_exact(LEAF).zip(&center.coordinates) {
            for (square, &coordinate) in squares.iter_mut().zip(row) {
                let difference = f32::from_bits(coordinate) - center;
                *square += difference * difference;
            }
        }
        let mut is_open = [0u8; LEAF];
        for ((is_open, &square), &radius) in is_open.iter_mut().zip(&squares).zip(search_radius) {
            *is_open = u8::from(may_be_nearer(square, radius, center.error));
        }
        for (eight, flags) in is_open.chunks_exact(8).enumerate() {
            let mut flags = u64::from_le_bytes(flags.try_into().expect("eight of them"));
            while flags != 0 {
                open.push(8 * eight as u32 + flags.trailing_zeros() / 8);
                flags &= flags - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kmeans::frame::scale_of;
    use crate::kmeans::margin::square;
    use crate::testing::{draw, observations, Data, Random, DATA};

    /// The number of observations that bounds exclude from being nearer to a second center, as a
    /// share of those that are clearly farther. Checks that none of them is nearer.
    fn excluded(x: &Observations) -> f64 {
        let n = x.nrows();
        let to = |row: usize| move |i: usize| square(x.row_slice(i), x.row_slice(row));
        let (to_first, to_second) = (to(0), to(1));
        let mut leaves = Leaves::new(x, scale_of(x.largest()), &Monitor::default()).unwrap();
        let squares: Vec<f64> = (0..n).map(to_first).collect();
        leaves.add_first(&squares);
        let compared = std::sync::Mutex::new(vec![false; n]);
        let second = leaves.add(1, 1, &squares, |row, nearest| {
            assert_eq!(nearest, 0);
            compared.lock().unwrap()[row] = true;
            false
        });
        let second = second.concat();
        let compared = compared.into_inner().unwrap();
        let mut is_nearer = vec![false; n];
        for found in second {
            assert_eq!(found.square, to_second(found.row));
            is_nearer[found.row] = true;
        }
        for (i, &is_nearer) in is_nearer.iter().enumerate() {
            assert_eq!(is_nearer, to_second(i) < to_first(i), "{i}");
        }
        let farther = (0..n).filter(|&i| to_second(i) > 1.01 * to_first(i));
        compared.iter().filter(|&&open| !open).count() as f64 / farther.count().max(1) as f64
    }

    #[test]
    fn no_nearer_observation_is_excluded() {
        let mut random = Random::of(6);
        for data in DATA {
            for p in [1, 2, 7, 30] {
                let share = excluded(&draw(&mut random, data, 700, p));
                if matches!(data, Data::Plain) && p < DIRECTIONS {
                    assert!(share > 0.99, "{share}");
                }
            }
        }
        let far = |value: f64| {
            let mut values = draw(&mut Random::of(7), Data::Plain, 300, 4)
                .values()
                .to_vec();
            values[17] = value;
            excluded(&observations(values, 300, 4))
        };
        for value in [1e9, -1e60, 1e-300] {
            far(value);
        }
        // Far observations beside the sample, one of them a center.
        let mut values = draw(&mut Random::of(8), Data::Plain, 5000, 3)
            .values()
            .to_vec();
        for (row, value) in [(1, 1e50), (2, 1.001e50), (4, -1e50)] {
            values[3 * row] = value;
        }
        excluded(&observations(values, 5000, 3));
        // One far observation, beside which the squares of others underflow.
        for p in [2, 12] {
            for exponent in 60..80 {
                let mut values = draw(&mut Random::of(9), Data::Plain, 5000, p)
                    .values()
                    .to_vec();
                values[2 * p] = 2f64.powi(exponent);
                excluded(&observations(values, 5000, p));
            }
        }
    }

    #[test]
    fn every_observation_is_in_one_leaf_of_near_ones() {
        for n in [2, 256, 257, 20_000, 40_001] {
            let x = draw(&mut Random::of(9), Data::Mixture, n, 3);
            let leaves = Leaves::new(&x, scale_of(x.largest()), &Monitor::default()).unwrap();
            let mut rows: Vec<u32> = leaves
                .fields
                .chunks(LEAF)
                .flat_map(|leaf| leaf.as_flattened()[ROW * LEAF..].to_vec())
                .collect();
            let repeated = rows.split_off(n);
            assert!(repeated.iter().all(|row| *row == rows[n - 1]));
            rows.sort_unstable();
            assert!(rows.iter().enumerate().all(|(i, &row)| row as usize == i));
            let inside = |region: &Region, of: &Region| {
                (0..DIRECTIONS).all(|k| region.low[k] >= of.low[k] && region.high[k] <= of.high[k])
            };
            for (branch, parts) in leaves.branches.iter().zip(leaves.leaves.chunks(LEAVES)) {
                assert!(parts.iter().all(|leaf| inside(leaf, branch)));
            }
            let width = |region: &Region| f64::from(region.high[0] - region.low[0]);
            let whole = leaves.branches.iter().fold(Region::EMPTY, Region::and);
            if n > 20_000 {
                let mean =
                    leaves.leaves.iter().map(width).sum::<f64>() / leaves.leaves.len() as f64;
                assert!(mean < 0.5 * width(&whole));
            }
        }
    }
}
