//! Classes, distances and densities of new observations.

use std::sync::atomic::{AtomicBool, Ordering};

use pulp::{Simd, WithSimd};

use super::elementary::{exp, ln};
use super::{Columns, Factors, Mixture, MIXTURE};
use crate::cpu::Cpu;
use crate::error::Result;
use crate::mahalanobis::lanes::{add_multiple, add_squares, groups, groups_mut};
use crate::mahalanobis::packed::packed_len;
use crate::memory;
use crate::monitor::Monitor;
use crate::simd::{dispatch, doubles_mut};
use crate::tasks;

/// Rows that are worked on together: whole groups of [`REGISTERS`] registers of all processors, and few
/// enough for the first cache with up to 30 columns.
const TILE: usize = 64;

/// Registers of rows per step of a product. With the sums for two rows of a factor, 12 of the 16
/// registers of AVX2 are in use.
const REGISTERS: usize = 4;

/// Rows per task of a thread: several pages of each column.
const ROWS_PER_TASK: usize = 64 * TILE;

/// What tells how near a population is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// The least Mahalanobis distance from one of its components.
    Distance,
    /// The probability that the observation is of one of its components, by Bayes' rule.
    Posterior,
}

/// The results to compute.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Wanted {
    /// The number of the best population from 1, the first of equal ones; 0 for none: where the
    /// squared distance from it is above `limit`, or no squared distance is finite.
    Class { by: Measure, limit: f64 },
    /// The measure of every population.
    All(Measure),
    /// The best of the populations, in their order, and their measures.
    Top { measure: Measure, count: usize },
}

impl Wanted {
    /// Columns of integers, and of doubles, of the results.
    pub fn columns(self, populations: usize) -> (usize, usize) {
        match self {
            Wanted::Class { .. } => (1, 0),
            Wanted::All(_) => (0, populations),
            Wanted::Top { count, .. } => (count, count),
        }
    }
}

