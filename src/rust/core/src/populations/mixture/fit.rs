//! Means and covariances of populations.

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::{whitening, Columns, Components, Shape, MIXTURE};
use crate::cpu::Cpu;
use crate::error::{Error, Result};
use crate::mahalanobis::lanes::WIDEST;
use crate::mahalanobis::packed::packed_len;
use crate::memory;
use crate::monitor::Monitor;
use crate::simd::dispatch;

/// Number of rows that are transposed together, few enough to stay in cache, and the smallest
/// number of rows of a part. Another number changes the last bits of results for few rows.
const TILE: usize = 64;

/// Largest number of parts of the rows, whose sums are added in order. It must not depend on the
/// number of threads, since the order of sums determines the bits; it is large enough to keep the
/// threads of any machine busy. Another number changes the last bits of results.
const MOST_PARTS: usize = 256;

/// Bytes that the sums of all parts may take; limits the number of parts. Another number changes
/// the last bits of results with many columns or populations; if too large, memory may run out.
const BYTES_OF_PARTS: usize = 1 << 28;

/// Number of rows of a part, for this number of sums.
fn rows_of_part(rows: usize, sums: usize) -> usize {
    let parts = (BYTES_OF_PARTS / (size_of::<f64>() * sums).max(1)).clamp(1, MOST_PARTS);
    rows.div_ceil(parts).max(TILE)
}

/// An upper bound on the bytes that [`fit()`] takes for these numbers of rows, columns and
/// populations.
pub fn bytes_of_fit(rows: usize, p: usize, populations: usize) -> f64 {
    let squares = if rows < p + populations {
        ProductsToSum::Diagonal
    } else {
        ProductsToSum::All
    };
    let sums = populations * (p + squares.count(p));
    let parts = rows.div_ceil(rows_of_part(rows, sums));
    // Plus the covariances, with a copy for R.
    (size_of::<f64>() * (sums * (parts + 1) + 2 * populations * squares.count(p))) as f64
}

/// The components of populations, one for each.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    pub components: Components,
    /// The populations, from 0, whose own covariance is singular. They have the pooled covariance.
    pub singular: Vec<usize>,
}

/// The mean and the covariance of each of `populations` populations. `population` is, by row, the
/// number of its population, from 1, or 0 for none.
///
/// The divisor of covariances is the number of members less 1. A population whose covariance is
/// singular, for example with no more members than columns, gets the pooled covariance within
/// populations. If the pooled covariance is singular, too, all populations get one variance, the
/// mean of its diagonal.
///
/// Takes O(n·p²) time, on the threads of `cpu`. Besides the result, takes at most 256 MiB for the
/// sums of all parts, or, if larger, 8·k·p² bytes for the sums of one part.
///
/// # Errors
/// `Error::Input` if a population has no members, or if squares of its values overflow;
/// `Error::Memory` and `Error::Interrupt`.
pub fn fit(
    x: &Columns,
    population: &[i32],
    populations: usize,
    cpu: &Cpu,
    monitor: &Monitor,
) -> Result<Fitted> {
    let p = x.count();
    let mut sizes = vec![0.0; populations];
    let mut firsts = vec![0; populations];
    for (row, &number) in population.iter().enumerate() {
        if number > 0 {
            let c = number as usize - 1;
            if sizes[c] == 0.0 {
                firsts[c] = row;
            }
            sizes[c] += 1.0;
        }
    }
    if sizes.contains(&0.0) {
        return Err(Error::Input("a population has no members".into()));
    }
    monitor.expect(2 * x.rows() as u64);
    // Sums about a member lose no digits far from 0, and are exactly 0 for a constant column.
    let mut means = memory::room(MIXTURE, populations * p)?;
    for first in firsts {
        means.extend((0..p).map(|j| x.value(first, j)));
    }
    let data = FitData {
        x,
        population,
        populations,
        monitor,
    };
    let sums = cpu.install(|| data.sums(&means, ProductsToSum::None))?.sums;
    add_means(&mut means, &sums, p, &sizes);

    // First, sums of squares about a point near the mean; then, about the mean itself.
    let freedom: f64 = sizes.iter().map(|size| size - 1.0).sum();
    let squares = if freedom < p as f64 {
        ProductsToSum::Diagonal
    } else {
        ProductsToSum::All
    };
    let mut about = cpu.install(|| data.sums(&means, squares))?;
    let width = squares.width(p);
    for (c, (sums, &size)) in about.sums.chunks_exact(p).zip(&sizes).enumerate() {
        let of_population = &mut about.squares[c * squares.count(p)..][..squares.count(p)];
        for i in 0..p {
            match squares {
                ProductsToSum::All => {
                    let row = of_population[i * width..][..=i].iter_mut().zip(sums);
                    row.for_each(|(square, sum)| *square -= sums[i] * (sum / size));
                }
                _ => of_population[i] -= sums[i] * (sums[i] / size),
            }
        }
    }
    add_means(&mut means, &about.sums, p, &sizes);
    if !about
        .squares
        .iter()
        .chain(&means)
        .all(|value| value.is_finite())
    {
        let message = "`x` has values whose squares are too large for a covariance";
        return Err(Error::Input(message.into()));
    }

    let spread = |squares_of: &dyn Fn(usize, usize) -> f64| {
        let all = (0..populations).flat_map(|c| (0..p).map(move |i| (c, i)));
        let variance = all.map(|(c, i)| squares_of(c, i)).sum::<f64>() / (freedom * p as f64);
        Shape::Variance(if variance > 0.0 { variance } else { 1.0 })
    };
    let (shape, singular) = match squares {
        ProductsToSum::All => {
            let mut covariances = memory::room(MIXTURE, populations * packed_len(p))?;
            for row in about.squares.chunks_exact(p * width) {
                (0..p).for_each(|i| covariances.extend_from_slice(&row[i * width..][..=i]));
            }
            drop(about);
            let diagonal = |c: usize, i: usize| covariances[c * packed_len(p) + packed_len(i) + i];
            let spherical = spread(&diagonal);
            match regular(&mut covariances, p, &sizes, freedom)? {
                Ok(singular) => (Shape::Covariances(covariances), singular),
                Err(singular) => (spherical, singular),
            }
        }
        _ => {
            let diagonal = |c: usize, i: usize| about.squares[c * p + i];
            (spread(&diagonal), (0..populations).collect())
        }
    };
    Ok(Fitted {
        components: Components {
            columns: p,
            means,
            sizes,
            shape,
        },
        singular,
    })
}

