//! Classes, distances and densities of new observations.

#[cfg(test)]
pub mod tests;

use std::sync::atomic::{AtomicBool, Ordering};

use pulp::{Simd, WithSimd};

use super::elementary::{exp, ln};
use super::tile::{least, read, squared_distances, Tile, TILE};
use super::{Columns, Mixture};
use crate::cpu::Cpu;
use crate::error::Result;
use crate::monitor::Monitor;
use crate::simd::dispatch;
use crate::tasks;

/// Number of rows per task: several pages of each column. Only the time depends on it.
const ROWS_PER_TASK: usize = 64 * TILE;

/// The measure by which populations are ranked for an observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// The least Mahalanobis distance from one of its components.
    Distance,
    /// The probability, by Bayes' rule, that the observation belongs to one of its components.
    Posterior,
}

/// The results to compute.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Wanted {
    /// The number of the best population, from 1; the lowest number if several are equally good. 0
    /// if the squared distance from it is above `limit`, or if no squared distance is finite.
    Class { by: Measure, limit: f64 },
    /// The measure of every population.
    All(Measure),
    /// The `count` best populations, the best first, and their measures.
    Top { measure: Measure, count: usize },
}

impl Wanted {
    /// Number of columns of integers, and of doubles, of the results.
    pub fn columns(self, populations: usize) -> (usize, usize) {
        match self {
            Wanted::Class { .. } => (1, 0),
            Wanted::All(_) => (0, populations),
            Wanted::Top { count, .. } => (count, count),
        }
    }
}

/// Computes the `wanted` results for each row of `x`, which has the columns of the mixture. Writes
/// the columns of the results one after the other to `integers` and `doubles`; see
/// [`Wanted::columns`]. Returns whether all values of `x` are finite; if not, the results have no
/// meaning.
///
/// A row without a finite squared distance has distance ∞ and posteriors NaN.
///
/// Takes O(n·c·p²) time for c components on the threads of `cpu`, and reads `x` once.
///
/// # Errors
/// `Error::Memory` and `Error::Interrupt`.
///
/// # Panics
/// If the lengths of results or the number of columns do not fit.
pub fn assign(
    mixture: &Mixture,
    x: &Columns,
    wanted: Wanted,
    integers: &mut [i32],
    doubles: &mut [f64],
    cpu: &Cpu,
    monitor: &Monitor,
) -> Result<bool> {
    let (n, populations) = (x.rows(), mixture.populations());
    let (of_integers, of_doubles) = wanted.columns(populations);
    assert_eq!(x.count(), mixture.columns);
    assert_eq!(
        (integers.len(), doubles.len()),
        (n * of_integers, n * of_doubles)
    );
    if n == 0 {
        return Ok(true);
    }
    monitor.expect(n as u64);
    let mut integers = parts(integers, n).into_iter();
    let mut doubles = parts(doubles, n).into_iter();
    let starts = (0..n).step_by(ROWS_PER_TASK);
    let work: Vec<Task> = starts
        .map(|first| Task {
            first,
            rows: ROWS_PER_TASK.min(n - first),
            integers: integers.next().unwrap_or_default(),
            doubles: doubles.next().unwrap_or_default(),
        })
        .collect();
    let threads = cpu.threads().min(work.len());
    let states = (0..threads).map(|_| Tile::new(mixture));
    let mut states: Vec<Tile> = states.collect::<Result<_>>()?;
    let is_finite = AtomicBool::new(true);
    cpu.install(|| {
        tasks::run_from_queue(work, &mut states, |tile, task| {
            monitor.check()?;
            if is_finite.load(Ordering::Relaxed) {
                monitor.advance(task.rows as u64);
                let all_finite = dispatch(AssignmentKernel {
                    mixture,
                    x,
                    wanted,
                    task,
                    tile,
                });
                if !all_finite {
                    is_finite.store(false, Ordering::Relaxed);
                }
            }
            Ok(())
        })
    })?;
    Ok(is_finite.into_inner())
}

