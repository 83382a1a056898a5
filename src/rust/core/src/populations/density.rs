//! The density of numbers on a line: a Gaussian kernel on a grid, as R's `density()`.

use super::moments::{dot, mean};

/// Points of the grid.
const POINTS: usize = 512;

/// Widths of the kernel beyond which it counts as 0: its tail there is 4e-6 of the whole.
const REACH: f64 = 4.5;

/// Numbers in increasing order.
#[derive(Debug, Clone)]
pub struct Sorted(Vec<f64>);

impl Sorted {
    pub fn new(mut values: Vec<f64>) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        Self(values)
    }

    pub fn values(&self) -> &[f64] {
        &self.0
    }

    /// R's default quantile (type 7).
    pub fn quantile(&self, share: f64) -> f64 {
        let place = (self.0.len() - 1) as f64 * share;
        let (below, part) = (place.floor(), place.fract());
        let low = self.0[below as usize];
        let high = self.0[(below as usize + 1).min(self.0.len() - 1)];
        low + part * (high - low)
    }

    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// `count` evenly spread quantiles.
    pub fn thinned(&self, count: usize) -> impl Iterator<Item = f64> + '_ {
        let step = self.0.len() as f64 / count as f64;
        (0..count).map(move |i| self.0[((i as f64 + 0.5) * step) as usize])
    }

    /// The spread of Silverman's rule for the width of a kernel, as in R's `bw.nrd0()`: the smaller
    /// of the standard deviation and the interquartile range / 1.34.
    pub fn spread(&self) -> f64 {
        let centre = mean(&self.0);
        let differences: Vec<f64> = self.0.iter().map(|v| v - centre).collect();
        let variance = dot(&differences, &differences) / (self.0.len() - 1) as f64;
        let range = (self.quantile(0.75) - self.quantile(0.25)) / 1.34;
        if range > 0.0 {
            range.min(variance.sqrt())
        } else {
            variance.sqrt()
        }
    }

    /// The width of a kernel by Silverman's rule.
    pub fn kernel_width(&self) -> f64 {
        0.9 * self.spread() * (self.0.len() as f64).powf(-0.2)
    }
}

/// An interval.
#[derive(Debug, Clone, Copy)]
pub struct Interval {
    pub from: f64,
    pub to: f64,
}

/// The density in `range` of numbers, each of which has the weight of its list, with a kernel of
/// this standard deviation; in any unit, at evenly spaced points.
pub fn density(lists: &[(&[f64], f64)], width: f64, range: Interval) -> Vec<f64> {
    let step = (range.to - range.from) / (POINTS - 1) as f64;
    let reach = (REACH * width / step).ceil() as usize;
    // Counts, with a margin from which the kernel reaches into the range.
    let mut counts = vec![0.0; POINTS + 2 * reach + 1];
    for &(values, weight) in lists {
        for value in values {
            let place = (value - range.from) / step + reach as f64;
            if place >= 0.0 && place < (counts.len() - 1) as f64 {
                let (low, part) = (place.floor() as usize, place.fract());
                counts[low] += weight * (1.0 - part);
                counts[low + 1] += weight * part;
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
