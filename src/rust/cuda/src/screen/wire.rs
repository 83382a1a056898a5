//! The wire format of the screen: the messages to the device and back, as 32-bit words.
//! kernels/screen_launch.cuh has the same names for them.

use std::mem::offset_of;

use crate::arguments::arguments;
use bytemuck::{Pod, Zeroable};
use gmhclust_core::mahalanobis::packed::packed_len;
use gmhclust_core::mahalanobis::screen::ClusterView;

arguments! {
    /// The scalars of a cluster: the scalars of its [`ClusterView`], and the number of its
    /// whitening factor; in a query, the index of the factor's first word. As enum Scalar in
    /// screen_launch.cuh.
    pub struct Scalars {
        pub error: f32,
        pub low: f32,
        pub relative: f32,
        pub absolute: f32,
        pub variance: f32,
        pub fourth: f32,
        pub largest: f32,
        pub third: f32,
        pub shape: u32,
    }

    /// A query without its coordinates, which follow it. As enum Query in screen_launch.cuh.
    struct QueryHead {
        scalars: Scalars,
        /// Only bounds below this limit are wanted.
        limit: f32,
        /// Only clusters at positions below `end` are searched.
        end: u32,
        /// Number of groups of warps whose least bounds lower the limit; 0 if the limit stays.
        groups: u32,
        /// Number of entries that the answer has room for; `output` is the index of the first one.
        room: u32,
        output: u32,
    }

    /// Changes and queries that fit into a kernel's arguments. As in screen_launch.cuh.
    #[repr(align(16))]
    pub struct SmallBatch {
        pub removed: u32,
        pub added: u32,
        pub queries: u32,
        pub packed_at: u32,
        pub queries_at: u32,
        pub factors_at: u32,
        pub length: u32,
        pub unused: u32,
        pub words: [u32; SMALL_BATCH_WORDS],
    }
}

/// Number of bytes of a word.
const WORD: usize = size_of::<u32>();

// As in screen_launch.cuh.
pub const LOW: usize = offset_of!(Scalars, low) / WORD;
pub const SHAPE: usize = offset_of!(Scalars, shape) / WORD;
pub const SCALARS: usize = size_of::<Scalars>() / WORD;
pub const COORDINATES: usize = size_of::<QueryHead>() / WORD;
pub const SMALL_BATCH_WORDS: usize = 2496;

/// No whitening factor: NONE of base.cuh.
pub const NO_SHAPE: u32 = u32::MAX;

/// Alignment of whitening factors, in words.
pub const GROUP: usize = 4;

// SAFETY: 32-bit numbers without padding between them, for which all bits are valid.
unsafe impl Zeroable for Scalars {}
// SAFETY: the same.
unsafe impl Pod for Scalars {}
// SAFETY: the same.
unsafe impl Zeroable for QueryHead {}
// SAFETY: the same.
unsafe impl Pod for QueryHead {}

impl Scalars {
    /// The scalars of a cluster whose whitening factor has number `shape`.
    pub fn new(view: &ClusterView, shape: u32) -> Self {
        Self {
            error: view.error,
            low: view.low,
            relative: view.relative,
            absolute: view.absolute,
            variance: view.variance,
            fourth: view.fourth,
            largest: view.largest,
            third: view.third,
            shape,
        }
    }

    pub fn as_words(&self) -> &[u32; SCALARS] {
        bytemuck::cast_ref(self)
    }
}

/// Number of words of an added cluster in `dimensions` dimensions: its position, its coordinates
/// and scalars, and the number of its factor within the batch. As in screen_launch.cuh.
pub fn entry_words(dimensions: usize) -> usize {
    entry_factor(dimensions) + 1
}

/// Index of the position in an added cluster.
pub const ENTRY_POSITION: usize = 0;

/// Index of a scalar in an added cluster.
pub fn entry_scalar(dimensions: usize, scalar: usize) -> usize {
    ENTRY_POSITION + 1 + dimensions + scalar
}

/// Index of the factor's number in an added cluster.
pub fn entry_factor(dimensions: usize) -> usize {
    entry_scalar(dimensions, SCALARS)
}

