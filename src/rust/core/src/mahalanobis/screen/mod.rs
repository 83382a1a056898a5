//! Screens: lower bounds on the distances from a cluster to many other clusters. The bounds rule
//! out most pairs without an exact distance. `cpu` computes the bounds for
//! [`agglomerate`](super::agglomerate). Kernels compute the same bounds on GPUs.
//!
//! A screen stores means in single precision, relative to a centre and scaled by a power of two. So
//! means near the centre keep all significant digits, and no power of a distance overflows. Let δ =
//! a − b be the difference of two means. The bounds are
//!
//! 1. ‖δ‖·s ≤ ‖Wδ‖, where s is a lower bound on the smallest singular value of the whitening
//!    factor W;
//! 2. ‖Wδ‖ itself in single precision;
//! 3. for full Mahalanobis distances, by Hölder's inequality,
//!    (E‖r‖²)^(3/2) / (E‖r‖⁴)^(1/2) ≤ E‖r‖ with r = x − b over the members x of a cluster with mean
//!    a. From central moments, E‖r‖² = V + ‖δ‖² and E‖r‖⁴ ≤ F + 4λ‖δ‖² + 4τ‖δ‖ + 2V‖δ‖² + ‖δ‖⁴.
//!
//! The bounds allow for rounding: each cluster's `error` bounds the distance between its stored
//! mean and its exact mean, and all other margins are a priori bounds of the form c·p·2⁻²⁴.
//! Where products or squares underflow, a bound is lowered by more than underflow can have raised
//! it.
//!
//! Where groups of clusters are tight and far apart, one single per coordinate cannot separate the
//! clusters of a group. A frame of [`MeanPrecision::Double`] stores each coordinate as the sum of
//! two singles (Dekker 1971, doi:10.1007/BF01397083): the sum of the parts' differences is exact to
//! about 2⁻⁴⁷ of the coordinates.

pub(crate) mod cpu;
mod frame;
mod profile;
mod request;
mod view;

pub use frame::{ClusterFrame, MeanPrecision};
pub use profile::{Profile, Spread, LEAST_FOURTH};
pub(crate) use request::{ScreenAnswer, ScreenRequest};
pub use view::ClusterView;
