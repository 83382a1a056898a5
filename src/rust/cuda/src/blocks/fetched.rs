//! The merges of a launch, as they come from the device.

use gmhclust_core::mahalanobis::Problem;
use gmhclust_core::Merge;
use rayon::prelude::*;

use super::tasks::starts;

/// The merges of all problems, as the device stores them: at the places of each problem's
/// observations, all but the last.
pub struct Fetched {
    pub lower: Vec<u32>,
    pub higher: Vec<u32>,
    pub heights: Vec<f64>,
}

/// Number of observations whose merges are converted at a time. If it is too high, merges are in
/// memory twice; if too low, threads wait for each other.
pub const CONVERTED_TOGETHER: usize = 4 << 20;

impl Fetched {
    /// The merges of each problem. Works on the threads of the calling pool. Begins with the last
    /// problems, and gives back the memory of what is converted: all merges together take 16 bytes
    /// for each observation, here and in the result.
    pub fn into_merges(mut self, problems: &[&Problem<'_>], together: usize) -> Vec<Vec<Merge>> {
        let starts = starts(problems, 0);
        let mut from_last = Vec::with_capacity(problems.len());
        let mut rest = problems.len();
        while rest > 0 {
            let end = self.heights.len();
            let first = starts[..rest].partition_point(|&start| start + together < end);
            let first = first.min(rest - 1);
            let merges = |index: usize| -> Vec<Merge> {
                let places = starts[index]..starts[index] + problems[index].clusters() - 1;
                places.map(|at| self.merge(at)).collect()
            };
            let converted = (first..rest).into_par_iter().rev().map(merges);
            from_last.par_extend(converted);
            self.truncate(starts[first]);
            rest = first;
        }
        from_last.reverse();
        from_last
    }

    fn merge(&self, at: usize) -> Merge {
        Merge {
            lower: self.lower[at],
            higher: self.higher[at],
            height: self.heights[at],
        }
    }

    fn truncate(&mut self, length: usize) {
        fn shorten<T>(values: &mut Vec<T>, length: usize) {
            values.truncate(length);
            values.shrink_to_fit();
        }
        shorten(&mut self.lower, length);
        shorten(&mut self.higher, length);
        shorten(&mut self.heights, length);
    }
}

#[cfg(test)]
mod tests {
    use gmhclust_core::testing::{observations, CENTROID_OPTIONS};

    use super::*;

    #[test]
    fn merges_of_each_problem_are_at_its_places() {
        let x = observations((0..60).map(f64::from).collect(), 60, 1);
        let of = |sizes: &[u32]| -> Vec<Problem> {
            let ends = sizes.iter().scan(0, |end, size| {
                *end += size;
                Some((*end - size, *end))
            });
            ends.map(|(start, end)| Problem::of_observations(&x, start..end, CENTROID_OPTIONS))
                .collect()
        };
        for sizes in [&[7][..], &[20, 20, 9, 1, 1, 2], &[2; 30]] {
            let problems = of(sizes);
            let problems: Vec<&Problem> = problems.iter().collect();
            let all = sizes.iter().sum::<u32>();
            for together in [1, 10, 25, 1000] {
                let fetched = Fetched {
                    lower: (0..all).collect(),
                    higher: (0..all).map(|at| at + 1).collect(),
                    heights: (0..all).map(f64::from).collect(),
                };
                let found = fetched.into_merges(&problems, together);
                for ((merges, size), start) in found.iter().zip(sizes).zip(starts(&problems, 0)) {
                    let lower = (start as u32..).take(*size as usize - 1);
                    let expected = lower.map(|lower| Merge {
                        lower,
                        higher: lower + 1,
                        height: f64::from(lower),
                    });
                    assert_eq!(*merges, Vec::from_iter(expected), "{sizes:?}, {together}");
                }
                assert_eq!(found.len(), sizes.len());
            }
        }
    }
}
