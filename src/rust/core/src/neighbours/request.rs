//! Questions for the nearest references of many queries, and their answers.

use std::ops::Range;

use rayon::prelude::*;

use crate::error::Result;
use crate::memory;

/// Which references a query leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Except<'a> {
    Nobody,
    /// That with the query's index.
    Itself,
    /// Those of the query's group, given the group of each index.
    Group(&'a [u32]),
}

/// A question: which references are nearest to these?
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The queries' indices.
    pub queries: &'a [u32],
    /// How many of the nearest are wanted, at least 1.
    pub wanted: usize,
    /// For each query, the greatest distance that is of interest; any where `None`.
    pub limits: Option<&'a [f64]>,
    pub except: Except<'a>,
}

impl Request<'_> {
    /// The same question for some of the queries.
    pub fn part(&self, some: Range<usize>) -> Request<'_> {
        Request {
            queries: &self.queries[some.clone()],
            limits: self.limits.map(|limits| &limits[some]),
            ..*self
        }
    }
}

/// The answer: for each query up to as many references as wanted, nearest first, ties by index.
/// Where they are fewer, there are no others within the limit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Nearest {
    found: Vec<(f64, u32)>,
    ends: Vec<usize>,
}

impl Nearest {
    /// Of nothing so far, with room for what is found for so many queries.
    ///
    /// # Errors
    /// `Error::Memory` where there is not enough.
    pub fn with_room(queries: usize, found: usize) -> Result<Self> {
        Ok(Self {
            found: memory::room("the neighbours need", found)?,
            ends: memory::room("the neighbours need", queries)?,
        })
    }

    /// How many queries there are answers for.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// What `found` has for each of so many queries, copied on the threads of the rayon pool it is
    /// called in.
    pub fn of_all<'a>(queries: usize, found: impl Fn(usize) -> &'a [(f64, u32)] + Sync) -> Self {
        /// Queries that a thread copies at a time.
        const TOGETHER: usize = 1 << 10;

        let mut end = 0;
        let ends = (0..queries).map(|i| {
            end += found(i).len();
            end
        });
        let ends: Vec<usize> = ends.collect();
        let mut all = vec![(0.0, 0); end];
        let mut parts = Vec::new();
        let (mut rest, mut start) = (&mut all[..], 0);
        for (part, ends) in ends.chunks(TOGETHER).enumerate() {
            let end = ends[ends.len() - 1];
            let (place, others) = rest.split_at_mut(end - start);
            parts.push((place, part * TOGETHER..part * TOGETHER + ends.len()));
            (rest, start) = (others, end);
        }
        parts.into_par_iter().for_each(|(mut rest, some)| {
            for i in some {
                let found = found(i);
                let (place, others) = rest.split_at_mut(found.len());
                place.copy_from_slice(found);
                rest = others;
            }
        });
        Self { found: all, ends }
    }

    /// Adds what was found for the next query.
    pub fn push(&mut self, found: &[(f64, u32)]) {
        self.found.extend_from_slice(found);
        self.ends.push(self.found.len());
    }

    /// Distances and indices of what was found for the `i`-th query.
    pub fn of(&self, i: usize) -> &[(f64, u32)] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.found[start..self.ends[i]]
    }

    /// What was found, query by query.
    pub fn iter(&self) -> impl Iterator<Item = &[(f64, u32)]> {
        (0..self.ends.len()).map(|i| self.of(i))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_for_all_is_what_was_found_for_one_after_the_other() {
        let found = |i: u32| (0..i * 7 % 5).map(|j| (f64::from(j), i + j)).collect();
        for queries in [0, 1, 5000] {
            let all: Vec<Vec<(f64, u32)>> = (0..queries).map(found).collect();
            let mut expected = Nearest::default();
            all.iter().for_each(|found| expected.push(found));
            assert_eq!(Nearest::of_all(all.len(), |i| &all[i]), expected);
            assert_eq!(expected.len(), all.len());
        }
    }
}
