//! The (min, +) product of two matrices: the least sum in place of the sum of products.

use pulp::{Simd, WithSimd};

use crate::simd::dispatch;

/// Number of columns that are computed together: with 32 rows, they take 32 kB and stay in a core's
/// private cache. Only the time depends on it.
const TILE: usize = 128;

/// Number of values of k per load and store of a value of the product. Only the time depends on it.
const TOGETHER: usize = 4;

/// The part of a matrix from some row and column on.
#[derive(Clone, Copy)]
pub struct Submatrix<'a> {
    values: &'a [f64],
    width: usize,
}

impl<'a> Submatrix<'a> {
    /// The matrix `values`, with rows of `width` values, from this row and column on.
    pub fn of(values: &'a [f64], width: usize, row: usize, column: usize) -> Self {
        Self {
            values: &values[row * width + column..],
            width,
        }
    }

    #[inline(always)]
    fn get(&self, row: usize, column: usize) -> f64 {
        self.values[row * self.width + column]
    }

    #[inline(always)]
    fn some(&self, row: usize, column: usize, count: usize) -> &'a [f64] {
        &self.values[row * self.width + column..][..count]
    }
}

/// A product: lowers each value of `out` to the least `left`(i, k) + `right`(k, j) over the `inner`
/// values of k. `out` has `rows` rows of `out_width` values each, of which the first `columns` are
/// used.
pub struct MinPlus<'a> {
    pub left: Submatrix<'a>,
    pub inner: usize,
    pub right: Submatrix<'a>,
    pub out: &'a mut [f64],
    pub out_width: usize,
    pub rows: usize,
    pub columns: usize,
}

/// Computes a product.
pub fn run(product: MinPlus<'_>) {
    dispatch(product);
}

impl WithSimd for MinPlus<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for first in (0..self.columns).step_by(TILE) {
            let width = TILE.min(self.columns - first);
            let whole = self.inner / TOGETHER * TOGETHER;
            for k in (0..whole).step_by(TOGETHER) {
                let right: [&[f64]; TOGETHER] =
                    std::array::from_fn(|at| self.right.some(k + at, first, width));
                for i in 0..self.rows {
                    let left = self.left.some(i, k, TOGETHER);
                    let out = &mut self.out[i * self.out_width + first..][..width];
                    for (j, out) in out.iter_mut().enumerate() {
                        let one = least(left[0] + right[0][j], left[1] + right[1][j]);
                        let other = least(left[2] + right[2][j], left[3] + right[3][j]);
                        *out = least(*out, least(one, other));
                    }
                }
            }
            for k in whole..self.inner {
                let right = self.right.some(k, first, width);
                for i in 0..self.rows {
                    let left = self.left.get(i, k);
                    let out = &mut self.out[i * self.out_width + first..][..width];
                    for (out, &right) in out.iter_mut().zip(right) {
                        *out = least(*out, left + right);
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn least(a: f64, b: f64) -> f64 {
    if b < a {
        b
    } else {
        a
    }
}
