//! The moments of the clusters at the start.

use pulp::{Simd, WithSimd};

use super::moments::Moments;
use crate::mahalanobis::options::Distance;
use crate::mahalanobis::problem::Problem;
use crate::mahalanobis::shape;
use crate::monitor::Monitor;

/// A kernel that computes the mean and the moments of a slot's cluster at the start; `None` where
/// only the mean is needed.
pub struct InitialMoments<'a> {
    pub monitor: &'a Monitor,
    pub problem: &'a Problem<'a>,
    pub slot: usize,
    pub mean: &'a mut [f64],
}

impl WithSimd for InitialMoments<'_> {
    type Output = Option<Box<Moments>>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let Self {
            monitor,
            problem,
            slot,
            mean,
        } = self;
        let p = mean.len();
        let size = problem.size_of(slot);
        if size == 1 || !problem.has_shapes() {
            let mut rows = problem.rows_of(slot);
            mean.copy_from_slice(rows.next().expect("clusters have members"));
            for (count, row) in (1..).zip(rows) {
                shape::move_towards(shape::share(count, 1), mean, row);
            }
            return None;
        }
        let has_third = problem.options.distance == Distance::FullMahalanobis;
        let mut moments = Moments::zero(p, has_third);
        problem.moments(simd, slot, mean, &mut moments.scatter, monitor);
        if has_third {
            for x in problem.rows_of(slot) {
                let square: f64 = x.iter().zip(&*mean).map(|(x, c)| (x - c) * (x - c)).sum();
                moments.fourth += square * square / size as f64;
                for k in 0..p {
                    moments.third[k] += square * (x[k] - mean[k]) / size as f64;
                }
            }
        }
        Some(Box::new(moments))
    }
}