/// Computes what is wanted of each row of `x`, whose columns are those of the mixture. Columns of
/// results follow each other in `integers` and `doubles`, see [`Wanted::columns`]. Returns whether
/// all values of `x` are finite; if not, the results have no meaning.
///
/// A row without a finite squared distance has the distance ∞ and NaN as its posteriors.
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
        tasks::share(work, &mut states, |tile, task| {
            monitor.check()?;
            if is_finite.load(Ordering::Relaxed) {
                monitor.advance(task.rows as u64);
                let all_finite = dispatch(Assignment {
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

/// The columns of a matrix of `n` rows, split into parts of the rows of a task: for each task a slice
/// of each column.
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

/// Working memory of a thread. All matrices have [`TILE`] values for each of their rows, one for each
/// observation.
struct Tile {
    /// By column.
    x: Vec<f64>,
    /// By column: differences from a mean.
    delta: Vec<f64>,
    /// By component: squared distances.
    squared: Vec<f64>,
    /// By component: logarithms of densities times weights, later shares.
    density: Vec<f64>,
    /// By population: the least squared distance.
    least: Vec<f64>,
    /// By population: the posterior probability, or its logarithm up to a constant.
    posterior: Vec<f64>,
    /// The best populations of an observation, and their measures.
    best: Vec<(f64, i32)>,
}

impl Tile {
    fn new(mixture: &Mixture) -> Result<Self> {
        let zeros = |rows: usize| memory::zeros(MIXTURE, rows * TILE);
        let (components, populations) = (mixture.components(), mixture.populations());
        Ok(Self {
            x: zeros(mixture.columns)?,
            delta: zeros(mixture.columns)?,
            squared: zeros(components)?,
            density: zeros(components)?,
            least: zeros(populations)?,
            posterior: zeros(populations)?,
            best: memory::room(MIXTURE, populations + 1)?,
        })
    }
}

struct Assignment<'a, 'b> {
    mixture: &'a Mixture,
    x: &'a Columns<'a>,
    wanted: Wanted,
    task: Task<'b>,
    tile: &'a mut Tile,
}

impl WithSimd for Assignment<'_, '_> {
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

/// Copies rows of `x`, and returns whether they are finite. Rows that are missing at the end of a tile
/// keep values of earlier ones.
#[inline(always)]
fn read(x: &Columns, first: usize, rows: usize, tile: &mut [f64]) -> bool {
    // A product with 0 is NaN where a value is not finite.
    let mut zeros = [0.0; TILE];
    for (j, to) in tile.chunks_exact_mut(TILE).enumerate() {
        to[..rows].copy_from_slice(x.part(j, first, rows));
        zeros
            .iter_mut()
            .zip(&to[..rows])
            .for_each(|(zero, value)| *zero += value * 0.0);
    }
    zeros.iter().all(|zero| *zero == 0.0)
}

#[inline(always)]
fn squared_distances<S: Simd>(simd: S, mixture: &Mixture, tile: &mut Tile) {
    let p = mixture.columns;
    for (c, out) in tile.squared.chunks_exact_mut(TILE).enumerate() {
        let mean = &mixture.means[c * p..][..p];
        let columns = tile
            .x
            .chunks_exact(TILE)
            .zip(tile.delta.chunks_exact_mut(TILE));
        for ((x, delta), mean) in columns.zip(mean) {
            delta
                .iter_mut()
                .zip(x)
                .for_each(|(delta, x)| *delta = x - mean);
        }
        match &mixture.factors {
            Factors::Whitening(all) => {
                let factor = &all[c * packed_len(p)..][..packed_len(p)];
                norms::<S>(simd, factor, p, &tile.delta, out);
            }
            Factors::Precision(precision) => {
                out.fill(0.0);
                for delta in tile.delta.chunks_exact(TILE) {
                    let sums = out.iter_mut().zip(delta);
                    sums.for_each(|(sum, delta)| *sum = delta.mul_add(*delta, *sum));
                }
                out.iter_mut().for_each(|sum| *sum *= precision);
            }
        }
    }
}

/// ‖W·δ‖² of the rows of a tile, for a packed lower triangle W. Each element is summed in order of
/// columns, and the squares in order of elements.
#[inline(always)]
fn norms<S: Simd>(simd: S, factor: &[f64], p: usize, delta: &[f64], out: &mut [f64]) {
    let count = doubles_mut::<S>(out).len() / REGISTERS;
    for group in 0..count {
        let rows = |j: usize| &groups::<S, REGISTERS>(&delta[j * TILE..][..TILE])[group];
        let mut total = [simd.splat_f64s(0.0); REGISTERS];
        // Two elements at a time share the loads.
        for i in (0..p - p % 2).step_by(2) {
            let (upper, lower) = factor[packed_len(i)..packed_len(i + 2)].split_at(i + 1);
            let mut first = [simd.splat_f64s(0.0); REGISTERS];
            let mut second = first;
            for j in 0..=i {
                let values = rows(j);
                add_multiple(simd, &mut first, upper[j], values);
                add_multiple(simd, &mut second, lower[j], values);
            }
            add_multiple(simd, &mut second, lower[i + 1], rows(i + 1));
            add_squares(simd, &mut total, &first);
            add_squares(simd, &mut total, &second);
        }
        if p % 2 == 1 {
            let last = &factor[packed_len(p - 1)..];
            let mut sum = [simd.splat_f64s(0.0); REGISTERS];
            for (j, value) in last.iter().enumerate() {
                add_multiple(simd, &mut sum, *value, rows(j));
            }
            add_squares(simd, &mut total, &sum);
        }
        groups_mut::<S, REGISTERS>(out)[group] = total;
    }
}

/// The least squared distance from a component of each population; ∞ where it is not finite.
#[inline(always)]
fn least(mixture: &Mixture, tile: &mut Tile) {
    for (range, least) in mixture.ranges().zip(tile.least.chunks_exact_mut(TILE)) {
        least.fill(f64::INFINITY);
        for squared in tile.squared[range.start * TILE..range.end * TILE].chunks_exact(TILE) {
            for (least, &squared) in least.iter_mut().zip(squared) {
                *least = if squared < *least { squared } else { *least };
            }
        }
    }
}

/// For each component, the logarithm of its weight times its density, up to a constant; and the
/// greatest of all components. −∞ where the squared distance is not finite.
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

/// The logarithm of the posterior of each population, up to a constant that all populations share. It
/// tells populations apart whose posteriors round to 0 or 1.
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

/// The best population of each observation, from 1, and 0 for none.
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

/// The `count` best populations of an observation, the first of equal ones first.
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

#[cfg(test)]
pub mod tests {
    use pulp::Scalar;

    use super::super::{Components, Shape};
    use super::*;
    use crate::testing::Random;

    /// All that can be wanted of a matrix in column-major order.
    #[derive(Debug, PartialEq)]
    pub struct Answers {
        pub distance: Vec<f64>,
        pub posterior: Vec<f64>,
        by_distance: Vec<i32>,
        by_posterior: Vec<i32>,
    }

    fn numbers(
        mixture: &Mixture,
        values: &[f64],
        n: usize,
        wanted: Wanted,
    ) -> (Vec<i32>, Vec<f64>) {
        let used: Vec<usize> = (0..mixture.columns).collect();
        let x = Columns::new(values, n, &used).unwrap();
        let (of_integers, of_doubles) = wanted.columns(mixture.populations());
        let (mut integers, mut doubles) = (vec![-1; n * of_integers], vec![-1.0; n * of_doubles]);
        let (cpu, monitor) = (Cpu::new(2).unwrap(), Monitor::default());
        let found = assign(
            mixture,
            &x,
            wanted,
            &mut integers,
            &mut doubles,
            &cpu,
            &monitor,
        );
        assert_eq!(found, Ok(true));
        (integers, doubles)
    }

    pub fn answers(mixture: &Mixture, values: &[f64], n: usize, threads: usize) -> Answers {
        let used: Vec<usize> = (0..mixture.columns).collect();
        let x = Columns::new(values, n, &used).unwrap();
        let (cpu, monitor) = (Cpu::new(threads).unwrap(), Monitor::default());
        let run = |wanted: Wanted| {
            let (of_integers, of_doubles) = wanted.columns(mixture.populations());
            let (mut integers, mut doubles) =
                (vec![-1; n * of_integers], vec![-1.0; n * of_doubles]);
            let found = assign(
                mixture,
                &x,
                wanted,
                &mut integers,
                &mut doubles,
                &cpu,
                &monitor,
            );
            assert_eq!(found, Ok(true));
            (integers, doubles)
        };
        let class = |by| {
            let limit = f64::INFINITY;
            run(Wanted::Class { by, limit }).0
        };
        Answers {
            distance: run(Wanted::All(Measure::Distance)).1,
            posterior: run(Wanted::All(Measure::Posterior)).1,
            by_distance: class(Measure::Distance),
            by_posterior: class(Measure::Posterior),
        }
    }

    /// Components about random points; every second one has a twin.
    fn some_mixture(random: &mut Random, p: usize, ends: Vec<usize>) -> Mixture {
        let count = *ends.last().unwrap();
        let mut components = Components {
            columns: p,
            means: Vec::new(),
            sizes: Vec::new(),
            shape: Shape::Variance(1.0),
        };
        let mut covariances = Vec::new();
        for c in 0..count {
            if c % 2 == 1 {
                let means = &mut components.means;
                means.extend_from_within(means.len() - p..);
                covariances.extend_from_within(covariances.len() - packed_len(p)..);
                components.sizes.push(components.sizes[c - 1]);
                continue;
            }
            components
                .means
                .extend((0..p).map(|_| 3.0 * random.normal()));
            components.sizes.push((1 + random.below(1000)) as f64);
            for i in 0..p {
                covariances.extend((0..i).map(|_| 0.2 * random.uniform()));
                covariances.push(p as f64 * (0.5 + random.uniform()));
            }
        }
        components.shape = Shape::Covariances(covariances);
        Mixture::new(&components, ends).unwrap()
    }

    fn points(random: &mut Random, n: usize, p: usize) -> Vec<f64> {
        (0..n * p).map(|_| 3.0 * random.normal()).collect()
    }

    #[test]
    fn classes_are_the_first_best_populations() {
        let mut random = Random(3);
        let n = 3 * ROWS_PER_TASK + 77;
        let mixture = some_mixture(&mut random, 5, vec![1, 2, 4, 5, 6]);
        let values = points(&mut random, n, 5);
        let found = answers(&mixture, &values, n, 2);
        let best = |row: usize, of: &[f64], sign: f64| {
            let value = |k: usize| sign * of[k * n + row];
            let first = (1..5).fold(0, |best, k| if value(k) < value(best) { k } else { best });
            first as i32 + 1
        };
        let mut of_twins = 0;
        for row in 0..n {
            assert_eq!(found.by_distance[row], best(row, &found.distance, 1.0));
            assert_eq!(found.by_posterior[row], best(row, &found.posterior, -1.0));
            of_twins += usize::from(found.by_distance[row] == 1);
            // Populations 1 and 2, 4 and 5 are twins.
            assert_ne!(found.by_distance[row], 2);
            assert_ne!(found.by_posterior[row], 5);
        }
        assert!(of_twins > 100);
    }

    #[test]
    fn observations_beyond_the_limit_are_in_no_population() {
        let mut random = Random(4);
        let (n, p) = (1000, 4);
        let mixture = some_mixture(&mut random, p, vec![1, 3]);
        let values = points(&mut random, n, p);
        let all = answers(&mixture, &values, n, 1);
        for (by, class) in [
            (Measure::Distance, &all.by_distance),
            (Measure::Posterior, &all.by_posterior),
        ] {
            let limit = 4.0;
            let (found, _) = numbers(&mixture, &values, n, Wanted::Class { by, limit });
            let mut none = 0;
            for row in 0..n {
                let own = all.distance[(class[row] as usize - 1) * n + row];
                let expected = if own > 2.0 { 0 } else { class[row] };
                assert_eq!(found[row], expected);
                none += usize::from(expected == 0);
            }
            assert!(0 < none && none < n);
        }
    }

    #[test]
    fn the_top_are_the_best_in_their_order() {
        let mut random = Random(5);
        let (n, p) = (500, 3);
        let mixture = some_mixture(&mut random, p, vec![1, 2, 3, 4, 6]);
        let values = points(&mut random, n, p);
        let all = answers(&mixture, &values, n, 1);
        for (measure, of, sign) in [
            (Measure::Distance, &all.distance, 1.0),
            (Measure::Posterior, &all.posterior, -1.0),
        ] {
            for count in [1, 2, 5] {
                let wanted = Wanted::Top { measure, count };
                let (index, value) = numbers(&mixture, &values, n, wanted);
                for row in 0..n {
                    let mut order: Vec<usize> = (0..5).collect();
                    let key = |k: usize| sign * of[k * n + row];
                    // A stable sort.
                    order.sort_by(|&a, &b| key(a).total_cmp(&key(b)));
                    for rank in 0..count {
                        assert_eq!(index[rank * n + row] as usize, order[rank] + 1);
                        assert_eq!(value[rank * n + row], of[order[rank] * n + row]);
                    }
                }
            }
        }
    }

    #[test]
    fn values_that_are_not_finite_are_found_wherever_they_are() {
        let mut random = Random(6);
        let (n, p) = (2 * ROWS_PER_TASK + 3, 2);
        let mixture = some_mixture(&mut random, p, vec![1, 2]);
        let values = points(&mut random, n, p + 1);
        // The second column is not of the mixture.
        let used = [0, 2];
        let (cpu, monitor) = (Cpu::new(2).unwrap(), Monitor::default());
        let wanted = Wanted::All(Measure::Distance);
        let is_finite = |values: &[f64]| {
            let x = Columns::new(values, n, &used).unwrap();
            let mut doubles = vec![0.0; 2 * n];
            assign(&mixture, &x, wanted, &mut [], &mut doubles, &cpu, &monitor).unwrap()
        };
        assert!(is_finite(&values));
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for row in [0, TILE - 1, ROWS_PER_TASK, n - 1] {
                for column in 0..=p {
                    let mut values = values.clone();
                    values[column * n + row] = bad;
                    assert_eq!(is_finite(&values), column == 1);
                }
            }
        }
    }

    #[test]
    fn distances_that_overflow_belong_to_no_population() {
        let mixture = some_mixture(&mut Random(7), 2, vec![1, 2]);
        let values = [1e308, 0.0, -1e308, 0.0];
        let found = answers(&mixture, &values, 2, 1);
        assert_eq!([found.by_distance[0], found.by_posterior[0]], [0, 0]);
        assert_eq!([found.by_distance[1], found.by_posterior[1]], [1, 1]);
        assert_eq!([found.distance[0], found.distance[2]], [f64::INFINITY; 2]);
        assert!(found.posterior[0].is_nan() && found.posterior[2].is_nan());
        assert_eq!(found.posterior[1] + found.posterior[3], 1.0);
    }

    #[test]
    fn no_rows_have_no_results() {
        let mixture = some_mixture(&mut Random(8), 2, vec![1]);
        let found = answers(&mixture, &[], 0, 2);
        assert!(found.distance.is_empty() && found.by_distance.is_empty());
    }

    #[test]
    fn results_have_the_bits_of_a_processor_without_wide_registers() {
        let mut random = Random(9);
        for p in [1, 2, 5, 14, 33] {
            let mixture = some_mixture(&mut random, p, vec![1, 3, 4]);
            let n = 2 * TILE + 9;
            let values = points(&mut random, n, p);
            let used: Vec<usize> = (0..p).collect();
            let x = Columns::new(&values, n, &used).unwrap();
            for measure in [Measure::Distance, Measure::Posterior] {
                let wanted = Wanted::All(measure);
                let mut doubles = vec![0.0; 3 * n];
                let mut tile = Tile::new(&mixture).unwrap();
                let task = Task {
                    first: 0,
                    rows: n,
                    integers: Vec::new(),
                    doubles: doubles.chunks_mut(n).collect(),
                };
                let (mixture, x, tile) = (&mixture, &x, &mut tile);
                let scalar = Assignment {
                    mixture,
                    x,
                    wanted,
                    task,
                    tile,
                };
                assert!(scalar.with_simd(Scalar::new()));
                assert!(numbers(mixture, &values, n, wanted).1 == doubles, "{p}");
            }
        }
    }

    #[test]
    fn an_interrupt_stops_it() {
        let mixture = some_mixture(&mut Random(10), 2, vec![1]);
        let values = points(&mut Random(10), 100, 2);
        let x = Columns::new(&values, 100, &[0, 1]).unwrap();
        let monitor = Monitor::default();
        monitor.stop();
        let wanted = Wanted::All(Measure::Distance);
        let cpu = Cpu::new(1).unwrap();
        let found = assign(
            &mixture,
            &x,
            wanted,
            &mut [],
            &mut [0.0; 100],
            &cpu,
            &monitor,
        );
        assert_eq!(found, Err(crate::Error::Interrupt));
    }
}
