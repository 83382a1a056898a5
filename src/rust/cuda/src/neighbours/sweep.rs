//! The kernels' description of a sweep.

use gmhclust_core::neighbours::single::Epilog;

use crate::arguments::arguments;

arguments! {
    /// As in sweep.cuh.
    pub struct Sweep {
        pub shrink: f64,
        pub margin: f64,
        pub references: u64,
        pub groups: u64,
        pub queries: u64,
        pub query_groups: u64,
        pub slopes: u64,
        pub bases: u64,
        pub candidates: u64,
        pub floors: u64,
        pub counts: u64,
        pub kept: u64,
        pub stride: u64,
        pub step: u64,
        pub query_stride: u64,
        pub query_step: u64,
        pub columns: u32,
        pub query_count: u32,
        pub kind: u32,
        pub capacity: u32,
        pub room: u32,
        pub first: u32,
        pub last: u32,
    }
}

/// The kernels' number for the kind of a bound.
pub fn code(kind: Epilog) -> u32 {
    match kind {
        Epilog::Norm => 0,
        Epilog::NormOfProducts => 1,
        Epilog::Sum => 2,
        Epilog::Angle => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::{SCALARS, WARP};
    use super::*;
    use crate::arguments::{check, constants};

    #[test]
    fn arguments_are_laid_out_as_the_kernels_read_them() {
        let mut constants = constants![SCALARS, WARP].to_vec();
        constants.extend([
            ("NORM", code(Epilog::Norm).into()),
            ("NORM_OF_PRODUCTS", code(Epilog::NormOfProducts).into()),
            ("SUM", code(Epilog::Sum).into()),
            ("ANGLE", code(Epilog::Angle).into()),
        ]);
        check("sweep.cuh", &[], &[Sweep::layout()], &constants);
    }
}
