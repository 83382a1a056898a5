//! One step of an agglomeration.

/// Two clusters, named by their slots, merge into the lower slot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Merge {
    pub lower: u32,
    pub higher: u32,
    pub height: f64,
}
