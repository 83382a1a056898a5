//! The sums that a sweep accumulates, and the steps from sums to distances.

/// The sum over the coordinates of two views.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowSum {
    /// (x−y)².
    Squares,
    /// |x−y|.
    Magnitudes,
    /// The greatest |x−y|.
    Greatest,
    /// |x−y| / (|x|+|y|), 0 for 0/0.
    Quotients,
    /// −x·y.
    Products,
    /// −|x·y|: the sign is set after the last coordinate.
    AbsoluteProducts,
}

/// The step from a sum to a distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Epilog {
    /// The root of a sum of squares.
    Norm,
    /// The root of a sum of squares, computed from products.
    NormOfProducts,
    /// The sum itself.
    Sum,
    /// 1 + the sum of products.
    Angle,
}
