//! The arguments of the kernels that draw centers.

use crate::arguments::arguments;

arguments! {
    /// As in kmeans/launch.cuh.
    #[cfg_attr(test, derive(Default))]
    pub struct Seeding {
        pub x: u64,
        pub uniforms: u64,
        pub squares: u64,
        pub nearest: u64,
        pub sums: u64,
        pub parts: u64,
        pub totals: u64,
        pub centers: u64,
        pub pruned_below: u64,
        pub drawn: u64,
        pub pruned_share: f64,
        pub rows: u32,
        pub columns: u32,
        pub first: u32,
        pub is_grouped: u32,
    }

    /// As in kmeans/launch.cuh.
    #[cfg_attr(test, derive(Default))]
    pub struct Groups {
        pub sorted: u64,
        pub squares: u64,
        pub greatest: u64,
        pub ends: u64,
        pub pieces: u64,
        pub of_pieces: u64,
        pub changed: u64,
        pub is_changed: u64,
        pub counts: u64,
        pub codes: u64,
        pub center_codes: u64,
        pub groups: u32,
        pub quads: u32,
    }
}
