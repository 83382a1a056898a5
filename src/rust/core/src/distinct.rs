//! The distinct rows of a matrix. 0 equals −0.

use rayon::prelude::*;

use crate::digest::digest;
use crate::error::Result;
use crate::memory;
use crate::monitor::Monitor;

/// Number of rows hashed per task, between two checks of the monitor. Only the time depends on it.
const ROWS_AT_A_TIME: usize = 1 << 10;

/// First words of a memory error, before the number of bytes.
const WHAT: &str = "finding equal rows needs";

/// The distinct rows of a matrix, numbered in the order of their first rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Distinct {
    /// For one distinct row after the other, the rows that are equal to it, in increasing order.
    rows: Vec<u32>,
    /// By number of a distinct row: the end of its part of `rows`.
    ends: Vec<usize>,
}

impl Distinct {
    /// The distinct rows of row-major values without NaN. Works on the threads of the calling pool.
    ///
    /// Takes O(n·p + n·log n) time and O(n) memory for n rows of p values.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory, `Error::Interrupt` when the monitor says
    /// stop.
    pub fn new(values: &[f64], columns: usize, monitor: &Monitor) -> Result<Self> {
        let row = |row: u32| &values[row as usize * columns..][..columns];
        Self::of_rows(values.len() / columns, row, monitor)
    }

    /// As [`Distinct::new`], for `n` rows; `row` returns the row with a number.
    ///
    /// # Errors
    /// As [`Distinct::new`].
    pub fn of_rows<'a>(
        n: usize,
        row: impl Fn(u32) -> &'a [f64] + Sync,
        monitor: &Monitor,
    ) -> Result<Self> {
        let mut keyed: Vec<(u64, u32)> = memory::zeros(WHAT, n)?;
        keyed
            .par_chunks_mut(ROWS_AT_A_TIME)
            .enumerate()
            .try_for_each(|(chunk, keyed)| {
                monitor.check()?;
                for (number, keyed) in ((chunk * ROWS_AT_A_TIME) as u32..).zip(keyed) {
                    *keyed = (digest(row(number), 0), number);
                }
                Ok(())
            })?;
        keyed.par_sort_unstable();
        monitor.check()?;
        // By row: the first equal row.
        let mut first: Vec<u32> = memory::collected(WHAT, 0..n as u32)?;
        let alike = keyed.chunk_by(|a, b| a.0 == b.0);
        for alike in alike.filter(|alike| alike.len() > 1) {
            first_equal(&row, alike, &mut first);
        }
        drop(keyed);
        monitor.check()?;
        Self::of_first(first)
    }

    /// The distinct rows, given the first equal row of each row.
    fn of_first(mut first: Vec<u32>) -> Result<Self> {
        let n = first.len();
        let mut ends: Vec<usize> = memory::room(WHAT, n)?;
        // This works in place, since a first row comes before its equal rows.
        for row in 0..n {
            if first[row] as usize == row {
                first[row] = ends.len() as u32;
                ends.push(1);
            } else {
                first[row] = first[first[row] as usize];
                ends[first[row] as usize] += 1;
            }
        }
        let numbers = first;
        let mut before = 0;
        for end in &mut ends {
            // The entries are starts until the loop over the rows turns them into ends.
            before += std::mem::replace(end, before);
        }
        let mut rows = memory::zeros(WHAT, n)?;
        for (row, &number) in numbers.iter().enumerate() {
            let place = &mut ends[number as usize];
            rows[*place] = row as u32;
            *place += 1;
        }
        Ok(Self { rows, ends })
    }

    /// Number of distinct rows.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// The rows that are equal to a distinct row, in increasing order.
    pub fn rows(&self, number: usize) -> &[u32] {
        let start = if number == 0 {
            0
        } else {
            self.ends[number - 1]
        };
        &self.rows[start..self.ends[number]]
    }

    /// The first of the rows that are equal to a distinct row.
    pub fn first(&self, number: usize) -> u32 {
        self.rows(number)[0]
    }

    /// The first rows of all distinct rows, in increasing order.
    pub fn firsts(&self) -> Vec<u32> {
        (0..self.count()).map(|number| self.first(number)).collect()
    }

    /// The sets of two or more equal rows, each in increasing order, ordered by their first rows.
    pub fn sets(&self) -> impl Iterator<Item = &[u32]> {
        let all = (0..self.count()).map(|number| self.rows(number));
        all.filter(|rows| rows.len() > 1)
    }

    /// Whether searches for nearest rows are faster if equal rows are searched as one row: if fewer
    /// than 7 in 8 rows are distinct, or if a row is repeated so often that its copies fill a
    /// candidate list.
    pub fn is_worthwhile(&self) -> bool {
        /// Number of equal rows that fill the candidate list of a usual search.
        const MANY_EQUAL: usize = 16;

        let n = self.rows.len();
        8 * self.count() < 7 * n
            || (0..self.count()).any(|number| self.rows(number).len() > MANY_EQUAL)
    }
}

