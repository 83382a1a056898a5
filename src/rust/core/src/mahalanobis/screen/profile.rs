//! The properties of a cluster that its bounds depend on, in data units.

/// Smallest fourth moment that a bound uses. Smaller fourth moments belong to members at distances
/// below 1e-72; they and the squares of second moments may have lost digits to underflow. If too
/// small, a bound could exceed its distance.
pub const LEAST_FOURTH: f64 = 1e-290;

/// Central moments of the members of a cluster: r is a member's difference from the mean, in data
/// units.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spread {
    /// E‖r‖².
    pub variance: f64,
    /// E‖r‖⁴.
    pub fourth: f64,
    /// An upper bound on the largest eigenvalue of E rrᵀ.
    pub largest_eigenvalue: f64,
    /// ‖E‖r‖²r‖.
    pub third: f64,
}

impl Spread {
    /// Hölder's lower bound on E‖r + u‖, given `square` = ‖u‖².
    pub fn mean_norm(&self, square: f64) -> f64 {
        let second = self.variance + square;
        let factor = 4.0 * self.largest_eigenvalue + 2.0 * self.variance + square;
        let total = self.fourth + factor * square + 4.0 * self.third * square.sqrt();
        if total >= LEAST_FOURTH {
            second.sqrt() * (second / total.sqrt()) * (1.0 - 1e-6)
        } else {
            0.0
        }
    }
}

/// A cluster in data units: the source of a [`ClusterView`](super::ClusterView).
#[derive(Debug, Clone, Copy)]
pub struct Profile<'a> {
    pub mean: &'a [f64],
    /// Packed whitening factor W, or empty for the identity.
    pub whitening: &'a [f64],
    /// A lower bound on ‖Wy‖/‖y‖; 1 for the identity.
    pub least_stretch: f64,
    /// An upper bound on ‖Wy‖/‖y‖; 1 for the identity.
    pub stretch: f64,
    pub spread: Spread,
    /// An upper bound on the distance between the rounded `mean` and the exact mean of the members.
    /// 0 if the distances are defined by the rounded means.
    pub mean_error: f64,
}