/// Splits the columns of a matrix of `n` rows by tasks: for each task, a slice of each column.
fn parts<T>(values: &mut [T], n: usize) -> Vec<Vec<&mut [T]>> {
    let columns = values.len() / n;
    let mut tasks: Vec<Vec<&mut [T]>> = (0..n.div_ceil(ROWS_PER_TASK))
        .map(|_| Vec::with_capacity(columns))
        .collect();
    for column in values.chunks_mut(n) {
        let parts = column.chunks_mut(ROWS_PER_TASK);
        tasks
            .iter_mut()
            .zip(parts)
            .for_each(|(task, part)| task.push(part));
    }
    tasks
}

/// Rows for a thread, and the places of their results.
struct Task<'a> {
    first: usize,
    rows: usize,
    integers: Vec<&'a mut [i32]>,
    doubles: Vec<&'a mut [f64]>,
}

/// A kernel that assigns the rows of a task.
struct AssignmentKernel<'a, 'b> {
    mixture: &'a Mixture,
    x: &'a Columns<'a>,
    wanted: Wanted,
    task: Task<'b>,
    tile: &'a mut Tile,
}

impl WithSimd for AssignmentKernel<'_, '_> {
    /// Whether all values are finite.
    type Output = bool;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> bool {
        let Self {
            mixture,
            x,
            wanted,
            mut task,
            tile,
        } = self;
        for first in (0..task.rows).step_by(TILE) {
            let rows = TILE.min(task.rows - first);
            if !read(x, task.first + first, rows, &mut tile.x) {
                return false;
            }
            squared_distances(simd, mixture, tile);
            least(mixture, tile);
            let places = first..first + rows;
            match wanted {
                Wanted::Class { by, limit } => {
                    if by == Measure::Posterior {
                        log_posteriors(mixture, tile);
                    }
                    let class = &mut task.integers[0][places];
                    classes(by, limit, tile, class);
                }
                Wanted::All(measure) => {
                    measures(mixture, measure, tile);
                    let columns = of_populations(measure, tile).chunks_exact(TILE);
                    for (to, column) in task.doubles.iter_mut().zip(columns) {
                        to[places.clone()].copy_from_slice(&column[..rows]);
                    }
                }
                Wanted::Top { measure, count } => {
                    measures(mixture, measure, tile);
                    for row in 0..rows {
                        find_best(measure, count, tile, row);
                        for (rank, &(value, population)) in tile.best.iter().enumerate() {
                            task.integers[rank][first + row] = population + 1;
                            task.doubles[rank][first + row] = value;
                        }
                    }
                }
            }
        }
        true
    }
}

/// Computes, for each component, the logarithm of its weight times its density, up to a constant;
/// −∞ if the squared distance is not finite. Returns the greatest over all components.
#[inline(always)]
fn log_densities(mixture: &Mixture, tile: &mut Tile) -> [f64; TILE] {
    let mut greatest = [f64::NEG_INFINITY; TILE];
    let components = tile
        .density
        .chunks_exact_mut(TILE)
        .zip(tile.squared.chunks_exact(TILE));
    for ((density, squared), &peak) in components.zip(&mixture.log_peaks) {
        for t in 0..TILE {
            let finite = squared[t] < f64::INFINITY;
            let value = if finite {
                squared[t].mul_add(-0.5, peak)
            } else {
                f64::NEG_INFINITY
            };
            density[t] = value;
            greatest[t] = if value > greatest[t] {
                value
            } else {
                greatest[t]
            };
        }
    }
    greatest
}

