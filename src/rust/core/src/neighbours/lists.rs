//! The neighbours of many queries.

use rayon::prelude::*;

use crate::error::Result;
use crate::memory;

/// For each query, the list of its nearest references, at most `wanted`, nearest first, ties by
/// index. A list with fewer references holds all references within the limit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NeighbourLists {
    /// Distances and indices, list by list.
    found: Vec<(f64, u32)>,
    /// By query: the end of its list.
    ends: Vec<usize>,
}

impl NeighbourLists {
    /// An empty value with room for `queries` lists of `found` references in total.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn with_room(queries: usize, found: usize) -> Result<Self> {
        Ok(Self {
            found: memory::room("the neighbours need", found)?,
            ends: memory::room("the neighbours need", queries)?,
        })
    }

    /// Number of lists.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no lists.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The list `found(i)` for each query i below `queries`, copied on the threads of the calling
    /// rayon pool.
    pub fn of_all<'a>(queries: usize, found: impl Fn(usize) -> &'a [(f64, u32)] + Sync) -> Self {
        /// Number of queries per task: enough work for a thread. Only the time depends on it.
        const QUERIES_PER_TASK: usize = 1 << 10;

        let mut end = 0;
        let ends = (0..queries).map(|i| {
            end += found(i).len();
            end
        });
        let ends: Vec<usize> = ends.collect();
        let mut all = vec![(0.0, 0); end];
        let mut parts = Vec::new();
        let (mut rest, mut start) = (&mut all[..], 0);
        for (part, ends) in ends.chunks(QUERIES_PER_TASK).enumerate() {
            let end = ends[ends.len() - 1];
            let (place, others) = rest.split_at_mut(end - start);
            parts.push((
                place,
                part * QUERIES_PER_TASK..part * QUERIES_PER_TASK + ends.len(),
            ));
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

    /// Appends the list of the next query.
    pub fn push(&mut self, found: &[(f64, u32)]) {
        self.push_from(found.iter().copied());
    }

    /// As [`NeighbourLists::push`], from an iterator.
    pub fn push_from(&mut self, found: impl Iterator<Item = (f64, u32)>) {
        self.found.extend(found);
        self.ends.push(self.found.len());
    }

    /// Appends the lists of the next queries.
    pub fn append(&mut self, others: &Self) {
        let before = self.found.len();
        self.found.extend_from_slice(&others.found);
        self.ends.extend(others.ends.iter().map(|end| before + end));
    }

    /// Distances and indices of the `i`-th query's list.
    pub fn of(&self, i: usize) -> &[(f64, u32)] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.found[start..self.ends[i]]
    }

    /// The lists, query by query.
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
            let mut expected = NeighbourLists::default();
            all.iter().for_each(|found| expected.push(found));
            assert_eq!(NeighbourLists::of_all(all.len(), |i| &all[i]), expected);
            assert_eq!(expected.len(), all.len());
            let mut appended = NeighbourLists::default();
            for some in all.chunks(7) {
                appended.append(&NeighbourLists::of_all(some.len(), |i| &some[i]));
            }
            assert_eq!(appended, expected);
        }
    }
}
