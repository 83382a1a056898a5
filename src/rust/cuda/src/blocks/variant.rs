//! Chooses a variant of the kernel of agglomerate.cu.

use gmhclust_core::mahalanobis::Distance::{self, Centroid, FullMahalanobis};

use super::arrays::{MOST_IN_REGISTERS, THREADS, THREADS_FOR_MANY};
use crate::kernels::{self, Kernels};

/// The number of dimensions that the kernel for `p` dimensions keeps in registers. It is at least
/// `p`, or 0 for a kernel that keeps no dimensions in registers.
fn in_registers(p: usize) -> usize {
    match p {
        0..=16 => 16,
        17..=24 => 24,
        25..=MOST_IN_REGISTERS => MOST_IN_REGISTERS,
        _ => 0,
    }
}

/// A variant of the kernel.
#[derive(Clone, Copy)]
pub struct Variant {
    pub module: &'static Kernels,
    /// Number of threads of a block.
    pub threads: u32,
    /// See [`in_registers`].
    pub registers: usize,
}

impl Variant {
    /// The variant for `p` dimensions. With centroid distances and up to [`MOST_IN_REGISTERS`]
    /// dimensions, blocks are smaller if `are_many`: if there are more than
    /// `policy::LARGE_BLOCK_PROBLEMS` equal problems per multiprocessor.
    pub fn new(p: usize, distance: Distance, are_many: bool) -> Self {
        let registers = in_registers(p);
        let (module, threads) = match (distance, registers, are_many) {
            (Centroid, 16, true) => (&kernels::AGGLOMERATE_MANY_16, THREADS_FOR_MANY),
            (Centroid, 24, true) => (&kernels::AGGLOMERATE_MANY_24, THREADS_FOR_MANY),
            (Centroid, 32, true) => (&kernels::AGGLOMERATE_MANY_32, THREADS_FOR_MANY),
            (Centroid, 16, false) => (&kernels::AGGLOMERATE_CENTROID_16, THREADS),
            (Centroid, 24, false) => (&kernels::AGGLOMERATE_CENTROID_24, THREADS),
            (Centroid, 32, false) => (&kernels::AGGLOMERATE_CENTROID_32, THREADS),
            (Centroid, _, _) => (&kernels::AGGLOMERATE_CENTROID_0, THREADS),
            (FullMahalanobis, 16, _) => (&kernels::AGGLOMERATE_FULL_MAHALANOBIS_16, THREADS),
            (FullMahalanobis, 24, _) => (&kernels::AGGLOMERATE_FULL_MAHALANOBIS_24, THREADS),
            (FullMahalanobis, 32, _) => (&kernels::AGGLOMERATE_FULL_MAHALANOBIS_32, THREADS),
            (FullMahalanobis, _, _) => (&kernels::AGGLOMERATE_FULL_MAHALANOBIS_0, THREADS),
        };
        Self {
            module,
            threads,
            registers,
        }
    }
}

/// The number of problems of the size of the largest that would take as long as problems of these
/// sizes. Time is assumed to be the square of the size.
pub fn equal_problems(sizes: &[usize]) -> f64 {
    let square = |&size: &usize| (size as f64).powi(2);
    let largest = sizes.iter().max().map_or(1.0, square);
    sizes.iter().map(square).sum::<f64>() / largest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_problems_count_by_the_squares_of_their_sizes() {
        assert_eq!(equal_problems(&[7; 30]), 30.0);
        assert_eq!(equal_problems(&[10, 5, 5, 5, 5]), 2.0);
        assert_eq!(equal_problems(&[2]), 1.0);
    }
}
