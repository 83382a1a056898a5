//! Observations in single or half precision, with bounds on the error of their distances.
//!
//! A [`RowFrame`] rounds rows to [`RowView`]s: relative to a centre and scaled by a power of two,
//! if the dissimilarity allows it, so that coordinates are at most about 1. A sweep accumulates a
//! [`RowSum`] over the coordinates of two views. From the sum, the frame computes a lower bound on
//! the exact distance ([`RowFrame::bound`]). A threshold on the sum tells whether the distance can
//! be within a limit ([`RowFrame::threshold`]).
//!
//! Let u = 2⁻²⁴, p the number of coordinates, x a row (in units of the frame) and x̂ its view. The
//! margins are the following; they also cover the rounding of the exact distance, about p·2⁻⁵³.
//!
//! * Differences. A norm of x̂ − ŷ is off by at most e(x) + e(y), the norms of x̂ − x and ŷ − y,
//!   which are measured. A computed sum is at most (1 + u)^(p + 2) of the real one, and so its root
//!   or itself, times `shrink` = 1 − (p + 8)u, no greater than that norm.
//! * Quotients, |x−y| / (|x|+|y|). Rounding both coordinates changes a quotient by at most 2.02u;
//!   for tiny coordinates, which are treated as zero, by at most 1. So e(x) is 1.1u·p plus the
//!   number of tiny coordinates. R's rule for zeros can only make the real sum greater.
//! * Products of rows of unit length. The sum x̂·ŷ is off by at most (p + 4)u for its arithmetic
//!   and by e(x) + e(y), Euclidean norms, for the views.
//! * Products for Euclidean distances: with H = ‖x̂‖²/2, ‖x̂−ŷ‖²/2 = H(x) + H(y) − x̂·ŷ, where
//!   the sum x̂·ŷ is off by at most (p + 4)u·‖x̂‖‖ŷ‖ ≤ (p + 4)u·(H(x) + H(y)): shrinking both H by
//!   (p + 4)u covers it.
//!
//! For the rounding of the bounds themselves, the code takes more than these numbers: (p + 16)u for
//! H, and 1.001·(p + 24)u for products of rows of unit length.
//!
//! Products may also be of views in half precision, which tensor cores multiply. Then e(x) is
//! measured against these views, and is about 2⁻¹²‖x‖. Products of halves are exact in single
//! precision. The documentation of tensor cores says only that they add the products in "at least
//! single precision". By measurements (Fasi et al., PeerJ Computer Science 7:e330, 2021), they
//! align a few products and the sum so far to the largest of these, truncate each to the bits of a
//! single or a few more, and truncate their sum. So every product adds an error of at most
//! 2u·‖x̂‖‖ŷ‖, and so does every sum; there is one sum for at least four products. The margin is
//! more than three times the total, (p + 32)·8u·‖x̂‖‖ŷ‖, instead of (p + 4)u above.

mod frame;
mod half;
mod sums;
mod view;

pub use frame::RowFrame;
#[cfg(any(test, feature = "testing"))]
pub use half::coordinate_of_half;
pub use half::half_bits;
pub use sums::{Epilog, RowSum};
pub use view::{RowView, Scalars, Threshold, ViewPrecision};
