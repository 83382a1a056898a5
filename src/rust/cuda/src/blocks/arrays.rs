//! The arguments and the arrays of the kernel of agglomerate.cu.

use gmhclust_core::mahalanobis::packed::packed_len;

use crate::arguments::{arguments, named_values};

// agglomerate_launch.cuh and mahalanobis.cuh define the same constants; a test compares them.

/// Threads of a block.
pub const THREADS: u32 = 128;
/// Moments of a cluster: see enum Moment.
const MOMENTS: usize = 4;
/// Scalars of a shape: see enum ShapeScalar.
pub const SHAPE_SCALARS: usize = 4;
/// Columns of a band of a whitening factor: see [`place_in_bands`].
pub const BAND: usize = 4;
/// Largest number of dimensions of a problem.
pub const MOST_DIMENSIONS: usize = 64;

/// Largest number of dimensions that a kernel keeps in registers. A kernel may read this number of
/// coordinates from the start of any observation on, so the array of observations has room for them
/// behind the last observation.
pub const MOST_IN_REGISTERS: usize = 32;

arguments! {
    /// As in agglomerate_launch.cuh.
    pub struct Task {
        pub diagonal: f64,
        pub first: u64,
        pub observations: u32,
        pub log2_terms: u32,
    }

    /// As in agglomerate_launch.cuh.
    pub struct Partner {
        pub distance: f64,
        pub slot: u32,
        pub birth: u32,
    }

    /// As in agglomerate_launch.cuh. The pointers are device addresses.
    pub struct Arrays {
        pub threshold: f64,
        pub subthreshold: u32,
        pub normalize: u32,
        pub dimensions: u32,
        pub tasks: u32,
        pub task: u64,
        pub x: u64,
        pub partners: u64,
        pub doubles: Doubles<u64>,
        pub words: Words<u64>,
        pub heights: u64,
        pub lower: u64,
        pub higher: u64,
        pub next_task: u64,
        pub failed_tasks: u64,
        pub merged: u64,
        pub progress: u64,
        pub stop: u64,
    }
}

named_values! {
    /// The arrays of doubles in struct Arrays.
    pub struct Doubles {
        means,
        scatters,
        factors,
        bounds,
        member_sums,
        moments,
        shape_scalars,
    }
}

named_values! {
    /// The arrays of words in struct Arrays.
    pub struct Words {
        slots,
        sizes,
        births,
        shapes,
        member_starts,
        free_shapes,
        slot_births,
        slot_positions,
        members,
        next_members,
        member_slots,
        next_member_slots,
    }
}

/// The lengths of the arrays of words, per observation.
pub const WORDS: Words<usize> = Words {
    slots: 1,
    sizes: 1,
    births: 1,
    shapes: 1,
    member_starts: 1,
    free_shapes: 1,
    slot_births: 1,
    slot_positions: 1,
    members: 1,
    next_members: 1,
    member_slots: 1,
    next_member_slots: 1,
};

/// Number of partners of a cluster: the nearest older clusters.
pub const PARTNERS: usize = 2;

/// Number of words for the slots of a merge, the lower and the higher slot.
const SLOTS_OF_MERGE: usize = 2;

/// The lengths of the arrays of doubles, per observation. There are at most half as many shapes as
/// observations.
pub fn doubles(p: usize) -> Doubles<usize> {
    let by_shape = |length: usize| length.div_ceil(2);
    Doubles {
        means: p,
        scatters: by_shape(packed_len(p)),
        factors: by_shape(banded_len(p)),
        bounds: 1,
        member_sums: 2,
        moments: MOMENTS,
        shape_scalars: by_shape(SHAPE_SCALARS),
    }
}

/// Number of doubles of a whitening factor stored in bands.
pub fn banded_len(p: usize) -> usize {
    let bands = p.div_ceil(BAND);
    BAND * BAND * bands * (bands + 1) / 2
}

/// Converts a packed whitening factor to bands.
pub fn to_bands(packed: &[f64], p: usize) -> Vec<f64> {
    let mut bands = vec![0.0; banded_len(p)];
    for i in 0..p {
        for (j, &value) in packed[packed_len(i)..][..=i].iter().enumerate() {
            bands[place_in_bands(p, i, j)] = value;
        }
    }
    bands
}

/// The index of element (i, j) of a lower triangle with p rows, stored in bands: see shape.cuh.
pub fn place_in_bands(p: usize, i: usize, j: usize) -> usize {
    let (bands, band) = (p.div_ceil(BAND), j / BAND);
    let start = BAND * BAND * (band * bands - (band * band - band) / 2);
    start + j % BAND * BAND * (bands - band) + i - BAND * band
}

/// Bytes of device memory per observation.
pub fn bytes_per_observation(p: usize) -> usize {
    let doubles = doubles(p).values().sum::<usize>() + p + 1;
    let words = WORDS.values().sum::<usize>() + SLOTS_OF_MERGE;
    8 * doubles + 4 * words + PARTNERS * size_of::<Partner>()
}

/// Bytes of shared memory of a block in `p` dimensions, for a kernel that keeps `registers`
/// dimensions in registers.
pub fn shared_bytes(p: usize, registers: usize) -> usize {
    let mean = p.max(registers);
    8 * (banded_len(p) + 2 * p + mean + 2 * p * (THREADS / 32) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{check, constants};
    use gmhclust_core::mahalanobis::Subthreshold;

    #[test]
    fn arguments_are_laid_out_as_the_kernel_reads_them() {
        let mut constants =
            constants![THREADS, MOMENTS, SHAPE_SCALARS, BAND, MOST_DIMENSIONS].to_vec();
        constants.extend([
            ("MAHAL", (Subthreshold::Mahal as u32).into()),
            ("MAHAL0", (Subthreshold::Mahal0 as u32).into()),
            ("EUCLID", (Subthreshold::Euclid as u32).into()),
            ("EUCLID_MAHAL", (Subthreshold::EuclidMahal as u32).into()),
        ]);
        let arrays = Arrays::layout()
            .with_fields_of("doubles", &Doubles::<u64>::fields())
            .with_fields_of("words", &Words::<u64>::fields());
        check(
            "agglomerate_launch.cuh",
            &[],
            &[Task::layout(), Partner::layout(), arrays],
            &constants,
        );
    }
}
