//! Rows of matrices in groups of elements that are worked on side by side.

/// What is done to the elements of a row at a time.
pub const LANES: usize = 8;

/// So many elements of a row, side by side.
pub type Lanes = [f64; LANES];

/// Calls a function whose first parameter in `::<>` is how many [`Lanes`] of a row to keep in
/// registers, the best for rows of `$p` elements.
macro_rules! for_rows_of {
    ($p:expr, $function:ident($($argument:expr),*)) => {
        match $p.div_ceil(crate::mahalanobis::lanes::LANES) {
            1 => $function::<1>($($argument),*),
            2 => $function::<2>($($argument),*),
            _ => $function::<4>($($argument),*),
        }
    };
}
pub(super) use for_rows_of;

/// [`Lanes`] of a row of `p` elements: whole groups of `W`.
#[inline(always)]
pub const fn row_width<const W: usize>(p: usize) -> usize {
    p.div_ceil(W * LANES) * W
}

/// Adds `factor` times some lanes to others.
#[inline(always)]
pub fn add_multiple<const W: usize>(sums: &mut [Lanes; W], factor: f64, values: &[Lanes]) {
    for (sums, values) in sums.iter_mut().zip(values) {
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum = factor.mul_add(*value, *sum);
        }
    }
}
