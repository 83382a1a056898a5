//! Sums of products, from which cosines and correlations are computed.

use pulp::Simd;

/// Sums of products, and the number of coordinates in them.
#[derive(Debug, Clone, Copy)]
pub struct ProductSums<V> {
    pub count: V,
    pub aa: V,
    pub bb: V,
    pub ab: V,
}

impl<V: Copy> ProductSums<V> {
    #[inline(always)]
    pub fn new(zero: V) -> Self {
        Self {
            count: zero,
            aa: zero,
            bb: zero,
            ab: zero,
        }
    }
}

/// The cosine: Σab / √(Σaa·Σbb); NaN if Σaa or Σbb is 0.
#[inline(always)]
pub fn cosine<S: Simd>(simd: S, sums: &ProductSums<S::f64s>) -> S::f64s {
    let lengths = simd.mul_f64s(simd.sqrt_f64s(sums.aa), simd.sqrt_f64s(sums.bb));
    simd.div_f64s(sums.ab, lengths)
}
