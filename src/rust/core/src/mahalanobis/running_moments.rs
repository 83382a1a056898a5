//! The mean and the scatter of observations that are added one after the other.

use pulp::Simd;

use super::lanes::WIDEST;
use super::packed::packed_len;
use super::shape::share;
use crate::simd::{doubles, doubles_mut};

/// The mean and the scatter of some observations. Adding one gives the bits of
/// [`shape::merge`](super::shape::merge), in a third of the time: the rows of the scatter are
/// whole registers.
pub struct RunningMoments {
    members: usize,
    /// Padded to whole registers with zeros, as are the next field and the rows of `scatter`.
    mean: Vec<f64>,
    /// The last observation that was added, minus the mean before.
    offset: Vec<f64>,
    /// Row by row. Only the lower triangle is meaningful.
    scatter: Vec<f64>,
    p: usize,
}

impl RunningMoments {
    /// Those of `members` observations with this mean and this packed scatter.
    pub fn new(members: usize, mean: &[f64], scatter: &[f64]) -> Self {
        let p = mean.len();
        let width = p.next_multiple_of(WIDEST);
        let mut new = Self {
            members,
            mean: vec![0.0; width],
            offset: vec![0.0; width],
            scatter: vec![0.0; p * width],
            p,
        };
        new.mean[..p].copy_from_slice(mean);
        for (i, row) in new.scatter.chunks_exact_mut(width).enumerate() {
            row[..=i].copy_from_slice(&scatter[packed_len(i)..][..=i]);
        }
        new
    }

    /// Adds an observation.
    #[inline(always)]
    pub fn add<S: Simd>(&mut self, simd: S, row: &[f64]) {
        let a = self.members as f64;
        let weight = a / (a + 1.0);
        let of_new = simd.splat_f64s(share(self.members, 1));
        let parts = row.chunks(S::F64_LANES);
        let means = doubles_mut::<S>(&mut self.mean).iter_mut();
        let offsets = doubles_mut::<S>(&mut self.offset).iter_mut();
        for ((part, mean), offset) in parts.zip(means).zip(offsets) {
            *offset = simd.sub_f64s(simd.partial_load_f64s(part), *mean);
            *mean = simd.mul_add_f64s(of_new, *offset, *mean);
        }
        let offsets = doubles::<S>(&self.offset);
        let width = self.mean.len();
        for (i, sums) in self.scatter.chunks_exact_mut(width).enumerate() {
            let scaled = simd.splat_f64s(weight * self.offset[i]);
            let in_triangle = doubles_mut::<S>(sums)[..=i / S::F64_LANES].iter_mut();
            for (sum, &offset) in in_triangle.zip(offsets) {
                *sum = simd.mul_add_f64s(scaled, offset, *sum);
            }
        }
        self.members += 1;
    }

    /// Writes the mean and the packed scatter.
    pub fn write(&self, mean: &mut [f64], scatter: &mut [f64]) {
        mean.copy_from_slice(&self.mean[..self.p]);
        for (i, row) in self.scatter.chunks_exact(self.mean.len()).enumerate() {
            scatter[packed_len(i)..][..=i].copy_from_slice(&row[..=i]);
        }
    }
}

#[cfg(test)]
mod tests {
    use pulp::WithSimd;

    use super::*;
    use crate::mahalanobis::shape;
    use crate::simd::dispatch;
    use crate::testing::Random;

    struct Added<'a>(RunningMoments, &'a [f64]);

    impl WithSimd for Added<'_> {
        type Output = RunningMoments;

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) -> RunningMoments {
            let Self(mut moments, rows) = self;
            for row in rows.chunks_exact(moments.p) {
                moments.add(simd, row);
            }
            moments
        }
    }

    #[test]
    fn adding_observations_gives_the_bits_of_merging_them() {
        let mut random = Random::of(41);
        for p in [1, 2, 3, 4, 5, 8, 9, 14, 16, 17, 31, 40] {
            let rows: Vec<f64> = (0..30 * p).map(|_| 1e3 + random.normal()).collect();
            let (first, others) = rows.split_at(p);
            let (mut mean, mut scatter) = (first.to_vec(), vec![0.0; packed_len(p)]);
            for (members, row) in others.chunks_exact(p).enumerate() {
                shape::merge(members + 1, &mut mean, &mut scatter, 1, row, &[]);
            }
            // The first ten together, then the others.
            let (some, rest) = others.split_at(9 * p);
            let found = dispatch(Added(
                RunningMoments::new(1, first, &vec![0.0; packed_len(p)]),
                some,
            ));
            let (mut of_ten, mut scatter_of_ten) = (vec![0.0; p], vec![0.0; packed_len(p)]);
            found.write(&mut of_ten, &mut scatter_of_ten);
            let found = dispatch(Added(
                RunningMoments::new(10, &of_ten, &scatter_of_ten),
                rest,
            ));
            let (mut found_mean, mut found_scatter) = (vec![0.0; p], vec![0.0; packed_len(p)]);
            found.write(&mut found_mean, &mut found_scatter);
            assert_eq!((found_mean, found_scatter), (mean, scatter), "{p}");
        }
    }
}
