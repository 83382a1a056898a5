//! The arguments and the arrays of the kernel of agglomerate.cu.

use std::ops::Range;

use gmhclust_core::mahalanobis::packed::packed_len;
use gmhclust_core::mahalanobis::Distance;

use crate::arguments::{arguments, named_values};
use crate::policy;
use crate::tree::clusters::{BALL_SCALARS, SCALARS};

/// Threads of a block in the modules for many problems, as in modules.toml.
pub const THREADS_FOR_MANY: u32 = 128;

// agglomerate/launch.cuh and cluster/mahalanobis.cuh define the same constants; a test compares
// them.

/// Threads of a block in all other modules.
pub const THREADS: u32 = 256;
/// Moments of a cluster: see enum Moment.
const MOMENTS: usize = 4;
/// Scalars of a shape: see enum ShapeScalar.
pub const SHAPE_SCALARS: usize = 5;
/// Number of places of a ball of a screen: those of a warp.
pub const BALL: usize = 32;
/// Columns of a band of a whitening factor: see [`place_in_bands`].
pub const BAND: usize = 4;
/// Largest number of dimensions of a problem.
pub const MOST_DIMENSIONS: usize = 64;

/// Largest number of dimensions that a kernel keeps in registers. A kernel may read this number of
/// coordinates from the start of any observation on, so the array of observations has room for them
/// behind the last observation.
pub const MOST_IN_REGISTERS: usize = 32;

arguments! {
    /// As in agglomerate/launch.cuh.
    pub struct Task {
        pub diagonal: f64,
        pub first: u64,
        pub observations: u32,
        pub log2_terms: u32,
    }

    /// As in agglomerate/launch.cuh.
    pub struct Partner {
        pub distance: f64,
        pub slot: u32,
        pub birth: u32,
    }

    /// As in agglomerate/launch.cuh. The pointers are device addresses.
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
        pub singles: Singles<u64>,
        pub balls: u64,
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

impl Arrays {
    /// Restricts the arguments to chunk `number` of the tasks. Each chunk has its own counter of
    /// tasks taken. A kernel numbers the tasks of its chunk from 0, and finds their balls by these
    /// numbers.
    pub fn take_chunk(&mut self, chunk: &Range<usize>, number: usize, distance: Distance) {
        self.tasks = chunk.len() as u32;
        self.task += (chunk.start * size_of::<Task>()) as u64;
        let balls = balls(self.dimensions as usize, 0, chunk.start, distance);
        self.balls += (balls * size_of::<f32>()) as u64;
        self.next_task += (number * size_of::<u32>()) as u64;
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
    /// The arrays of singles in struct Arrays, apart from the balls.
    pub struct Singles {
        singles,
        lows,
        errors,
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
        births_at,
        slots_at,
        shapes_at,
        places,
    }
}

/// The lengths of the arrays of words, per observation.
pub fn words(distance: Distance) -> Words<usize> {
    let (of_members, of_screen) = kinds_of_arrays(distance);
    Words {
        slots: 1,
        sizes: 1,
        births: 1,
        shapes: 1,
        member_starts: of_members,
        free_shapes: 1,
        slot_births: 1,
        slot_positions: 1,
        members: of_members,
        next_members: of_members,
        member_slots: of_members,
        next_member_slots: of_members,
        births_at: of_screen,
        slots_at: of_screen,
        shapes_at: of_screen,
        places: of_screen,
    }
}

/// Factors of the lengths of two kinds of arrays: those of members, which a kernel uses with full
/// distances, and those of the screen, which it uses with centroid distances. A factor is 1 if the
/// arrays are used, and otherwise 0.
fn kinds_of_arrays(distance: Distance) -> (usize, usize) {
    match distance {
        Distance::FullMahalanobis => (1, 0),
        Distance::Centroid => (0, 1),
    }
}

/// Number of partners of a cluster: the nearest older clusters.
pub const PARTNERS: usize = 2;

/// Number of words for the slots of a merge, the lower and the higher slot.
const SLOTS_OF_MERGE: usize = 2;

/// The lengths of the arrays of doubles, per observation. There are at most half as many shapes as
/// observations.
pub fn doubles(p: usize, distance: Distance) -> Doubles<usize> {
    let by_shape = |length: usize| length.div_ceil(2);
    let (of_members, _) = kinds_of_arrays(distance);
    Doubles {
        means: p,
        scatters: by_shape(packed_len(p)),
        factors: by_shape(banded_len(p)),
        bounds: of_members,
        member_sums: 2 * of_members,
        moments: MOMENTS * of_members,
        shape_scalars: by_shape(SHAPE_SCALARS),
    }
}

/// The lengths of the arrays of singles, per observation.
pub fn singles(p: usize, distance: Distance) -> Singles<usize> {
    let (_, of_screen) = kinds_of_arrays(distance);
    Singles {
        singles: p * of_screen,
        lows: of_screen,
        errors: of_screen,
    }
}

/// The length of the array of balls. The last ball of each task may have room for more
/// observations than it has.
pub fn balls(p: usize, observations: usize, tasks: usize, distance: Distance) -> usize {
    let (_, of_screen) = kinds_of_arrays(distance);
    (p + BALL_SCALARS) * (observations / BALL + tasks) * of_screen
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

/// The index of element (i, j) of a lower triangle with p rows, stored in bands: see
/// cluster/shape.cuh.
pub fn place_in_bands(p: usize, i: usize, j: usize) -> usize {
    let (bands, band) = (p.div_ceil(BAND), j / BAND);
    let start = BAND * BAND * (band * bands - (band * band - band) / 2);
    start + j % BAND * BAND * (bands - band) + i - BAND * band
}

/// Bytes of device memory per observation, apart from the balls that are not full.
pub fn bytes_per_observation(p: usize, distance: Distance) -> usize {
    let doubles = doubles(p, distance).values().sum::<usize>() + p + 1;
    let singles = singles(p, distance).values().sum::<usize>();
    let balls = balls(p, BALL, 0, distance).div_ceil(BALL);
    let words = words(distance).values().sum::<usize>() + SLOTS_OF_MERGE;
    8 * doubles + 4 * (singles + balls + words) + PARTNERS * size_of::<Partner>()
}

/// Bytes of shared memory of a block of `threads` threads in `p` dimensions, for a kernel that
/// keeps `registers` dimensions in registers. Only searches with centroid distances have a query.
pub fn shared_bytes(p: usize, registers: usize, threads: u32, distance: Distance) -> usize {
    let mean = p.max(registers);
    let doubles = banded_len(p) + 3 * p + mean + 2 * p * (threads / 32) as usize;
    let coordinates = match registers {
        0 => MOST_DIMENSIONS,
        _ => registers,
    };
    let query = match distance {
        Distance::Centroid => (SCALARS + coordinates).next_multiple_of(4) + padded_len(p),
        Distance::FullMahalanobis => 0,
    };
    8 * doubles.next_multiple_of(2) + 4 * query
}

// A search lists the numbers of balls in 16 bits.
const _: () = assert!(policy::BLOCK_MOST_OBSERVATIONS <= BALL << 16);

/// Number of words of a query's factor, whose rows are padded to multiples of 4 elements: see
/// `padded_row` in cluster/bounds.cuh.
fn padded_len(p: usize) -> usize {
    (0..p).map(|row| (row + 1).next_multiple_of(4)).sum()
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
            .with_fields_of("singles", &Singles::<u64>::fields())
            .with_fields_of("words", &Words::<u64>::fields());
        check(
            "agglomerate/launch.cuh",
            &[],
            &[Task::layout(), Partner::layout(), arrays],
            &constants,
        );
    }
}
