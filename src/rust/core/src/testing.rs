//! Shared helpers of tests.

mod failing;

pub use failing::FailingDevice;

use ndarray::Array2;
pub mod rows;
#[cfg(test)]
pub mod shrink;

use crate::mahalanobis::{Distance, Options, Subthreshold};
use crate::metric::{Metric, ZeroOverZero};
use crate::neighbours::single::RowSum;
use crate::Observations;

/// A small generator of random numbers (xorshift64*), so that every failure repeats.
pub struct Random(pub u64);

/// The environment variable with the seed of random tests. Proptest reads it by itself.
const SEED: &str = "PROPTEST_RNG_SEED";

impl Random {
    /// A generator for tests of claims that hold for any data: it gives the same numbers in every
    /// run, and other numbers for each seed in the environment. `own` distinguishes tests; it must
    /// not be 0.
    pub fn of(own: u64) -> Self {
        let given = std::env::var(SEED).map_or(0, |seed| {
            let seed: Result<u64, _> = seed.parse();
            seed.unwrap_or_else(|_| panic!("{SEED} is not a whole number"))
        });
        // The factor is odd, so that no two seeds give the same numbers; seed 0 gives the numbers
        // of a run without a seed.
        let mixed = own ^ given.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Self(if mixed == 0 { own } else { mixed })
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.uniform() * end as f64) as usize
    }

    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// A matrix of these values, row by row.
pub fn array(values: Vec<f64>, rows: usize, columns: usize) -> Array2<f64> {
    Array2::from_shape_vec((rows, columns), values).expect("there are this many values")
}

/// Options for tests that need any: centroid distances, and a small threshold.
pub const CENTROID_OPTIONS: Options = Options {
    threshold: 5.0,
    subthreshold: Subthreshold::Mahal,
    distance: Distance::Centroid,
    normalize: false,
    apriori_intra: true,
};

/// As [`array`], but checked.
pub fn observations(values: Vec<f64>, rows: usize, columns: usize) -> Observations {
    Observations::new(array(values, rows, columns)).expect("the values are finite")
}

/// Kinds of data.
#[derive(Debug, Clone, Copy)]
pub enum Data {
    Plain,
    Mixture,
    Duplicates,
    Grid,
    Constant,
    Collinear,
    Tiny,
    Huge,
    Offset,
    Outliers,
    /// Some rows are equal, with zeros of both signs.
    ZeroInflated,
    Counts,
    AllEqual,
    /// One value far beyond all others.
    Saturated,
    HeavyTails,
    /// Tight groups far apart.
    Islands,
    /// Different rows at distances that underflow to 0, or that vanish in sums of distances.
    Minute,
    /// Squares, and those of whitening factors, leave the range of single precision.
    Astronomic,
}

pub const DATA: [Data; 18] = [
    Data::Plain,
    Data::Mixture,
    Data::Duplicates,
    Data::Grid,
    Data::Constant,
    Data::Collinear,
    Data::Tiny,
    Data::Huge,
    Data::Offset,
    Data::Outliers,
    Data::ZeroInflated,
    Data::Counts,
    Data::AllEqual,
    Data::Saturated,
    Data::HeavyTails,
    Data::Islands,
    Data::Minute,
    Data::Astronomic,
];

/// `n` points in `p` dimensions.
pub fn draw(random: &mut Random, data: Data, n: usize, p: usize) -> Observations {
    let mut values: Vec<f64> = (0..n * p).map(|_| random.normal()).collect();
    match data {
        Data::Plain => {}
        Data::Mixture => {
            for row in values.chunks_mut(p) {
                let component = random.below(3) as f64;
                for (k, value) in row.iter_mut().enumerate() {
                    *value = *value * (0.2 + k as f64) + 6.0 * component;
                }
            }
        }
        Data::Duplicates => {
            for _ in 0..n {
                let (from, to) = (random.below(n), random.below(n));
                for k in 0..p {
                    values[to * p + k] = values[from * p + k];
                }
            }
        }
        Data::Grid => values.iter_mut().for_each(|v| *v = v.round()),
        Data::Constant => values.iter_mut().step_by(p).for_each(|v| *v = 3.5),
        Data::Collinear => {
            for row in values.chunks_mut(p) {
                row[p - 1] = 2.0 * row[0];
            }
        }
        Data::Tiny => values.iter_mut().for_each(|v| *v *= 1e-8),
        Data::Huge => values.iter_mut().for_each(|v| *v *= 1e8),
        Data::Astronomic => {
            let unit = 10f64.powi(18 + random.below(23) as i32);
            values.iter_mut().for_each(|v| *v *= unit);
        }
        Data::Offset => values.iter_mut().for_each(|v| *v = *v * 1e-3 + 1e6),
        Data::Outliers => {
            for _ in 0..3 {
                let at = random.below(n * p);
                values[at] *= 1e5;
            }
        }
        Data::ZeroInflated => {
            for row in values.chunks_mut(p) {
                if random.below(10) < 7 {
                    let signs = |v: &mut f64| *v = if *v < 0.0 { -0.0 } else { 0.0 };
                    row.iter_mut().for_each(signs);
                }
            }
        }
        Data::Counts => {
            let count = |v: &mut f64| *v = (v.abs() * 0.9).floor();
            values.iter_mut().for_each(count);
        }
        Data::AllEqual => values.fill(1.5),
        Data::Saturated => values[random.below(n * p)] = 1e10,
        Data::HeavyTails => values.iter_mut().for_each(|v| *v = (8.0 * *v).exp()),
        Data::Islands => {
            for row in values.chunks_mut(p) {
                row[0] += 1e9 * random.below(3) as f64;
            }
        }
        Data::Minute => {
            let unit = if random.below(2) == 0 { 1e-165 } else { 1e-30 };
            for row in values.chunks_mut(p) {
                let far = random.below(8) == 0;
                let value = |v: &mut f64| *v = v.round() * if far { 1.0 } else { unit };
                row.iter_mut().for_each(value);
            }
        }
    }
    observations(values, n, p)
}

