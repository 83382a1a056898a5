//! A row in single or half precision.

/// The precision to which coordinates of views are rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViewPrecision {
    Single,
    Half,
}

/// A rounded row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RowView {
    pub values: Vec<f32>,
    pub scalars: Scalars,
}

/// The values of a view that bounds and thresholds need in addition to the sum.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Scalars {
    /// e: an upper bound on the distance between the view and the row.
    pub error: f32,
    /// For a cluster, at least 1/(2·size); 1/2 for points. A distance is the norm divided by the
    /// root of the sum of both factors.
    pub factor: f32,
    /// H, half the squared length of the view, slightly reduced, for norms from products.
    pub half: f32,
    /// The increase of a threshold for this row.
    pub allowance: f32,
}

/// The query's part of a threshold: a pair can be within the limit only if its sum is below
/// `slope`·factor + `base` + allowance, with factor and allowance of the reference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    pub slope: f32,
    pub base: f32,
}
