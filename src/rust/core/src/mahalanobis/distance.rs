//! The exact distances, which decide the merges: in double precision, and in one fixed order of
//! operations, which the CUDA code repeats.

use pulp::Simd;

use super::packed::packed_len;

/// d(x → C) = ‖W(x−c)‖; `whitening` is a packed lower triangle, or empty for the identity.
#[inline(always)]
pub fn to_cluster(x: &[f64], mean: &[f64], whitening: &[f64]) -> f64 {
    let mut square = 0.0f64;
    if whitening.is_empty() {
        for (x, c) in x.iter().zip(mean) {
            let difference = x - c;
            square = difference.mul_add(difference, square);
        }
    } else {
        for i in 0..mean.len() {
            let row = &whitening[packed_len(i)..][..=i];
            let mut whitened = 0.0f64;
            for ((w, x), c) in row.iter().zip(x).zip(mean) {
                whitened = w.mul_add(x - c, whitened);
            }
            square = whitened.mul_add(whitened, square);
        }
    }
    square.sqrt()
}

/// The distance between two clusters, centroid or full, from its two directed distances.
#[inline(always)]
pub fn average(a_to_b: f64, b_to_a: f64) -> f64 {
    0.5 * (a_to_b + b_to_a)
}

/// A sum whose bits depend neither on the order nor on the grouping of its terms.
///
/// Every term is split at two fixed quanta (pre-rounding; Demmel and Nguyen 2013, "Fast
/// reproducible floating-point summation", doi:10.1109/ARITH.2013.9). Multiples of one quantum add
/// without rounding. So threads, lanes and devices can each add any share of the terms.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ExactSum {
    pub high: f64,
    pub low: f64,
}

/// The quanta of an [`ExactSum`]: adding and subtracting `high` (`low`) rounds to a multiple of
/// the first (second) quantum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quanta {
    pub high: f64,
    pub low: f64,
}

impl Quanta {
    /// Quanta for at most 2^`log2_terms` terms between 0 and `largest`. The dropped rest of each
    /// term is below `largest`·2^(2·`log2_terms` − 104).
    pub fn new(largest: f64, log2_terms: u32) -> Self {
        let terms = (1u64 << log2_terms) as f64;
        // The power of two above `largest`: the exponent's bits, plus one.
        let bound = f64::from_bits((largest.to_bits() >> 52) << 52) * 2.0;
        let high = 1.5 * bound * terms;
        // A first remainder is at most half a first quantum, bound·terms·2^-52.
        let low = high * terms * (0.5 * f64::EPSILON);
        Self { high, low }
    }

    /// The high and the low quantum in all lanes.
    #[inline(always)]
    pub fn splat<S: Simd>(&self, simd: S) -> [S::f64s; 2] {
        [simd.splat_f64s(self.high), simd.splat_f64s(self.low)]
    }

    /// An upper bound on the dropped rest of each term.
    pub fn rounding(&self) -> f64 {
        self.low * f64::EPSILON
    }
}

impl ExactSum {
    /// Adds one term.
    #[inline(always)]
    pub fn add(&mut self, term: f64, quanta: &Quanta) {
        let high = (term + quanta.high) - quanta.high;
        let rest = term - high;
        self.high += high;
        self.low += (rest + quanta.low) - quanta.low;
    }

    /// Adds another sum that used the same quanta.
    #[inline(always)]
    pub fn combine(&mut self, other: &ExactSum) {
        self.high += other.high;
        self.low += other.low;
    }

    /// The sum of `members` terms divided by their number.
    #[inline(always)]
    pub fn mean(&self, members: usize) -> f64 {
        (self.high + self.low) / members as f64
    }
}

/// An [`ExactSum`] for each lane.
#[derive(Debug)]
pub struct ExactSums<S: Simd> {
    high: S::f64s,
    low: S::f64s,
}

impl<S: Simd> ExactSums<S> {
    /// Sums of no terms.
    #[inline(always)]
    pub fn new(simd: S) -> Self {
        let zero = simd.splat_f64s(0.0);
        Self {
            high: zero,
            low: zero,
        }
    }

    /// As [`ExactSum::add`], in every lane. `quanta` holds the high quantum in all lanes, then the
    /// low one.
    #[inline(always)]
    pub fn add(&mut self, simd: S, terms: S::f64s, quanta: &[S::f64s; 2]) {
        let high = simd.sub_f64s(simd.add_f64s(terms, quanta[0]), quanta[0]);
        let rest = simd.sub_f64s(terms, high);
        self.high = simd.add_f64s(self.high, high);
        let low = simd.sub_f64s(simd.add_f64s(rest, quanta[1]), quanta[1]);
        self.low = simd.add_f64s(self.low, low);
    }

    /// The sum over all lanes.
    #[inline(always)]
    pub fn total(&self, simd: S) -> ExactSum {
        ExactSum {
            high: simd.reduce_sum_f64s(self.high),
            low: simd.reduce_sum_f64s(self.low),
        }
    }
}

/// Log2 of the least power of two ≥ `members`.
pub fn log2_ceil(members: usize) -> u32 {
    members.next_power_of_two().trailing_zeros()
}

/// An upper bound on ‖Wy‖/‖y‖: the Frobenius norm of W, and 1 for the identity.
#[inline(always)]
pub fn stretch(whitening: &[f64]) -> f64 {
    if whitening.is_empty() {
        return 1.0;
    }
    let mut square = 0.0f64;
    for w in whitening {
        square = w.mul_add(*w, square);
    }
    square.sqrt()
}

/// The quanta for distances to a cluster with this stretch, in data whose bounding box has this
/// diagonal, for clusters of at most 2^`log2_terms` members.
pub fn quanta(stretch: f64, diagonal: f64, log2_terms: u32) -> Quanta {
    // The factor 2 covers the rounding of the distances themselves.
    Quanta::new(2.0 * stretch * diagonal, log2_terms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_sums_do_not_depend_on_order_or_grouping() {
        let terms: Vec<f64> = (1..1000)
            .map(|i| (i as f64 * 0.7).sin().abs() * 3.0)
            .collect();
        let quanta = Quanta::new(3.0, log2_ceil(terms.len()));
        let sum = |terms: &mut dyn Iterator<Item = &f64>| {
            let mut sum = ExactSum::default();
            terms.for_each(|t| sum.add(*t, &quanta));
            sum
        };
        let forward = sum(&mut terms.iter());
        let backward = sum(&mut terms.iter().rev());
        let mut halves = sum(&mut terms[..300].iter());
        halves.combine(&sum(&mut terms[300..].iter()));
        assert_eq!(forward, backward);
        assert_eq!(forward, halves);
        let plain: f64 = terms.iter().sum::<f64>() / terms.len() as f64;
        assert!((forward.mean(terms.len()) / plain - 1.0).abs() < 1e-14);
    }

    #[test]
    fn the_identity_may_be_written_out() {
        let (x, c) = ([1.0, 2.5, -3.0], [0.1, 0.2, 0.3]);
        let identity = [1.0, 0.0, 1.0, 0.0, 0.0, 1.0];
        assert_eq!(to_cluster(&x, &c, &[]), to_cluster(&x, &c, &identity));
    }
}
