//! A row in single or half precision.

/// The precision that coordinates of views are rounded to.
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

/// The values of a view that bounds and thresholds need beside the sum.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Scalars {
    /// e: at most this far is the view from the row.
    pub error: f32,
    /// At least 1/(2·size) of a cluster; a distance is the norm divided by the root of the sum of
    /// both factors. 1/2 for points.
    pub factor: f32,
    /// H, shrunk, for norms from products.
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