/// Adds the `p` sums of each population, divided by its size, to its point.
fn add_means(points: &mut [f64], sums: &[f64], p: usize, sizes: &[f64]) {
    let populations = points.chunks_exact_mut(p).zip(sums.chunks_exact(p));
    for ((point, sums), size) in populations.zip(sizes) {
        let values = point.iter_mut().zip(sums);
        values.for_each(|(point, sum)| *point += sum / size);
    }
}

/// Turns packed sums of squares into regular covariances: each population's own covariance or, if
/// that is singular, the pooled one. Returns the numbers of the populations with the pooled
/// covariance; as an error if the pooled covariance is singular, too.
fn regular(
    squares: &mut [f64],
    p: usize,
    sizes: &[f64],
    freedom: f64,
) -> Result<std::result::Result<Vec<usize>, Vec<usize>>> {
    let length = packed_len(p);
    let mut pooled = memory::zeros::<f64>(MIXTURE, length)?;
    for squares in squares.chunks_exact(length) {
        pooled
            .iter_mut()
            .zip(squares)
            .for_each(|(sum, square)| *sum += square);
    }
    pooled.iter_mut().for_each(|sum| *sum /= freedom);
    let mut factor = memory::zeros(MIXTURE, length)?;
    let mut singular = Vec::new();
    for (c, (squares, &size)) in squares.chunks_exact_mut(length).zip(sizes).enumerate() {
        squares
            .iter_mut()
            .for_each(|square| *square /= (size - 1.0).max(1.0));
        if size <= p as f64 || !whitening(squares, p, &mut factor)? {
            singular.push(c);
        }
    }
    if !singular.is_empty() && !whitening(&pooled, p, &mut factor)? {
        return Ok(Err(singular));
    }
    for &c in &singular {
        squares[c * length..][..length].copy_from_slice(&pooled);
    }
    Ok(Ok(singular))
}

/// Which products of differences are summed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ProductsToSum {
    None,
    /// Only the squares of each column.
    Diagonal,
    All,
}

impl ProductsToSum {
    /// The length of a row of sums, padded to whole registers.
    fn width(self, p: usize) -> usize {
        match self {
            ProductsToSum::All => p.next_multiple_of(WIDEST),
            _ => p,
        }
    }

    /// The number of sums of a population.
    fn count(self, p: usize) -> usize {
        match self {
            ProductsToSum::None => 0,
            ProductsToSum::Diagonal => p,
            ProductsToSum::All => p * self.width(p),
        }
    }
}