/// The answer to some queries: a ticket; for each query, the number of clusters found; for each
/// query, its limit; then a bound and a position for each entry that the queries have room for.
pub struct Answer<'a> {
    words: &'a [u32],
    queries: usize,
}

impl<'a> Answer<'a> {
    pub fn new(words: &'a [u32], queries: usize) -> Self {
        Self { words, queries }
    }

    /// Number of clusters that a query has found, including clusters that did not fit into its
    /// room.
    pub fn found(&self, query: usize) -> usize {
        self.words[1 + query] as usize
    }

    /// The final limit of a query.
    pub fn limit(&self, query: usize) -> f32 {
        f32::from_bits(self.words[1 + self.queries + query])
    }

    /// `count` entries, from number `first` on.
    pub fn entries(&self, first: usize, count: usize) -> &'a [[u32; 2]] {
        let start = 1 + 2 * self.queries + 2 * first;
        bytemuck::cast_slice(&self.words[start..][..2 * count])
    }
}

/// A request that is not answered yet; see [`QueryHead`].
pub struct Pending {
    /// Its index among all requests.
    pub index: usize,
    pub end: usize,
    pub limit: f32,
    pub groups: usize,
    pub room: usize,
}

/// Number of words of a lower triangle whose rows are padded to groups of four.
pub fn padded_len(p: usize) -> usize {
    (1..=p).map(|row: usize| row.next_multiple_of(GROUP)).sum()
}

/// A buffer of words that is filled from the front.
pub struct Staging<'a> {
    pub words: &'a mut [u32],
    pub used: usize,
}

impl Staging<'_> {
    /// Appends words; returns the index of the first.
    pub fn put(&mut self, words: &[u32]) -> usize {
        let start = self.used;
        self.words[start..][..words.len()].copy_from_slice(words);
        self.used += words.len();
        start
    }

    /// Appends requests as queries without their whitening factors, with coordinates padded with
    /// zeros to `padded`; returns the index of the first word.
    pub fn put_queries(
        &mut self,
        views: &[&ClusterView],
        pending: &[Pending],
        padded: usize,
    ) -> usize {
        let start = self.used;
        let (mut factor, mut room) = (0, 0);
        for (view, request) in views.iter().zip(pending) {
            let shape = if view.whitening.is_empty() {
                NO_SHAPE
            } else {
                let here = factor;
                factor += padded_len(view.mean.len()) as u32;
                here
            };
            let head = QueryHead {
                scalars: Scalars::new(view, shape),
                limit: request.limit,
                end: request.end as u32,
                groups: request.groups as u32,
                room: request.room as u32,
                output: room as u32,
            };
            self.put(bytemuck::cast_ref::<_, [u32; COORDINATES]>(&head));
            let mean_at = self.put(as_words(&view.mean));
            self.words[self.used..mean_at + padded].fill(0);
            self.used = mean_at + padded;
            room += request.room;
        }
        start
    }

    /// Appends the whitening factors of requests, each row aligned to a group; returns the index of
    /// the first word.
    pub fn put_factors(&mut self, views: &[&ClusterView]) -> usize {
        self.used = self.used.next_multiple_of(GROUP);
        let start = self.used;
        for view in views.iter().filter(|view| !view.whitening.is_empty()) {
            for i in 0..view.mean.len() {
                self.put(as_words(&view.whitening[packed_len(i)..][..=i]));
                let end = start + (self.used - start).next_multiple_of(GROUP);
                self.words[self.used..end].fill(0);
                self.used = end;
            }
        }
        start
    }
}

