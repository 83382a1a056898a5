//! Kernel density estimation in one dimension: a Gaussian kernel on a grid, as in R's `density()`.

use super::moments::dot;

/// Number of points of the grid.
const POINTS: usize = 512;

/// Radius of the kernel, in standard deviations. Beyond it, the kernel counts as 0; the area there
/// is 7e-6 of the whole.
const KERNEL_RADIUS: f64 = 4.5;

/// Weighted numbers in increasing order; each stands for a number of members, its weight.
#[derive(Debug, Clone)]
pub struct WeightedSample {
    values: Vec<f64>,
    weights: Vec<f64>,
    /// The rank of each number: the sum of the weights before it plus half its own weight, as a
    /// share of all weights.
    ranks: Vec<f64>,
}

impl WeightedSample {
    /// Numbers in any order, with a weight each.
    pub fn new(values: Vec<f64>, weights: &[f64]) -> Self {
        let mut order: Vec<u32> = (0..values.len() as u32).collect();
        order.sort_by(|&a, &b| values[a as usize].total_cmp(&values[b as usize]));
        let weights: Vec<f64> = order.iter().map(|&i| weights[i as usize]).collect();
        let total: f64 = weights.iter().sum();
        let mut before = 0.0;
        let rank = |weight: &f64| {
            let rank = (before + weight / 2.0) / total;
            before += weight;
            rank
        };
        Self {
            ranks: weights.iter().map(rank).collect(),
            values: order.iter().map(|&i| values[i as usize]).collect(),
            weights,
        }
    }

    /// Numbers with weight 1 each.
    pub fn equal(values: Vec<f64>) -> Self {
        let weights = vec![1.0; values.len()];
        Self::new(values, &weights)
    }

    /// The least and the greatest number.
    pub fn range(&self) -> Interval {
        Interval {
            from: self.values[0],
            to: self.values[self.values.len() - 1],
        }
    }

    /// The quantile by linear interpolation of the ranks (Hazen's, type 5 in R).
    pub fn quantile(&self, share: f64) -> f64 {
        let above = self.ranks.partition_point(|&rank| rank < share);
        if above == 0 || above == self.ranks.len() {
            return self.values[above.min(self.ranks.len() - 1)];
        }
        let (low, high) = (self.values[above - 1], self.values[above]);
        let (before, after) = (self.ranks[above - 1], self.ranks[above]);
        low + (share - before) / (after - before) * (high - low)
    }

    /// The median, by [`WeightedSample::quantile`].
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The number of equal weights that would estimate as well as these (Kish 1965).
    pub fn effective_count(&self) -> f64 {
        let total: f64 = self.weights.iter().sum();
        total * total / dot(&self.weights, &self.weights)
    }

    /// `count` evenly spread quantiles.
    pub fn thinned(&self, count: usize) -> impl Iterator<Item = f64> + '_ {
        (0..count).map(move |i| self.quantile((i as f64 + 0.5) / count as f64))
    }

    /// The spread of Silverman's rule for the width of a kernel, as in R's `bw.nrd0()`: the smaller
    /// of the standard deviation and the interquartile range / 1.34.
    pub fn spread(&self) -> f64 {
        let total: f64 = self.weights.iter().sum();
        let centre = dot(&self.values, &self.weights) / total;
        let differences = self.values.iter().map(|v| v - centre);
        let squares: Vec<f64> = differences.map(|d| d * d).collect();
        let count = self.effective_count();
        let variance = dot(&squares, &self.weights) / total * (count / (count - 1.0));
        let range = (self.quantile(0.75) - self.quantile(0.25)) / 1.34;
        if range > 0.0 {
            range.min(variance.sqrt())
        } else {
            variance.sqrt()
        }
    }

    /// The width of a kernel by Silverman's rule.
    pub fn kernel_width(&self) -> f64 {
        0.9 * self.spread() * self.effective_count().powf(-0.2)
    }
}

/// An interval.
#[derive(Debug, Clone, Copy)]
pub struct Interval {
    pub from: f64,
    pub to: f64,
}

/// The density of two lists of numbers at evenly spaced points of `range`, up to a factor. Each
/// list has its given total weight; `width` is the standard deviation of the kernel.
pub fn density(lists: [(&WeightedSample, f64); 2], width: f64, range: Interval) -> Vec<f64> {
    let step = (range.to - range.from) / (POINTS - 1) as f64;
    let reach = (KERNEL_RADIUS * width / step).ceil() as usize;
    // The counts at grid points, with a margin from which the kernel reaches into the range.
    let mut counts = vec![0.0; POINTS + 2 * reach + 1];
    for (list, weight) in lists {
        let unit = weight / list.weights.iter().sum::<f64>();
        for (value, weight) in list.values.iter().zip(&list.weights) {
            let place = (value - range.from) / step + reach as f64;
            if place >= 0.0 && place < (counts.len() - 1) as f64 {
                let (low, part) = (place.floor() as usize, place.fract());
                counts[low] += unit * weight * (1.0 - part);
                counts[low + 1] += unit * weight * part;
            }
        }
    }
    let kernel = (0..=2 * reach).map(|i| {
        let distance = (i as f64 - reach as f64) * step / width;
        (-0.5 * distance * distance).exp()
    });
    let kernel: Vec<f64> = kernel.collect();
    let point = |i: usize| dot(&kernel, &counts[i..][..kernel.len()]);
    (0..POINTS).map(point).collect()
}