/// By population, the sums of differences from a point, and of their products.
struct PopulationSums {
    sums: Vec<f64>,
    squares: Vec<f64>,
}

impl PopulationSums {
    fn new(populations: usize, p: usize, squares: ProductsToSum) -> Result<Self> {
        Ok(Self {
            sums: memory::zeros(MIXTURE, populations * p)?,
            squares: memory::zeros(MIXTURE, populations * squares.count(p))?,
        })
    }

    fn add(&mut self, other: &Self) {
        let add = |to: &mut [f64], from: &[f64]| {
            to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        };
        add(&mut self.sums, &other.sums);
        add(&mut self.squares, &other.squares);
    }
}

struct FitData<'a> {
    x: &'a Columns<'a>,
    population: &'a [i32],
    populations: usize,
    monitor: &'a Monitor,
}

impl FitData<'_> {
    /// The sums of all rows about the point `about` of each population, on the threads of the
    /// calling pool.
    fn sums(&self, about: &[f64], squares: ProductsToSum) -> Result<PopulationSums> {
        let (p, n) = (self.x.count(), self.x.rows());
        let rows = rows_of_part(n, self.populations * (p + squares.count(p)));
        let parts = (0..n).into_par_iter().step_by(rows).map(|first| {
            let part = RowsPart {
                data: self,
                about,
                squares,
                rows: first..n.min(first + rows),
                tile: memory::zeros(MIXTURE, TILE * p.next_multiple_of(WIDEST))?,
                sums: PopulationSums::new(self.populations, p, squares)?,
            };
            dispatch(part)
        });
        let parts: Vec<PopulationSums> = parts.collect::<Result<_>>()?;
        let mut parts = parts.into_iter();
        let mut all = match parts.next() {
            Some(first) => first,
            None => PopulationSums::new(self.populations, p, squares)?,
        };
        parts.for_each(|part| all.add(&part));
        Ok(all)
    }
}

/// A part of the rows, processed row by row.
struct RowsPart<'a> {
    data: &'a FitData<'a>,
    about: &'a [f64],
    squares: ProductsToSum,
    rows: std::ops::Range<usize>,
    /// Rows of the matrix, padded with zeros to whole registers.
    tile: Vec<f64>,
    sums: PopulationSums,
}

impl WithSimd for RowsPart<'_> {
    type Output = Result<PopulationSums>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Result<PopulationSums> {
        let Self {
            data,
            about,
            squares,
            rows,
            mut tile,
            mut sums,
        } = self;
        let p = data.x.count();
        let width = p.next_multiple_of(WIDEST);
        for first in rows.clone().step_by(TILE) {
            data.monitor.check()?;
            let count = TILE.min(rows.end - first);
            for j in 0..p {
                let places = tile[j..].iter_mut().step_by(width);
                let values = data.x.part(j, first, count);
                places.zip(values).for_each(|(to, value)| *to = *value);
            }
            let numbers = &data.population[first..first + count];
            for (row, &number) in tile.chunks_exact_mut(width).zip(numbers) {
                if number <= 0 {
                    continue;
                }
                let c = number as usize - 1;
                let about = &about[c * p..][..p];
                row.iter_mut()
                    .zip(about)
                    .for_each(|(value, about)| *value -= about);
                let of_row = &mut sums.sums[c * p..][..p];
                of_row
                    .iter_mut()
                    .zip(&*row)
                    .for_each(|(sum, value)| *sum += value);
                let of_row = &mut sums.squares[c * squares.count(p)..][..squares.count(p)];
                match squares {
                    ProductsToSum::None => {}
                    ProductsToSum::Diagonal => of_row
                        .iter_mut()
                        .zip(&*row)
                        .for_each(|(sum, value)| *sum = value.mul_add(*value, *sum)),
                    ProductsToSum::All => add_products(row, of_row),
                }
            }
            data.monitor.advance(count as u64);
        }
        Ok(sums)
    }
}

/// Adds the products of a row's values to the rows of the lower triangle, in whole registers.
#[inline(always)]
fn add_products(row: &[f64], sums: &mut [f64]) {
    for (i, sums) in sums.chunks_exact_mut(row.len()).enumerate() {
        let value = row[i];
        let registers = sums.chunks_exact_mut(WIDEST).zip(row.chunks_exact(WIDEST));
        for (sums, others) in registers.take(i / WIDEST + 1) {
            for (sum, other) in sums.iter_mut().zip(others) {
                *sum = value.mul_add(*other, *sum);
            }
        }
    }
}