/// Writes the first equal row of each of the rows `alike` to `first`. These rows have the same
/// digest and are in increasing order.
fn first_equal<'a>(row: &impl Fn(u32) -> &'a [f64], alike: &[(u64, u32)], first: &mut [u32]) {
    // Rows with the same digest are almost always equal.
    let mut different: Vec<u32> = Vec::new();
    for &(_, own) in alike {
        let equal = different.iter().find(|&&other| row(other) == row(own));
        first[own as usize] = match equal {
            Some(&other) => other,
            None => {
                different.push(own);
                own
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::{Just, Strategy};

    use super::*;
    use crate::testing::shrink::for_all;

    /// A number of columns, and values of few different kinds.
    fn rows() -> impl Strategy<Value = (usize, Vec<f64>)> {
        let value = |number: i32| match number {
            0 => 0.0,
            1 => -0.0,
            other => f64::from(other) / 3.0,
        };
        let sizes = (1..=3usize, 1..=5);
        sizes.prop_flat_map(move |(p, most)| {
            let row = vec((0..=most).prop_map(value), p);
            (Just(p), vec(row, 1..=60).prop_map(|rows| rows.concat()))
        })
    }

    #[test]
    fn distinct_rows_are_those_of_comparing_all_pairs() {
        for_all(200, rows(), |(p, values)| {
            let n = values.len() / p;
            let distinct = Distinct::new(&values, p, &Monitor::default()).unwrap();
            let row = |i: usize| &values[i * p..][..p];
            let first = |i: usize| (0..n).find(|&j| row(j) == row(i)).unwrap() as u32;
            let mut firsts: Vec<u32> = (0..n).map(first).collect();
            for number in 0..distinct.count() {
                let i = distinct.first(number) as usize;
                let equal = (0..n).filter(|&j| row(j) == row(i)).map(|j| j as u32);
                assert!(equal.eq(distinct.rows(number).iter().copied()), "{number}");
            }
            firsts.sort_unstable();
            firsts.dedup();
            assert_eq!(distinct.firsts(), firsts);
        });
    }

    #[test]
    fn rows_of_one_digest_need_not_be_equal() {
        let values = [1.0, 2.0, 1.0, 2.0, 3.0];
        let alike = [0, 1, 2, 3, 4].map(|row| (7, row));
        let mut first = [9; 5];
        first_equal(&|row| &values[row as usize..][..1], &alike, &mut first);
        assert_eq!(first, [0, 1, 0, 1, 4]);
    }

    #[test]
    fn taking_equal_rows_as_one_is_worthwhile_where_they_are_many() {
        let worthwhile = |values: &[f64]| {
            let distinct = Distinct::new(values, 1, &Monitor::default());
            distinct.unwrap().is_worthwhile()
        };
        let mut values: Vec<f64> = (0..1000).map(f64::from).collect();
        assert!(!worthwhile(&values));
        values[..16].fill(-1.0);
        assert!(!worthwhile(&values));
        values[..17].fill(-1.0);
        assert!(worthwhile(&values));
        let pairs: Vec<f64> = (0..1000).map(|i| f64::from(i / 2)).collect();
        assert!(worthwhile(&pairs));
    }
}
