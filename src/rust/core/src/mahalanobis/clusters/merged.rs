//! The union of two clusters.

use pulp::{Simd, WithSimd};

use super::moments::{profile, Moments};
use super::part::Part;
use crate::mahalanobis::packed::packed_len;
use crate::mahalanobis::screen::Profile;
use crate::mahalanobis::shape;

/// The union of two clusters.
#[derive(Debug)]
pub struct MergedCluster {
    pub(super) size: usize,
    pub(super) mean: Vec<f64>,
    pub(super) mean_error: f64,
    /// `None` where the screen needs only the mean. Moments that a later union needs are then
    /// computed when the clusters are merged.
    pub(super) moments: Option<Box<Moments>>,
}

impl MergedCluster {
    /// The properties of the union that its bounds depend on.
    pub fn profile(&self) -> Profile<'_> {
        profile(&self.mean, self.moments.as_deref(), self.mean_error)
    }

    /// The union as an operand of another union.
    pub fn part(&self) -> Part<'_> {
        Part {
            size: self.size,
            mean: &self.mean,
            moments: self.moments.as_deref(),
        }
    }
}

/// [`shape::move_towards`] as a kernel.
pub struct MoveTowards<'a> {
    pub share: f64,
    pub mean: &'a mut [f64],
    pub other: &'a [f64],
}

impl WithSimd for MoveTowards<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        shape::move_towards(self.share, self.mean, self.other);
    }
}

/// A kernel that replaces the moments of cluster a by the moments of the union of clusters a and b,
/// except for the shape.
pub struct UniteMoments<'a> {
    pub has_third: bool,
    pub size_a: usize,
    pub mean_a: &'a [f64],
    pub moments_a: &'a mut Moments,
    pub size_b: usize,
    pub mean_b: &'a [f64],
    pub moments_b: Option<&'a Moments>,
}

impl WithSimd for UniteMoments<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let scatter_b = self.moments_b.map_or(&[][..], |m| &m.scatter);
        if self.has_third {
            let (a, b) = (self.size_a as f64, self.size_b as f64);
            let moments_a = &mut *self.moments_a;
            let third_b = self.moments_b.map_or(&[][..], |m| &m.third);
            let fourth_b = self.moments_b.map_or(0.0, |m| m.fourth);
            let means = self.mean_b.iter().zip(self.mean_a);
            let toward_b: Vec<f64> = means.map(|(b, a)| b - a).collect();
            let shift_a: Vec<f64> = toward_b.iter().map(|d| -d * b / (a + b)).collect();
            let shift_b: Vec<f64> = toward_b.iter().map(|d| d * a / (a + b)).collect();
            let (scatter_a, third_a) = (&moments_a.scatter, &moments_a.third);
            let from_a = shifted(a, scatter_a, third_a, moments_a.fourth, &shift_a);
            let from_b = shifted(b, scatter_b, third_b, fourth_b, &shift_b);
            moments_a.fourth = (a * from_a.0 + b * from_b.0) / (a + b);
            let both = from_a.1.iter().zip(&from_b.1);
            for (third, (x, y)) in moments_a.third.iter_mut().zip(both) {
                *third = (a * x + b * y) / (a + b);
            }
        }
        shape::merge_scatters(
            self.size_a,
            self.mean_a,
            &mut self.moments_a.scatter,
            self.size_b,
            self.mean_b,
            scatter_b,
        );
    }
}

/// E‖r+u‖⁴ and E‖r+u‖²(r+u) for `shift` u, from the scatter, E‖r‖²r and E‖r‖⁴ of `size` members.
/// Empty slices stand for zero.
#[inline(always)]
fn shifted(
    size: f64,
    scatter: &[f64],
    third: &[f64],
    fourth: f64,
    shift: &[f64],
) -> (f64, Vec<f64>) {
    let p = shift.len();
    let mut product = vec![0.0f64; p];
    let mut variance = 0.0;
    if !scatter.is_empty() {
        for i in 0..p {
            let row = &scatter[packed_len(i)..][..=i];
            for j in 0..i {
                product[i] += row[j] * shift[j] / size;
                product[j] += row[j] * shift[i] / size;
            }
            product[i] += row[i] * shift[i] / size;
            variance += row[i] / size;
        }
    }
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let square = dot(shift, shift);
    let moment = fourth
        + 4.0 * dot(shift, &product)
        + 4.0 * dot(shift, third)
        + 2.0 * variance * square
        + square * square;
    let vector = (0..p)
        .map(|k| third.get(k).unwrap_or(&0.0) + (variance + square) * shift[k] + 2.0 * product[k])
        .collect();
    (moment, vector)
}
