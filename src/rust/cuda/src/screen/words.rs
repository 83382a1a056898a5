//! What goes over to the device, in words as kernels/screen.cu reads them.

use cudarc::driver::DeviceRepr;

use gmhclust_core::mahalanobis::packed::packed_len;
use gmhclust_core::mahalanobis::screen::ClusterView;

// As in screen.cu.
pub const LOW: usize = 1;
pub const SHAPE: usize = 8;
pub const SCALARS: usize = 9;
pub const COORDINATES: usize = SCALARS + 5;
pub const NO_SHAPE: u32 = u32::MAX;
pub const ROUND_WORDS: usize = 2496;

/// Whitening factors start at whole groups of so many words.
pub const GROUP: usize = 4;

/// A small round, as struct Round in screen.cu.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
pub struct Round {
    pub removed: u32,
    pub added: u32,
    pub queries: u32,
    pub packed_at: u32,
    pub queries_at: u32,
    pub factors_at: u32,
    pub length: u32,
    pub unused: u32,
    pub words: [u32; ROUND_WORDS],
}

// SAFETY: plain old data, laid out as in screen.cu.
unsafe impl DeviceRepr for Round {}

/// A request on its way.
pub struct Pending {
    pub index: usize,
    pub end: usize,
    pub limit: f32,
    pub groups: usize,
    pub room: usize,
}

/// Words of a lower triangle whose rows are padded to whole groups of four.
pub fn padded_len(p: usize) -> usize {
    (1..=p).map(|row: usize| row.next_multiple_of(GROUP)).sum()
}

/// The scalars of a cluster as in screen.cu.
pub fn scalars(view: &ClusterView, shape: u32) -> [u32; SCALARS] {
    [
        view.error.to_bits(),
        view.low.to_bits(),
        view.relative.to_bits(),
        view.absolute.to_bits(),
        view.variance.to_bits(),
        view.fourth.to_bits(),
        view.largest.to_bits(),
        view.third.to_bits(),
        shape,
    ]
}

/// Words put one after the other.
pub struct Staging<'a> {
    pub words: &'a mut [u32],
    pub used: usize,
}

impl Staging<'_> {
    /// Where they start.
    pub fn put(&mut self, words: &[u32]) -> usize {
        let start = self.used;
        self.words[start..][..words.len()].copy_from_slice(words);
        self.used += words.len();
        start
    }

    /// Requests as in screen.cu, with zeros for coordinates up to `padded`, but for their factors;
    /// where they start.
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
            self.put(&scalars(view, shape));
            self.put(&[
                request.limit.to_bits(),
                request.end as u32,
                request.groups as u32,
                request.room as u32,
                room as u32,
            ]);
            let mean_at = self.put(as_words(&view.mean));
            self.words[self.used..mean_at + padded].fill(0);
            self.used = mean_at + padded;
            room += request.room;
        }
        start
    }

    /// The whitening factors of requests, from a whole group on; where they start.
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
    // SAFETY: the same size and alignment, and every bit pattern is an integer.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), values.len()) }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use super::*;

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
        assert!(factors >= queries + 3 * length && factors.is_multiple_of(GROUP));
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
