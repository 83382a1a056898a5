//! The moments of the clusters at the start.

use pulp::{Simd, WithSimd};

use super::moments::Moments;
use crate::mahalanobis::options::Distance;
use crate::mahalanobis::problem::Problem;
use crate::mahalanobis::shape;
use crate::matrix::RowSlices;
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
        let members = problem.members_of(slot);
        if members.len() == 1 || !problem.has_shapes() {
            mean.copy_from_slice(problem.x.row_slice(members[0] as usize));
            for (count, &member) in members.iter().enumerate().skip(1) {
                let share = shape::share(count, 1);
                shape::move_towards(share, mean, problem.x.row_slice(member as usize));
            }
            return None;
        }
        let has_third = problem.options.distance == Distance::FullMahalanobis;
        let mut moments = Moments::zero(p, has_third);
        problem.moments(simd, slot, mean, &mut moments.scatter, monitor);
        if has_third {
            for &member in members {
                let x = problem.x.row_slice(member as usize);
                let square: f64 = x.iter().zip(&*mean).map(|(x, c)| (x - c) * (x - c)).sum();
                moments.fourth += square * square / members.len() as f64;
                for k in 0..p {
                    moments.third[k] += square * (x[k] - mean[k]) / members.len() as f64;
                }
            }
        }
        Some(Box::new(moments))
    }
}