/// The posterior probability of each population.
#[inline(always)]
fn posteriors(mixture: &Mixture, tile: &mut Tile) {
    let greatest = log_densities(mixture, tile);
    let mut total = [0.0; TILE];
    for (range, sum) in mixture.ranges().zip(tile.posterior.chunks_exact_mut(TILE)) {
        sum.fill(0.0);
        for density in tile.density[range.start * TILE..range.end * TILE].chunks_exact(TILE) {
            for t in 0..TILE {
                sum[t] += exp(density[t] - greatest[t]);
            }
        }
        total
            .iter_mut()
            .zip(&*sum)
            .for_each(|(total, sum)| *total += sum);
    }
    for posterior in tile.posterior.chunks_exact_mut(TILE) {
        posterior
            .iter_mut()
            .zip(&total)
            .for_each(|(share, total)| *share /= total);
    }
}

/// The logarithm of the posterior of each population, up to a constant that all populations share.
/// It separates populations whose posteriors round to 0 or 1.
#[inline(always)]
fn log_posteriors(mixture: &Mixture, tile: &mut Tile) {
    log_densities(mixture, tile);
    for (range, log) in mixture.ranges().zip(tile.posterior.chunks_exact_mut(TILE)) {
        let densities = &tile.density[range.start * TILE..range.end * TILE];
        log.copy_from_slice(&densities[..TILE]);
        if range.len() == 1 {
            continue;
        }
        for density in densities[TILE..].chunks_exact(TILE) {
            for t in 0..TILE {
                log[t] = if density[t] > log[t] {
                    density[t]
                } else {
                    log[t]
                };
            }
        }
        for t in 0..TILE {
            let greatest = log[t];
            if greatest > f64::NEG_INFINITY {
                let terms = densities[t..].iter().step_by(TILE);
                log[t] += ln(terms.map(|density| exp(density - greatest)).sum());
            }
        }
    }
}

/// Writes the best population of each observation, from 1, or 0 for none.
#[inline(always)]
fn classes(by: Measure, limit: f64, tile: &Tile, class: &mut [i32]) {
    let mut best = [f64::INFINITY; TILE];
    // The squared distance from the best.
    let mut squared = [f64::INFINITY; TILE];
    let mut number = [0i64; TILE];
    let populations = tile
        .least
        .chunks_exact(TILE)
        .zip(tile.posterior.chunks_exact(TILE));
    for (k, (least, posterior)) in (1..).zip(populations) {
        for t in 0..TILE {
            let cost = match by {
                Measure::Distance => least[t],
                Measure::Posterior => -posterior[t],
            };
            let is_better = cost < best[t];
            best[t] = if is_better { cost } else { best[t] };
            squared[t] = if is_better { least[t] } else { squared[t] };
            number[t] = if is_better { k } else { number[t] };
        }
    }
    for (t, class) in class.iter_mut().enumerate() {
        *class = if squared[t] > limit {
            0
        } else {
            number[t] as i32
        };
    }
}

/// Writes the measure of each population to [`of_populations`].
#[inline(always)]
fn measures(mixture: &Mixture, measure: Measure, tile: &mut Tile) {
    match measure {
        Measure::Distance => tile
            .least
            .iter_mut()
            .for_each(|squared| *squared = squared.sqrt()),
        Measure::Posterior => posteriors(mixture, tile),
    }
}

#[inline(always)]
fn of_populations(measure: Measure, tile: &Tile) -> &[f64] {
    match measure {
        Measure::Distance => &tile.least,
        Measure::Posterior => &tile.posterior,
    }
}

/// Finds the `count` best populations of an observation, ties by number.
#[inline(always)]
fn find_best(measure: Measure, count: usize, tile: &mut Tile, row: usize) {
    tile.best.clear();
    let values = match measure {
        Measure::Distance => &tile.least,
        Measure::Posterior => &tile.posterior,
    };
    for (population, &value) in (0..).zip(values[row..].iter().step_by(TILE)) {
        let is_worse = |&(other, _): &(f64, i32)| match measure {
            Measure::Distance => value < other,
            Measure::Posterior => value > other,
        };
        let place = tile
            .best
            .iter()
            .position(is_worse)
            .unwrap_or(tile.best.len());
        if place < count {
            tile.best.insert(place, (value, population));
            tile.best.truncate(count);
        }
    }
}
