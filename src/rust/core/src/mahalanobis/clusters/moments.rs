//! The moments and the shape of a cluster.

use crate::mahalanobis::packed::packed_len;
use crate::mahalanobis::screen::{Profile, Spread};

/// The central moments of the members of a cluster, and its shape.
#[derive(Debug, Clone, Default)]
pub struct Moments {
    /// Packed scatter.
    pub scatter: Vec<f64>,
    /// Packed whitening factor W, or empty for the identity.
    pub whitening: Vec<f64>,
    /// A lower bound on ‖Wy‖/‖y‖.
    pub least_stretch: f64,
    /// An upper bound on ‖Wy‖/‖y‖.
    pub stretch: f64,
    /// The fourth central moment E‖r‖⁴, for the bounds on full Mahalanobis distances.
    pub fourth: f64,
    /// The third central moment, the vector E‖r‖²r; empty for centroid distances.
    pub third: Vec<f64>,
    pub spread: Spread,
}

impl Moments {
    /// The moments of a cluster of equal members in `p` dimensions; with third moments if
    /// `has_third`.
    pub fn zero(p: usize, has_third: bool) -> Self {
        Self {
            scatter: vec![0.0; packed_len(p)],
            third: vec![0.0; if has_third { p } else { 0 }],
            ..Self::default()
        }
    }

    /// A copy without the shape and the bounds that follow from it.
    pub fn without_shape(&self) -> Box<Self> {
        Box::new(Self {
            scatter: self.scatter.clone(),
            fourth: self.fourth,
            third: self.third.clone(),
            ..Self::default()
        })
    }
}

/// The properties of a cluster with this mean that its bounds depend on.
pub fn profile<'a>(mean: &'a [f64], moments: Option<&'a Moments>, mean_error: f64) -> Profile<'a> {
    let identity = Profile {
        mean,
        whitening: &[],
        least_stretch: 1.0,
        stretch: 1.0,
        spread: Spread::default(),
        mean_error,
    };
    match moments {
        Some(moments) => Profile {
            whitening: &moments.whitening,
            least_stretch: moments.least_stretch,
            stretch: moments.stretch,
            spread: moments.spread,
            ..identity
        },
        None => identity,
    }
}
