//! Coordinates in half precision, as kernels/products.cu reads them: two in each 32-bit value.

use gmhclust_core::neighbours::single::{half_bits, RowFrame, Scalars};

/// Number of coordinates that a tensor core multiplies at a time. Rows are padded to a multiple of
/// this number. As in products/launch.cuh.
pub const STEP: usize = 16;

/// Number of values of a row's packed coordinates.
pub fn packed_len(frame: &RowFrame) -> usize {
    frame.columns().next_multiple_of(STEP) / 2
}

/// Writes the packed coordinates of a row's view. All halves are finite. So the `f32` with the bits
/// of two halves is finite, too, and copies keep its bits.
pub fn write(frame: &RowFrame, row: &[f64], size: f64, view: &mut [f32]) -> Scalars {
    let mut before = 0;
    frame.write(row, size, |k, value| {
        let half = u32::from(half_bits(value));
        if k % 2 == 0 {
            before = half;
            view[k / 2] = f32::from_bits(half);
        } else {
            view[k / 2] = f32::from_bits(half << 16 | before);
        }
    })
}