/// The bits of singles.
pub fn as_words(values: &[f32]) -> &[u32] {
    bytemuck::cast_slice(values)
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use super::*;
    use crate::arguments::{check, constants};

    fn view(mean: [f32; 3], whitening: Vec<f32>) -> ClusterView {
        ClusterView {
            rest: Vec::new(),
            mean: mean.to_vec(),
            error: 0.5,
            low: 1.0,
            whitening,
            relative: 2.0,
            absolute: 3.0,
            variance: 4.0,
            fourth: 5.0,
            largest: 6.0,
            third: 7.0,
            by_columns: OnceLock::new(),
        }
    }

    #[test]
    fn words_are_where_the_kernels_look_for_them() {
        let names = [
            "ERROR", "LOW", "RELATIVE", "ABSOLUTE", "VARIANCE", "FOURTH", "LARGEST", "THIRD",
            "SHAPE",
        ];
        let heads = ["LIMIT", "END", "GROUPS", "ROOM", "OUTPUT"];
        let word = |field: &(&'static str, usize, usize)| (field.1 / WORD) as u64;
        let mut constants = vec![("NONE", u64::from(NO_SHAPE))];
        constants.extend(constants![
            SCALARS,
            COORDINATES,
            SMALL_BATCH_WORDS,
            LOW,
            SHAPE,
            ENTRY_POSITION
        ]);
        constants.extend(
            names
                .into_iter()
                .zip(Scalars::layout().fields.iter().map(word)),
        );
        constants.extend(
            heads
                .into_iter()
                .zip(QueryHead::layout().fields[1..].iter().map(word)),
        );
        constants.extend([
            ("entry_words(7)", entry_words(7) as u64),
            ("entry_scalar(7, SHAPE)", entry_scalar(7, SHAPE) as u64),
            ("entry_factor(7)", entry_factor(7) as u64),
        ]);
        check(
            "screen_launch.cuh",
            &[],
            &[SmallBatch::layout()],
            &constants,
        );
    }

    #[test]
    fn requests_are_laid_out_as_the_kernels_read_them() {
        let rows = [11.0, 21.0, 22.0, 31.0, 32.0, 33.0];
        let views = [
            view([0.1, 0.2, 0.3], Vec::new()),
            view([0.4, 0.5, 0.6], rows.to_vec()),
            view([0.7, 0.8, 0.9], rows.to_vec()),
        ];
        let views: Vec<&ClusterView> = views.iter().collect();
        let pending = |index| Pending {
            index,
            end: 40 + 10 * index,
            limit: 8.0,
            groups: 2,
            room: 100,
        };
        let pending = [pending(0), pending(1), pending(2)];
        let mut words = vec![u32::MAX; 200];
        let mut staging = Staging {
            words: &mut words,
            used: 0,
        };
        assert_eq!(staging.put(&[7]), 0);
        let queries = staging.put_queries(&views, &pending, 4);
        let factors = staging.put_factors(&views);
        let used = staging.used;
        let length = COORDINATES + 4;
        assert_eq!((queries, factors), (1, 56));
        assert!(factors >= queries + 3 * length && factors % GROUP == 0);
        assert_eq!(used, factors + 2 * padded_len(3));
        let single = |at: usize| f32::from_bits(words[at]);
        for (i, view) in views.iter().enumerate() {
            let query = queries + i * length;
            let mean: Vec<f32> = (0..4).map(|k| single(query + COORDINATES + k)).collect();
            assert_eq!(mean[..3], view.mean);
            assert_eq!(mean[3], 0.0);
            assert_eq!(single(query + LOW), 1.0);
            assert_eq!(single(query + SCALARS), 8.0);
            let rest = &words[query + SCALARS + 1..query + COORDINATES];
            assert_eq!(rest, [[40, 50, 60][i], 2, 100, 100 * i as u32]);
            if view.whitening.is_empty() {
                assert_eq!(words[query + SHAPE], NO_SHAPE);
                continue;
            }
            let factor = factors + words[query + SHAPE] as usize;
            let padded: Vec<f32> = (0..padded_len(3)).map(|k| single(factor + k)).collect();
            let row = |values: &[f32]| [values, &[0.0; 4]].concat()[..4].to_vec();
            let expected = [row(&rows[..1]), row(&rows[1..3]), row(&rows[3..])].concat();
            assert_eq!(padded, expected);
        }
        assert!(views[0].columns().is_empty());
        assert_eq!(views[1].columns(), [11.0, 21.0, 31.0, 22.0, 32.0, 33.0]);
    }
}