/// The metrics of R's `dist`.
pub fn dist_metrics() -> Vec<Metric> {
    let mut metrics = vec![
        Metric::Euclidean,
        Metric::Maximum,
        Metric::Manhattan,
        Metric::Binary,
        Metric::Minkowski(0.5),
        Metric::Minkowski(2.0),
        Metric::Minkowski(3.0),
    ];
    metrics.extend(
        [ZeroOverZero::Omitted, ZeroOverZero::Zero, ZeroOverZero::One].map(Metric::Canberra),
    );
    metrics
}

/// The correlations and the cosine.
pub fn correlations() -> Vec<Metric> {
    [false, true]
        .iter()
        .flat_map(|&absolute| {
            [
                Metric::Pearson { absolute },
                Metric::Spearman { absolute },
                Metric::Cosine { absolute },
            ]
        })
        .collect()
}

/// Random values of one of several kinds. If there are `holes`, about 1 in 8 values is one of them.
pub fn values(random: &mut Random, size: usize, holes: &[f64]) -> Vec<f64> {
    let kind = random.below(4);
    (0..size)
        .map(|_| match (kind, random.below(8)) {
            (_, 0) if !holes.is_empty() => holes[random.below(holes.len())],
            (0, _) => random.normal(),
            (1, _) => random.below(3) as f64 - 1.0,
            (2, _) => random.normal().round() * 1e-3 + 1e3,
            (_, 1) => 0.0,
            _ => random.normal() * 10f64.powi(random.below(40) as i32 - 20),
        })
        .collect()
}

/// Points of many kinds, among them points that single precision can hardly separate.
pub fn cloud(random: &mut Random, n: usize, p: usize) -> Observations {
    let sort = random.below(DATA.len() + 4);
    if sort < DATA.len() {
        return draw(random, DATA[sort], n, p);
    }
    let mut values: Vec<f64> = match sort - DATA.len() {
        0 => (0..n * p).map(|_| random.below(3) as f64).collect(),
        // Values of all magnitudes, also values whose squares or even differences overflow.
        1 => (0..n * p)
            .map(|_| random.normal() * 2f64.powi(random.below(2040) as i32 - 1020))
            .collect(),
        _ => values(random, n * p, &[]),
    };
    if random.below(2) == 0 {
        // Islands far apart.
        for row in values.chunks_mut(p) {
            let island = 1e5 * random.below(3) as f64;
            row.iter_mut().for_each(|v| *v += island);
        }
    }
    observations(values, n, p)
}

/// The sum that a sweep accumulates, computed sequentially and without fused operations.
pub fn sum(sums: RowSum, a: &[f32], b: &[f32]) -> f32 {
    let pairs = a.iter().zip(b);
    match sums {
        RowSum::Squares => pairs.map(|(a, b)| (a - b) * (a - b)).sum(),
        RowSum::Magnitudes => pairs.map(|(a, b)| (a - b).abs()).sum(),
        RowSum::Greatest => pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max),
        RowSum::Quotients => pairs
            .filter(|(a, b)| **a != 0.0 || **b != 0.0)
            .map(|(a, b)| (a - b).abs() / (a.abs() + b.abs()))
            .sum(),
        RowSum::Products => -pairs.map(|(a, b)| a * b).sum::<f32>(),
        RowSum::AbsoluteProducts => -pairs.map(|(a, b)| a * b).sum::<f32>().abs(),
    }
}
